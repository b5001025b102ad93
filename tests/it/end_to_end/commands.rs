//! The commands against a real server, as support staff type them, and the demonstration.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::process::Process;
use crate::support::within;
use serde_json::Value;
use std::process::Output;
use tokio::process::Command;

/// Runs the program with these words and waits for it. As on a bare machine, there are no
/// certificate authorities.
pub async fn ringback(words: &[&str]) -> Output {
    let running = Command::new(env!("CARGO_BIN_EXE_ringback"))
        .args(words)
        .env_remove("RINGBACK_SERVER")
        .env("SSL_CERT_FILE", "/nonexistent")
        .env("SSL_CERT_DIR", "/nonexistent")
        .env("NO_COLOR", "1")
        .kill_on_drop(true)
        .output();
    within("the command to end", running)
        .await
        .expect("it runs")
}

/// What it printed; it must have succeeded.
pub async fn printed(words: &[&str]) -> String {
    let output = ringback(words).await;
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {complaint}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_is_followed_by_commands_from_registration_to_replay() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Process::start(dir.path(), &[]).await;
    let at = ["--server", server.api().url()];
    let url = merchant.url("/notify");
    let say = async |words: &[&str]| printed(&[words, &at[..]].concat()).await;

    let one_attempt = r#"{"intervals":[]}"#;
    say(&[
        "send",
        "t",
        &url,
        "a=1",
        "--id",
        "a",
        "--ladder",
        one_attempt,
    ])
    .await;
    assert_eq!(merchant.call().await.body, b"a=1");
    server.api().until_state("a", "dead").await;
    let shown = say(&["show", "t", "a"]).await;
    for wanted in [
        "dead",
        "ladder_exhausted",
        "wrong_answer",
        "200",
        "the body is `fail`",
    ] {
        assert!(shown.contains(wanted), "{wanted} in\n{shown}");
    }
    assert!(say(&["dead"]).await.contains("ladder_exhausted"));
    let json: Value = serde_json::from_str(&say(&["list", "--json"]).await).expect("JSON");
    assert_eq!(json["items"][0]["state"], "dead");

    merchant.now_does(Reaction::success());
    say(&["replay", "t", "a", "--reason", "they repaired it"]).await;
    merchant.call().await;
    server.api().until_state("a", "delivered").await;
    let shown = say(&["show", "t", "a"]).await;
    let (_, happened) = shown.split_once("\n\n").expect("a timeline");
    // Where a line is broken depends on how long the times in it are.
    let mut lines: Vec<String> = Vec::new();
    for line in happened.lines().map(|line| line[26..].trim_end()) {
        match (line.strip_prefix("              "), lines.last_mut()) {
            (Some(more), Some(last)) => *last = format!("{last} {more}"),
            _ => lines.push(line.to_string()),
        }
    }
    let story = [
        "registered    by ",
        "attempt 1     wrong_answer 200 in ",
        "parked        ladder_exhausted",
        "replayed      by ",
        "attempt 2     acknowledged 200 in ",
        "delivered",
    ];
    assert_eq!(lines.len(), story.len(), "{happened}");
    for (line, expected) in lines.iter().zip(story) {
        assert!(line.starts_with(expected), "{line}: {happened}");
    }
    for said in [
        " `fail` answered 200, but the body is `fail` and not `success` to 127.0.0.1:",
        " over a new connection, HTTP/1.1, connect ",
        ", signed with default_",
    ] {
        assert!(lines[1].contains(said), "{said}: {happened}");
    }
    assert!(lines[3].ends_with(": they repaired it"), "{happened}");
    assert!(lines[4].contains(" `success`"), "{happened}");

    say(&["send", "t", &url, "later", "--id", "b", "--delay", "30m"]).await;
    assert!(say(&["show", "t", "b"]).await.contains("scheduled"));
    let moved = say(&["reschedule", "t", "b", "--delay", "2h"]).await;
    assert!(
        moved.contains("(in 2h)") || moved.contains("(in 1h59m"),
        "{moved}"
    );
    assert!(say(&["show", "t", "b"]).await.contains("rescheduled   by "));
    say(&["cancel", "t", "b"]).await;
    assert!(say(&["show", "t", "b"]).await.contains("cancelled"));
    // Whoever registers it again does not take it for a schedule.
    let again = ["send", "t", &url, "later", "--id", "b", "--delay", "30m"];
    let refused = ringback(&[&again, &at[..]].concat()).await;
    assert_eq!(refused.status.code(), Some(6));
    assert!(refused.stdout.is_empty());
    let complaint = String::from_utf8_lossy(&refused.stderr);
    let said = "ringback: 409 Conflict: It was cancelled and is not sent: ";
    assert!(complaint.starts_with(said), "{complaint}");
    assert!(complaint.contains("nothing will be sent"), "{complaint}");

    say(&["resend", "t", "a", "--reason", "they lost it"]).await;
    assert_eq!(merchant.call().await.attempt(), 3);
    server.api().until_state("a", "delivered").await;
    let shown = say(&["show", "t", "a"]).await;
    assert!(shown.contains("resent        by "), "{shown}");
    assert!(shown.contains(": they lost it"), "{shown}");

    say(&[
        "send",
        "t",
        &url,
        "now",
        "--id",
        "odd / id?%",
        "--delay",
        "30m",
    ])
    .await;
    say(&["retry", "t", "odd / id?%"]).await;
    assert_eq!(merchant.call().await.body, b"now");

    let words = [&["replay", "t", "a", "--reason", "again"][..], &at[..]].concat();
    let refused = ringback(&words).await;
    assert_eq!(refused.status.code(), Some(6));
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        complaint.contains("cannot replay a notification that is delivered"),
        "{complaint}"
    );
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demonstration_shows_every_attempt_and_ends_by_itself() {
    let shown = printed(&["demo"]).await;
    for wanted in [
        "order-2  attempt 3: the merchant answered `success`",
        "order-3  dead (ladder_exhausted)",
        "order-3  replayed by hand",
        "order-4  cancelled",
        "order-5  delivered",
        "registered 5 = delivered 4 + dead 0 + cancelled 1 + pending 0",
    ] {
        assert!(shown.contains(wanted), "{wanted} in\n{shown}");
    }
    assert!(
        !shown.contains('\u{1b}'),
        "no escape codes where there is no terminal"
    );
}
