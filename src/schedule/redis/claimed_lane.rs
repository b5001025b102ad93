//! Reads what a claim says of the lane of a lease: its class, whether it is full, its pauses, and since when it was ready.

use super::reply::Item;
use crate::domain::deferral::{LaneMoment, LanePauses, Pause};
use crate::domain::lane_health::LaneClass;
use crate::schedule::ScheduleError;
use bytes::Bytes;

/// What claim.lua adds to the number of the class of a lane that is full.
const FULL_LANE: i64 = 10;

/// Reads the class of a lane, and what is known of it, for each lease of a claim. Leases of one lane follow each other and
/// have the same text, which is read once.
#[derive(Debug, Default)]
pub(super) struct ClassMarks {
    last: Option<(Bytes, (LaneClass, LaneMoment))>,
}

impl ClassMarks {
    /// Reads the next one.
    pub(super) fn read(&mut self, item: Item) -> Result<(LaneClass, LaneMoment), ScheduleError> {
        let text = match &item {
            Item::Number(_) => return class_mark(item),
            Item::Bytes(text) => text.clone(),
        };
        match &self.last {
            Some((last, read)) if *last == text => Ok(*read),
            _ => Ok(self.last.insert((text, class_mark(item)?)).1),
        }
    }
}

/// The class of a lane, and what is known of it, as claim.lua gives them.
fn class_mark(item: Item) -> Result<(LaneClass, LaneMoment), ScheduleError> {
    let of_number = |mark: i64| {
        let is_full = mark >= FULL_LANE / 2;
        let number = if is_full { mark - FULL_LANE } else { mark };
        (lane_class(number), is_full)
    };
    let text = match item {
        Item::Number(mark) => {
            let (class, is_full) = of_number(mark);
            let lane = LaneMoment {
                is_full,
                ..LaneMoment::default()
            };
            return Ok((class, lane));
        }
        Item::Bytes(text) => text,
    };
    let text = std::str::from_utf8(&text).unwrap_or_default();
    let numbers: Vec<i64> = text
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let (mark, rate_until_ms, pauses, ready_ms) = match numbers[..] {
        [mark, ready_ms] => (mark, 0, [0; 4], ready_ms),
        [mark, rate_until_ms, a, b, c, d, ready_ms] => {
            (mark, rate_until_ms, [a, b, c, d], ready_ms)
        }
        _ => return Err(bad_class()),
    };
    let (class, is_full) = of_number(mark);
    let lane = LaneMoment {
        pauses: lane_pauses(pauses),
        rate_until_ms,
        is_full,
        ready_ms,
    };
    Ok((class, lane))
}

/// The pauses of a lane from their four instants, as lanes.lua has them.
pub(super) fn lane_pauses(
    [held_from, held_until, probed_from, probed_until]: [i64; 4],
) -> LanePauses {
    let pause = |from_ms, until_ms| Pause { from_ms, until_ms };
    LanePauses {
        held: pause(held_from, held_until),
        probed: pause(probed_from, probed_until),
    }
}

fn bad_class() -> ScheduleError {
    ScheduleError::Corrupt("claim.lua gave a lane that cannot be read".to_string())
}

/// The class of a lane by its number in lanes.lua.
fn lane_class(number: i64) -> LaneClass {
    match number {
        -2 => LaneClass::Idle,
        -1 => LaneClass::Busy,
        1 => LaneClass::Probing,
        _ => LaneClass::Doubtful,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LaneClass::{Busy, Doubtful, Idle, Probing};

    #[test]
    fn the_class_is_read_with_what_is_known_of_the_lane() {
        fn check(item: Item, class: LaneClass, is_full: bool, instants: [i64; 3]) {
            let (found, lane) = class_mark(item).expect("readable");
            assert_eq!((found, lane.is_full), (class, is_full));
            let probed_ms = lane.pauses.probed.from_ms;
            assert_eq!([lane.rate_until_ms, probed_ms, lane.ready_ms], instants);
        }
        for (number, class) in [(-2, Idle), (-1, Busy), (0, Doubtful), (1, Probing)] {
            check(Item::Number(number), class, false, [0; 3]);
            check(Item::Number(number + FULL_LANE), class, true, [0; 3]);
        }
        let text = |text: &'static str| Item::Bytes(text.as_bytes().into());
        check(text("9 17 1 2 3 4 0"), Busy, true, [17, 3, 0]);
        check(text("1 0 0 0 5 6 0"), Probing, false, [0, 5, 0]);
        check(text("-2 0 0 0 0 0 7"), Idle, false, [0, 0, 7]);
        check(text("9 7"), Busy, true, [0, 0, 7]);
        let (_, lane) = class_mark(text("1 0 1 2 3 4 5")).expect("readable");
        let held = Pause {
            from_ms: 1,
            until_ms: 2,
        };
        assert_eq!(lane.pauses.held, held);
        for wrong in ["", "1", "1 2 3", "1 0 1 2 3 4", "x"] {
            assert!(class_mark(text(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_text_that_follows_itself_says_the_same_and_another_does_not() {
        let mut marks = ClassMarks::default();
        for text in [
            "9 17 1 2 3 4 0",
            "9 17 1 2 3 4 0",
            "9 18 1 2 3 4 0",
            "x",
            "9 18 1 2 3 4 0",
        ] {
            let item = || Item::Bytes(text.as_bytes().into());
            let alone = class_mark(item());
            assert_eq!(marks.read(item()).ok(), alone.ok(), "{text}");
            assert_eq!(
                marks.read(Item::Number(1)).ok(),
                Some((Probing, LaneMoment::default()))
            );
        }
    }
}
