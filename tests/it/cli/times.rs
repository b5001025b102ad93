//! The times that `--from` and `--to` take.

use super::program::run;
use super::requests::StandIn;
use ringback::domain::timestamp::parse_ms;
use serde_json::json;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use url::form_urlencoded::parse;

/// The parameters of the request that a command makes with these flags.
async fn asked(words: &[&str], zone: &str) -> Vec<(String, String)> {
    let mut server = StandIn::answering(&json!({ "items": [] })).await;
    let finished = server.run(words, &[("TZ", zone)]).await;
    assert!([0, 4].contains(&finished.status), "{}", finished.stderr);
    let query = server.asked().uri.query().unwrap_or_default().to_string();
    parse(query.as_bytes()).into_owned().collect()
}

#[tokio::test]
async fn a_local_time_is_that_of_the_terminal() {
    let check = async |time: &str, zone: &str, expected: &str| {
        for command in [&["list"][..], &["dead"], &["find", "x"]] {
            for flag in ["--from", "--to"] {
                let query = asked(&[command, &[flag, time]].concat(), zone).await;
                let sent = query.iter().find(|(name, _)| *name == flag[2..]);
                let sent = sent.map(|(_, value)| value.as_str());
                assert_eq!(sent, Some(expected), "{command:?} {flag} {time} {zone}");
            }
        }
    };
    check("2026-11-20", "CST-8", "2026-11-19T16:00:00.000Z").await;
    check("2026-11-20 14:30", "CST-8", "2026-11-20T06:30:00.000Z").await;
    check("2026-11-20", "UTC0", "2026-11-20T00:00:00.000Z").await;
    check("2026-11-20", "", "2026-11-20T00:00:00.000Z").await;
    let as_before = "2026-11-20T08:30:00+08:00";
    check(as_before, "CST-8", as_before).await;
}

#[tokio::test]
async fn a_duration_is_so_long_ago() {
    let now_ms = || {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        i64::try_from(now.as_millis()).expect("fits")
    };
    let before_ms = now_ms();
    let query = asked(&["list", "--from", "2h"], "nowhere").await;
    let from_ms = parse_ms(&query[0].1).expect("a time");
    let asked_ms = from_ms + 2 * 3_600_000;
    assert!((before_ms..=now_ms()).contains(&asked_ms), "{query:?}");
}

#[test]
fn another_time_is_refused_with_examples() {
    for time in ["yesterday", "2026-11-31", "2026-11-20T14:30"] {
        for flag in ["--from", "--to"] {
            let finished = run(Path::new("."), &["list", flag, time], &[]);
            assert_eq!((finished.status, finished.stdout.as_str()), (2, ""));
            let expected = format!(
                "ringback: invalid value '{time}' for '{flag} <TIME>': `{time}` is not a time; write 2h (so long ago), \
                 2026-11-20 (the start of that day, local time), '2026-11-20 14:30' (local time) or \
                 2026-11-20T14:30:00+08:00; see --help\n"
            );
            assert_eq!(finished.stderr, expected);
        }
    }
    let unknown = [("TZ", "Nowhere/At-All")];
    let finished = run(Path::new("."), &["list", "--from", "2026-11-20"], &unknown);
    assert_eq!(finished.status, 2);
    let expected = "the local time zone is not known";
    assert!(finished.stderr.contains(expected), "{}", finished.stderr);
    let help = run(Path::new("."), &["list", "--help"], &[]).stdout;
    assert!(help.contains("which is not included"), "{help}");
}
