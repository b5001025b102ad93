//! Prints lanes for support staff: the state first, then what waits, then how the destination is doing.

use super::table::table;
use super::terminal::{Colours, clean, instant};
use owo_colors::Style;
use serde::Deserialize;

/// A lane in an answer of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LaneDetails {
    lane: String,
    endpoint: Option<String>,
    state: String,
    pending: u64,
    pending_is_at_least: bool,
    due: u64,
    in_flight: u64,
    concurrency: u64,
    concurrency_now: u64,
    rate: Option<f64>,
    oldest_due_at: Option<String>,
    failing_since: Option<String>,
    last_outcome: Option<String>,
    last_status: Option<u16>,
    last_outcome_since: Option<String>,
    held_at: Option<String>,
    held_by: Option<String>,
    held_reason: Option<String>,
    held_before: Option<HoldDetails>,
}

impl LaneDetails {
    /// By whom the lane is held, since when and why; `None` if nobody holds it.
    pub fn hold(&self, now_ms: i64) -> Option<String> {
        let by = self.held_by.as_deref()?;
        let reason = self.held_reason.as_deref().unwrap_or_default();
        Some(hold_in_words(by, self.held_at.as_deref(), reason, now_ms))
    }
}

/// A hold in an answer of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HoldDetails {
    at: Option<String>,
    by: String,
    reason: String,
}

/// A page of lanes in an answer of the API.
#[derive(Debug, Default, Deserialize)]
pub struct LanePageDetails {
    items: Vec<LaneDetails>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// The text for one lane.
pub fn one(lane: &LaneDetails, colours: Colours, now_ms: i64) -> String {
    let mut text = format!("{}  {}\n", state(colours, &lane.state), clean(&lane.lane));
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
    if let Some(before) = &lane.held_before {
        let hold = hold_in_words(&before.by, before.at.as_deref(), &before.reason, now_ms);
        line("note", format!("it was held already, {hold}"));
    }
    line("endpoint", given(&lane.endpoint));
    line("held", at(&lane.held_at));
    line("held by", given(&lane.held_by));
    line("reason", given(&lane.held_reason));
    line("failing since", at(&lane.failing_since));
    line(
        "last outcome",
        last_outcome(lane, now_ms).unwrap_or_default(),
    );
    line(
        "pending",
        format!("{}, {} of them due", pending(lane), lane.due),
    );
    line("oldest due", at(&lane.oldest_due_at));
    line(
        "in flight",
        format!(
            "{} of {} now, {} at most",
            lane.in_flight, lane.concurrency_now, lane.concurrency
        ),
    );
    let rate = lane.rate.map(|rate| format!("{rate} calls per second"));
    line("rate", rate.unwrap_or_default());
    text
}

/// The text for a page of lanes, one line for each.
pub fn list(page: &LanePageDetails, colours: Colours, now_ms: i64) -> String {
    let rows: Vec<Vec<String>> = page.items.iter().map(|lane| row(lane, now_ms)).collect();
    let heading = [
        "state",
        "lane",
        "pending",
        "due",
        "in flight",
        "oldest due",
        "why",
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

fn row(lane: &LaneDetails, now_ms: i64) -> Vec<String> {
    let oldest = lane.oldest_due_at.as_ref();
    let why = match (&lane.held_by, &lane.failing_since) {
        (Some(by), _) => match lane.held_reason.as_deref() {
            Some(reason) if !reason.is_empty() => format!("held by {by}: {reason}"),
            Some(_) | None => format!("held by {by}"),
        },
        (None, Some(since)) => format!("no answer since {}", instant(since, now_ms)),
        (None, None) => match last_outcome(lane, now_ms) {
            Some(last) if lane.last_outcome.as_deref() != Some("acknowledged") => last,
            Some(_) | None => "-".to_string(),
        },
    };
    vec![
        lane.state.clone(),
        lane.lane.clone(),
        pending(lane),
        lane.due.to_string(),
        format!("{} of {}", lane.in_flight, lane.concurrency_now),
        oldest.map_or("-".to_string(), |oldest| instant(oldest, now_ms)),
        why,
    ]
}

/// By whom a lane is or was held, since when and why.
fn hold_in_words(by: &str, at: Option<&str>, reason: &str, now_ms: i64) -> String {
    let since = at.map_or(String::new(), |at| {
        format!(" since {}", instant(at, now_ms))
    });
    let why = match reason {
        "" => String::new(),
        reason => format!(": {}", clean(reason)),
    };
    format!("by {}{since}{why}", clean(by))
}

/// How many are pending, with a mark if there may be more.
fn pending(lane: &LaneDetails) -> String {
    match lane.pending_is_at_least {
        true => format!("{}+", lane.pending),
        false => lane.pending.to_string(),
    }
}

/// How the last call ended, and since when all have ended like this.
fn last_outcome(lane: &LaneDetails, now_ms: i64) -> Option<String> {
    let outcome = clean(lane.last_outcome.as_deref()?);
    let status = lane.last_status.map(|status| format!(" {status}"));
    let since = lane.last_outcome_since.as_deref();
    let since = since.map(|since| format!(" since {}", instant(since, now_ms)));
    Some(outcome + &status.unwrap_or_default() + &since.unwrap_or_default())
}

/// The name of the state of a lane, in the colour of the state.
fn state(colours: Colours, state: &str) -> String {
    let style = Style::new().bold();
    let style = match state {
        "open" => style.green(),
        "probing" => style.yellow(),
        "held" => style.red(),
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
    fn a_held_lane_says_who_holds_it_and_why() {
        let lane = serde_json::from_value(json!({
            "lane": "https://shop.example", "endpoint": null, "state": "held", "pending": 12, "due": 3,
            "in_flight": 1, "concurrency": 16, "concurrency_now": 2, "rate": 0.5,
            "oldest_due_at": "2026-11-20T08:29:00.000Z", "failing_since": null,
            "last_outcome": "http_status", "last_status": 503, "last_outcome_since": "2026-11-20T08:28:00.000Z",
            "held_at": "2026-11-20T08:28:00.000Z", "held_by": "anna", "held_reason": "moves\u{1b}",
        }))
        .expect("a lane");
        let text = one(&lane, Colours::never(), NOW_MS);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "held  https://shop.example",
                "  held           2026-11-20T08:28:00.000Z (2m ago)",
                "  held by        anna",
                "  reason         moves\\u{1b}",
                "  last outcome   http_status 503 since 2026-11-20T08:28:00.000Z (2m ago)",
                "  pending        12, 3 of them due",
                "  oldest due     2026-11-20T08:29:00.000Z (1m ago)",
                "  in flight      1 of 2 now, 16 at most",
                "  rate           0.5 calls per second",
            ]
        );
    }

    #[test]
    fn a_lane_that_is_held_again_says_who_held_it_before() {
        let text = |reason: &str| {
            let before =
                json!({ "at": "2026-11-20T08:28:00.000Z", "by": "anna", "reason": reason });
            let lane =
                json!({ "lane": "https://a.example", "state": "held", "held_before": before });
            let lane = serde_json::from_value(lane).expect("a lane");
            one(&lane, Colours::never(), NOW_MS)
        };
        let since = "it was held already, by anna since 2026-11-20T08:28:00.000Z (2m ago)";
        let shown = text("they move");
        assert!(
            shown.contains(&format!("  note           {since}: they move\n")),
            "{shown}"
        );
        let shown = text("");
        assert!(shown.contains(&format!("{since}\n")), "{shown}");
    }

    #[test]
    fn a_page_shows_a_line_for_each_lane_and_how_to_go_on() {
        let page = serde_json::from_value(json!({
            "items": [
                { "lane": "https://a.example", "state": "held", "held_by": "anna", "held_reason": "" },
                { "lane": "https://b.example", "state": "probing",
                  "failing_since": "2026-11-20T08:29:00.000Z" },
                { "lane": "https://c.example", "state": "open", "last_outcome": "acknowledged" },
                { "lane": "https://d.example", "state": "open", "last_outcome": "wrong_answer" },
            ],
            "next_cursor": "0-lanes-7-",
        }))
        .expect("a page");
        let text = list(&page, Colours::never(), NOW_MS);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("held     https://a.example"), "{text}");
        assert!(lines[1].ends_with("held by anna"), "{text}");
        assert!(
            lines[2].ends_with("2026-11-20T08:29:00.000Z (1m ago)"),
            "{text}"
        );
        assert!(lines[3].ends_with(" -"), "{text}");
        assert!(lines[4].ends_with(" wrong_answer"), "{text}");
        assert_eq!(lines[5], "next page: --cursor '0-lanes-7-'");
        let empty = list(&LanePageDetails::default(), Colours::never(), NOW_MS);
        assert_eq!(empty, "none\n");
    }
}
