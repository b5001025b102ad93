use super::super::budget::MOST_SINGLE;
use super::*;
use crate::domain::lane_health::CallOutcome;

const BEGIN_MS: i64 = 1_795_163_400_000;
const AFTER_MS: i64 = 600_000;
const MINUTE: i64 = 60;

fn last(outcome: Outcome, since_s: i64) -> LastOutcome {
    LastOutcome {
        call: CallOutcome {
            outcome,
            status: None,
        },
        since_ms: BEGIN_MS + since_s * 1_000,
    }
}

fn seen(lane: &str, outcome: Outcome, since_s: i64) -> ObservedDestination {
    ObservedDestination {
        lane: lane.to_string(),
        pending: 3,
        is_held: false,
        last: Some(last(outcome, since_s)),
        unanswered_since_ms: None,
    }
}

/// The alerts of a check so many seconds after the beginning: kind, start in seconds, and the lanes.
fn decide(
    alerts: &mut DestinationAlerts,
    at_s: i64,
    observed: &[ObservedDestination],
) -> Vec<(AlertKind, i64, Vec<String>)> {
    let made = alerts.decide(observed, AFTER_MS, BEGIN_MS + at_s * 1_000);
    let shown = made.into_iter().map(|alert| {
        let AlertFigures::Destinations { all, .. } = alert.figures else {
            panic!("of destinations");
        };
        let lanes = all.into_iter().map(|one| one.lane).collect();
        (alert.kind, (alert.since_ms - BEGIN_MS) / 1_000, lanes)
    });
    shown.collect()
}

fn one(kind: AlertKind, since_s: i64, lane: &str) -> Vec<(AlertKind, i64, Vec<String>)> {
    vec![(kind, since_s, vec![lane.to_string()])]
}

use AlertKind::{DestinationFailing as Failing, DestinationRecovered as Recovered};
use Outcome::{Acknowledged, Connect, HttpStatus, Timeout, WrongAnswer};

const SHOP: &str = "https://shop";

#[test]
fn a_destination_that_fails_for_the_set_time_and_is_back_has_two_alerts() {
    let mut alerts = DestinationAlerts::default();
    let mut check = |at_s, outcome, since_s, expected: Vec<_>| {
        let observed = [seen(SHOP, outcome, since_s)];
        assert_eq!(
            decide(&mut alerts, at_s, &observed),
            expected,
            "after {at_s} s"
        );
    };
    check(0, Acknowledged, -9, vec![]);
    check(10, WrongAnswer, 2, vec![]);
    // The outcome changes; the beginning stays.
    check(300, HttpStatus, 290, vec![]);
    check(601, Timeout, 590, vec![]);
    check(602, Timeout, 590, one(Failing, 2, SHOP));
    check(603, Timeout, 590, vec![]);
    check(4_000, Connect, 3_000, vec![]);
    // One call is acknowledged and the next is not: that is no recovery.
    check(4_010, Acknowledged, 4_005, vec![]);
    check(4_020, Connect, 4_015, vec![]);
    check(4_030, Acknowledged, 4_025, vec![]);
    check(4_084, Acknowledged, 4_025, vec![]);
    check(4_085, Acknowledged, 4_025, one(Recovered, 2, SHOP));
    check(4_090, Acknowledged, 4_025, vec![]);
}

#[test]
fn what_ends_before_the_set_time_has_none() {
    let mut alerts = DestinationAlerts::default();
    let failing = |since_s| [seen(SHOP, Connect, since_s)];
    assert_eq!(decide(&mut alerts, 0, &failing(0)), []);
    assert_eq!(
        decide(&mut alerts, 590, &[seen(SHOP, Acknowledged, 585)]),
        []
    );
    assert_eq!(alerts, DestinationAlerts::default());
    assert_eq!(decide(&mut alerts, 601, &failing(600)), []);
    assert_eq!(
        decide(&mut alerts, 1_200, &failing(600)),
        one(Failing, 600, SHOP)
    );
}

#[test]
fn a_destination_that_flaps_has_few_alerts() {
    let mut alerts = DestinationAlerts::default();
    let (mut failing, mut recovered) = (0, 0);
    // Down for ten minutes, up for two, for six hours.
    for at_s in (0..6 * 3_600).step_by(5) {
        let (round, in_round) = (at_s / (12 * MINUTE), at_s % (12 * MINUTE));
        let begun = round * 12 * MINUTE;
        let observed = match in_round <= 10 * MINUTE {
            true => seen(SHOP, Connect, begun),
            false => seen(SHOP, Acknowledged, begun + 10 * MINUTE + 1),
        };
        for (kind, ..) in decide(&mut alerts, at_s, &[observed]) {
            match kind {
                Failing => failing += 1,
                _ => recovered += 1,
            }
            assert!(failing == recovered || failing == recovered + 1);
        }
    }
    assert_eq!((failing, recovered), (15, 15));
}

#[test]
fn a_held_destination_and_one_with_nothing_pending_have_none_until_that_changes() {
    let mut alerts = DestinationAlerts::default();
    let failing = seen(SHOP, Connect, 0);
    let held = ObservedDestination {
        is_held: true,
        ..failing.clone()
    };
    let idle = ObservedDestination {
        pending: 0,
        ..failing.clone()
    };
    for at_s in [0, 700] {
        for observed in [held.clone(), idle.clone()] {
            assert_eq!(decide(&mut alerts, at_s, &[observed]), []);
        }
    }
    assert_eq!(decide(&mut alerts, 710, &[failing]), one(Failing, 0, SHOP));
}

#[test]
fn a_destination_of_which_nothing_is_known_changes_nothing() {
    let mut alerts = DestinationAlerts::default();
    let forgotten = ObservedDestination {
        last: None,
        ..seen(SHOP, Connect, 0)
    };
    assert_eq!(decide(&mut alerts, 0, &[seen(SHOP, Connect, 0)]), []);
    // The schedule was restarted: the episode goes on with its next call that fails.
    assert_eq!(
        decide(&mut alerts, 700, std::slice::from_ref(&forgotten)),
        []
    );
    assert_eq!(
        decide(&mut alerts, 710, &[seen(SHOP, Connect, 705)]),
        one(Failing, 0, SHOP)
    );
    assert_eq!(decide(&mut alerts, 720, &[forgotten]), []);
    let back = seen(SHOP, Acknowledged, 730);
    assert_eq!(decide(&mut alerts, 790, &[back]), one(Recovered, 0, SHOP));
}

#[test]
fn no_answer_counts_from_the_first_call_without_one() {
    let mut alerts = DestinationAlerts::default();
    let observed = ObservedDestination {
        unanswered_since_ms: Some(BEGIN_MS),
        ..seen(SHOP, Timeout, 500)
    };
    assert_eq!(decide(&mut alerts, 600, &[observed]), one(Failing, 0, SHOP));
}

#[test]
fn many_destinations_at_once_have_one_alert() {
    let mut alerts = DestinationAlerts::default();
    let lanes: Vec<String> = (0..1_000)
        .map(|number| format!("https://s{number:03}"))
        .collect();
    let all = |outcome, since_s| -> Vec<ObservedDestination> {
        lanes
            .iter()
            .map(|lane| seen(lane, outcome, since_s))
            .collect()
    };
    assert_eq!(decide(&mut alerts, 10, &all(Connect, 0)), []);
    let made = decide(&mut alerts, 600, &all(Connect, 0));
    assert_eq!(made, [(Failing, 0, lanes.clone())]);
    for at_s in [605, 700, 5_000] {
        assert_eq!(decide(&mut alerts, at_s, &all(Connect, 0)), []);
    }
    let made = decide(&mut alerts, 5_100, &all(Acknowledged, 5_010));
    assert_eq!(made, [(Recovered, 0, lanes.clone())]);
    assert_eq!(decide(&mut alerts, 5_200, &all(Acknowledged, 5_010)), []);
}

#[test]
fn those_that_come_one_after_the_other_are_told_together_within_the_bound() {
    let mut alerts = DestinationAlerts::default();
    let lanes: Vec<String> = (0..100)
        .map(|number| format!("https://s{number:03}"))
        .collect();
    let (mut made, mut told) = (Vec::new(), 0);
    // One begins to fail each second.
    for at_s in (0..1_000).step_by(5) {
        let begun = lanes
            .iter()
            .zip(0..)
            .filter(|(_, since_s)| *since_s <= at_s);
        let observed: Vec<_> = begun
            .map(|(lane, since_s)| seen(lane, Connect, since_s))
            .collect();
        for (_, _, lanes) in decide(&mut alerts, at_s, &observed) {
            made.push(at_s);
            told += lanes.len();
        }
    }
    assert_eq!(told, 100);
    for minute in made.windows(MOST_SINGLE + 2) {
        assert!(minute[MOST_SINGLE + 1] - minute[0] >= MINUTE, "{made:?}");
    }
}

#[test]
fn the_memory_is_bounded_and_what_is_not_seen_is_forgotten() {
    let mut alerts = DestinationAlerts::default();
    let observed: Vec<_> = (0..MOST_EPISODES + 10)
        .map(|number| seen(&format!("https://s{number}"), Connect, 0))
        .collect();
    decide(&mut alerts, 0, &observed);
    assert_eq!(alerts.episodes.len(), MOST_EPISODES);
    decide(&mut alerts, 7_199, &[]);
    assert_eq!(alerts.episodes.len(), MOST_EPISODES);
    decide(&mut alerts, 7_200, &[]);
    assert_eq!(alerts, DestinationAlerts::default());
}

#[test]
fn the_stored_form_is_small_and_survives() {
    let mut alerts = DestinationAlerts::default();
    decide(&mut alerts, 0, &[seen(SHOP, Connect, 0)]);
    decide(&mut alerts, 600, &[seen(SHOP, Connect, 0)]);
    let text = serde_json::to_string(&alerts).expect("JSON");
    assert!(text.len() < 300, "{text}");
    assert_eq!(serde_json::from_str(&text).ok().as_ref(), Some(&alerts));
    // What is seen again and again is not written again and again.
    let before = alerts.clone();
    decide(&mut alerts, 605, &[seen(SHOP, Connect, 0)]);
    assert_eq!(alerts, before);
}

#[test]
fn those_that_are_remembered_come_in_pages() {
    let mut alerts = DestinationAlerts::default();
    let observed: Vec<_> = ["https://a", "https://b", "https://c"]
        .map(|lane| seen(lane, Connect, 0))
        .to_vec();
    decide(&mut alerts, 0, &observed);
    assert_eq!(alerts.remembered(None, 2), ["https://a", "https://b"]);
    assert_eq!(alerts.remembered(Some("https://b"), 2), ["https://c"]);
}
