use super::*;
use LaneReport::{Answered, Unanswered};

const START: usize = 2;
const CAP: usize = 16;

/// The state after these results, each a second after the one before, of leases that were given at once.
fn after(results: &[LaneReport]) -> LaneHealth {
    let mut health = LaneHealth::unknown(START);
    for (second, result) in (1..).zip(results) {
        let now_ms = second * 1_000;
        health.observe(*result, now_ms, now_ms, START, CAP);
    }
    health
}

#[test]
fn the_number_of_calls_grows_with_answers_and_is_halved_by_failures() {
    fn check(results: &[LaneReport], limit: usize, class: LaneClass) {
        let health = after(results);
        assert_eq!(
            (health.limit(CAP), health.class(0)),
            (limit, class),
            "{results:?}"
        );
    }
    use LaneClass::{Doubtful, Idle, Probing};
    check(&[], 2, Doubtful);
    check(&[Answered(5)], 3, Idle);
    check(&[Answered(5); 13], 15, Idle);
    check(&[Answered(5); 30], 16, Idle);
    assert_eq!(after(&[Answered(5); 30]).limit(4), 4, "with a smaller cap");
    check(&[Unanswered], 1, Doubtful);
    check(&[Unanswered; 2], 1, Doubtful);
    check(&[Unanswered; 3], 1, Probing);
    check(&[Unanswered, Unanswered, Answered(5)], 2, Idle);
    check(&[Unanswered, Unanswered, Unanswered, Answered(5)], 2, Idle);
    check(
        &[[Answered(5); 14].as_slice(), &[Unanswered]].concat(),
        8,
        Doubtful,
    );
    check(&[Answered(9_000)], 3, Doubtful);
    check(
        &[
            Answered(9_000),
            Answered(5),
            Answered(5),
            Answered(5),
            Answered(5),
        ],
        7,
        Doubtful,
    );
    check(&[Answered(5), Answered(9_000)], 4, Doubtful);
    check(&[Answered(5), Answered(7_000)], 4, Idle);
}

#[test]
fn calls_in_flight_make_a_lane_busy() {
    let health = after(&[Answered(5)]);
    assert_eq!(health.class(1), LaneClass::Busy);
    assert_eq!(after(&[]).class(1), LaneClass::Doubtful);
    assert!(LaneClass::ALL.is_sorted());
}

#[test]
fn probes_are_made_less_and_less_often() {
    let mut health = after(&[Unanswered; 3]);
    assert_eq!(health.failing_since_ms, 1_000);
    let mut waits = Vec::new();
    for _ in 0..8 {
        waits.push(health.probe_wait_ms);
        let at_ms = health.probe_at_ms;
        health.observe(Unanswered, at_ms, at_ms + 10_000, START, CAP);
        assert_eq!(health.probe_at_ms, at_ms + 10_000 + health.probe_wait_ms);
    }
    assert_eq!(
        waits,
        [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
    );
    assert_eq!(health.failing_since_ms, 1_000);
}

#[test]
fn every_outcome_has_a_number() {
    for outcome in Outcome::ALL {
        for status in [None, Some(200), Some(999)] {
            let call = CallOutcome {
                outcome: *outcome,
                status,
            };
            let number = call.to_number();
            assert!(number > 0 && number < 16_384);
            assert_eq!(CallOutcome::from_number(number), Some(call));
        }
    }
    for number in [0, 999, 11_000] {
        assert_eq!(CallOutcome::from_number(number), None, "{number}");
    }
}

#[test]
fn the_last_outcome_is_kept_since_it_is_the_same() {
    let mut health = LaneHealth::unknown(START);
    let refused = CallOutcome {
        outcome: Outcome::HttpStatus,
        status: Some(500),
    };
    let other = CallOutcome {
        status: Some(502),
        ..refused
    };
    for (call, now_ms, since_ms) in [(refused, 1, 1), (refused, 2, 1), (other, 3, 3)] {
        health.note_outcome(call, now_ms);
        assert_eq!(health.last_outcome, Some(LastOutcome { call, since_ms }));
    }
    assert_eq!(CallOutcome::of(Outcome::Interrupted, None), None);
}

#[test]
fn only_a_probe_delays_the_next_one() {
    let mut health = after(&[Unanswered; 3]);
    let before = health;
    health.observe(Unanswered, health.probe_at_ms - 1, 20_000, START, CAP);
    let (wait_ms, at_ms) = (health.probe_wait_ms, health.probe_at_ms);
    assert_eq!((wait_ms, at_ms), (before.probe_wait_ms, before.probe_at_ms));
}

#[test]
fn a_clock_that_is_set_back_delays_a_probe_by_its_wait_at_most() {
    let mut health = after(&[Unanswered; 3]);
    let before = health;
    for now_ms in [3_000, 3_500, 9_000] {
        health.bound_probe(now_ms);
        assert_eq!(health, before, "{now_ms}");
    }
    health.bound_probe(500);
    assert_eq!((health.probe_at_ms, health.probe_wait_ms), (1_500, 1_000));
    health.bound_probe(900);
    assert_eq!(health.probe_at_ms, 1_500, "the time comes");
    // A lane that is not probing waits for no probe.
    let mut asked = after(&[Unanswered]);
    asked.observe(LaneReport::CallNow, 3_600_000, 3_600_000, START, CAP);
    asked.bound_probe(1_000);
    assert_eq!((asked.probe_at_ms, asked.is_probing()), (1_000, false));
}

#[test]
fn a_probe_can_be_asked_for() {
    let mut health = after(&[Unanswered; 3]);
    health.observe(LaneReport::CallNow, 3_100, 3_200, START, CAP);
    assert_eq!((health.probe_at_ms, health.probe_wait_ms), (3_200, 1_000));
    health.observe(Unanswered, 3_200, 13_200, START, CAP);
    assert_eq!((health.probe_at_ms, health.probe_wait_ms), (15_200, 2_000));
    let mut open = after(&[Answered(5)]);
    open.observe(LaneReport::CallNow, 1_000, 2_000, START, CAP);
    assert_eq!(open, after(&[Answered(5)]));
}

#[test]
fn a_call_that_was_asked_for_while_others_failed_does_not_wait_for_a_probe() {
    let mut health = after(&[Unanswered; 2]);
    health.observe(LaneReport::CallNow, 3_100, 3_200, START, CAP);
    assert!(!health.is_probing());
    // The third call began before that, and fails.
    health.observe(Unanswered, 3_199, 9_000, START, CAP);
    assert_eq!((health.probe_at_ms, health.probe_wait_ms), (3_200, 1_000));
    // So does a fourth one, and then the one that was asked for.
    health.observe(Unanswered, 3_199, 9_001, START, CAP);
    assert_eq!((health.probe_at_ms, health.probe_wait_ms), (3_200, 1_000));
    health.observe(Unanswered, 9_002, 10_000, START, CAP);
    assert_eq!((health.probe_at_ms, health.probe_wait_ms), (12_000, 2_000));
    // The one that was asked for is the third that fails.
    let mut health = after(&[Unanswered; 2]);
    health.observe(LaneReport::CallNow, 3_100, 3_200, START, CAP);
    health.observe(Unanswered, 3_200, 9_000, START, CAP);
    assert_eq!((health.probe_at_ms, health.probe_wait_ms), (10_000, 1_000));
}

#[test]
fn an_answer_to_an_earlier_call_ends_probing() {
    let mut health = after(&[Unanswered; 3]);
    health.observe(Answered(5), 0, 20_000, START, CAP);
    assert_eq!((health.limit(CAP), health.is_probing()), (START, false));
    assert_eq!((health.probe_at_ms, health.failing_since_ms), (0, 0));
}
