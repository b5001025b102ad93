//! Finding a notification by what support staff are told: over the commands, on a running server.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::process::Process;
use crate::support::within;
use serde_json::{Value, json};
use std::process::Output;
use tokio::process::Command;

/// Runs the program with these words against a server.
async fn ringback(server: &Process, words: &[&str]) -> Output {
    let running = Command::new(env!("CARGO_BIN_EXE_ringback"))
        .args(words)
        .env("RINGBACK_SERVER", server.api().url())
        .env("NO_COLOR", "1")
        .kill_on_drop(true)
        .output();
    let output = within("the command to end", running).await;
    output.expect("it runs")
}

/// What it printed; it must have succeeded.
async fn printed(server: &Process, words: &[&str]) -> String {
    let output = ringback(server, words).await;
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {complaint}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What it complained of, and its status; it must have printed nothing.
async fn refused(server: &Process, words: &[&str]) -> (Option<i32>, String) {
    let output = ringback(server, words).await;
    assert!(output.stdout.is_empty(), "{words:?}");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), complaint)
}

/// What helps who looks for an id in vain.
const HINT: &str = "upper and lower case differ in ids; to look in URLs: --url TEXT";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_is_found_by_what_the_merchant_knows() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut merchant = Merchant::scripted(vec![], Reaction::success()).await;
    let server = Process::start(dir.path(), &[]).await;
    let url = merchant.url("/notify");
    for (topic, id) in [
        ("paid", "order-1"),
        ("paid", "order-10"),
        ("closed", "order-2"),
    ] {
        let body = json!({ "topic": topic, "id": id, "url": url, "body": "x", "delay": "30m" });
        server.api().register(body).await;
    }
    let sent = json!({ "topic": "closed", "id": "order-3", "url": merchant.url("/Other_path"), "body": "x" });
    server.api().register(sent).await;
    let call = merchant.call().await;
    let webhook_id = call.header("webhook-id").to_string();

    // A whole id: that one alone, as `show` prints it.
    let found = printed(&server, &["find", "order-1"]).await;
    assert!(found.starts_with("scheduled  paid order-1\n"), "{found}");
    assert!(found.contains("registered    by "), "{found}");
    // By the header that the merchant got.
    let found = printed(&server, &["find", &webhook_id]).await;
    assert!(found.contains("  closed order-3\n"), "{found}");
    // By a beginning: one, or several.
    let found = printed(&server, &["find", "order-10"]).await;
    assert!(found.starts_with("scheduled  paid order-10\n"), "{found}");
    let found = printed(&server, &["find", "order-"]).await;
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 5, "{found}");
    for (line, id) in lines[1..]
        .iter()
        .zip(["order-3", "order-2", "order-10", "order-1"])
    {
        assert!(line.contains(&format!(" {id} ")), "{found}");
    }
    let found = printed(
        &server,
        &["find", "order-", "--topic", "closed", "--limit", "1"],
    )
    .await;
    let (_, cursor) = found
        .split_once("next page: --cursor ")
        .expect("there is more");
    let words = [
        "find",
        "order-",
        "--topic",
        "closed",
        "--cursor",
        cursor.trim(),
    ];
    let found = printed(&server, &words).await;
    assert!(
        found.contains(" order-2 ") && !found.contains("order-3"),
        "{found}"
    );
    // By the URL.
    let found = printed(&server, &["find", "--url", "other_PATH"]).await;
    assert!(found.contains("  closed order-3\n"), "{found}");
    let found = printed(&server, &["find", "--url", "/notify", "--json"]).await;
    let found: Value = serde_json::from_str(&found).expect("JSON");
    assert_eq!(found["items"].as_array().expect("a list").len(), 3);
    let found = printed(&server, &["find", "order-2", "--url", "/notify", "--json"]).await;
    let found: Value = serde_json::from_str(&found).expect("JSON");
    assert_eq!(found["id"], "order-2");

    let missing = refused(&server, &["show", "paid", "order-9"]).await.0;
    assert_eq!(missing, Some(4));
    let nothing = ringback(&server, &["find", "order-9", "--json"]).await;
    assert_eq!(
        (nothing.status.code(), nothing.stderr.as_slice()),
        (Some(4), &b""[..])
    );
    let nothing: Value = serde_json::from_slice(&nothing.stdout).expect("JSON");
    let expected = json!({
        "title": "Nothing was found", "detail": format!("nothing was found; {HINT}"), "items": [], "next_cursor": null,
    });
    assert_eq!(nothing, expected);
    for (words, has_hint) in [
        (&["find", "order-9"][..], true),
        (&["find", "order-1", "--topic", "closed"], true),
        (&["find", "--url", "nowhere"], false),
        (&["find", "msg_00000000000070000000000000000000"], false),
    ] {
        let (status, complaint) = refused(&server, words).await;
        let hint = match has_hint {
            true => format!("  {HINT}\n"),
            false => String::new(),
        };
        let expected = format!("ringback: nothing was found\n{hint}");
        assert_eq!((status, complaint), (missing, expected));
    }
    for words in [
        &["find"][..],
        &["find", ""],
        &["find", "ä"],
        &["find", "--url", ""],
    ] {
        let (status, complaint) = refused(&server, words).await;
        assert_eq!(
            (status, complaint.lines().count()),
            (Some(2), 1),
            "{complaint}"
        );
    }
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_is_printed_and_the_log_says_who_asked() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut merchant = Merchant::scripted(vec![], Reaction::success()).await;
    let mut server = Process::start(dir.path(), &[]).await;
    let url = merchant.url("/notify");
    let body = "a=1\u{1b}[2J\nend";
    let sent = json!({
        "topic": "t", "id": "1", "url": url, "body": body, "headers": { "X-A": "secret-value" },
    });
    server.api().register(sent).await;
    let call = merchant.call().await;
    assert_eq!(
        (&call.body[..], call.header("x-a")),
        (body.as_bytes(), "secret-value")
    );
    server.api().until_state("1", "delivered").await;
    let shown = printed(&server, &["show", "t", "1"]).await;
    for line in [
        "  ack            success\n",
        "  content type   text/plain; charset=utf-8\n",
        "  headers        x-a\n",
        "  body           11 bytes\n",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    assert!(
        !shown.contains("secret-value") && !shown.contains("a=1"),
        "{shown}"
    );
    let shown = printed(&server, &["show", "t", "1", "--payload"]).await;
    assert!(
        shown.starts_with("content-type   text/plain; charset=utf-8\n"),
        "{shown}"
    );
    assert!(shown.contains("\nx-a            secret-value\n"), "{shown}");
    assert!(shown.ends_with("\n\na=1\\u{1b}[2J\\nend\n"), "{shown}");
    let shown = printed(&server, &["show", "t", "1", "--payload", "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["body"], body);
    let message = "the headers and the body of a notification were read over the API";
    let lines = server.logged(message).await;
    let line = lines.last().expect("a line").to_string();
    assert!(
        line.contains("t/1") && !line.contains("secret-value"),
        "{line}"
    );
    let (status, _) = refused(&server, &["show", "t", "2", "--payload"]).await;
    assert_eq!(status, refused(&server, &["show", "t", "2"]).await.0);
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_of_an_endpoint_is_found_by_the_url_that_is_shown() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Process::start(dir.path(), &[]).await;
    let endpoint = async |url: &str| {
        let settings = json!({ "url": url });
        let put = server
            .api()
            .call(reqwest::Method::PUT, "/v1/endpoints/shop-1", Some(settings));
        let (status, answer) = put.await;
        assert!(matches!(status, 200 | 201), "{answer}");
    };
    endpoint("https://one.example/notify").await;
    let body =
        json!({ "topic": "t", "id": "1", "endpoint": "shop-1", "body": "x", "delay": "30m" });
    server.api().register(body).await;
    let found = async |url: &str| {
        let path = format!("/v1/notifications?url_contains={url}");
        let (status, page) = server.api().call(reqwest::Method::GET, &path, None).await;
        assert_eq!(status, 200, "{page}");
        page["items"].as_array().expect("a list").len()
    };
    assert_eq!(found("one.example").await, 1);
    endpoint("https://two.example/notify").await;
    assert_eq!(
        (found("one.example").await, found("TWO.example").await),
        (0, 1)
    );
    assert_eq!(server.api().get("1").await["ack"], "success");
    server.kill().await;
}
