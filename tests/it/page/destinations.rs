//! Destinations: the list and its filters, holding and releasing one, sending what is pending.

use super::{Browser, make_key, operator, signed_in};
use crate::end_to_end::on_stores;
use crate::support::merchant::Merchant;
use crate::support::ringback::{Server, Stores, registration};
use crate::support::within;
use reqwest::Method;
use serde_json::json;

on_stores!(a_destination_is_held_and_released_with_a_reason);

fn path_of(lane: &str) -> String {
    let encoded: String = url::form_urlencoded::byte_serialize(lane.as_bytes()).collect();
    format!("/ui/destinations/{encoded}")
}

const HOSTILE: &str = "<script>alert(1)</script>";

async fn a_destination_is_held_and_released_with_a_reason(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let lane = merchant.url("");
    let path = path_of(&lane);
    let api = path.replace("/ui/destinations", "/v1/lanes");
    let mut browser = Browser::of(&server);
    let page = browser.get(&path).await.is(200).text;
    assert!(page.contains("chip-open"), "{page}");
    assert!(page.contains(&format!("{path}/hold\"")), "{page}");
    assert!(!page.contains(&format!("{path}/release\"")), "{page}");
    let hold = format!("{path}/hold");
    let refused = browser.submit(&path, &hold, &[("reason", "a\u{7}")]).await;
    refused.is(422);
    let held = browser.submit(&path, &hold, &[("reason", HOSTILE)]).await;
    assert_eq!(held.is(303).location(), format!("{path}?done=lane-hold"));
    let (_, view) = server.call(Method::GET, &api, None).await;
    assert_eq!(
        (&view["state"], &view["held_reason"]),
        (&json!("held"), &json!(HOSTILE))
    );
    server.register(registration("1", &merchant)).await;
    let page = browser
        .get(&format!("{path}?done=lane-hold"))
        .await
        .is(200)
        .text;
    for shown in ["chip-held", "&#60;script&#62;", "notice-done", "data-live="] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(!page.contains(HOSTILE), "{page}");
    let list = browser
        .get("/ui/destinations?state=held")
        .await
        .is(200)
        .text;
    assert!(list.contains(&path) && list.contains("chip-held"), "{list}");
    let list = browser
        .get("/ui/destinations?state=probing")
        .await
        .is(200)
        .text;
    assert!(!list.contains(&path), "{list}");
    assert!(
        merchant.arrived().is_none(),
        "nothing is sent while it is held"
    );
    let again = browser.submit(&path, &hold, &[("reason", "more")]).await;
    assert_eq!(
        again.is(303).location(),
        format!("{path}?done=lane-hold-again")
    );
    let release = format!("{path}/release");
    let released = browser
        .submit(&path, &release, &[("reason", "mended")])
        .await;
    assert_eq!(
        released.is(303).location(),
        format!("{path}?done=lane-release")
    );
    merchant.call().await;
    let again = browser.submit(&path, &release, &[]).await;
    assert_eq!(
        again.is(303).location(),
        format!("{path}?done=lane-not-held")
    );
    browser.get(&path_of("no lane")).await.is(404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_pending_is_counted_and_then_sent_now() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Postgres).await;
    let admin = operator(&server).await;
    let desk = make_key(&admin, json!({ "name": "desk", "role": "support" })).await;
    let mut browser = signed_in(&desk).await;
    for id in ["1", "2"] {
        let mut asked = registration(id, &merchant);
        asked["delay"] = json!("1h");
        admin.register(asked).await;
    }
    let path = path_of(&merchant.url(""));
    let retry = format!("{path}/retry");
    for wrong in ["0", "1001", "fast"] {
        let refused = browser.submit(&path, &retry, &[("rate", wrong)]).await;
        let refused = refused.is(422).text;
        assert!(refused.contains(&format!("value=\"{wrong}\"")), "{refused}");
    }
    let fields = [("rate", "50"), ("reason", "ticket 9")];
    let planned = browser
        .submit(&path, &retry, &[&fields[..], &[("plan", "1")]].concat())
        .await;
    let planned = planned.is(200).text;
    assert!(
        planned.contains("<b>2</b>") && planned.contains("ticket 9"),
        "{planned}"
    );
    let (_, jobs) = admin.call(Method::GET, "/v1/jobs", None).await;
    assert_eq!(jobs["items"], json!([]), "a plan makes no job");
    let made = browser.submit(&path, &retry, &fields).await.is(303);
    let (before, job) = made.location().split_once("&job=").expect("a job");
    assert_eq!(before, format!("{path}?done=lane-retry"));
    let page = browser.get(made.location()).await.is(200).text;
    assert!(page.contains(&format!("\"/ui/jobs/{job}\"")), "{page}");
    for _ in 0..2 {
        merchant.call().await;
    }
    for id in ["1", "2"] {
        admin.until_state(id, "delivered").await;
    }
    let page = browser.get(&path).await.is(200).text;
    for shown in [
        "/ui/notifications/t/1\"",
        "chip-delivered",
        "<code>200</code>",
        "state=dead",
        "state=scheduled",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let (_, log) = admin
        .call(Method::GET, "/v1/audit-log?actor=desk", None)
        .await;
    assert_eq!(log["items"][0]["act"], "lane.retry", "{log}");
    assert_eq!(log["items"][0]["reason"], "ticket 9", "{log}");
    server.stop().await;
}

#[tokio::test]
async fn what_is_sent_to_a_held_destination_waits_and_the_page_says_so() {
    const WAITS: &str =
        "<p class=\"notice\">The destination is held, so calls begin when it is released.</p>";
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Embedded).await;
    let mut browser = Browser::of(&server);
    let mut asked = registration("1", &merchant);
    asked["delay"] = json!("1h");
    server.register(asked).await;
    let path = path_of(&merchant.url(""));
    let page = browser.get(&path).await.is(200).text;
    assert!(!page.contains(WAITS), "{page}");
    let held = browser.submit(&path, &format!("{path}/hold"), &[]).await;
    held.is(303);
    let page = browser.get(&path).await.is(200).text;
    assert_eq!(page.matches(WAITS).count(), 1, "of the retry alone: {page}");
    let retry = format!("{path}/retry");
    let made = browser.submit(&path, &retry, &[]).await.is(303);
    let (before, _) = made.location().split_once("&job=").expect("a job");
    assert_eq!(before, format!("{path}?done=lane-retry-held"));
    let page = browser.get(made.location()).await.is(200).text;
    assert!(page.contains("A job makes due what is pending."), "{page}");
    assert!(merchant.arrived().is_none(), "it is held");
    server.stop().await;
}

#[tokio::test]
async fn the_list_has_pages_and_leads_to_a_destination() {
    let server = Server::start(Stores::Embedded).await;
    let mut browser = Browser::of(&server);
    for at in 0..60 {
        let url = format!("https://shop-{at:02}.example/n");
        let asked =
            json!({ "topic": "t", "id": at.to_string(), "url": url, "body": "x", "delay": "1h" });
        server.register(asked).await;
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut address = "/ui/destinations".to_string();
    loop {
        let page = browser.get(&address).await.is(200).text;
        for at in 0..60 {
            let path = path_of(&format!("https://shop-{at:02}.example"));
            if page.contains(&format!("\"{path}\"")) {
                assert!(seen.insert(at), "{at} is there once");
            }
        }
        let Some((before, _)) = page.split_once("\" rel=\"next\"") else {
            break;
        };
        let href = before.rsplit("href=\"").next().expect("an address");
        address = href.replace("&#38;", "&");
    }
    assert_eq!(seen.len(), 60);
    let found = browser
        .get("/ui/destinations?lane=https://shop-07.example/any")
        .await;
    assert_eq!(found.is(303).location(), path_of("https://shop-07.example"));
    browser.get("/ui/destinations?lane=x").await.is(422);
    browser.get("/ui/destinations?state=closed").await.is(422);
    let mut chinese = browser.with("accept-language", "zh-CN");
    let page = chinese.get("/ui/destinations").await.is(200).text;
    assert!(
        page.contains("待投递") && page.contains("最大并发数"),
        "{page}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_page_is_told_when_its_destination_changes() {
    let server = Server::start(Stores::Embedded).await;
    let lane = "https://shop.example";
    let asked = format!("{}/ui/events?of=lane/{lane}", server.url());
    let client = reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("a client");
    let mut stream = within("the stream", client.get(asked).send())
        .await
        .expect("an answer");
    assert_eq!(stream.status(), 200);
    let mut read = String::new();
    let first = within("its beginning", stream.chunk())
        .await
        .expect("a chunk");
    read.push_str(&String::from_utf8_lossy(&first.expect("a text")));
    let path = path_of(lane).replace("/ui/destinations", "/v1/lanes");
    let (status, _) = server
        .call(Method::POST, &format!("{path}/hold"), None)
        .await;
    assert_eq!(status, 200);
    while !read.contains("event: change") {
        let chunk = within("a change", stream.chunk()).await.expect("a chunk");
        read.push_str(&String::from_utf8_lossy(&chunk.expect("a text")));
    }
    drop(stream);
    server.stop().await;
}
