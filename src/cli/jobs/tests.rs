use super::*;
use serde_json::json;

const NOW_MS: i64 = 1_795_163_400_000;

#[test]
fn a_job_says_how_far_it_is_and_who_asked_for_it() {
    let job = serde_json::from_value(json!({
        "id": "0a-1", "kind": "lane_retry", "state": "running", "lane": "https://shop.example", "matched": 10,
        "done": 4, "skipped": 1, "failed": 0, "rate": 0.5, "actor": "anna", "reason": "back\u{1b}",
        "problem": null, "created_at": "2026-11-20T08:28:00.000Z", "ended_at": null,
    }))
    .expect("a job");
    let text = one(&job, Colours::never(), NOW_MS);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "running  0a-1",
            "  kind           lane_retry",
            "  lane           https://shop.example",
            "  progress       4 done, 1 skipped, 0 failed of 10",
            "  which ones     ringback job notifications 0a-1 --result skipped",
            "  rate           0.5 per second",
            "  asked by       anna",
            "  reason         back\\u{1b}",
            "  made           2026-11-20T08:28:00.000Z (2m ago)",
        ]
    );
}

#[test]
fn a_replay_says_how_to_see_how_they_ended() {
    let text = |kind: &str, done: u64| {
        let job =
            json!({ "id": "0a-1", "kind": kind, "state": "done", "done": done, "matched": done });
        one(
            &serde_json::from_value(job).expect("a job"),
            Colours::never(),
            NOW_MS,
        )
    };
    let expected = "  how they ended ringback job notifications 0a-1\n";
    assert!(text("replay", 3).contains(expected));
    assert!(!text("replay", 0).contains("how they ended"));
    assert!(!text("cancel", 3).contains("how they ended"));
}

#[test]
fn a_list_says_which_ones_and_why() {
    let page = serde_json::from_value(json!({ "items": [
        { "id": "1", "kind": "replay", "state": "done", "filter": { "lane": "https://shop.example" }, "reason": "fixed" },
        { "id": "2", "kind": "lane_retry", "state": "done", "lane": "https://other.example" },
    ] }));
    let text = list(&page.expect("a page"), Colours::never(), NOW_MS);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[1].contains("  lane https://shop.example  ") && lines[1].ends_with("  fixed"),
        "{text}"
    );
    assert!(
        lines[2].contains("  https://other.example  ") && lines[2].ends_with("  -"),
        "{text}"
    );
}

#[test]
fn a_release_of_what_was_not_held_says_so() {
    let text = |was_held: Option<bool>| {
        let job =
            json!({ "id": "0a-1", "kind": "lane_release", "state": "done", "was_held": was_held });
        let job = serde_json::from_value(job).expect("a job");
        one(&job, Colours::never(), NOW_MS)
    };
    let expected = "done  0a-1\n  note           the lane was not held, so nothing has changed\n";
    assert!(text(Some(false)).starts_with(expected));
    assert!(!text(Some(true)).contains("held"));
    assert!(!text(None).contains("held"));
}

#[test]
fn a_job_that_could_not_change_all_has_not_succeeded() {
    let check = |state: &str, skipped: u64, failed: u64, expected| {
        let job = json!({ "state": state, "done": 1, "skipped": skipped, "failed": failed });
        let job: JobDetails = serde_json::from_value(job).expect("a job");
        assert_eq!(
            job.check_end().is_ok(),
            expected,
            "{state} {skipped} {failed}"
        );
    };
    check("done", 0, 0, true);
    check("done", 2, 0, true);
    check("done", 0, 1, false);
    check("failed", 0, 0, false);
    check("paused", 0, 0, false);
    check("stopped", 0, 0, false);
}

#[test]
fn a_dry_run_shows_how_many_and_some_of_them() {
    let found = serde_json::from_value(json!({
        "matched": 7,
        "sample": [{ "topic": "t", "id": "1", "next_attempt_at": "2026-11-20T08:31:00.000Z" }],
    }))
    .expect("an answer");
    let text = preview(&found, Colours::never(), NOW_MS);
    assert!(text.starts_with("7 match; nothing was changed\n"), "{text}");
    assert!(text.contains("2026-11-20T08:31:00.000Z"), "{text}");
    let failing = serde_json::from_value(json!({
        "matched": 7, "sample": [],
        "reasons": [{ "result": "failed", "reason": "endpoint_made_again", "count": 3 }],
    }));
    let text = preview(&failing.expect("an answer"), Colours::never(), NOW_MS);
    let expected = "of these, 3 would count as failed: endpoint_made_again (their endpoint was removed and made again";
    assert!(text.contains(expected), "{text}");
    let more = serde_json::from_value(json!({ "matched": 7, "at_least": true, "sample": [] }));
    let text = preview(&more.expect("an answer"), Colours::never(), NOW_MS);
    assert!(text.starts_with("at least 7 match; "), "{text}");
    let empty = list(&JobPageDetails::default(), Colours::never(), NOW_MS);
    assert_eq!(empty, "none\n");
}

#[test]
fn what_waits_in_a_lane_that_is_held_is_told_with_the_command_that_releases_it() {
    let warning = "the lane is held by anna since 2026-11-20T08:28:00.000Z (they move), so calls begin when it is released";
    let lane = "endpoint:shop-1";
    let job = json!({ "id": "0a-1", "kind": "lane_retry", "state": "running", "lane": lane, "warning": warning });
    let job = serde_json::from_value(job).expect("a job");
    let text = one(&job, Colours::never(), NOW_MS);
    let expected = format!(
        "running  0a-1\n  note           {warning}\n  to release it  ringback lane release endpoint:shop-1\n"
    );
    assert!(text.starts_with(&expected), "{text}");
    let replay =
        json!({ "id": "0a-1", "state": "running", "filter": { "lane": lane }, "warning": warning });
    let replay: JobDetails = serde_json::from_value(replay).expect("a job");
    let text = one(&replay, Colours::never(), NOW_MS);
    assert!(text.starts_with(&expected), "{text}");
    let expected = format!("{warning}; `ringback lane release endpoint:shop-1` releases it");
    assert_eq!(replay.hold(), Some(expected));
    let other = json!({ "id": "0a-1", "state": "running", "filter": { "topic": "t" } });
    let other: JobDetails = serde_json::from_value(other).expect("a job");
    assert_eq!(other.hold(), None);
    let found = json!({ "matched": 0, "sample": [], "warning": warning });
    let found = serde_json::from_value(found).expect("an answer");
    let text = preview(&found, Colours::never(), NOW_MS);
    let expected = format!("0 match; nothing was changed\nnote: {warning}\n");
    assert_eq!(text, expected);
}
