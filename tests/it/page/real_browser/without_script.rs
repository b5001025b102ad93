//! The page in a browser that runs no scripts: links and forms do everything.

use super::desk::{Desk, ORDER};
use super::story::{CHINESE, ENGLISH, REASON};
use crate::support::chromium::{Chromium, DESKTOP, Setup};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_replayed_by_links_and_forms_alone() {
    let browser = Chromium::open(Setup {
        runs_scripts: false,
        ..DESKTOP
    })
    .await;
    let mut desk = Desk::open().await;
    // What is asked for leads to the sign-in, and from there on.
    browser.go(&desk.url("/ui/dead-letters")).await;
    browser.type_into("#key", desk.key()).await;
    browser.follow("main button").await;
    assert_eq!(browser.url().await, desk.url("/ui/dead-letters"));
    // The script would have put its tools here.
    assert_eq!(browser.text("#tools").await, "");
    browser.type_into("#find", ORDER).await;
    browser.follow(".find button").await;
    assert_eq!(browser.url().await, desk.url(&Desk::path()));
    browser.see("h1 .chip-dead").await;

    browser.click("#replay > summary").await;
    browser.type_into("#reason-replay", REASON).await;
    browser.follow("#replay button").await;
    assert_eq!(browser.text(".notice-done").await, ENGLISH.replayed);
    let done = format!("{}?done=replay", Desk::path());
    assert_eq!(browser.url().await, desk.url(&done));
    desk.merchant.release();
    desk.admin.until_state(ORDER, "delivered").await;
    browser.go(&desk.url(&Desk::path())).await;
    assert_eq!(browser.text("h1 .chip").await, ENGLISH.delivered);
    let history = browser.text(".history").await;
    assert!(history.contains(REASON), "{history}");
    // The language is chosen by a link, which leads back.
    browser.follow("[hreflang=zh-Hans]").await;
    assert_eq!(browser.url().await, desk.url(&Desk::path()));
    assert_eq!(browser.text("h1 .chip").await, CHINESE.delivered);
    browser.follow(".who button").await;
    assert_eq!(browser.text("h1").await, CHINESE.sign_in);
    while desk.merchant.arrived().is_some() {}
    browser.close().await;
    desk.close().await;
}
