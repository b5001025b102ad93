//! Streams of events: what is open learns that it has changed.

use super::{Browser, make_key, operator, signed_in};
use crate::end_to_end::on_journaled_stores;
use crate::support::merchant::Merchant;
use crate::support::ringback::{Server, Stores, registration};
use crate::support::{short_pause, within};
use reqwest::{Method, Response};
use serde_json::json;

on_journaled_stores!(
    a_change_is_told,
    a_stream_ends_with_its_key_and_with_the_server
);

/// Opens a stream, and reads its first line.
async fn open(browser: &Browser, of: &str) -> Response {
    let mut stream = browser.open(&format!("/ui/events?of={of}")).await;
    assert_eq!(stream.status(), 200);
    let content_type = stream.headers()["content-type"].to_str().expect("ASCII");
    assert_eq!(content_type, "text/event-stream");
    assert_eq!(next(&mut stream).await.as_deref(), Some("retry: 3000\n\n"));
    stream
}

/// The next text of a stream; `None` at its end.
async fn next(stream: &mut Response) -> Option<String> {
    let chunk = within("the stream", stream.chunk()).await;
    let chunk = chunk.ok().flatten()?;
    Some(String::from_utf8(chunk.to_vec()).expect("UTF-8"))
}

/// Reads until the next event.
async fn event(stream: &mut Response) -> String {
    loop {
        let text = next(stream).await.expect("the stream goes on");
        if !text.starts_with(':') {
            return text;
        }
    }
}

async fn a_change_is_told(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let mut asked = registration("1", &merchant);
    asked["delay"] = json!("1h");
    server.register(asked).await;
    let mut browser = Browser::of(&server);
    let page = browser.get("/ui/notifications/t/1").await.is(200);
    assert!(
        page.text
            .contains("data-live=\"/ui/events?of=notification%2Ft%2F1\""),
        "{}",
        page.text
    );
    let mut one = open(&browser, "notification%2Ft%2F1").await;
    let mut numbers = open(&browser, "overview").await;
    let retried = server
        .call(Method::POST, "/v1/notifications/t/1/retry", None)
        .await;
    assert_eq!(retried.0, 200);
    assert_eq!(event(&mut one).await, "event: change\ndata:\n\n");
    assert_eq!(event(&mut numbers).await, "event: change\ndata:\n\n");
    server.until_state("1", "delivered").await;
    for other in ["", "nothing", "notification/t", "notification/a%20b/1"] {
        browser.get(&format!("/ui/events?of={other}")).await.is(404);
    }
    while merchant.arrived().is_some() {}
    drop((one, numbers));
    server.stop().await;
}

async fn a_stream_ends_with_its_key_and_with_the_server(stores: Stores) {
    let server = Server::start(stores).await;
    let admin = operator(&server).await;
    let desk = make_key(&admin, json!({ "name": "desk", "role": "support" })).await;
    let mut of_desk = open(&signed_in(&desk).await, "overview").await;
    let mut of_admin = open(&signed_in(&admin).await, "overview").await;
    let revoked = admin.call(Method::DELETE, "/v1/keys/desk", None).await;
    assert_eq!(revoked.0, 204);
    while next(&mut of_desk).await.is_some() {}
    let nobody = Browser::of(&server).get("/ui/events?of=overview").await;
    nobody.is(401);
    // The server does not wait for streams.
    let ended = async { while next(&mut of_admin).await.is_some() {} };
    tokio::join!(server.stop(), ended);
}

#[tokio::test]
async fn the_streams_of_a_key_leave_places_to_others() {
    let server = Server::start(Stores::Embedded).await;
    let admin = operator(&server).await;
    let desk = make_key(&admin, json!({ "name": "desk", "role": "support" })).await;
    // The sessions of a key count together.
    let (of_desk, again) = (signed_in(&desk).await, signed_in(&desk).await);
    let of_admin = signed_in(&admin).await;
    let mut streams = Vec::new();
    for _ in 0..32 {
        streams.push(open(&of_desk, "overview").await);
        streams.push(open(&again, "overview").await);
    }
    for browser in [&of_desk, &again] {
        let refused = browser.open("/ui/events?of=overview").await;
        assert_eq!(refused.status(), 503);
    }
    let other = open(&of_admin, "overview").await;
    drop((streams, other));
    let given_back = async {
        while of_desk.open("/ui/events?of=overview").await.status() != 200 {
            short_pause().await;
        }
    };
    within("a place", given_back).await;
    server.stop().await;
}

#[tokio::test]
async fn there_are_so_many_streams_and_no_more() {
    let server = Server::start(Stores::Embedded).await;
    let browser = Browser::of(&server);
    let mut streams = Vec::new();
    for _ in 0..256 {
        streams.push(open(&browser, "overview").await);
    }
    let refused = browser.open("/ui/events?of=overview").await;
    assert_eq!(refused.status(), 503);
    drop(streams);
    // The pages themselves are served all the time, and places are given back.
    let mut reader = browser.clone();
    reader.get("/ui/").await.is(200);
    let again = async {
        while browser.open("/ui/events?of=overview").await.status() != 200 {
            short_pause().await;
        }
    };
    within("a place", again).await;
    server.stop().await;
}
