//! The totals of a file, and whether they add up.

use super::span::DaySpan;
use crate::cli::audit::{counts_as_json, counts_in_words};
use crate::domain::state::State;
use crate::journal::{DayNotification, JournalCounts};
use crate::maintenance::audit::balanced;
use serde_json::{Value, json};

/// What the file is about.
pub struct ExportSubject {
    /// The day.
    pub span: DaySpan,
    /// The topic, if it is of one alone.
    pub topic: Option<String>,
    /// The endpoint, if it is of one alone.
    pub endpoint: Option<String>,
    /// As of when everything was read, in milliseconds since 1970.
    pub as_of_ms: i64,
    /// What may be missing, as a sentence; `None` if nothing can be.
    pub lacks: Option<String>,
}

/// The totals of a file.
pub struct ExportTotals {
    /// The numbers of the lines in the file, by state.
    written: JournalCounts,
    /// How many of the cancelled ones were discarded as dead letters.
    discarded: u64,
    /// How many are not in the file, because the journal cannot read them.
    unreadable: u64,
    /// What the journal counts.
    journal: JournalCounts,
}

impl ExportTotals {
    /// The totals of an empty file.
    pub fn new(journal: JournalCounts) -> Self {
        Self {
            written: JournalCounts::default(),
            discarded: 0,
            unreadable: 0,
            journal,
        }
    }

    /// Counts a notification that is written.
    pub fn count(&mut self, item: &DayNotification) {
        let written = &mut self.written;
        written.registered += 1;
        match item.state {
            State::Scheduled => written.scheduled += 1,
            State::Delivered => written.delivered += 1,
            State::Dead => written.dead += 1,
            State::Cancelled => written.cancelled += 1,
        }
        self.discarded += u64::from(item.is_discarded);
    }

    /// Counts a notification that cannot be read. Returns how many they are now.
    pub fn count_unreadable(&mut self) -> u64 {
        self.unreadable += 1;
        self.unreadable
    }

    /// How many were written.
    pub fn written(&self) -> u64 {
        self.written.registered
    }

    /// Whether the file has everything that the journal counts, and the numbers by state come to the same sum.
    pub fn add_up(&self) -> bool {
        self.unreadable == 0 && balanced(&self.written) && self.written == self.journal
    }

    /// What does not add up, as a sentence.
    pub fn difference(&self) -> String {
        let unreadable = match self.unreadable {
            0 => String::new(),
            many => format!("; {many} cannot be read"),
        };
        format!(
            "the totals do not add up: written were {}, and the journal counts {}{unreadable}",
            counts_in_words(&self.written),
            counts_in_words(&self.journal)
        )
    }

    /// The totals as one JSON object.
    pub fn as_json(&self, subject: &ExportSubject) -> Value {
        let (span, offset) = (&subject.span, subject.span.offset());
        let mut totals = json!({
            "kind": "totals",
            "day": span.to_string(),
            "utc_offset": offset.to_string(),
            "from": offset.display(span.from_ms),
            "to": offset.display(span.until_ms),
            "topic": subject.topic,
            "endpoint": subject.endpoint,
            "as_of": offset.display(subject.as_of_ms),
            "discarded": self.discarded,
            "unreadable": self.unreadable,
            "journal": counts_as_json(&self.journal),
            "adds_up": self.add_up(),
            "whole": subject.lacks.is_none() && self.add_up(),
            "lacks": subject.lacks,
        });
        if let (Value::Object(all), Value::Object(written)) =
            (&mut totals, counts_as_json(&self.written))
        {
            all.extend(written);
        }
        totals
    }

    /// The totals in words, a line each.
    pub fn as_text(&self, subject: &ExportSubject) -> String {
        let offset = subject.span.offset();
        let mut text = format!(
            "{} (UTC{offset}), as of {}: {}\n",
            subject.span,
            offset.display(subject.as_of_ms),
            counts_in_words(&self.written)
        );
        if self.discarded > 0 {
            text.push_str(&format!(
                "of the cancelled, {} were dead letters that somebody discarded\n",
                self.discarded
            ));
        }
        if let Some(lacks) = &subject.lacks {
            text.push_str(&format!("not the whole day: {lacks}\n"));
        }
        if self.add_up() {
            text.push_str("the journal counts the same\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::span::UtcOffset;
    use super::*;

    fn counts(registered: u64, scheduled: u64, delivered: u64) -> JournalCounts {
        JournalCounts {
            registered,
            scheduled,
            delivered,
            dead: 0,
            cancelled: 0,
        }
    }

    fn totals(written: JournalCounts, unreadable: u64, journal: JournalCounts) -> ExportTotals {
        ExportTotals {
            written,
            discarded: 0,
            unreadable,
            journal,
        }
    }

    #[test]
    fn totals_add_up_only_if_all_of_them_are_the_same() {
        fn check(written: JournalCounts, unreadable: u64, journal: JournalCounts, expected: bool) {
            let totals = totals(written, unreadable, journal);
            assert_eq!(
                totals.add_up(),
                expected,
                "{written:?} {unreadable} {journal:?}"
            );
        }
        check(counts(0, 0, 0), 0, counts(0, 0, 0), true);
        check(counts(3, 1, 2), 0, counts(3, 1, 2), true);
        check(counts(3, 1, 2), 0, counts(3, 2, 1), false);
        check(counts(2, 0, 2), 1, counts(3, 1, 2), false);
        check(counts(3, 1, 2), 1, counts(3, 1, 2), false);
        // A notification that has no state.
        check(counts(3, 1, 1), 0, counts(3, 1, 1), false);
    }

    #[test]
    fn they_are_told_in_words_and_as_one_object() {
        let offset = UtcOffset::parse("+08:00").expect("an offset");
        let span = DaySpan::parse("2026-11-20", offset, 0).expect("a day");
        let subject = |lacks: Option<&str>| ExportSubject {
            span,
            topic: None,
            endpoint: Some("shop-1".to_string()),
            as_of_ms: 1_795_163_400_000,
            lacks: lacks.map(str::to_string),
        };
        let same = totals(counts(3, 1, 2), 0, counts(3, 1, 2));
        assert_eq!(
            same.as_text(&subject(None)),
            "2026-11-20 (UTC+08:00), as of 2026-11-20T16:30:00.000+08:00: registered 3 = delivered 2 + dead 0 + \
             cancelled 0 + pending 1\nthe journal counts the same\n"
        );
        let document = same.as_json(&subject(None));
        assert_eq!(document["from"], "2026-11-20T00:00:00.000+08:00");
        assert_eq!(document["to"], "2026-11-21T00:00:00.000+08:00");
        assert_eq!(document["pending"], 1);
        assert_eq!(document["journal"]["pending"], 1);
        assert_eq!(
            (&document["adds_up"], &document["whole"]),
            (&json!(true), &json!(true))
        );
        let part = same.as_json(&subject(Some("it is not over")));
        assert_eq!(
            (&part["adds_up"], &part["whole"]),
            (&json!(true), &json!(false))
        );
        assert_eq!(part["lacks"], "it is not over");
        let other = totals(counts(2, 0, 2), 1, counts(3, 1, 2));
        assert_eq!(
            other.difference(),
            "the totals do not add up: written were registered 2 = delivered 2 + dead 0 + cancelled 0 + pending 0, and the \
             journal counts registered 3 = delivered 2 + dead 0 + cancelled 0 + pending 1; 1 cannot be read"
        );
        assert_eq!(other.as_json(&subject(None))["whole"], false);
    }
}
