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
    warning: Option<String>,
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
    warning: Option<String>,
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

    /// The destination that it names: its own, or that of its filter.
    fn destination(&self) -> Option<&str> {
        let of_filter = || Some(self.filter.as_ref()?.get("lane")?.as_str());
        self.lane.as_deref().or_else(of_filter)
    }

    /// Who holds the destination to which it makes calls, and the command that releases it; `None` if the answer does not say.
    pub fn hold(&self) -> Option<String> {
        let (warning, lane) = (self.warning.as_deref()?, self.destination()?);
        Some(format!(
            "{}; `ringback lane release {}` releases it",
            clean(warning),
            clean(lane)
        ))
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
    if let (Some(warning), Some(lane)) = (&job.warning, job.destination()) {
        line("note", clean(warning));
        line(
            "to release it",
            format!("ringback lane release {}", clean(lane)),
        );
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
    if let Some(warning) = &preview.warning {
        text.push_str(&format!("note: {}\n", clean(warning)));
    }
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
mod tests;
