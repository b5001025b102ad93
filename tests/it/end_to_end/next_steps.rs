//! What the commands say beside their answer: what stands in the way, and what can be done next.

use super::commands::{printed, ringback};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::process::Process;

/// What it complained about; it must have ended with this status.
async fn complained(words: &[&str], status: i32) -> String {
    let output = ringback(words).await;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{words:?}: {complaint}");
    complaint
}

/// The words of a command for this server.
fn to<'a>(server: &'a Process, words: &[&'a str]) -> Vec<&'a str> {
    [words, &["--server", server.api().url()]].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_cancelled_is_to_be_registered_under_another_id() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let merchant = Merchant::start().await;
    let server = Process::start(dir.path(), &[]).await;
    let url = merchant.url("/notify");
    let send = ["send", "t", &url, "x", "--id", "1", "--delay", "30m"];
    printed(&to(&server, &send)).await;
    printed(&to(&server, &["cancel", "t", "1"])).await;
    for words in [
        &["replay", "t", "1"][..],
        &["resend", "t", "1"],
        &["retry", "t", "1"],
        &["reschedule", "t", "1", "--delay", "1h"],
    ] {
        let complaint = complained(&to(&server, words), 6).await;
        let said = format!("cannot {} a notification that is cancelled", words[0]);
        assert!(complaint.contains(&said), "{complaint}");
        assert!(
            complaint.contains("register it under another id"),
            "{complaint}"
        );
    }
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_forgets_that_it_is_an_endpoint_is_told_how_it_is_written() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Process::start(dir.path(), &[]).await;
    let complaint = complained(&to(&server, &["send", "t", "shop-2", "x"]), 1).await;
    assert!(complaint.contains("not an absolute URL"), "{complaint}");
    assert!(complaint.contains("write endpoint:shop-2"), "{complaint}");
    for (words, status) in [
        (&["lane", "show", "shop-2"][..], 2),
        (&["lane", "retry", "shop-2"], 2),
        (&["list", "--lane", "shop-2"], 1),
    ] {
        let complaint = complained(&to(&server, words), status).await;
        let said = "if this is the name of an endpoint, write `endpoint:` before it";
        assert!(complaint.contains(said), "{complaint}");
    }
    for words in [
        &["send", "t", "shop.example/n", "x"][..],
        &["list", "--lane", "shop.example/n"],
    ] {
        let complaint = complained(&to(&server, words), 1).await;
        assert!(complaint.contains("not an absolute URL"), "{complaint}");
        assert!(!complaint.contains("is the name of"), "{complaint}");
    }
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_an_id_or_no_key_is_told_what_to_give() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Process::start(dir.path(), &["--api-key", "operators-own-key"]).await;
    let with_key = |words: &[&'static str]| [words, &["--api-key", "operators-own-key"]].concat();
    let complaint = complained(&to(&server, &["lanes", "--api-key", "wrong"]), 5).await;
    let said = "the API key is that of --api-key; give another one with --api-key or";
    assert!(complaint.contains(said), "{complaint}");
    let words = with_key(&["show", "t", "order-5"]);
    let complaint = complained(&to(&server, &words), 4).await;
    assert!(complaint.contains("`ringback find ID`"), "{complaint}");
    let complaint = complained(&to(&server, &with_key(&["show", "order-5"])), 2).await;
    assert!(complaint.contains("`ringback find ID`"), "{complaint}");
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_to_an_endpoint_says_that_its_lane_is_held() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Process::start(dir.path(), &[]).await;
    let url = "https://shop.example/n";
    let set = ["endpoint", "set", "shop-1", "--url", url];
    assert!(!printed(&to(&server, &set)).await.contains("held"));
    let hold = ["lane", "hold", "endpoint:shop-1", "--reason", "they move"];
    printed(&to(&server, &hold)).await;
    let how = "`ringback lane release endpoint:shop-1` releases it";
    for words in [
        &["endpoint", "show", "shop-1"][..],
        &["endpoint", "set", "shop-1", "--timeout", "1s"],
    ] {
        let shown = printed(&to(&server, words)).await;
        let line = shown.lines().find(|line| line.starts_with("  held "));
        let line = line.unwrap_or_else(|| panic!("no hold in\n{shown}"));
        assert!(
            line.contains(": they move; ") && line.ends_with(how),
            "{line}"
        );
    }
    let removed = ringback(&to(&server, &["endpoint", "remove", "shop-1"])).await;
    assert_eq!(removed.stdout, b"removed\n");
    let note = String::from_utf8_lossy(&removed.stderr).into_owned();
    assert!(note.starts_with("note: its lane stays held, by "), "{note}");
    assert!(note.trim_end().ends_with(how), "{note}");
    // The hold counts for the next one of the name.
    assert!(printed(&to(&server, &set)).await.contains(how));
    let release = ["lane", "release", "endpoint:shop-1"];
    printed(&to(&server, &release)).await;
    let removed = ringback(&to(&server, &["endpoint", "remove", "shop-1"])).await;
    assert_eq!(
        (&removed.stdout[..], &removed.stderr[..]),
        (&b"removed\n"[..], &b""[..])
    );
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lane_of_an_endpoint_that_does_not_exist_is_told_apart() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Process::start(dir.path(), &[]).await;
    let url = "https://shop.example/n";
    printed(&to(&server, &["endpoint", "set", "shop-1", "--url", url])).await;
    for (lane, is_missing) in [
        ("endpoint:nope", true),
        ("endpoint:shop-1", false),
        ("https://shop.example", false),
    ] {
        for verb in ["show", "hold"] {
            let shown = ringback(&to(&server, &["lane", verb, lane])).await;
            assert_eq!(shown.status.code(), Some(0), "{lane}");
            let note = String::from_utf8_lossy(&shown.stderr).into_owned();
            let said = note.starts_with("note: there is no endpoint nope: ");
            assert_eq!(said, is_missing, "{lane} {verb}: {note}");
        }
    }
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_an_endpoint_from_being_removed_is_found_by_the_command_that_is_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let merchant = Merchant::start().await;
    let server = Process::start(dir.path(), &[]).await;
    let url = merchant.url("/notify");
    printed(&to(&server, &["endpoint", "set", "shop-1", "--url", &url])).await;
    let send = [
        "send",
        "t",
        "endpoint:shop-1",
        "x",
        "--id",
        "1",
        "--delay",
        "30m",
    ];
    printed(&to(&server, &send)).await;
    let complaint = complained(&to(&server, &["endpoint", "remove", "shop-1"]), 6).await;
    let (_, told) = complaint.split_once("`ringback ").expect("a command");
    let (told, _) = told.split_once('`').expect("its end");
    let told: Vec<&str> = told.split(' ').collect();
    let listed = printed(&to(&server, &told)).await;
    assert!(listed.contains("scheduled  t      1 "), "{listed}");
    let listed = printed(&to(&server, &["endpoint", "list"])).await;
    let heading = listed.lines().next().unwrap_or_default();
    assert!(heading.contains("own keys"), "{listed}");
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn default_keys_name_the_command_that_adds_another_key() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Process::start(dir.path(), &[]).await;
    for verb in ["list", "add"] {
        let shown = printed(&to(&server, &["default-key", verb])).await;
        let said = "an endpoint with a key of its own; `ringback endpoint key add NAME` adds one\n";
        assert!(shown.ends_with(said), "{shown}");
        assert!(!shown.contains("/v1/"), "{shown}");
    }
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_of_a_lane_that_is_held_says_so() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let merchant = Merchant::start().await;
    let server = Process::start(dir.path(), &[]).await;
    let url = merchant.url("/notify");
    let send = ["send", "t", &url, "x", "--id", "1", "--delay", "30m"];
    printed(&to(&server, &send)).await;
    let hold = ["lane", "hold", &url, "--reason", "they move"];
    printed(&to(&server, &hold)).await;
    let shown = printed(&to(&server, &["show", "t", "1"])).await;
    assert!(
        shown.contains("  note           the lane is held by "),
        "{shown}"
    );
    let made = printed(&to(&server, &["lane", "retry", &url])).await;
    let lane = merchant.url("");
    for said in [
        "  note           the lane is held by ",
        " (they move), so calls begin when it is released\n",
        &*format!("  to release it  ringback lane release {lane}\n"),
    ] {
        assert!(made.contains(said), "{said} in\n{made}");
    }
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_whose_lane_is_held_says_so() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Process::start(dir.path(), &[]).await;
    let (url, lane) = (merchant.url("/notify"), merchant.url(""));
    let once = r#"{"intervals":[]}"#;
    let send = ["send", "t", &url, "x", "--id", "1", "--ladder", once];
    printed(&to(&server, &send)).await;
    merchant.call().await;
    server.api().until_state("1", "dead").await;
    let hold = ["lane", "hold", &url, "--reason", "they move"];
    printed(&to(&server, &hold)).await;
    let (held, waits) = (
        "the lane is held by ",
        " (they move), so calls begin when it is released",
    );
    let replay = ["replay", "--lane", &url];
    let dry_run = [&replay[..], &["--dry-run"]].concat();
    let plan = printed(&to(&server, &dry_run)).await;
    assert!(plan.contains(&format!("\nnote: {held}")), "{plan}");
    assert!(plan.contains(&format!("{waits}\n")), "{plan}");
    // It waits for the end of the job, which is done when it has made the notification due.
    let output = ringback(&to(&server, &replay)).await;
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains(&format!("note: {held}")), "{notes}");
    let release = format!("{waits}; `ringback lane release {lane}` releases it\n");
    assert!(notes.contains(&release), "{notes}");
    assert!(merchant.arrived().is_none(), "it is held");
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_says_that_its_endpoint_was_removed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Process::start(dir.path(), &[]).await;
    let url = merchant.url("/notify");
    let set = ["endpoint", "set", "shop-1", "--url", &url];
    printed(&to(&server, &set)).await;
    let send = ["send", "t", "endpoint:shop-1", "x", "--id", "1"];
    let once = ["--ladder", r#"{"intervals":[]}"#];
    let send: Vec<&str> = send.into_iter().chain(once).collect();
    printed(&to(&server, &send)).await;
    server.api().until_state("1", "dead").await;
    let show = ["show", "t", "1"];
    assert!(!printed(&to(&server, &show)).await.contains("  note "));
    printed(&to(&server, &["endpoint", "remove", "shop-1"])).await;
    let shown = printed(&to(&server, &show)).await;
    let note = "  note           its endpoint was removed; a replay uses the last settings";
    assert!(shown.contains(note), "{shown}");
    printed(&to(&server, &set)).await;
    let shown = printed(&to(&server, &show)).await;
    let note = "  note           its endpoint was removed, and another one was made under its name";
    assert!(shown.contains(note), "{shown}");
    server.kill().await;
}
