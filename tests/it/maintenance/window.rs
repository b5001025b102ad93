//! What is due after the horizon waits in the journal alone, and is loaded in time.

use super::on_each_pair_with_window;
use super::stage::{HORIZON_MS, Stage};
use crate::journal_contract::samples::{
    START_MS, do_change, keep, key, place, registering_at, registration,
};
use ringback::clock::Clock as _;
use ringback::domain::change::Change;
use ringback::domain::notification::{Registration, Start};
use ringback::domain::progress::Progress;
use ringback::domain::snapshot::Snapshot;
use ringback::maintenance::difference::find_among;
use ringback::maintenance::recovery::resync::Resync;
use ringback::maintenance::scan::BARE_TURNS;
use ringback::maintenance::sweep::Sweep;
use ringback::maintenance::window::WindowLoader;
use ringback::schedule::recoverable::Inspection;
use ringback::schedule::window::LoadedWindow;
use ringback::schedule::{
    Entry, HeldProgress, KnownToJournal, LeaseRequest, LeasedOne, Reservation, Restored, Settled,
    Settlement,
};
use std::collections::BTreeSet;
use std::sync::Arc;

on_each_pair_with_window!(
    what_is_due_within_half_of_the_horizon_is_loaded,
    what_was_loaded_is_not_read_again_and_nothing_is_left_out,
    many_that_are_due_at_the_same_instant_are_all_loaded,
    another_instance_goes_on_where_the_one_before_was,
    after_a_clock_was_set_back_everything_is_read_again,
    what_was_loaded_is_verified_before_it_is_sent,
    a_settlement_that_is_due_after_the_horizon_leaves_the_schedule,
    a_reservation_that_is_due_after_the_horizon_is_not_put_in,
    what_waits_in_the_journal_is_no_difference_until_it_is_loaded,
    content_is_left_to_the_journal_after_some_minutes,
    what_has_ended_in_the_journal_is_removed_within_some_runs,
);

const MINUTE_MS: i64 = 60_000;

fn loader(stage: &Stage) -> WindowLoader {
    WindowLoader::new(stage.journal.clone(), stage.schedule.clone())
}

/// Loads what is due soon; says how many were put in.
async fn load(stage: &Stage) -> u64 {
    let Restored { missing, moved } = loader(stage)
        .pass(stage.clock.now_ms())
        .await
        .expect("loaded");
    assert_eq!(moved, 0);
    missing
}

async fn is_held(stage: &Stage, id: &str) -> bool {
    stage.held(id).await.is_some()
}

async fn snapshot(stage: &Stage, id: &str) -> Snapshot {
    let found = stage.journal.find(&key(id)).await.expect("read");
    found.expect("there")
}

/// The same, due so long after [`START_MS`].
fn due_at(progress: Progress, at_ms: i64) -> Progress {
    Progress {
        due_ms: START_MS + at_ms,
        ..progress
    }
}

async fn what_is_due_within_half_of_the_horizon_is_loaded(stage: Stage) {
    let half_ms = HORIZON_MS / 2;
    for (id, at_ms) in [
        ("overdue", -MINUTE_MS),
        ("now", 0),
        ("half", half_ms),
        ("after", half_ms + 1),
        ("late", HORIZON_MS),
        ("later", 2 * HORIZON_MS),
    ] {
        stage.journal_one(id, at_ms).await;
    }
    assert_eq!(
        stage
            .schedule
            .loaded_until(&BTreeSet::new())
            .await
            .expect("read"),
        None
    );
    assert_eq!(load(&stage).await, 3);
    for (id, expected) in [
        ("overdue", true),
        ("now", true),
        ("half", true),
        ("after", false),
    ] {
        assert_eq!(is_held(&stage, id).await, expected, "{id}");
    }
    let loaded_until = stage
        .schedule
        .loaded_until(&BTreeSet::new())
        .await
        .expect("read");
    assert_eq!(loaded_until, Some(START_MS + half_ms));
    stage.clock.advance(1);
    assert_eq!(load(&stage).await, 1);
    assert!(is_held(&stage, "after").await);
    stage.clock.advance(half_ms - 2);
    assert_eq!(load(&stage).await, 0);
    stage.clock.advance(1);
    assert_eq!(load(&stage).await, 1);
    // After a long pause, what is overdue by then comes too.
    stage.clock.advance(10 * HORIZON_MS);
    assert_eq!(load(&stage).await, 1);
    assert!(is_held(&stage, "later").await);
}

async fn what_was_loaded_is_not_read_again_and_nothing_is_left_out(stage: Stage) {
    let mut loader = loader(&stage);
    let mut put_in = 0;
    for minute in 0..90 {
        // Each is due a little after what may be left out at that moment.
        let at_ms = minute * MINUTE_MS + HORIZON_MS + 1;
        stage.journal_one(&format!("{minute}"), at_ms).await;
        let loaded = loader.pass(stage.clock.now_ms()).await.expect("loaded");
        put_in += loaded.missing;
        stage.clock.advance(MINUTE_MS);
    }
    // What is due within half of the horizon is there.
    let expected = 90 - u64::try_from(HORIZON_MS / 2 / MINUTE_MS).expect("positive");
    assert!(put_in.abs_diff(expected) <= 1, "{put_in}, not {expected}");
    // Nothing that was loaded is read again: what was taken out by hand stays out.
    stage.unschedule("0").await;
    let loaded = loader.pass(stage.clock.now_ms()).await.expect("loaded");
    assert!(loaded.missing <= 1);
    assert!(!is_held(&stage, "0").await);
}

async fn many_that_are_due_at_the_same_instant_are_all_loaded(stage: Stage) {
    // More than a page, and the second page is full too.
    stage.journal_many_at(2_300, MINUTE_MS).await;
    assert_eq!(load(&stage).await, 2_300);
    assert_eq!(
        stage.schedule.counts().await.expect("counted").pending,
        2_300
    );
}

async fn another_instance_goes_on_where_the_one_before_was(stage: Stage) {
    stage.journal_many_at(2_300, MINUTE_MS).await;
    let mut first = loader(&stage);
    let now_ms = stage.clock.now_ms();
    first.step(now_ms).await.expect("loaded");
    drop(first);
    // It knows of none that it has loaded all that is due at that instant.
    let loaded_until = stage
        .schedule
        .loaded_until(&BTreeSet::new())
        .await
        .expect("read");
    assert_eq!(loaded_until, Some(START_MS + MINUTE_MS - 1));
    assert_eq!(load(&stage).await, 1_300);
    assert_eq!(load(&stage).await, 0);
}

async fn after_a_clock_was_set_back_everything_is_read_again(stage: Stage) {
    // The clock was ahead, so everything that was due by then was loaded.
    let ahead_ms = START_MS + 10 * HORIZON_MS;
    let loaded = LoadedWindow {
        began_ms: START_MS,
        until_ms: ahead_ms,
    };
    let noted = stage
        .schedule
        .set_loaded_until(loaded, &BTreeSet::new())
        .await;
    assert_eq!(noted.expect("noted"), ahead_ms);
    // By this clock it is due after the horizon, so whoever registered it left it out; and it is due before all that
    // was loaded.
    stage.journal_one("left out", 2 * HORIZON_MS).await;
    stage.journal_one("soon", MINUTE_MS).await;
    assert_eq!(load(&stage).await, 1);
    assert!(is_held(&stage, "soon").await);
    stage.clock.advance(2 * HORIZON_MS - MINUTE_MS);
    assert_eq!(load(&stage).await, 1);
    assert!(is_held(&stage, "left out").await);
}

async fn what_was_loaded_is_verified_before_it_is_sent(stage: Stage) {
    stage.journal_one("a", MINUTE_MS).await;
    assert_eq!(load(&stage).await, 1);
    let entry = stage.held("a").await.expect("held");
    assert!(entry.verify);
}

async fn a_settlement_that_is_due_after_the_horizon_leaves_the_schedule(stage: Stage) {
    for (id, at_ms, is_left) in [("near", HORIZON_MS, true), ("far", HORIZON_MS + 1, false)] {
        stage.register(id, 0).await;
        let lease = stage.take(id).await;
        let again = Settlement::Again(due_at(lease.entry.progress, at_ms));
        let settled = stage.schedule.settle(lease, again).await.expect("answered");
        assert_eq!(settled, Settled::Done);
        assert_eq!(is_held(&stage, id).await, is_left, "{id}");
    }
    let counts = stage.schedule.counts().await.expect("counted");
    assert_eq!((counts.pending, counts.in_flight), (1, 0));
}

async fn a_reservation_that_is_due_after_the_horizon_is_not_put_in(stage: Stage) {
    for (id, at_ms, is_put_in) in [("near", HORIZON_MS, true), ("far", HORIZON_MS + 1, false)] {
        let (notification, progress) = stage.journal_one(id, 2 * HORIZON_MS).await;
        let mut request = LeaseRequest::new(place(&key(id)));
        request.known = Some(KnownToJournal {
            registered_ms: 0,
            due_ms: Some(progress.next_due_ms()),
        });
        let leasing = stage.schedule.lease_one(&request).await.expect("answered");
        let LeasedOne::Reserved(token) = leasing else {
            panic!("{leasing:?}");
        };
        let moved = Entry::scheduled(Arc::clone(&notification), due_at(progress, at_ms));
        let put = Reservation::Put(Box::new(moved));
        let ended = stage.schedule.end_reservation(token, put).await;
        assert_eq!(ended.expect("answered"), Settled::Done);
        assert_eq!(is_held(&stage, id).await, is_put_in, "{id}");
    }
}

/// What the schedule has the content of, in the first run: it would be sent as it is. The others ask the journal when they
/// are due, so each run looks up a part of them.
async fn what_has_ended_in_the_journal_is_removed_within_some_runs(stage: Stage) {
    let ids: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    for id in &ids {
        stage.journal_one(id, HORIZON_MS / 2).await;
    }
    assert_eq!(load(&stage).await, 40);
    stage.register("whole", HORIZON_MS / 2).await;
    let holding = stage.held("0").await.expect("held");
    let is_bare = matches!(holding.progress, HeldProgress::Due(_));
    assert_eq!(is_bare, stage.redis.is_some());
    for id in ids.iter().map(String::as_str).chain(["whole"]) {
        do_change(stage.journal.as_ref(), &key(id), Change::Cancel, START_MS).await;
    }
    let mut sweep = Sweep::new(stage.journal.clone(), stage.schedule.clone());
    let mut removed = Vec::new();
    for _ in 0..BARE_TURNS {
        let now_ms = stage.clock.now_ms() + 10 * HORIZON_MS;
        removed.push(sweep.pass(now_ms).await.expect("compared").removed);
        assert!(!is_held(&stage, "whole").await);
    }
    assert_eq!(removed.iter().sum::<u64>(), 41, "{removed:?}");
    let is_all_at_once = removed[0] == 41;
    assert_eq!(is_all_at_once, !is_bare, "{removed:?}");
}

async fn what_waits_in_the_journal_is_no_difference_until_it_is_loaded(stage: Stage) {
    let half_ms = HORIZON_MS / 2;
    // The sweep compares what was registered some time ago.
    let sweep = async || {
        let mut sweep = Sweep::new(stage.journal.clone(), stage.schedule.clone());
        let now_ms = stage.clock.now_ms() + 10 * HORIZON_MS;
        sweep.pass(now_ms).await.expect("compared")
    };
    stage.journal_one("due", 0).await;
    stage.journal_one("soon", half_ms).await;
    stage.journal_one("later", HORIZON_MS).await;
    // Nothing is known to be loaded, and what is due is missing nevertheless.
    assert_eq!(sweep().await.restored, 1);
    assert_eq!(load(&stage).await, 1);
    assert_eq!(sweep().await.restored, 0);
    // What was loaded and is gone is missing.
    stage.unschedule("soon").await;
    assert_eq!(sweep().await.restored, 1);
    assert!(is_held(&stage, "soon").await);
    assert!(!is_held(&stage, "later").await);
    assert_eq!(snapshot(&stage, "later").await.progress.attempts, 0);
}

/// Without a horizon, a server loads the rest; and with one again, what is left out is loaded in time.
#[tokio::test]
async fn a_server_without_a_horizon_loads_all_the_rest() {
    let stage = Stage::redis_with_window().await;
    stage.journal_one("soon", MINUTE_MS).await;
    stage.journal_one("later", 2 * HORIZON_MS).await;
    assert_eq!(load(&stage).await, 1);
    let whole = stage.without_window().await;
    let loaded_until = whole.loaded_until(&BTreeSet::new()).await.expect("read");
    assert_eq!(loaded_until, Some(START_MS + HORIZON_MS / 2));
    // What the others have left out is not missing, as the audit sees it.
    let entries = [place(&key("later"))];
    let found = find_among(
        stage.journal.as_ref(),
        whole.as_ref(),
        &entries,
        &BTreeSet::new(),
    )
    .await;
    assert!(found.expect("compared").differences.is_empty());
    let mut rest = WindowLoader::new(stage.journal.clone(), whole.clone());
    let loaded = rest.pass(stage.clock.now_ms()).await.expect("loaded");
    assert_eq!(loaded.missing, 1);
    assert!(is_held(&stage, "later").await);
    assert_eq!(
        whole.loaded_until(&BTreeSet::new()).await.expect("read"),
        Some(i64::MAX)
    );
    // By now it is left out again.
    stage.journal_one("left out", 3 * HORIZON_MS).await;
    assert_eq!(load(&stage).await, 0);
    stage.clock.advance(3 * HORIZON_MS);
    assert_eq!(load(&stage).await, 1);
}

/// A server with a horizon leaves out what is due before all that a server without one has read by then, and ends.
#[tokio::test]
async fn what_is_left_out_while_everything_is_read_is_loaded_too() {
    let stage = Stage::redis_with_window().await;
    // More than a page.
    stage.journal_many_at(1_500, 10 * HORIZON_MS).await;
    assert_eq!(load(&stage).await, 0);
    let whole = stage.without_window().await;
    let loaded_until = async || whole.loaded_until(&BTreeSet::new()).await.expect("read");
    let mut loader = WindowLoader::new(stage.journal.clone(), whole.clone());
    loader.step(START_MS).await.expect("loaded");
    assert_eq!(loaded_until().await, Some(START_MS + 10 * HORIZON_MS - 1));
    stage.server_with_horizon_comes_and_goes().await;
    stage.journal_one("left out", 2 * HORIZON_MS).await;
    // The rest of the run.
    loader.pass(START_MS).await.expect("loaded");
    assert!(!is_held(&stage, "left out").await);
    assert_eq!(loaded_until().await, Some(START_MS + HORIZON_MS / 2));
    // What another server could have left out meanwhile is due later than half of the horizon.
    assert_eq!(loader.pass(START_MS).await.expect("loaded").missing, 1);
    assert!(is_held(&stage, "left out").await);
    assert_eq!(loaded_until().await, Some(START_MS + HORIZON_MS / 2));
    // That it was at work is long ago.
    stage.clock.advance(2 * MINUTE_MS);
    let loaded = loader.pass(stage.clock.now_ms()).await.expect("loaded");
    assert_eq!(loaded.missing, 0);
    assert_eq!(loaded_until().await, Some(i64::MAX));
}

/// The duty makes room: what was registered with its content keeps it for some minutes alone.
async fn content_is_left_to_the_journal_after_some_minutes(stage: Stage) {
    let leaves = stage.schedule.leaves_content();
    assert_eq!(leaves, stage.redis.is_some());
    for (id, delay_ms) in [("soon", 3 * MINUTE_MS), ("later", 30 * MINUTE_MS)] {
        let registration = Registration {
            start: Start::After(delay_ms),
            ..registration(key(id))
        };
        let registering = registering_at(registration, START_MS);
        let progress = registering.progress;
        let notification = keep(stage.journal.as_ref(), registering).await;
        stage.schedule_one(&notification, progress).await;
    }
    // A journal that was set back does not know it any more.
    let lost = Registration {
        start: Start::After(30 * MINUTE_MS),
        ..registration(key("lost"))
    };
    let lost = registering_at(lost, START_MS);
    stage.schedule_one(&lost.notification, lost.progress).await;
    let mut loader = loader(&stage);
    let mut pass = async |at_ms: i64| {
        stage.clock.turn_to(START_MS + at_ms);
        loader.pass(stage.clock.now_ms()).await.expect("loaded");
        let held = stage.held("later").await.expect("there");
        matches!(held.progress, HeldProgress::Due(_))
    };
    assert!(!pass(0).await);
    // It was looked at a moment ago.
    assert!(!pass(2 * MINUTE_MS - 1).await);
    assert!(!pass(2 * MINUTE_MS).await);
    assert_eq!(pass(2 * MINUTE_MS + 29_999).await, leaves);
    for id in ["soon", "lost"] {
        let held = stage.held(id).await.expect("there");
        assert!(matches!(held.progress, HeldProgress::Whole(_)), "{id}");
    }
    assert_eq!(stage.claim().await, [""; 0]);
    // What the journal says of it is no difference.
    let places = [place(&key("later")), place(&key("soon"))];
    let found = find_among(
        stage.journal.as_ref(),
        stage.schedule.as_ref(),
        &places,
        &BTreeSet::new(),
    )
    .await;
    assert!(found.expect("compared").differences.is_empty());
}

/// How many entries a recovery removes if one that was pending when the journal was read ends before the entries are looked up
/// again. Before, the schedule loses everything, or only what says whose it is.
async fn removed_by_a_recovery(loses_everything: bool) -> u64 {
    let stage = Stage::redis_with_window().await;
    stage.journal_one("1", HORIZON_MS / 2).await;
    assert_eq!(load(&stage).await, 1);
    if loses_everything {
        stage.redis_command(&["FLUSHDB"]).await;
    } else {
        for number in 0..16 {
            let lost = ["epoch", "meta"].map(|name| format!("{{rb:{number}}}:{name}"));
            stage.redis_command(&["DEL", &lost[0], &lost[1]]).await;
        }
    }
    let recoverable = stage.schedule.recoverable().expect("on Redis");
    let found = recoverable.inspect(false).await.expect("looked");
    assert!(matches!(found, Inspection::ToLoad(_)), "{found:?}");
    let journal = Some(stage.journal.clone());
    let mut resync = Resync::new(journal, stage.schedule.as_ref(), recoverable);
    while resync.done().read == 0 {
        assert!(resync.step().await.expect("loaded"));
    }
    do_change(stage.journal.as_ref(), &key("1"), Change::Cancel, START_MS).await;
    while resync.step().await.expect("looked up") {}
    let removed = resync.done().removed;
    assert_eq!(is_held(&stage, "1").await, removed == 0);
    removed
}

#[tokio::test]
async fn a_recovery_does_not_look_up_again_what_it_has_just_read() {
    assert_eq!(removed_by_a_recovery(true).await, 0);
    // What was there before may be older than the journal says.
    assert_eq!(removed_by_a_recovery(false).await, 1);
}
