//! What is open updates itself; in a hidden tab it does not, and catches up when the tab is shown again.

use super::desk::{Desk, ORDER};
use crate::support::chromium::{Chromium, DESKTOP};
use crate::support::within;
use reqwest::Method;
use serde_json::Value;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hidden_tab_ends_its_stream_and_takes_it_up_again_when_shown() {
    let browser = Chromium::open(DESKTOP).await;
    let desk = Desk::open().await;
    browser.go(&desk.url(&Desk::path())).await;
    browser.type_into("#key", desk.key()).await;
    browser.follow("main button").await;
    browser.see(".live.live-on").await;
    let mut seen = Seen::default();
    seen.until(&browser, |seen| seen.opened.len() == 1).await;
    browser.hide().await;
    seen.until(&browser, |seen| seen.ended == seen.opened).await;
    browser.see(".live:not(.live-on)").await;
    // What happens meanwhile is not shown.
    let replay = format!("/v1/dead-letters/t/{ORDER}/replay");
    let replayed = desk.support.call(Method::POST, &replay, None).await;
    assert_eq!(replayed.0, 200, "{}", replayed.1);
    desk.merchant.release();
    desk.admin.until_state(ORDER, "delivered").await;
    browser.see("h1 .chip-dead").await;
    let pages = seen.pages;
    seen.look(&browser).await;
    assert_eq!((seen.opened.len(), seen.pages), (1, pages));
    browser.show().await;
    browser.see("h1 .chip-delivered").await;
    browser.see(".live.live-on").await;
    seen.until(&browser, |seen| seen.opened.len() == 2).await;
    browser.close().await;
    desk.close().await;
}

/// What was seen on the network.
#[derive(Debug, Default)]
struct Seen {
    /// Streams of events that were opened.
    opened: Vec<Value>,
    /// Those that have ended.
    ended: Vec<Value>,
    /// How often the page was fetched again.
    pages: usize,
}

impl Seen {
    /// Adds what has happened since.
    async fn look(&mut self, browser: &Chromium) {
        for (method, event) in browser.network().await {
            let url = event["request"]["url"].as_str().unwrap_or_default();
            let id = event["requestId"].clone();
            match method.as_str() {
                "Network.requestWillBeSent" if url.contains("/ui/events?") => self.opened.push(id),
                "Network.requestWillBeSent" if url.contains("/ui/notifications/") => {
                    self.pages += 1;
                }
                "Network.loadingFailed" | "Network.loadingFinished"
                    if self.opened.contains(&id) =>
                {
                    self.ended.push(id);
                }
                _ => {}
            }
        }
    }

    /// Looks until it is as wished.
    async fn until(&mut self, browser: &Chromium, wish: impl Fn(&Self) -> bool) {
        within("the stream", async {
            while !wish(self) {
                self.look(browser).await;
            }
        })
        .await;
    }
}
