//! The overview: numbers, destinations in trouble, stores.

use super::Browser;
use crate::end_to_end::on_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Server, Stores, registration, with_ladder};
use crate::support::{short_pause, within};
use reqwest::Method;
use serde_json::json;

on_stores!(
    the_numbers_are_links_and_what_is_not_known_is_no_number,
    a_held_destination_is_in_trouble
);

/// The number of a tile, or `no data`.
fn number(page: &str, name: &str) -> String {
    let (_, rest) = page
        .split_once(&format!("tile tile-{name}\">"))
        .expect("a tile");
    let text = rest.split("</a>").next().expect("its end");
    let mut shown = String::new();
    let mut is_tag = false;
    for letter in text.chars() {
        match letter {
            '<' => is_tag = true,
            '>' => is_tag = false,
            letter if !is_tag => shown.push(letter),
            _ => {}
        }
    }
    shown.trim().to_string()
}

async fn the_numbers_are_links_and_what_is_not_known_is_no_number(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![Reaction::success()], Reaction::fail()).await;
    let server = Server::start(stores).await;
    let mut browser = Browser::of(&server);
    server.register(registration("1", &merchant)).await;
    server.until_state("1", "delivered").await;
    server.register(with_ladder("2", &merchant, &[])).await;
    server.until_state("2", "dead").await;
    for id in ["3", "4"] {
        let mut asked = registration(id, &merchant);
        asked["delay"] = json!("1h");
        server.register(asked).await;
    }
    let has_journal = stores != Stores::RedisOnly;
    let shown = |number: &str| match has_journal {
        true => number.to_string(),
        false => "no data".to_string(),
    };
    let expected = [
        ("scheduled", "2 pending".to_string()),
        ("due", "0 due now".to_string()),
        ("in_flight", "0 in flight".to_string()),
        ("dead", "1 dead letters".to_string()),
        ("delivered", format!("{} delivered", shown("1"))),
        ("cancelled", format!("{} cancelled", shown("0"))),
    ];
    let showing = async {
        loop {
            let page = browser.get("/ui/").await.is(200).text;
            if expected
                .iter()
                .all(|(name, text)| number(&page, name) == *text)
            {
                return page;
            }
            short_pause().await;
        }
    };
    let page = within("the numbers", showing).await;
    for href in ["/ui/dead-letters", "/ui/search?state=due"] {
        assert!(page.contains(&format!("href=\"{href}\"")), "{page}");
    }
    // The last call was not acknowledged, and something is pending.
    assert!(page.contains(">failing<"), "{page}");
    let list = browser.get("/ui/dead-letters").await;
    assert!(list.is(200).text.contains("\"/ui/notifications/t/2\""));
    while merchant.arrived().is_some() {}
    server.stop().await;
}

async fn a_held_destination_is_in_trouble(stores: Stores) {
    let merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let mut browser = Browser::of(&server);
    let lane = merchant.url("").trim_end_matches('/').to_string();
    let path = format!("/v1/lanes/{}/hold", lane.replace("://", "%3A%2F%2F"));
    let reason = json!({ "reason": "<script>alert(1)</script>" });
    let (status, held) = server.call(Method::POST, &path, Some(reason)).await;
    assert_eq!(status, 200, "{held}");
    server.register(registration("1", &merchant)).await;
    let showing = async {
        loop {
            let page = browser.get("/ui/").await.is(200).text;
            if page.contains("chip-held") && number(&page, "due") == "1 due now" {
                return page;
            }
            short_pause().await;
        }
    };
    let page = within("the held lane", showing).await;
    assert!(
        page.contains(&lane) && page.contains("held by api"),
        "{page}"
    );
    assert!(page.contains("&#60;script&#62;alert(1)"), "{page}");
    assert!(!page.contains("<script>alert"), "{page}");
    // It waits for something as soon as it is noticeably overdue.
    let waiting = async {
        loop {
            let page = browser.get("/ui/notifications/t/1").await.is(200).text;
            if page.contains("its destination is held") {
                return page;
            }
            short_pause().await;
        }
    };
    let page = within("it to wait", waiting).await;
    assert!(!page.contains("<script>alert"), "{page}");
    server.stop().await;
}
