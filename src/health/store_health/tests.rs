//! Tests the rules for outages with exact times.

use super::*;

/// The health of a store, with times in milliseconds since the test began.
struct Driven {
    store_health: StoreHealth,
    begin: Instant,
}

impl Driven {
    fn new() -> Self {
        Self {
            store_health: StoreHealth::default(),
            begin: Instant::now(),
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.begin + Duration::from_millis(ms)
    }

    fn call(&mut self, work: Work, ms: u64, ended: CallResult) -> HealthChange {
        let now = self.at(ms);
        self.store_health.begin(work, now);
        self.store_health.end(work, now, now, ended)
    }

    fn fails(&mut self, work: Work, ms: u64) -> Option<HealthEvent> {
        let ended = CallResult::Failed("refused".to_string());
        self.call(work, ms, ended).event
    }

    fn answers(&mut self, work: Work, ms: u64) -> Option<HealthEvent> {
        self.call(work, ms, CallResult::Answered).event
    }

    fn checked(&mut self, ms: u64, ended: CallResult) -> HealthChange {
        let now = self.at(ms);
        self.store_health.checked(now, now, Some(ended))
    }

    fn review(&mut self, ms: u64) -> Option<HealthEvent> {
        let now = self.at(ms);
        self.store_health.review(now)
    }

    fn state(&self, ms: u64) -> (StoreState, Vec<Work>) {
        let report = self.store_health.report(self.at(ms));
        (report.state, report.failing)
    }
}

fn is_away(event: Option<&HealthEvent>) -> bool {
    matches!(event, Some(HealthEvent::Away(_)))
}

fn back(away_ms: u64, failed_calls: u64) -> Option<HealthEvent> {
    Some(HealthEvent::Back {
        away: Duration::from_millis(away_ms),
        failed_calls,
    })
}

#[test]
fn an_outage_is_told_when_it_begins_and_when_it_is_over() {
    let mut driven = Driven::new();
    assert_eq!(driven.fails(Work::Claim, 0), None);
    assert_eq!(driven.state(0).0, StoreState::Up);
    assert_eq!(driven.fails(Work::Accept, 400), None);
    assert!(is_away(driven.fails(Work::Claim, 500).as_ref()));
    assert_eq!(driven.state(500), (StoreState::Away, vec![Work::Claim]));
    for ms in 600..700 {
        assert_eq!(driven.fails(Work::Claim, ms), None);
    }
    assert_eq!(driven.answers(Work::Claim, 2_000), None);
    assert_eq!(driven.answers(Work::Accept, 3_000), None);
    assert_eq!(driven.review(3_499), None);
    assert_eq!(driven.review(3_500), back(3_000, 103));
    assert_eq!(driven.review(9_000), None);
}

#[test]
fn a_single_failed_call_is_no_outage() {
    let mut driven = Driven::new();
    assert_eq!(driven.fails(Work::Claim, 0), None);
    let one = Some(HealthEvent::Brief {
        failed_calls: 1,
        cause: "refused".to_string(),
    });
    assert_eq!(driven.answers(Work::Claim, 50), None);
    assert_eq!(driven.review(2_999), None);
    assert_eq!(driven.review(3_000), one);
    // The next ones are logged together.
    for ms in (6_000..65_000).step_by(1_000) {
        assert_eq!(driven.fails(Work::Claim, ms), None);
        assert_eq!(driven.answers(Work::Claim, ms + 50), None);
    }
    assert_eq!(driven.review(66_999), None);
    let event = driven.review(67_000);
    let Some(HealthEvent::Brief { failed_calls, .. }) = event else {
        panic!("{event:?}");
    };
    assert_eq!(failed_calls, 59);
}

#[test]
fn a_failed_check_counts_at_once_and_a_good_one_ends_it_where_no_calls_are_made() {
    let mut driven = Driven::new();
    driven.fails(Work::Accept, 0);
    let change = driven.checked(1, CallResult::Failed("refused".to_string()));
    assert!(is_away(change.event.as_ref()));
    assert!(!driven.checked(2_999, CallResult::Answered).returned);
    assert_eq!(driven.state(2_999).0, StoreState::Away);
    assert!(driven.checked(3_000, CallResult::Answered).returned);
    assert_eq!(driven.state(3_000).0, StoreState::Up);
    // A failure that only a check has found ends with the next check that succeeds.
    driven.checked(9_000, CallResult::Failed("refused".to_string()));
    assert_eq!(driven.state(9_000), (StoreState::Away, vec![Work::Accept]));
    assert!(driven.checked(9_001, CallResult::Answered).returned);
    assert_eq!(driven.state(9_001).0, StoreState::Up);
}

#[test]
fn the_cause_is_that_of_the_calls_and_not_that_of_a_check() {
    let mut driven = Driven::new();
    driven.fails(Work::Accept, 0);
    driven.checked(1, CallResult::Failed("busy".to_string()));
    let report = driven.store_health.report(driven.at(1));
    assert_eq!(report.cause.as_deref(), Some("refused"));
}

/// Calls wait and fail one after the other, as if a table were locked. Checks succeed meanwhile, because
/// they need less.
#[test]
fn calls_that_fail_slowly_count_whatever_a_check_says_meanwhile() {
    let mut driven = Driven::new();
    let mut events = Vec::new();
    for begun_ms in (0..24_000).step_by(3_010) {
        let begun = driven.at(begun_ms);
        driven.store_health.begin(Work::Accept, begun);
        for ms in (begun_ms..begun_ms + 3_000).step_by(250) {
            events.extend(driven.checked(ms, CallResult::Answered).event);
            events.extend(driven.review(ms));
            let expected = if ms < 3_000 {
                StoreState::Up
            } else {
                StoreState::Away
            };
            assert_eq!(driven.state(ms).0, expected, "{ms}");
        }
        let now = driven.at(begun_ms + 3_000);
        let ended = CallResult::Failed("canceled".to_string());
        let change = driven.store_health.end(Work::Accept, begun, now, ended);
        events.extend(change.event);
        // No call is in flight now, but the last one failed shortly before, so the work is not idle.
        events.extend(driven.checked(begun_ms + 3_005, CallResult::Answered).event);
        assert_eq!(driven.state(begun_ms + 3_009).0, StoreState::Away);
    }
    assert!(matches!(events[..], [HealthEvent::Away(_)]), "{events:#?}");
    driven.answers(Work::Accept, 25_000);
    assert_eq!(driven.state(25_000).0, StoreState::Up);
    assert_eq!(driven.review(25_500), back(25_000, 8));
}

#[test]
fn calls_that_fail_at_once_count_whatever_a_check_says_in_between() {
    let mut driven = Driven::new();
    // Callers try again a little later than `Retry-After`, which is a second, asks for.
    for ms in (0..20_000).step_by(1_100) {
        driven.fails(Work::Accept, ms);
        for ms in (ms + 50..ms + 1_100).step_by(250) {
            assert!(!driven.checked(ms, CallResult::Answered).returned, "{ms}");
            let expected = if ms < 1_100 {
                StoreState::Up
            } else {
                StoreState::Away
            };
            assert_eq!(driven.state(ms).0, expected, "{ms}");
        }
    }
    // The last call failed at 19,800 ms.
    assert!(!driven.checked(22_799, CallResult::Answered).returned);
    assert!(driven.checked(22_800, CallResult::Answered).returned);
    assert_eq!(driven.state(22_800).0, StoreState::Up);
}

#[test]
fn a_check_that_succeeds_says_nothing_of_calls_that_have_not_come_back() {
    let mut driven = Driven::new();
    driven.fails(Work::Settle, 0);
    driven.fails(Work::Settle, 600);
    let begun = driven.at(700);
    driven.store_health.begin(Work::Settle, begun);
    assert!(!driven.checked(8_000, CallResult::Answered).returned);
    assert_eq!(driven.state(8_000), (StoreState::Away, vec![Work::Settle]));
    let now = driven.at(8_001);
    let change = driven
        .store_health
        .end(Work::Settle, begun, now, CallResult::Answered);
    assert!(change.returned);
    assert_eq!(driven.state(8_001).0, StoreState::Up);
}

#[test]
fn an_answer_that_cannot_be_read_says_nothing() {
    let mut driven = Driven::new();
    driven.fails(Work::Accept, 0);
    driven.fails(Work::Accept, 600);
    let change = driven.call(Work::Accept, 700, CallResult::Unreadable);
    assert_eq!(change, HealthChange::default());
    assert_eq!(driven.state(700), (StoreState::Away, vec![Work::Accept]));
    driven.answers(Work::Accept, 800);
    driven.call(Work::Accept, 900, CallResult::Unreadable);
    assert_eq!(driven.state(900).0, StoreState::Up);
}

#[test]
fn a_store_that_answers_some_of_the_work_refuses_the_rest() {
    let mut driven = Driven::new();
    driven.fails(Work::Accept, 0);
    driven.fails(Work::Accept, 600);
    assert_eq!(driven.state(600).0, StoreState::Away);
    driven.answers(Work::Claim, 700);
    assert_eq!(
        driven.state(700),
        (StoreState::Refusing, vec![Work::Accept])
    );
}

#[test]
fn an_answer_from_before_the_outage_is_not_taken_for_a_sign_of_life() {
    let mut driven = Driven::new();
    driven.fails(Work::Accept, 0);
    driven.answers(Work::Claim, 499);
    driven.fails(Work::Accept, 600);
    assert_eq!(driven.state(600).0, StoreState::Away);
    driven.answers(Work::Claim, 700);
    assert_eq!(driven.state(700).0, StoreState::Refusing);
}

#[test]
fn calls_that_do_not_come_back_count_and_long_looks_do_not() {
    let mut driven = Driven::new();
    let begin = driven.begin;
    driven.store_health.begin(Work::Browse, begin);
    driven.store_health.begin(Work::Claim, begin);
    assert_eq!(driven.review(2_999), None);
    assert!(is_away(driven.review(3_000).as_ref()));
    assert_eq!(driven.state(3_000).1, [Work::Claim]);
    let now = driven.at(3_500);
    driven
        .store_health
        .end(Work::Claim, begin, now, CallResult::Answered);
    assert_eq!(driven.state(3_500).0, StoreState::Up);
    assert_eq!(driven.review(4_000), back(3_500, 0));
}

#[test]
fn a_call_given_up_late_has_failed() {
    let mut driven = Driven::new();
    let (begin, late) = (driven.begin, driven.at(500));
    driven.store_health.begin(Work::Accept, begin);
    driven.store_health.begin(Work::Accept, begin);
    let early = driven.at(499);
    let change = driven.store_health.abandoned(Work::Accept, begin, early);
    assert_eq!(change, HealthChange::default());
    assert!(
        driven
            .store_health
            .abandoned(Work::Accept, begin, late)
            .failing
    );
    assert!(driven.store_health.is_failing());
}

#[test]
fn a_store_that_flaps_fills_no_log() {
    let mut driven = Driven::new();
    let mut lines = 0;
    // For ten minutes: a failure and a recovery every 20 ms for two seconds, then a second without failures.
    for ms in (0..600_000).step_by(20) {
        if (ms / 1_000) % 3 != 2 {
            lines += usize::from(driven.fails(Work::Settle, ms).is_some());
            lines += usize::from(
                driven
                    .checked(ms, CallResult::Failed("no".into()))
                    .event
                    .is_some(),
            );
        }
        lines += usize::from(driven.answers(Work::Settle, ms + 10).is_some());
        lines += usize::from(
            driven
                .checked(ms + 10, CallResult::Answered)
                .event
                .is_some(),
        );
    }
    assert!((2..=140).contains(&lines), "{lines}");
}

#[test]
fn an_outage_that_was_not_told_at_first_is_told_if_it_lasts() {
    let mut driven = Driven::new();
    let away = |driven: &mut Driven, ms| {
        let change = driven.checked(ms, CallResult::Failed("refused".into()));
        is_away(change.event.as_ref())
    };
    assert!(away(&mut driven, 0));
    driven.checked(100, CallResult::Answered);
    assert_eq!(driven.review(600), back(100, 0));
    assert!(!away(&mut driven, 2_000));
    assert!(!away(&mut driven, 9_999));
    assert!(away(&mut driven, 10_000));
    driven.checked(20_000, CallResult::Answered);
    assert_eq!(driven.review(20_500), back(18_000, 0));
}

#[test]
fn a_rebuild_is_told_apart() {
    let mut driven = Driven::new();
    let lost = || CallResult::Rebuilding("rebuilding".to_string());
    driven.call(Work::Claim, 0, lost());
    driven.call(Work::Claim, 500, lost());
    assert_eq!(driven.state(500).0, StoreState::Rebuilding);
}

#[test]
fn work_that_is_done_says_more_than_a_check() {
    let mut driven = Driven::new();
    let (begun, now) = (driven.at(100), driven.at(1_600));
    let failed = || Some(CallResult::Failed("busy".to_string()));
    driven.answers(Work::Claim, 200);
    driven.store_health.checked(begun, now, None);
    assert_eq!(driven.state(1_600).0, StoreState::Up);
    // A full store still settles, so only an accepted registration proves that a failed check was wrong.
    driven.store_health.checked(begun, now, failed());
    assert_eq!(driven.state(1_600).1, [Work::Accept]);
    driven.answers(Work::Accept, 1_700);
    driven.store_health.checked(begun, now, failed());
    assert_eq!(driven.state(1_700).0, StoreState::Up);
}
