//! What a receiver may ask for with its answer: a longer wait (`Retry-After`), or no more calls (410).
//!
//! The specification of Standard Webhooks says that senders follow both. Other providers document neither: for
//! Alipay a 410 is a failed attempt like any other, and its merchants rely on the published times. So the name
//! `standard-webhooks` decides ([`FollowedRequests::of`]): that of the ladder for `Retry-After`, because a wait
//! changes the times of the ladder; that of the ladder or the ack rule for 410, because either says that the
//! receiver goes by the specification.

use crate::domain::ack::AckRule;
use crate::domain::attempt_reason::{AskedWait, RequestReason};
use crate::domain::ladder::Ladder;
use crate::domain::retry_after::RetryAfter;
use crate::domain::state::named;
use crate::domain::timestamp;

/// The name of the ladder and of the ack rule that follow Standard Webhooks.
const STANDARD_WEBHOOKS: &str = "standard-webhooks";
/// The statuses whose `Retry-After` counts: too many requests, and service unavailable.
pub const WAIT_STATUSES: [u16; 2] = [429, 503];

/// Which requests of a receiver are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowedRequests {
    /// Whether `Retry-After` of a 429 or 503 may delay the next attempt.
    pub retry_after: bool,
    /// Whether a 410 ends the notification.
    pub gone: bool,
}

impl FollowedRequests {
    /// What is followed by default for a notification with this ladder and ack rule.
    #[must_use]
    pub fn of(ladder: &Ladder, ack: &AckRule) -> Self {
        let by_ladder = ladder.name() == Some(STANDARD_WEBHOOKS);
        Self {
            retry_after: by_ladder,
            gone: by_ladder || ack.name() == Some(STANDARD_WEBHOOKS),
        }
    }
}

/// What an endpoint does when its receiver answers 410.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GonePolicy {
    /// The notification ends.
    Park,
    /// The notification ends, and the lane of the endpoint is held until somebody releases it.
    Hold,
}

named!(GonePolicy {
    Park = "park",
    Hold = "hold",
});

/// A request of a receiver, and what it changed. The reason of the attempt contains it in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEffect {
    /// A 410 ended the notification.
    Stopped,
    /// A 410 counted as a failed attempt.
    NotStopped,
    /// `Retry-After` asked for a wait.
    Wait {
        /// What the receiver asked for.
        asked: RetryAfter,
        /// What that changed.
        effect: WaitEffect,
    },
}

/// What a `Retry-After` changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEffect {
    /// The next attempt was moved.
    Moved {
        /// When it would have been due, in milliseconds since 1970.
        from_ms: i64,
        /// When it is due.
        to_ms: i64,
        /// Whether the receiver asked for longer, and the window does not last until then.
        to_deadline: bool,
    },
    /// Nothing: the next attempt is not due before then anyway.
    NotEarlier,
    /// Nothing: the next attempt is at the end of the window already.
    AtTheEnd,
    /// Nothing: no attempt follows.
    NoneLeft,
    /// Nothing: the header cannot be used.
    Unusable,
    /// Nothing: it is not followed.
    NotFollowed,
}

impl RequestEffect {
    /// What the receiver asked for, and what follows from it. The text continues the reason of the attempt.
    #[must_use]
    pub fn in_words(self) -> String {
        self.reason().to_string()
    }

    fn reason(self) -> RequestReason {
        let (asked, effect) = match self {
            Self::Stopped => return RequestReason::Stopped,
            Self::NotStopped => return RequestReason::NotStopped,
            Self::Wait { asked, effect } => (asked, effect),
        };
        let asks = match asked {
            RetryAfter::Seconds(_) => AskedWait::For {
                long: asked.shown(),
            },
            RetryAfter::Date(_) => AskedWait::Until { at: asked.shown() },
            RetryAfter::Unusable => AskedWait::Unclear,
        };
        match effect {
            WaitEffect::Moved {
                from_ms,
                to_ms,
                to_deadline,
            } => {
                let [from, to] = [from_ms, to_ms].map(timestamp::display_ms);
                match to_deadline {
                    true => RequestReason::MovedToDeadline { asks, to, from },
                    false => RequestReason::Moved { asks, to, from },
                }
            }
            WaitEffect::NotEarlier => RequestReason::NotEarlier { asks },
            WaitEffect::AtTheEnd => RequestReason::AtTheEnd { asks },
            WaitEffect::NoneLeft => RequestReason::NoneLeft { asks },
            WaitEffect::Unusable => RequestReason::Unusable,
            WaitEffect::NotFollowed => RequestReason::NotFollowed { asks },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ack;
    use crate::domain::ladder;

    #[test]
    fn only_standard_webhooks_is_followed_by_default() {
        for (ladder, _) in ladder::named::all() {
            for rule in ack::named::all() {
                let followed = FollowedRequests::of(ladder, &rule.rule);
                let by_ladder = ladder.name() == Some("standard-webhooks");
                let by_rule = rule.rule.name() == Some("standard-webhooks");
                let names = (ladder.name(), rule.rule.name());
                assert_eq!(followed.retry_after, by_ladder, "{names:?}");
                assert_eq!(followed.gone, by_ladder || by_rule, "{names:?}");
            }
        }
    }

    #[test]
    fn a_request_and_its_effect_are_said_in_words() {
        fn check(effect: RequestEffect, expected: &str) {
            assert_eq!(effect.in_words(), expected);
        }
        let wait = |asked, effect| RequestEffect::Wait { asked, effect };
        let hour = RetryAfter::Seconds(3_600);
        let moved = |to_deadline| WaitEffect::Moved {
            from_ms: 1_795_163_405_000,
            to_ms: 1_795_167_000_000,
            to_deadline,
        };
        check(
            RequestEffect::Stopped,
            ": the receiver asks for no more calls",
        );
        check(
            RequestEffect::NotStopped,
            ", which counts like any other failure here",
        );
        check(
            wait(hour, moved(false)),
            "; the receiver asks to wait 1h (Retry-After), so the next attempt is at 2026-11-20T09:30:00.000Z and \
             not at 2026-11-20T08:30:05.000Z",
        );
        check(
            wait(RetryAfter::Date(1_795_170_600), moved(true)),
            "; the receiver asks to wait until 2026-11-20T10:30:00.000Z (Retry-After), so the next attempt is at \
             2026-11-20T09:30:00.000Z, when the window closes, and not at 2026-11-20T08:30:05.000Z",
        );
        check(
            wait(hour, WaitEffect::NotEarlier),
            "; the receiver asks to wait 1h (Retry-After), and the next attempt is not before that anyway",
        );
        check(
            wait(hour, WaitEffect::AtTheEnd),
            "; the receiver asks to wait 1h (Retry-After), but the window closes when the next attempt is due",
        );
        check(
            wait(hour, WaitEffect::NoneLeft),
            "; the receiver asks to wait 1h (Retry-After), but no attempt is left",
        );
        check(
            wait(RetryAfter::Unusable, WaitEffect::Unusable),
            "; its Retry-After is not one number of seconds or one HTTP date within 60 days, so it changes nothing",
        );
        check(
            wait(hour, WaitEffect::NotFollowed),
            "; the receiver asks to wait 1h (Retry-After), which is not followed here",
        );
    }
}
