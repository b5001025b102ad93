//! Prints the timeline of a notification: what happened and what comes next. A line has at most 100 columns.
//!
//! Prints everything that the server sends. Characters of an answer that are not visible are written as
//! escapes. Escapes are highlighted if colours are on.

use super::terminal::{Colours, clean, columns, distance, start_of, width};
use super::view::{AttemptDetails, NotificationDetails, TimelineEntry};
use crate::domain::{duration, timestamp};
use owo_colors::Style;

/// Maximum number of events that are shown without `--all`.
const MOST_EVENTS: usize = 30;
/// Width of the column with the instant, including the gap after it.
const AT: usize = 26;
/// Width of the column with the event, including the gap after it.
const WHAT: usize = 14;
/// Width of the last column.
const REST: usize = 100 - AT - WHAT;
/// Maximum number of lines for one text. The reason of an attempt that a receiver has delayed takes four.
const MOST_LINES: usize = 4;
/// If an attempt started later than this after it was due, it is shown as late, in milliseconds.
const LATE_MS: i64 = 1_000;

/// One event of the timeline, ready to be printed.
struct TimelineRow {
    at: String,
    what: String,
    style: Style,
    /// The texts in the last column. The first one is in the same line as the event, the others below it.
    texts: Vec<Text>,
}

enum Text {
    Plain(String),
    Answer(String),
}

/// The timeline of a notification as text. Without `all`, only the last [`MOST_EVENTS`] events are shown.
pub fn timeline(one: &NotificationDetails, colours: Colours, now_ms: i64, all: bool) -> String {
    let mut events: Vec<TimelineRow> = if one.timeline.is_empty() {
        one.attempts.iter().map(TimelineRow::of_attempt).collect()
    } else {
        let of_line = |line: &TimelineEntry| TimelineRow::of_line(line, &one.attempts);
        one.timeline.iter().map(of_line).collect()
    };
    if events.is_empty() {
        // The lines above the timeline show what comes next.
        return String::new();
    }
    let mut text = String::new();
    let hidden = if all {
        0
    } else {
        events.len().saturating_sub(MOST_EVENTS)
    };
    events.drain(..hidden);
    let not_sent = first_number(&one.attempts).saturating_sub(1);
    if hidden > 0 {
        let note = format!("... {hidden} earlier lines; --all shows them\n");
        text.push_str(&colours.faint(&note));
    } else if not_sent > 0 {
        let note = format!("... {not_sent} earlier attempts that the server does not show\n");
        text.push_str(&colours.faint(&note));
    }
    events.extend(ahead(one, now_ms));
    for event in &events {
        event.write(&mut text, colours);
    }
    text
}

fn first_number(attempts: &[AttemptDetails]) -> u32 {
    attempts.first().map_or(0, |attempt| attempt.number)
}

/// The events in the future: the next attempt and the deadline.
fn ahead(one: &NotificationDetails, now_ms: i64) -> Vec<TimelineRow> {
    let faint = Style::new().dimmed();
    let event = |at: &Option<String>, what: &str| {
        let at = at.as_deref()?;
        let away = timestamp::parse_ms(at).ok()?.saturating_sub(now_ms);
        Some(TimelineRow {
            at: at.to_string(),
            what: what.to_string(),
            style: faint,
            texts: vec![Text::Plain(distance(away))],
        })
    };
    if one.ended_at.is_some() || one.set_aside.is_some() {
        return Vec::new();
    }
    let in_flight = one.state == "in_flight";
    let next = if in_flight {
        "in flight"
    } else {
        "next attempt"
    };
    let events = [
        event(&one.next_attempt_at, next).map(|event| match in_flight {
            // The API shows the start of an attempt only after the attempt has ended.
            true => event.saying("due "),
            false => event,
        }),
        event(&one.deadline_at, "deadline"),
    ];
    events.into_iter().flatten().collect()
}

impl TimelineRow {
    /// Puts words in front of the first text.
    fn saying(mut self, words: &str) -> Self {
        if let Some(Text::Plain(text)) = self.texts.first_mut() {
            text.insert_str(0, words);
        }
        self
    }

    fn of_line(line: &TimelineEntry, attempts: &[AttemptDetails]) -> Self {
        if let Some(attempt) = line.index.and_then(|index| attempts.get(index)) {
            return Self::of_attempt(attempt);
        }
        let bold = Style::new().bold();
        let style = match line.kind.as_str() {
            "delivered" => bold.green(),
            "parked" => bold.red(),
            "cancelled" | "discarded" => bold,
            "replayed" | "resent" | "retried" | "rescheduled" | "restored" | "set_aside" => {
                bold.cyan()
            }
            _ => Style::new(),
        };
        let detail = line.detail.as_deref().unwrap_or_default();
        // The actor `dispatcher` is left out, because most events are its own.
        let texts = match (line.actor.as_str(), detail) {
            ("" | "dispatcher", detail) => vec![Text::Plain(detail.to_string())],
            (actor, "") => vec![Text::Plain(format!("by {actor}"))],
            (actor, detail) => vec![Text::Plain(format!("by {actor}: {detail}"))],
        };
        Self {
            at: line.at.clone(),
            what: line.kind.clone(),
            style,
            texts,
        }
    }

    fn of_attempt(attempt: &AttemptDetails) -> Self {
        let bold = Style::new().bold();
        let style = match attempt.outcome.as_str() {
            "acknowledged" => bold.green(),
            "interrupted" => bold.magenta(),
            _ => bold.yellow(),
        };
        let mut facts = vec![attempt.outcome.clone()];
        facts.extend(attempt.status.map(|status| status.to_string()));
        match attempt.duration_ms {
            // No outcome was recorded, so the duration is not known.
            0 if attempt.outcome == "interrupted" => {}
            0 => facts.push("in <1ms".to_string()),
            took_ms => facts.push(format!("in {}", duration::display_ms(took_ms))),
        }
        let ms = |text: &str| timestamp::parse_ms(text).ok();
        if let (Some(due), Some(started)) = (ms(&attempt.due_at), ms(&attempt.started_at))
            && started.saturating_sub(due) > LATE_MS
        {
            let late_ms = started.saturating_sub(due) / 1_000 * 1_000;
            facts.push(format!("({} late)", duration::display_long_ms(late_ms)));
        }
        if attempt.series > 1 {
            facts.push(format!("series {}", attempt.series));
        }
        let mut texts = vec![Text::Plain(facts.join(" "))];
        texts.extend(deferral_of(attempt).map(Text::Plain));
        texts.extend(attempt.answer.clone().map(Text::Answer));
        texts.extend(attempt.reason.clone().map(Text::Plain));
        if attempt.outcome != "acknowledged" {
            texts.extend(call_of(attempt).map(Text::Plain));
        }
        Self {
            at: attempt.started_at.clone(),
            what: format!("attempt {}", attempt.number),
            style,
            texts,
        }
    }

    fn write(&self, text: &mut String, colours: Colours) {
        let at = start_of(&clean(&self.at), AT - 2);
        let what = start_of(&clean(&self.what), WHAT - 2);
        let mut head = format!(
            "{}{}",
            colours.faint(&format!("{at:AT$}")),
            colours.paint(&format!("{what:WHAT$}"), self.style)
        );
        for shown in self.texts.iter().flat_map(|text| text.lines(colours)) {
            text.push_str(format!("{head}{shown}").trim_end());
            text.push('\n');
            head = " ".repeat(AT + WHAT);
        }
    }
}

/// The text for one attempt that belongs to no history.
pub fn attempt_text(attempt: &AttemptDetails, colours: Colours) -> String {
    let mut text = String::new();
    TimelineRow::of_attempt(attempt).write(&mut text, colours);
    text
}

/// For how long an attempt was deferred, and why.
fn deferral_of(attempt: &AttemptDetails) -> Option<String> {
    let (ms, by) = (attempt.deferred_ms?, attempt.deferred_by.as_deref()?);
    let why = match by {
        "held" => "its lane was held",
        "probing" => "the destination answered no call, and was only probed",
        "rate" => "the rate of its lane allowed no more calls",
        "concurrency" => {
            "its lane had as many calls in flight as it may, or the attempt before had not ended"
        }
        "busy" => "Ringback had no capacity left for it",
        "proxy" => "the proxy of a server failed",
        "keys" => "a signing key of the endpoint could not be opened",
        "order" => "another notification of its order came first",
        other => other,
    };
    let shown_ms = if ms < 1_000 { ms } else { ms / 1_000 * 1_000 };
    Some(format!(
        "deferred for {}: {why}",
        duration::display_long_ms(shown_ms)
    ))
}

/// How the call of an attempt went on the network: address, connection, TLS, HTTP, and the time of each phase.
fn call_of(attempt: &AttemptDetails) -> Option<String> {
    let mut facts = Vec::new();
    if let Some(address) = &attempt.address {
        facts.push(match &attempt.connection {
            Some(connection) => format!("to {address} over a {connection} connection"),
            None => format!("to {address}, without a connection"),
        });
    }
    facts.extend(attempt.tls.as_ref().map(|version| format!("TLS {version}")));
    facts.extend((attempt.http.as_ref()).map(|version| format!("HTTP/{version}")));
    let phases = attempt.phases.as_ref();
    let times = phases.map(|phases| {
        [
            ("dns", phases.dns_ms),
            ("connect", phases.connect_ms),
            ("handshake", phases.tls_ms),
            ("answer", phases.first_byte_ms),
            ("body", phases.body_ms),
        ]
    });
    for (name, ms) in times.into_iter().flatten() {
        facts.extend(ms.map(|ms| format!("{name} {ms:.1}ms")));
    }
    facts.extend(
        (attempt.endpoint_version).map(|version| format!("version {version} of the endpoint")),
    );
    let keys = attempt.key_ids.as_deref().unwrap_or_default();
    let is_sent = phases.is_none_or(|phases| phases.first_byte_ms.is_some());
    if is_sent && attempt.outcome != "blocked" && !keys.is_empty() {
        facts.push(format!("signed with {}", keys.join(" and ")));
    }
    (!facts.is_empty()).then(|| facts.join(", "))
}

impl Text {
    fn lines(&self, colours: Colours) -> Vec<String> {
        match self {
            Self::Plain(text) => wrap(&clean(text)),
            Self::Answer(answer) if answer.is_empty() => {
                vec![colours.faint("(an empty answer)")]
            }
            Self::Answer(answer) => {
                let shown = start_of(&clean(answer), REST - 2);
                vec![format!("`{}`", highlight(&shown, colours))]
            }
        }
    }
}

/// Breaks a text into lines at its spaces. A word that is too long for a line is broken too.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("invariant: there is a last line");
        let mut left = REST.saturating_sub(columns(line));
        if line.is_empty() || columns(word) < left {
            if !line.is_empty() {
                line.push(' ');
                left -= 1;
            }
        } else {
            lines.push(String::new());
            left = REST;
        }
        for character in word.chars() {
            if width(character) > left {
                lines.push(String::new());
                left = REST;
            }
            left -= width(character);
            let line = lines.last_mut().expect("invariant: there is a last line");
            line.push(character);
        }
        if lines.len() > MOST_LINES {
            lines.truncate(MOST_LINES);
            let last = lines.last_mut().expect("invariant: there is a last line");
            *last = format!("{}...", start_of(last, REST - 3).trim_end_matches('.'));
            break;
        }
    }
    lines
}

/// Highlights the escapes in an answer.
fn highlight(shown: &str, colours: Colours) -> String {
    let style = Style::new().black().on_yellow();
    let mut text = String::new();
    let mut rest = shown;
    while let Some(position) = rest.find('\\') {
        text.push_str(&rest[..position]);
        let escape = escape_at(&rest[position..]);
        text.push_str(&colours.paint(escape, style));
        rest = &rest[position + escape.len()..];
    }
    text.push_str(rest);
    text
}

/// The escape at the start of a text: `\u{feff}`, `\xff`, `\n`.
fn escape_at(text: &str) -> &str {
    let end = match text.as_bytes().get(1) {
        Some(b'u') => text.find('}').map_or(text.len(), |end| end + 1),
        Some(b'x') => 4,
        _ => 2,
    };
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests;
