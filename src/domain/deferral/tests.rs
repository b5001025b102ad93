use super::*;
use DeferralReason::{Busy, Concurrency, Held, Keys, Order, Probing, Proxy, Rate};

fn pause(from_ms: i64, until_ms: i64) -> Pause {
    Pause { from_ms, until_ms }
}

fn paused(held: Pause, probed: Pause) -> LaneMoment {
    LaneMoment {
        pauses: LanePauses { held, probed },
        ..LaneMoment::default()
    }
}

/// An entry that is due at 10,000 and claimed at 20,000.
fn entry() -> ClaimedEntry {
    ClaimedEntry {
        due_ms: 10_000,
        claimed_ms: 20_000,
        was_put_off: false,
        lacked: None,
        is_ordered: false,
        was_interrupted: false,
    }
}

const AT_WORK: ServerMoment = ServerMoment {
    claiming_since_ms: 1,
    was_busy: false,
};

#[test]
fn the_longest_reason_is_the_chief_one() {
    fn check(lane: LaneMoment, expected: Option<(DeferralReason, i64)>) {
        let found = Deferral::of(entry(), &lane, AT_WORK);
        let found = found.map(|deferral| (deferral.by, deferral.ms));
        assert_eq!(found, expected, "{lane:?}");
    }
    let none = Pause::default();
    check(paused(none, none), None);
    check(paused(pause(5_000, 20_000), none), Some((Held, 10_000)));
    check(paused(pause(12_000, 15_000), none), Some((Held, 3_000)));
    check(paused(pause(1, 10_000), none), None);
    check(paused(none, pause(9_000, 20_000)), Some((Probing, 10_000)));
    // While a lane is held, no probe is made, so that time counts once.
    check(
        paused(pause(11_000, 19_000), pause(9_000, 20_000)),
        Some((Held, 10_000)),
    );
    let limited = LaneMoment {
        rate_until_ms: 20_000,
        ..paused(pause(9_000, 13_000), none)
    };
    check(limited, Some((Rate, 10_000)));
    let full = LaneMoment {
        is_full: true,
        ..paused(pause(9_000, 18_000), none)
    };
    check(full, Some((Held, 10_000)));
    let full = LaneMoment {
        is_full: true,
        ..LaneMoment::default()
    };
    check(full, Some((Concurrency, 10_000)));
}

#[test]
fn what_waits_until_the_lane_is_ready_waits_for_a_place_in_it() {
    fn check(lane: LaneMoment, was_busy: bool, expected: Option<(DeferralReason, i64)>) {
        let server = ServerMoment {
            was_busy,
            ..AT_WORK
        };
        let found = Deferral::of(entry(), &lane, server);
        let found = found.map(|deferral| (deferral.by, deferral.ms));
        assert_eq!(found, expected, "{lane:?}");
    }
    let ready = |ready_ms| LaneMoment {
        ready_ms,
        ..LaneMoment::default()
    };
    check(ready(20_000), false, Some((Concurrency, 10_000)));
    check(ready(25_000), false, Some((Concurrency, 10_000)));
    check(ready(18_000), false, Some((Concurrency, 8_000)));
    check(ready(18_000), true, Some((Concurrency, 10_000)));
    check(ready(14_000), true, Some((Busy, 10_000)));
    check(ready(10_000), true, Some((Busy, 10_000)));
    // Its own call fills the lane, which had a free place all the time.
    let full = |ready_ms| LaneMoment {
        is_full: true,
        ..ready(ready_ms)
    };
    check(full(10_000), false, None);
    check(full(9_000), true, Some((Busy, 10_000)));
    check(full(19_000), false, Some((Concurrency, 9_000)));
    let limited = |rate_until_ms| LaneMoment {
        rate_until_ms,
        ..ready(16_000)
    };
    check(limited(17_000), false, Some((Rate, 7_000)));
    check(limited(12_000), false, Some((Concurrency, 6_000)));
    let held = LaneMoment {
        ready_ms: 20_000,
        ..paused(pause(14_000, 20_000), Pause::default())
    };
    check(held, false, Some((Held, 10_000)));
    for entry in [
        ClaimedEntry {
            was_put_off: true,
            ..entry()
        },
        ClaimedEntry {
            was_interrupted: true,
            ..entry()
        },
    ] {
        let found = Deferral::of(entry, &ready(20_000), AT_WORK);
        let by = found.map(|deferral| deferral.by);
        assert_eq!(by, entry.was_put_off.then_some(Keys));
    }
}

#[test]
fn a_little_late_is_on_time() {
    let full = LaneMoment {
        is_full: true,
        ..LaneMoment::default()
    };
    let late = |ms| ClaimedEntry {
        claimed_ms: 10_000 + ms,
        ..entry()
    };
    assert_eq!(Deferral::of(late(NOTICED_MS - 1), &full, AT_WORK), None);
    assert!(Deferral::of(late(NOTICED_MS), &full, AT_WORK).is_some());
}

#[test]
fn an_outage_of_ours_is_no_deferral() {
    let full = LaneMoment {
        is_full: true,
        rate_until_ms: 19_900,
        ..LaneMoment::default()
    };
    let since = |claiming_since_ms| ServerMoment {
        claiming_since_ms,
        was_busy: true,
    };
    let found = |server| Deferral::of(entry(), &full, server).map(|deferral| deferral.ms);
    assert_eq!(found(since(1)), Some(10_000));
    assert_eq!(found(since(19_000)), Some(1_000));
    assert_eq!(found(since(20_000)), None);
    let held = paused(pause(5_000, 20_000), Pause::default());
    let found = Deferral::of(entry(), &held, since(20_000));
    assert_eq!(
        found,
        Some(Deferral {
            by: Held,
            ms: 10_000
        })
    );
}

#[test]
fn the_rest_of_the_time_has_one_reason() {
    let check = |entry: ClaimedEntry, is_full: bool, was_busy: bool, expected| {
        let lane = LaneMoment {
            is_full,
            ..LaneMoment::default()
        };
        let server = ServerMoment {
            was_busy,
            ..AT_WORK
        };
        let found = Deferral::of(entry, &lane, server).map(|deferral| deferral.by);
        assert_eq!(found, expected, "{entry:?} {is_full} {was_busy}");
    };
    let keyless = ClaimedEntry {
        was_put_off: true,
        ..entry()
    };
    let interrupted = ClaimedEntry {
        was_interrupted: true,
        ..entry()
    };
    check(keyless, true, true, Some(Keys));
    let ordered = |was_put_off| ClaimedEntry {
        was_put_off,
        is_ordered: true,
        ..entry()
    };
    check(ordered(true), true, true, Some(Order));
    for entry in [keyless, ordered(true)] {
        for (lacked, expected) in [(Lacked::Proxy, Proxy), (Lacked::Capacity, Busy)] {
            let lacking = ClaimedEntry {
                lacked: Some(lacked),
                ..entry
            };
            check(lacking, true, true, Some(expected));
            check(lacking, false, false, Some(expected));
        }
    }
    check(ordered(false), true, true, Some(Concurrency));
    check(entry(), true, true, Some(Concurrency));
    check(entry(), false, true, Some(Busy));
    check(entry(), false, false, None);
    check(interrupted, true, true, None);
}

#[test]
fn pauses_with_a_short_time_between_them_are_one() {
    assert_eq!(Pause::default().then(pause(5, 9)), pause(5, 9));
    assert_eq!(pause(10, 20).then(pause(29, 40)), pause(10, 40));
    assert_eq!(pause(10, 20).then(pause(30, 40)), pause(30, 40));
    assert_eq!(pause(10, 20).then(pause(5, 40)), pause(5, 40));
}

#[test]
fn a_pause_at_the_end_takes_nothing_from_the_wait_before_it() {
    let check = |lane: LaneMoment, was_put_off, expected| {
        let entry = ClaimedEntry {
            claimed_ms: 82_000_000,
            was_put_off,
            is_ordered: was_put_off,
            ..entry()
        };
        let server = ServerMoment {
            claiming_since_ms: 2_000_000,
            was_busy: false,
        };
        let found = Deferral::of(entry, &lane, server);
        let found = found.map(|deferral| (deferral.by, deferral.ms));
        assert_eq!(found, expected, "{lane:?}");
    };
    let none = Pause::default();
    let short = pause(81_900_000, 81_960_000);
    let all_ms = 82_000_000 - 10_000;
    check(paused(short, none), true, Some((Order, all_ms)));
    check(paused(none, short), true, Some((Order, all_ms)));
    check(paused(short, short), true, Some((Order, all_ms)));
    let apart = paused(short, pause(50_000, 60_000));
    check(apart, true, Some((Order, all_ms)));
    let long = paused(pause(20_000, 81_960_000), short);
    check(long, true, Some((Held, all_ms)));
    // Without a mark, what was late before this server was at work may be our own outage.
    let since_ms = 82_000_000 - 2_000_000;
    let full = LaneMoment {
        is_full: true,
        ..paused(short, none)
    };
    check(full, false, Some((Concurrency, since_ms)));
    let limited = LaneMoment {
        rate_until_ms: 82_000_000,
        ..paused(none, short)
    };
    check(limited, false, Some((Rate, since_ms)));
    let early = LaneMoment {
        is_full: true,
        ..paused(pause(1, 1_500_000), none)
    };
    let both_ms = 1_490_000 + since_ms;
    check(early, false, Some((Concurrency, both_ms)));
    check(paused(short, none), false, Some((Held, 60_000)));
}

#[test]
fn a_deferral_survives_its_stored_form() {
    for by in DeferralReason::ALL {
        let deferral = Deferral { by: *by, ms: 1_200 };
        assert_eq!(Deferral::from_text(&deferral.to_text()), Some(deferral));
    }
    for text in ["", "held", "held:", "held:-1", "later:5", "held:x"] {
        assert_eq!(Deferral::from_text(text), None, "{text}");
    }
}
