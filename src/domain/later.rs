//! What is pending and due later, by destination. It may wait in the journal alone, where the schedule does not see it.

use super::lane::Lane;

/// A notification is due later if it is due more than this after it was registered, in milliseconds. The journal has an
/// index of those. The shortest horizon is far longer, so what waits in the journal alone is among them.
pub const LATER_MS: i64 = 10_000;

/// A registration whose first attempt is due more than this after it was accepted is far ahead, in milliseconds. It is verified
/// against the journal before it is sent. So it may reach the schedule at any time, and a change by hand need not wait for it.
pub const FAR_MS: i64 = 60_000;

/// Whether a registration is far ahead ([`FAR_MS`]). Both instants as the journal has them, so that all servers get the same
/// answer.
#[must_use]
pub fn is_far(registered_ms: i64, first_due_ms: i64) -> bool {
    first_due_ms.saturating_sub(registered_ms) > FAR_MS
}

/// A destination, and from when on its notifications are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneAfter {
    /// The destination.
    pub lane: Lane,
    /// Only what is due after this instant, in milliseconds since 1970.
    pub after_ms: i64,
}

/// How many were found. Counting stops at a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaterCount {
    /// The number, or the limit.
    pub many: u64,
    /// Whether there may be more.
    pub is_at_least: bool,
}

impl LaterCount {
    /// What was counted, with this limit.
    #[must_use]
    pub fn of(many: u64, most: usize) -> Self {
        Self {
            many,
            is_at_least: usize::try_from(many).is_ok_and(|many| many >= most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_in_more_than_a_minute_is_far() {
        for (first_due_ms, expected) in [(1_000, false), (61_000, false), (61_001, true)] {
            assert_eq!(is_far(1_000, first_due_ms), expected, "{first_due_ms}");
        }
    }

    #[test]
    fn a_number_at_the_limit_is_the_least() {
        for (many, is_at_least) in [(0, false), (9, false), (10, true)] {
            assert_eq!(LaterCount::of(many, 10), LaterCount { many, is_at_least });
        }
    }
}
