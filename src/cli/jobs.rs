//! Prints jobs for support staff: the state first, then how far the job is, then who asked for it and why.

use super::table::table;
use super::terminal::{Colours, clean, instant, start_of};
use owo_colors::Style;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A job in an answer of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobDetails {
    id: Option<String>,
    kind: String,
    state: String,
    lane: Option<String>,
    filter: Option<BTreeMap<String, String>>,
    matched: u64,
    done: u64,
    skipped: u64,
    failed: u64,
    rate: f64,
    actor: String,
    reason: Option<String>,
    problem: Option<String>,
    created_at: Option<String>,
    ended_at: Option<String>,
    was_held: Option<bool>,
}

/// A page of jobs in an answer of the API.
#[derive(Debug, Default, Deserialize)]
pub struct JobPageDetails {
    items: Vec<JobDetails>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// The answer to a dry run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PreviewDetails {
    matched: u64,
    #[serde(default)]
    at_least: bool,
    reasons: Vec<PreviewReason>,
    sample: Vec<SampleDetails>,
}

/// How many of a dry run the job would not change, for one reason.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PreviewReason {
    result: String,
    reason: String,
    count: u64,
}

/// A notification of a dry run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SampleDetails {
    topic: String,
    id: String,
    next_attempt_at: Option<String>,
    ended_at: Option<String>,
    cause: Option<String>,
    attempts: Vec<LastAttempt>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LastAttempt {
    outcome: String,
    reason: Option<String>,
}

/// The longest part of a reason that a dry run shows, in columns.
const LONGEST_REASON: usize = 60;

impl JobDetails {
    /// Its id; `None` if it is not kept.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// How many it concerns, as far as that is known.
    pub fn matched(&self) -> u64 {
        self.matched
    }

    /// How many have had their turn.
    pub fn seen(&self) -> u64 {
        self.done + self.skipped + self.failed
    }

    /// Whether it goes on by itself.
    pub fn is_running(&self) -> bool {
        self.state == "running"
    }

    /// Whether it ended because everything was seen, and nothing failed; else says why not.
    pub fn check_end(&self) -> Result<(), &'static str> {
        match self.state.as_str() {
            "done" if self.failed > 0 => Err(
                "some notifications could not be changed; the command printed above lists them, with the reasons",
            ),
            "done" => Ok(()),
            "failed" => Err("the job has failed; its problem is printed above"),
            "paused" => Err("the job is paused"),
            _ => Err("the job was stopped"),
        }
    }
}

const NOT_HELD: &str = "the lane was not held, so nothing has changed";

/// The text for one job.
pub fn one(job: &JobDetails, colours: Colours, now_ms: i64) -> String {
    let id = job.id.as_deref().map_or("not kept".to_string(), clean);
    let mut text = format!("{}  {id}\n", state(colours, &job.state));
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let name = colours.faint(&format!("{name:<14}"));
            text.push_str(&format!("  {name} {value}\n"));
        }
    };
    let at = |text: &Option<String>| {
        let text = text.as_deref();
        text.map_or(String::new(), |text| instant(text, now_ms))
    };
    let given = |text: &Option<String>| text.as_deref().map(clean).unwrap_or_default();
    if job.was_held == Some(false) {
        line("note", NOT_HELD.to_string());
    }
    line("kind", clean(&job.kind));
    line("lane", given(&job.lane));
    line("filter", filter(job));
    line(
        "progress",
        format!(
            "{} done, {} skipped, {} failed of {}",
            job.done, job.skipped, job.failed, job.matched
        ),
    );
    line("which ones", unchanged_command(job));
    line("how they ended", outcome_command(job));
    // A release is done at once, and what waited goes as fast as the destination answers.
    if job.kind != "lane_release" {
        line("rate", format!("{} per second", job.rate));
    }
    line("asked by", clean(&job.actor));
    line("reason", given(&job.reason));
    line("problem", given(&job.problem));
    line("made", at(&job.created_at));
    line("ended", at(&job.ended_at));
    text
}

/// The command that lists what the job could not change, or else what it has skipped; empty if there is nothing to list.
fn unchanged_command(job: &JobDetails) -> String {
    let result = match (job.failed, job.skipped) {
        (0, 0) => return String::new(),
        (0, _) => "skipped",
        (_, _) => "failed",
    };
    job.id.as_deref().map_or(String::new(), |id| {
        format!("ringback job notifications {} --result {result}", clean(id))
    })
}

/// The command that tells how what the job sends again has ended; empty if it sends nothing again. A job counts what it has
/// made due.
fn outcome_command(job: &JobDetails) -> String {
    match (job.kind.as_str(), job.done, &job.id) {
        ("replay", 1.., Some(id)) => format!("ringback job notifications {}", clean(id)),
        _ => String::new(),
    }
}

/// What the job is about, if it was made for a filter.
fn filter(job: &JobDetails) -> String {
    let Some(filter) = &job.filter else {
        return String::new();
    };
    if filter.is_empty() {
        return "everything".to_string();
    }
    let fields = filter.iter();
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("{} {}", clean(name), clean(value)))
        .collect();
    fields.join(", ")
}

/// The text for a page of jobs, one line for each.
pub fn list(page: &JobPageDetails, colours: Colours, now_ms: i64) -> String {
    let rows: Vec<Vec<String>> = page.items.iter().map(|job| row(job, now_ms)).collect();
    let heading = [
        "state", "id", "kind", "which", "done", "skipped", "failed", "of", "asked by", "made",
        "reason",
    ];
    let mut text = if rows.is_empty() {
        "none\n".to_string()
    } else {
        table(colours, &heading, &rows)
    };
    if let Some(cursor) = &page.next_cursor {
        text.push_str(&format!("next page: --cursor '{}'\n", clean(cursor)));
    }
    text
}

/// The text for a dry run.
pub fn preview(preview: &PreviewDetails, colours: Colours, now_ms: i64) -> String {
    let more = if preview.at_least { "at least " } else { "" };
    let mut text = format!("{more}{} match; nothing was changed\n", preview.matched);
    for one in &preview.reasons {
        let (result, reason) = (clean(&one.result), clean(&one.reason));
        let words =
            reason_in_words(&one.reason).map_or(String::new(), |words| format!(" ({words})"));
        text.push_str(&format!(
            "of these, {} would count as {result}: {reason}{words}\n",
            one.count
        ));
    }
    let at = |at: &Option<String>| {
        at.as_deref()
            .map_or("-".to_string(), |at| instant(at, now_ms))
    };
    let are_dead = preview.sample.iter().any(|one| one.cause.is_some());
    let rows = preview.sample.iter().map(|one| {
        let key = [one.topic.clone(), one.id.clone()];
        let rest = match are_dead {
            true => vec![
                at(&one.ended_at),
                one.cause.clone().unwrap_or_default(),
                one.last_reason(),
            ],
            false => vec![at(&one.next_attempt_at)],
        };
        key.into_iter().chain(rest).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let heading: &[&str] = match are_dead {
        true => &["topic", "id", "died", "cause", "last attempt"],
        false => &["topic", "id", "next attempt"],
    };
    if !rows.is_empty() {
        text.push_str(&table(colours, heading, &rows));
    }
    text
}

/// What the reasons mean that are known before a job is made.
fn reason_in_words(reason: &str) -> Option<&'static str> {
    match reason {
        "endpoint_made_again" => Some(
            "their endpoint was removed and made again, and may belong to somebody else; they can never be replayed",
        ),
        "superseded" => {
            Some("a higher number of their order was registered, and only that one counts")
        }
        _ => None,
    }
}

impl SampleDetails {
    /// How its last attempt ended.
    fn last_reason(&self) -> String {
        let last = self.attempts.last();
        last.map_or("-".to_string(), |last| match &last.reason {
            Some(reason) => start_of(reason, LONGEST_REASON),
            None => last.outcome.clone(),
        })
    }
}

fn row(job: &JobDetails, now_ms: i64) -> Vec<String> {
    let made = job.created_at.as_deref();
    vec![
        job.state.clone(),
        job.id.clone().unwrap_or_default(),
        job.kind.clone(),
        which(job),
        job.done.to_string(),
        job.skipped.to_string(),
        job.failed.to_string(),
        job.matched.to_string(),
        job.actor.clone(),
        made.map_or("-".to_string(), |made| instant(made, now_ms)),
        given(job.reason.as_ref()),
    ]
}

/// What the job is about: its lane, or its filter.
fn which(job: &JobDetails) -> String {
    match filter(job) {
        none if none.is_empty() => given(job.lane.as_ref()),
        filter => filter,
    }
}

fn given(text: Option<&String>) -> String {
    let text = text.filter(|text| !text.is_empty());
    text.cloned().unwrap_or_else(|| "-".to_string())
}

/// The name of the state of a job, in the colour of the state.
fn state(colours: Colours, state: &str) -> String {
    let style = Style::new().bold();
    let style = match state {
        "done" => style.green(),
        "running" | "paused" => style.yellow(),
        "stopped" | "failed" => style.red(),
        _ => style,
    };
    colours.paint(&clean(state), style)
}

#[cfg(test)]
mod tests {
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
            let job = json!({ "id": "0a-1", "kind": kind, "state": "done", "done": done, "matched": done });
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
            let job = json!({ "id": "0a-1", "kind": "lane_release", "state": "done", "was_held": was_held });
            let job = serde_json::from_value(job).expect("a job");
            one(&job, Colours::never(), NOW_MS)
        };
        let expected =
            "done  0a-1\n  note           the lane was not held, so nothing has changed\n";
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
}
