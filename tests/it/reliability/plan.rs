//! What each notification of a run is like: how it is registered, how the receiver answers it, what
//! its owner does later. Follows from the seed and the number alone, so callers, receiver and the
//! final account agree without talking to each other.

use crate::support::chance::Chance;
use serde_json::{Value, json};
use std::time::Duration;

/// The topic of nearly all.
pub const TOPIC: &str = "t";
/// The topic of those that are due long after the run: they have to be pending at its end.
pub const LATER: &str = "later";

/// The ladder of what is acknowledged sooner or later. Longer than outages and slow machines need,
/// and with a window that none of them closes, so that every run ends alike.
const PATIENT: [&str; 9] = [
    "200ms", "300ms", "500ms", "1s", "1s", "2s", "5s", "5s", "10s",
];
/// The ladder of what is never acknowledged: three attempts.
const SHORT: [&str; 2] = ["150ms", "250ms"];

/// How many attempts one that is never acknowledged gets.
pub const ATTEMPTS_OF_THE_DEAD: u64 = SHORT.len() as u64 + 1;

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
    /// How long after its registration it is due.
    pub delay: Duration,
    /// How long the receiver takes.
    slow: Duration,
    /// How long after its registration was answered its owner cancels it, if at all.
    pub cancelled_after: Option<Duration>,
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
            delay: Duration::ZERO,
            slow: Duration::ZERO,
            cancelled_after: None,
            is_impatient: false,
        };
        match chance.below(100) {
            0..45 => plain,
            // Due a little later: waiting in the schedule when things are killed.
            45..60 => Self {
                delay: chance.millis(50..2_000),
                ..plain
            },
            60..72 => Self {
                success_from: Some(if chance.percent(50) { 2 } else { 4 }),
                ..plain
            },
            // Under way when things are killed.
            72..82 => Self {
                slow: chance.millis(20..500),
                ..plain
            },
            82..87 => Self {
                success_from: None,
                ..plain
            },
            87..94 => Self {
                delay: chance.millis(100..1_500),
                cancelled_after: Some(chance.millis(0..1_500)),
                ..plain
            },
            94..97 => Self {
                topic: LATER,
                delay: Duration::from_secs(3_600),
                cancelled_after: chance.percent(50).then(|| chance.millis(0..1_500)),
                ..plain
            },
            _ => Self {
                is_impatient: true,
                ..plain
            },
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
        let intervals: &[&str] = match self.success_from {
            Some(_) => &PATIENT,
            None => &SHORT,
        };
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
    assert!(some(|plan| plan.success_from.is_none()) > 5);
    assert!(some(|plan| plan.cancelled_after.is_some()) > 5);
    assert!(some(|plan| plan.is_impatient) > 5);
    assert!(some(|plan| plan.reply(1).after > Duration::ZERO) > 5);
    assert!(some(|plan| plan.reply(1).is_success()) > 250);
}
