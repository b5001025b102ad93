//! What each notification of a run is like: how it is registered, how the receiver answers it, what
//! its owner and support staff do later. Follows from the seed and the number alone, so callers, receiver and the
//! final account agree without talking to each other.

use crate::support::chance::Chance;
use serde_json::{Value, json};
use std::ops::Range;
use std::time::Duration;

/// The topic of nearly all.
pub const TOPIC: &str = "t";
/// The topic of those that are due long after the run: they have to be pending at its end.
pub const LATER: &str = "later";
/// The topic of those that are due as late, and of which support staff want an attempt now. If that fails,
/// since the machine is too slow for its time limit, the next one is due as late.
pub const BY_HAND: &str = "by-hand";

/// A delay that no run outlasts: what is due then waits in the journal alone, in every run.
const MUCH_LATER: Duration = Duration::from_secs(3_600);
/// Delays a little longer than the horizon of the servers, in milliseconds: what is due then is loaded from the journal about a minute
/// after its registration.
const PAST_HORIZON_MS: Range<u64> = 122_000..150_000;

/// The ladder of what is acknowledged sooner or later. Longer than outages and slow machines need,
/// and with a window that none of them closes, so that every run ends alike.
const PATIENT: [&str; 9] = [
    "200ms", "300ms", "500ms", "1s", "1s", "2s", "5s", "5s", "10s",
];
/// The ladder of what is parked: three attempts a series.
const SHORT: [&str; 2] = ["150ms", "250ms"];
/// How many attempts a series of what is parked has.
pub const ATTEMPTS_A_SERIES: u64 = SHORT.len() as u64 + 1;

/// A change by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// Its owner calls it off.
    Cancel,
    /// Its owner calls it off at another server than the one that accepted it, where there is one.
    CancelElsewhere,
    /// Its owner has it sent soon, and not when it was due.
    Move,
    /// Support staff want an attempt now.
    Retry,
    /// Support staff have a dead letter begin anew.
    Replay,
    /// Support staff give a dead letter up.
    Discard,
}

/// What the receiver says to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// How long it takes.
    pub after: Duration,
    /// The status.
    pub status: u16,
    /// The body.
    pub body: &'static str,
}

impl Reply {
    /// Whether this acknowledges.
    pub fn is_success(&self) -> bool {
        self.status == 200 && self.body == "success"
    }
}

/// One notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its number: 0, 1, ...
    pub number: u32,
    /// Its topic.
    pub topic: &'static str,
    /// Which attempt is the first to be acknowledged; `None` if none ever is.
    pub success_from: Option<u32>,
    /// Whether its ladder is so short that it is parked.
    pub is_parked: bool,
    /// How long after its registration it is due.
    pub delay: Duration,
    /// Likewise, in runs that last long enough for the schedule to load it from the journal, if it is other than that.
    past_horizon: Option<Duration>,
    /// How long the receiver takes.
    slow: Duration,
    /// What is done to it by hand, and how long after its registration was answered that is first tried.
    pub change: Option<(Change, Duration)>,
    /// Its caller asks once and goes away if the answer is no 2xx, in runs where callers may.
    pub is_impatient: bool,
}

impl Plan {
    /// The plan of a number.
    pub fn of(seed: u64, number: u32) -> Self {
        let mut chance = Chance::of_one(seed, number.into());
        let plain = Self {
            number,
            topic: TOPIC,
            success_from: Some(1),
            is_parked: false,
            delay: Duration::ZERO,
            past_horizon: None,
            slow: Duration::ZERO,
            change: None,
            is_impatient: false,
        };
        let soon = |chance: &mut Chance| chance.millis(0..1_500);
        match chance.below(100) {
            0..32 => plain,
            32..35 => Self {
                past_horizon: Some(chance.millis(PAST_HORIZON_MS)),
                ..plain
            },
            // It goes from the journal into the schedule.
            35..38 => Self {
                delay: MUCH_LATER,
                change: Some((Change::Move, soon(&mut chance))),
                ..plain
            },
            // Due a little later: waiting in the schedule when things are killed.
            38..50 => Self {
                delay: chance.millis(50..2_000),
                ..plain
            },
            50..60 => Self {
                success_from: Some(if chance.percent(50) { 2 } else { 4 }),
                ..plain
            },
            // In flight when things are killed.
            60..69 => Self {
                slow: chance.millis(20..500),
                ..plain
            },
            69..77 => Self {
                is_parked: true,
                // The second attempt of a second series.
                success_from: chance.percent(30).then_some(5),
                ..plain
            }
            .with_staff(&mut chance),
            77..84 => Self {
                delay: chance.millis(100..1_500),
                change: Some((Change::Cancel, soon(&mut chance))),
                ..plain
            },
            84..91 => Self {
                delay: chance.millis(0..400),
                change: Some((Change::CancelElsewhere, Duration::ZERO)),
                ..plain
            },
            91..94 => Self {
                topic: LATER,
                delay: MUCH_LATER,
                change: (chance.percent(50)).then(|| (Change::Cancel, soon(&mut chance))),
                ..plain
            },
            94..97 => Self {
                topic: BY_HAND,
                delay: MUCH_LATER,
                change: Some((Change::Retry, soon(&mut chance))),
                ..plain
            },
            _ => Self {
                is_impatient: true,
                ..plain
            },
        }
    }

    /// The same in a run that lasts long enough for the schedule to load it from the journal.
    pub fn in_long_run(self) -> Self {
        Self {
            delay: self.past_horizon.unwrap_or(self.delay),
            ..self
        }
    }

    /// What support staff do to one that is parked. What a second series brings through is replayed.
    fn with_staff(self, chance: &mut Chance) -> Self {
        let change = match (self.success_from, chance.below(3)) {
            (Some(_), _) | (None, 0) => Some(Change::Replay),
            (None, 1) => Some(Change::Discard),
            (None, _) => None,
        };
        let after = chance.millis(300..1_500);
        Self {
            change: change.map(|change| (change, after)),
            ..self
        }
    }

    /// The id within its topic.
    pub fn id(&self) -> String {
        format!("n{}", self.number)
    }

    /// The number of an id.
    pub fn number_of(id: &str) -> Option<u32> {
        id.strip_prefix('n')?.parse().ok()
    }

    /// Its registration, to one of the receiver's origins.
    pub fn registration(&self, origins: &[String]) -> Value {
        let origin = &origins[self.number as usize % origins.len()];
        let intervals: &[&str] = if self.is_parked { &SHORT } else { &PATIENT };
        json!({
            "topic": self.topic,
            "id": self.id(),
            "url": format!("{origin}/{}", self.id()),
            "body": format!("number={}&{}", self.number, "x".repeat(200)),
            "delay": format!("{}ms", self.delay.as_millis()),
            "ladder": { "intervals": intervals, "window": "1h" },
        })
    }

    /// What the receiver says to an attempt.
    pub fn reply(&self, attempt: u32) -> Reply {
        let (status, body) = match self.success_from {
            Some(first) if attempt >= first => (200, "success"),
            _ => match (self.number + attempt) % 3 {
                0 => (500, "success"),
                1 => (200, "fail"),
                _ => (503, ""),
            },
        };
        Reply {
            after: self.slow,
            status,
            body,
        }
    }
}

#[test]
fn a_number_and_a_seed_make_a_plan() {
    let plans = |seed| -> Vec<Plan> { (0..500).map(|number| Plan::of(seed, number)).collect() };
    assert_eq!(plans(1), plans(1));
    assert_ne!(plans(1), plans(2));
    let some = |wish: fn(&Plan) -> bool| plans(1).iter().filter(|plan| wish(plan)).count();
    assert!(some(|plan| plan.is_parked && plan.change.is_none()) > 5);
    for change in [
        Change::Cancel,
        Change::CancelElsewhere,
        Change::Move,
        Change::Retry,
        Change::Replay,
        Change::Discard,
    ] {
        let plans = plans(1).into_iter();
        let such = plans.filter(|plan| plan.change.is_some_and(|(other, _)| other == change));
        assert!(such.count() > 5, "{change:?}");
    }
    assert!(some(|plan| plan.is_impatient) > 5);
    assert!(some(|plan| plan.past_horizon.is_some()) > 5);
    assert!(some(|plan| plan.delay != plan.clone().in_long_run().delay) > 5);
    assert!(some(|plan| plan.reply(1).after > Duration::ZERO) > 5);
    assert!(some(|plan| plan.reply(1).is_success()) > 250);
}
