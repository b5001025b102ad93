//! The search: what is in the box, the filters in the address, the pages of a list.

use super::Browser;
use crate::support::ringback::{Server, Stores};
use reqwest::Method;
use serde_json::{Value, json};

fn asked(topic: &str, id: &str, url: &str) -> Value {
    json!({ "topic": topic, "id": id, "url": url, "body": "x", "delay": "1h" })
}

#[tokio::test]
async fn one_box_finds_ids_webhook_ids_and_urls() {
    let server = Server::start(Stores::Embedded).await;
    let mut browser = Browser::of(&server);
    let one = server
        .register(asked("t", "order-1001", "https://shop.example/notify"))
        .await;
    server
        .register(asked("t", "order-1002", "https://other.example/cb"))
        .await;
    server
        .register(asked("u", "order-1002", "https://other.example/cb"))
        .await;
    let webhook_id = one["webhook_id"].as_str().expect("an id").to_string();
    for exact in ["order-1001", &webhook_id] {
        let found = browser.get(&format!("/ui/search?q={exact}")).await.is(303);
        assert_eq!(found.location(), "/ui/notifications/t/order-1001");
    }
    async fn check(browser: &mut Browser, query: &str, expected: &[&str]) {
        let page = browser.get(&format!("/ui/search?{query}")).await.is(200);
        for path in ["t/order-1001", "t/order-1002", "u/order-1002"] {
            let is_shown = page.text.contains(&format!("\"/ui/notifications/{path}\""));
            assert_eq!(
                is_shown,
                expected.contains(&path),
                "{query}: {path}: {}",
                page.text
            );
        }
    }
    let all = ["t/order-1001", "t/order-1002", "u/order-1002"];
    check(&mut browser, "q=order-1002", &all[1..]).await;
    check(&mut browser, "q=order-", &all).await;
    check(&mut browser, "q=OTHER.example/cb", &all[1..]).await;
    check(&mut browser, "q=shop.example", &all[..1]).await;
    check(&mut browser, "q=nothing", &[]).await;
    check(&mut browser, "q=notify", &[]).await;
    check(&mut browser, "q=notify&by=url", &all[..1]).await;
    check(&mut browser, "", &all).await;
    check(&mut browser, "topic=u", &all[2..]).await;
    check(&mut browser, "q=order-1&topic=t", &all[..2]).await;
    check(&mut browser, "lane=https://other.example", &all[1..]).await;
    check(&mut browser, "state=scheduled", &all).await;
    check(&mut browser, "state=due", &[]).await;
    check(&mut browser, "state=delivered", &[]).await;
    check(&mut browser, "state=dead&cause=blocked", &[]).await;
    check(&mut browser, "from=1h", &all).await;
    check(&mut browser, "to=1h", &[]).await;
    for wrong in [
        "topic=a/b",
        "state=lost",
        "lane=x",
        "cause=x",
        "from=soon",
        "to=soon",
    ] {
        let page = browser.get(&format!("/ui/search?{wrong}")).await.is(422);
        assert!(
            page.text.contains("class=\"problem\""),
            "{wrong}: {}",
            page.text
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_due_and_not_in_flight_is_a_list_of_its_own() {
    let server = Server::start(Stores::Embedded).await;
    let mut browser = Browser::of(&server);
    let hold = "/v1/lanes/https%3A%2F%2Fshop.example/hold";
    let reason = Some(json!({ "reason": "x" }));
    assert_eq!(server.call(Method::POST, hold, reason).await.0, 200);
    let mut due = asked("t", "waits", "https://shop.example/n");
    due["delay"] = Value::Null;
    server.register(due).await;
    server
        .register(asked("t", "later", "https://shop.example/n"))
        .await;
    let overview = browser.get("/ui/").await.is(200).text;
    assert!(
        overview.contains("href=\"/ui/search?state=due\""),
        "{overview}"
    );
    let page = browser.get("/ui/search?state=due").await.is(200).text;
    assert!(page.contains("/ui/notifications/t/waits"), "{page}");
    assert!(!page.contains("/ui/notifications/t/later"), "{page}");
    let ids = async |query: &str| {
        let path = format!("/v1/notifications?state={query}");
        let (status, list) = server.call(Method::GET, &path, None).await;
        assert_eq!(status, 200, "{list}");
        let items = list["items"].as_array().expect("a list").clone();
        let ids = items.into_iter().map(|item| item["id"].clone());
        ids.collect::<Vec<Value>>()
    };
    assert_eq!(ids("due").await, ["waits"]);
    assert_eq!(ids("scheduled").await, ["later", "waits"]);
    // `to` is compared with when it became due.
    assert_eq!(ids("due&to=2026-01-01T00:00:00Z").await, [""; 0]);
    assert_eq!(ids("due&topic=u").await, [""; 0]);
    server.stop().await;
}

#[tokio::test]
async fn a_long_list_is_paged_by_links() {
    let server = Server::start(Stores::Embedded).await;
    let mut browser = Browser::of(&server);
    for at in 0..60 {
        server
            .register(asked(
                "t",
                &format!("page-{at:02}"),
                "https://shop.example/n",
            ))
            .await;
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut address = "/ui/search?q=page-".to_string();
    for pages in 1.. {
        let page = browser.get(&address).await.is(200);
        for at in 0..60 {
            if page
                .text
                .contains(&format!("\"/ui/notifications/t/page-{at:02}\""))
            {
                assert!(seen.insert(at), "{at} is there once");
            }
        }
        let Some((before, _)) = page.text.split_once("\" rel=\"next\"") else {
            assert_eq!(pages, 2);
            break;
        };
        address = before
            .rsplit("href=\"")
            .next()
            .expect("an address")
            .replace("&#38;", "&");
        assert!(address.contains("by=prefix"), "{address}");
    }
    assert_eq!(seen.len(), 60);
    server.stop().await;
}

#[tokio::test]
async fn a_first_page_comes_soon_and_says_how_far_was_looked() {
    let server = Server::start(Stores::Embedded).await;
    let mut browser = Browser::of(&server);
    let rare = asked("t", "rare", "https://rare.example/cb");
    let registered = server.register(rare).await;
    for batch in 0..4 {
        let all = (0..1_000).map(|number| {
            asked(
                "t",
                &format!("{batch}-{number}"),
                "https://shop.example/notify",
            )
        });
        let all = json!({ "notifications": all.collect::<Vec<_>>() });
        let path = "/v1/notifications/batch";
        let (status, kept) = server.call(Method::POST, path, Some(all)).await;
        assert_eq!(status, 200, "{kept}");
    }
    let page = browser.get("/ui/search?q=rare.example").await.is(200).text;
    assert!(!page.contains("/ui/notifications/t/rare"), "{page}");
    assert!(page.contains("Nothing was found so far."), "{page}");
    assert!(page.contains("was registered since <time"), "{page}");
    let (before, _) = page.split_once("\" rel=\"next\">Look on").expect("a link");
    let (_, next) = before.rsplit_once("href=\"").expect("an address");
    let next = next.replace("&#38;", "&").replace("&amp;", "&");
    // What is looked through from there on is a larger part.
    let page = browser.get(&next).await.is(200).text;
    assert!(page.contains("/ui/notifications/t/rare"), "{page}");
    assert!(!page.contains("was registered since <time"), "{page}");
    // Nothing of it concerns what needs no look at each.
    for soon in ["q=rare", "q=shop.example", "lane=https://rare.example"] {
        let page = browser.get(&format!("/ui/search?{soon}")).await;
        assert!(!page.text.contains("was registered since <time"), "{soon}");
    }
    assert_eq!(registered["state"], "scheduled");
    server.stop().await;
}
