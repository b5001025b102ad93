//! What the file says of one notification: the columns of CSV, and the members of JSON lines. Their names and their order stay
//! as they are; a new one is added at the end.

use super::csv;
use super::span::UtcOffset;
use crate::domain::destination::Destination;
use crate::domain::state::State;
use crate::journal::{DayAttempt, DayNotification};
use serde::Serialize;

/// The names of the columns, and of the members of a JSON line after `kind`.
pub const COLUMNS: [&str; 20] = [
    "topic",
    "id",
    "webhook_id",
    "endpoint",
    "lane",
    "url",
    "state",
    "cause",
    "discarded",
    "registered_at",
    "first_due_at",
    "deadline_at",
    "next_attempt_at",
    "ended_at",
    "series",
    "attempts_made",
    "last_outcome",
    "last_status",
    "last_started_at",
    "last_duration_ms",
];

/// A notification as the file shows it.
#[derive(Debug, Serialize)]
pub struct ExportLine<'a> {
    kind: &'static str,
    topic: &'a str,
    id: &'a str,
    webhook_id: String,
    endpoint: Option<String>,
    lane: &'a str,
    url: Option<&'a str>,
    state: &'static str,
    cause: Option<&'static str>,
    discarded: bool,
    registered_at: String,
    first_due_at: String,
    deadline_at: String,
    next_attempt_at: Option<String>,
    ended_at: Option<String>,
    series: u32,
    attempts_made: u32,
    last_outcome: Option<&'static str>,
    last_status: Option<u16>,
    last_started_at: Option<String>,
    last_duration_ms: Option<i64>,
}

impl<'a> ExportLine<'a> {
    /// The line of a notification, with times at this offset from UTC.
    pub fn of(item: &'a DayNotification, offset: UtcOffset) -> Self {
        let at = |at_ms: i64| offset.display(at_ms);
        let last = item.last_attempt;
        let last_part = |part: fn(DayAttempt) -> i64| last.map(part);
        Self {
            kind: "notification",
            topic: item.key.topic(),
            id: item.key.id(),
            webhook_id: item.webhook_id.to_string(),
            endpoint: item.lane.endpoint().map(|name| name.to_string()),
            lane: item.lane.as_str(),
            url: item
                .destination
                .as_ref()
                .map(Destination::as_str)
                .map(without_query),
            state: state_name(item.state),
            cause: item.cause.map(|cause| cause.as_str()),
            discarded: item.is_discarded,
            registered_at: at(item.registered_ms),
            first_due_at: at(item.first_due_ms),
            deadline_at: at(item.deadline_ms),
            next_attempt_at: item.next_due_ms.map(at),
            ended_at: item.ended_ms.map(at),
            series: item.series,
            attempts_made: item.attempts,
            last_outcome: last.map(|last| last.outcome.as_str()),
            last_status: last.and_then(|last| last.status),
            last_started_at: last_part(|last| last.started_ms).map(at),
            last_duration_ms: last_part(|last| last.duration_ms),
        }
    }

    /// Adds the line as CSV.
    pub fn write_csv(&self, out: &mut Vec<u8>) {
        let number = |number: Option<i64>| number.map(|number| number.to_string());
        let (series, attempts) = (self.series.to_string(), self.attempts_made.to_string());
        let (status, duration) = (
            number(self.last_status.map(i64::from)),
            number(self.last_duration_ms),
        );
        let cells: [Option<&str>; COLUMNS.len()] = [
            Some(self.topic),
            Some(self.id),
            Some(&self.webhook_id),
            self.endpoint.as_deref(),
            Some(self.lane),
            self.url,
            Some(self.state),
            self.cause,
            Some(if self.discarded { "true" } else { "false" }),
            Some(&self.registered_at),
            Some(&self.first_due_at),
            Some(&self.deadline_at),
            self.next_attempt_at.as_deref(),
            self.ended_at.as_deref(),
            Some(&series),
            Some(&attempts),
            self.last_outcome,
            status.as_deref(),
            self.last_started_at.as_deref(),
            duration.as_deref(),
        ];
        csv::write_row(out, cells.map(Option::unwrap_or_default));
    }
}

/// The state as the totals count it. The journal does not know whether an attempt is in flight.
fn state_name(state: State) -> &'static str {
    match state {
        State::Scheduled => "pending",
        State::Delivered | State::Dead | State::Cancelled => state.as_str(),
    }
}

/// A URL without its query and fragment, which may contain secrets such as tokens.
fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attempt::Outcome;
    use crate::domain::key::Key;
    use crate::domain::lane::Lane;
    use crate::domain::state::Cause;
    use crate::domain::webhook_id::WebhookId;

    fn item(id: &str, url: Option<&str>, lane: &str) -> DayNotification {
        DayNotification {
            key: Key::new("payment.succeeded", id).expect("a key"),
            webhook_id: WebhookId::from_bytes([1; 16]),
            lane: Lane::from_name(lane),
            destination: url.map(Destination::from_stored),
            state: State::Dead,
            cause: Some(Cause::WindowClosed),
            is_discarded: false,
            registered_ms: 1_795_163_400_000,
            first_due_ms: 1_795_163_401_000,
            deadline_ms: 1_795_163_402_000,
            next_due_ms: None,
            ended_ms: Some(1_795_163_403_004),
            series: 2,
            attempts: 9,
            last_attempt: Some(DayAttempt {
                outcome: Outcome::HttpStatus,
                status: Some(500),
                started_ms: 1_795_163_403_000,
                duration_ms: 4,
            }),
        }
    }

    fn csv_of(item: &DayNotification, offset: &str) -> String {
        let offset = UtcOffset::parse(offset).expect("an offset");
        let mut out = Vec::new();
        ExportLine::of(item, offset).write_csv(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn both_formats_have_the_same_columns_in_the_same_order() {
        let item = item("1", Some("https://shop.example/n"), "https://shop.example");
        let line = ExportLine::of(&item, UtcOffset::parse("Z").expect("an offset"));
        let text = serde_json::to_string(&line).expect("JSON");
        let mut rest = text
            .strip_prefix("{\"kind\":\"notification\",")
            .expect("its kind");
        for name in COLUMNS {
            let member = format!("\"{name}\":");
            let at = rest
                .find(&member)
                .unwrap_or_else(|| panic!("{name} in {rest}"));
            rest = &rest[at + member.len()..];
        }
        assert_eq!(text.matches("\":").count(), COLUMNS.len() + 1, "{text}");
    }

    #[test]
    fn a_line_says_how_it_ended() {
        let url = "https://shop.example/n?token=secret#x";
        assert_eq!(
            csv_of(&item("1", Some(url), "https://shop.example"), "+08:00"),
            "payment.succeeded,1,msg_01010101010101010101010101010101,,https://shop.example,https://shop.example/n,dead,\
             window_closed,false,2026-11-20T16:30:00.000+08:00,2026-11-20T16:30:01.000+08:00,\
             2026-11-20T16:30:02.000+08:00,,2026-11-20T16:30:03.004+08:00,2,9,http_status,500,\
             2026-11-20T16:30:03.000+08:00,4\r\n"
        );
        let pending = DayNotification {
            state: State::Scheduled,
            cause: None,
            next_due_ms: Some(1_795_163_401_000),
            ended_ms: None,
            series: 1,
            attempts: 0,
            last_attempt: None,
            ..item("2", None, "endpoint:shop-1")
        };
        assert_eq!(
            csv_of(&pending, "Z"),
            "payment.succeeded,2,msg_01010101010101010101010101010101,shop-1,endpoint:shop-1,,pending,,false,\
             2026-11-20T08:30:00.000Z,2026-11-20T08:30:01.000Z,2026-11-20T08:30:02.000Z,2026-11-20T08:30:01.000Z,,1,0,\
             ,,,\r\n"
        );
    }

    #[test]
    fn no_id_and_no_url_breaks_its_line_or_begins_a_formula() {
        let url = "https://shop.example/a\",\"b;=1+1";
        let line = csv_of(
            &item("=cmd(),\"x\"", Some(url), "https://shop.example"),
            "Z",
        );
        assert!(
            line.starts_with("payment.succeeded,\"'=cmd(),\"\"x\"\"\",msg_"),
            "{line}"
        );
        assert!(
            line.contains(",\"https://shop.example/a\"\",\"\"b;=1+1\","),
            "{line}"
        );
        let item = item("=cmd(),\"x\"\\", Some(url), "https://shop.example");
        let offset = UtcOffset::parse("Z").expect("an offset");
        let text = serde_json::to_string(&ExportLine::of(&item, offset)).expect("JSON");
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["id"], "=cmd(),\"x\"\\");
        assert_eq!(read["url"], url);
    }
}
