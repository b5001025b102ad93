//! Whose fault it is that a notification is dead. This is the one place that says so.
//!
//! | cause | last attempt | fault |
//! |---|---|---|
//! | `refused` | any | the merchant's: the receiver asked for no more calls |
//! | `blocked` | any | policy: the address may not be called |
//! | `ladder_exhausted`, `window_closed` | the receiver could not be reached, or did not answer as agreed | the merchant's |
//! | | `blocked` | policy |
//! | | `interrupted` | ours |
//! | `window_closed` | none was made | ours: nothing was sent before the window closed |
//! | `ladder_exhausted`, `window_closed` | not known | not known |

use super::attempt::Outcome;
use super::state::Cause;

/// Who has to act before a replay makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Responsibility {
    /// The merchant: their server was not there, or did not answer as agreed.
    Merchant,
    /// Us: a server stopped, or nothing was sent in time.
    Ours,
    /// Whoever decides what may be called.
    Policy,
}

impl Responsibility {
    /// Whose fault a dead letter is: by its cause, by how many attempts were made, and by the outcome of the last one if
    /// that is known. `None` if nobody can say.
    #[must_use]
    pub fn for_dead(cause: Option<Cause>, attempts: u32, last: Option<Outcome>) -> Option<Self> {
        match (cause?, last) {
            (Cause::Superseded, _) => None,
            (Cause::Blocked, _) => Some(Self::Policy),
            (Cause::Refused, _) => Some(Self::Merchant),
            (Cause::LadderExhausted | Cause::WindowClosed, Some(last)) => Self::for_attempt(last),
            (Cause::WindowClosed, None) if attempts == 0 => Some(Self::Ours),
            (Cause::LadderExhausted | Cause::WindowClosed, None) => None,
        }
    }

    /// Whose fault a failed attempt is. `None` for one that was acknowledged.
    #[must_use]
    pub fn for_attempt(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::Acknowledged => None,
            Outcome::WrongAnswer
            | Outcome::HttpStatus
            | Outcome::Timeout
            | Outcome::Connect
            | Outcome::Tls
            | Outcome::Dns
            | Outcome::Protocol => Some(Self::Merchant),
            Outcome::Blocked => Some(Self::Policy),
            Outcome::Interrupted => Some(Self::Ours),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Responsibility::{Merchant, Ours, Policy};
    use super::*;

    #[test]
    fn the_cause_and_the_last_attempt_say_whose_fault_it_is() {
        fn check(
            cause: Cause,
            attempts: u32,
            last: Option<Outcome>,
            expected: Option<Responsibility>,
        ) {
            let found = Responsibility::for_dead(Some(cause), attempts, last);
            assert_eq!(found, expected, "{cause:?} {last:?}");
        }
        for last in Outcome::ALL.iter().copied().map(Some).chain([None]) {
            check(Cause::Blocked, 1, last, Some(Policy));
            check(Cause::Refused, 1, last, Some(Merchant));
            check(Cause::Superseded, 1, last, None);
            assert_eq!(Responsibility::for_dead(None, 1, last), None);
        }
        for cause in [Cause::LadderExhausted, Cause::WindowClosed] {
            for merchants in [Outcome::HttpStatus, Outcome::Timeout, Outcome::Dns] {
                check(cause, 1, Some(merchants), Some(Merchant));
            }
            check(cause, 1, Some(Outcome::Blocked), Some(Policy));
            check(cause, 1, Some(Outcome::Interrupted), Some(Ours));
            check(cause, 1, Some(Outcome::Acknowledged), None);
            check(cause, 1, None, None);
        }
        check(Cause::WindowClosed, 0, None, Some(Ours));
        check(Cause::LadderExhausted, 0, None, None);
    }
}
