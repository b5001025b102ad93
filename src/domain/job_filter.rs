//! The filter of a job that concerns notifications of many lanes: which dead letters are replayed, or which pending
//! notifications are cancelled.

use crate::domain::snapshot::Snapshot;
use crate::domain::state::Cause;
use serde::{Deserialize, Serialize};

/// Which notifications a job is about. A field that is `None` does not restrict it, so an empty filter means all.
///
/// The stored form is JSON. Equal filters have the same text, because a request that is repeated while its job has not
/// ended is found by it. A field that this version does not know is refused: without it, the job would concern more than
/// was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobFilter {
    /// Only notifications of this topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Only notifications of the lane with this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Only dead letters with this cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Only dead letters that died at or after this instant, or notifications that were registered then, in milliseconds
    /// since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_ms: Option<i64>,
    /// Only those before this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_ms: Option<i64>,
    /// Only notifications whose ids contain this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_contains: Option<String>,
}

impl JobFilter {
    /// The stored form.
    #[must_use]
    pub fn to_stored(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts and numbers are JSON")
    }

    /// Reads the stored form; `None` if it is not one.
    #[must_use]
    pub fn from_stored(stored: &str) -> Option<Self> {
        serde_json::from_str(stored).ok()
    }
}

/// The notifications of a filter. The set is fixed by `until_ms`, the instant at which the job was made: what dies, is
/// registered or is sent again later does not join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilteredSelection {
    /// The filter.
    pub filter: JobFilter,
    /// Only dead letters that died at or before this instant, in a series that began before it; or notifications that
    /// were registered at or before it, and not sent again since.
    pub until_ms: i64,
}

impl FilteredSelection {
    /// Whether this notification was registered at or before the instant, and has died by then if it is dead.
    #[must_use]
    pub fn has_stood_before(&self, found: &Snapshot) -> bool {
        let is_before = |at_ms: i64| at_ms <= self.until_ms;
        is_before(found.registered_ms) && found.ended_ms.is_none_or(is_before)
    }

    /// Whether the present series may have begun at or after the instant. `false` is certain. If it is `true`, the history
    /// says whether it has: the first attempt may have been moved meanwhile.
    ///
    /// A job begins no series at an earlier instant than its own, whatever the clock of its server says. So what it has
    /// replayed and dies again is found here even if the next server's clock is behind, and nothing is replayed twice.
    #[must_use]
    pub fn may_be_sent_again(&self, found: &Snapshot) -> bool {
        let progress = &found.progress;
        progress.series > 1 && progress.first_due_ms >= self.until_ms
    }

    /// The instants of the selection: from the first one, and before the second.
    #[must_use]
    pub fn span(&self) -> (i64, i64) {
        let end = self.until_ms.saturating_add(1);
        (
            self.filter.from_ms.unwrap_or(i64::MIN),
            self.filter.to_ms.map_or(end, |to_ms| to_ms.min(end)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_stored_as_json_without_what_it_does_not_say() {
        let check = |filter: JobFilter, stored: &str| {
            assert_eq!(filter.to_stored(), stored);
            assert_eq!(JobFilter::from_stored(stored), Some(filter));
        };
        check(JobFilter::default(), "{}");
        let whole = JobFilter {
            topic: Some("paid".into()),
            lane: Some("https://shop.example".into()),
            cause: Some(Cause::WindowClosed),
            from_ms: Some(1),
            to_ms: Some(2),
            id_contains: Some("\"x".into()),
        };
        check(
            whole,
            r#"{"topic":"paid","lane":"https://shop.example","cause":"window_closed","from_ms":1,"to_ms":2,"id_contains":"\"x"}"#,
        );
        assert_eq!(JobFilter::from_stored(r#"{"status":500}"#), None);
        assert_eq!(JobFilter::from_stored("all"), None);
    }

    #[test]
    fn a_span_ends_with_the_instant_at_which_the_job_was_made() {
        let span = |from_ms, to_ms| {
            let filter = JobFilter {
                from_ms,
                to_ms,
                ..JobFilter::default()
            };
            let until_ms = 100;
            FilteredSelection { filter, until_ms }.span()
        };
        assert_eq!(span(None, None), (i64::MIN, 101));
        assert_eq!(span(Some(5), Some(50)), (5, 50));
        assert_eq!(span(None, Some(101)), (i64::MIN, 101));
        assert_eq!(span(None, Some(1_000)), (i64::MIN, 101));
    }
}
