//! What a crash left between the two stores is repaired.

use super::on_each_pair;
use super::stage::Stage;
use crate::journal_contract::samples::{
    START_MS, apply, delivery, do_change, failure, history, key, refusal, registering_at,
    registration,
};
use ringback::domain::change::Change;
use ringback::domain::state::State;
use ringback::maintenance::REGISTRATION_MS;
use ringback::maintenance::duty::Step;
use ringback::maintenance::reconcile::Reconciler;
use ringback::maintenance::repair::Repaired;
use ringback::schedule::{ClaimQuota, HeldProgress, Settlement};

on_each_pair!(
    a_registration_in_the_journal_alone_is_put_back,
    what_is_young_may_still_be_on_its_way,
    what_has_ended_is_not_put_back,
    a_replay_in_the_journal_alone_is_applied,
    a_retry_in_the_journal_alone_is_applied,
    a_cancellation_in_the_journal_alone_is_applied,
    a_discarded_one_is_never_sent,
    what_is_leased_is_left_to_its_lease,
    it_goes_on_where_it_was_and_a_little_before,
    what_appears_after_the_first_look_is_found_by_the_second,
    a_first_look_goes_through_everything_in_steps,
);

const LATER_MS: i64 = START_MS + REGISTRATION_MS + 1_000;
const NOTHING: Repaired = Repaired {
    restored: 0,
    moved: 0,
    removed: 0,
    registered_again: 0,
};

fn reconciler(stage: &Stage) -> Reconciler {
    Reconciler::new(stage.journal.clone(), stage.schedule.clone())
}

/// A pass that must repair this, and one more that finds nothing to do.
async fn check(stage: &Stage, now_ms: i64, expected: Repaired) {
    let mut reconciler = reconciler(stage);
    let repaired = reconciler.pass(now_ms).await.expect("repaired");
    assert_eq!(repaired, expected);
    let again = reconciler.pass(now_ms + 1_000).await.expect("repaired");
    assert_eq!(again, NOTHING);
}

async fn a_registration_in_the_journal_alone_is_put_back(stage: Stage) {
    let (notification, progress) = stage.journal_one("lost", 0).await;
    stage.register("here", 0).await;
    check(
        &stage,
        LATER_MS,
        Repaired {
            restored: 1,
            ..NOTHING
        },
    )
    .await;
    let entry = stage.held("lost").await.expect("it is back");
    assert_eq!(entry.progress, HeldProgress::Whole(progress));
    assert!(entry.verify, "the journal is asked before it is sent");
    let line = stage.last_line(&notification.key).await;
    assert_eq!((&*line.kind, &*line.actor), ("restored", "maintenance"));
    assert_eq!(line.detail, "the schedule did not have it");
    let journal = stage.journal.as_ref();
    assert_eq!(history(journal, &key("here")).await, ["registered"]);
}

async fn what_is_young_may_still_be_on_its_way(stage: Stage) {
    stage.journal_one("1", 0).await;
    let mut reconciler = reconciler(&stage);
    let now_ms = START_MS + REGISTRATION_MS;
    assert_eq!(reconciler.pass(now_ms).await.expect("repaired"), NOTHING);
    let repaired = reconciler.pass(now_ms + 1).await.expect("repaired");
    assert_eq!(repaired.restored, 1);
}

async fn what_has_ended_is_not_put_back(stage: Stage) {
    let (notification, start) = stage.journal_one("1", 0).await;
    let journal = stage.journal.as_ref();
    apply(journal, delivery(&notification, start)).await;
    check(&stage, LATER_MS, NOTHING).await;
    assert!(stage.held("1").await.is_none());
}

async fn a_replay_in_the_journal_alone_is_applied(stage: Stage) {
    let journal = stage.journal.as_ref();
    let (gone, start) = stage.journal_one("gone", -3_600_000).await;
    apply(journal, refusal(&gone, start)).await;
    do_change(journal, &gone.key, Change::Replay, START_MS).await;
    // The schedule has not let go of the first series of this one.
    let (lingers, start) = stage.register("lingers", -3_600_000).await;
    apply(journal, refusal(&lingers, start)).await;
    do_change(journal, &lingers.key, Change::Replay, START_MS).await;
    // As if everything until then had been looked at.
    let place = (START_MS - 60_000).to_string();
    let kept = journal.remember("reconciled_ms", &place).await;
    kept.expect("kept");
    check(
        &stage,
        LATER_MS,
        Repaired {
            restored: 1,
            moved: 1,
            ..NOTHING
        },
    )
    .await;
    for id in ["gone", "lingers"] {
        let entry = stage.held(id).await.expect("it is here");
        let snapshots = journal.snapshots(&[key(id)]).await.expect("read");
        let progress = snapshots[0].as_ref().expect("it is there").progress;
        assert_eq!(entry.progress, HeldProgress::Whole(progress), "{id}");
        assert_eq!((progress.series, progress.due_ms), (2, START_MS), "{id}");
    }
    let line = stage.last_line(&lingers.key).await;
    assert_eq!(line.detail, "the schedule had it at another step");
}

async fn a_retry_in_the_journal_alone_is_applied(stage: Stage) {
    let journal = stage.journal.as_ref();
    let (notification, start) = stage.register("1", 0).await;
    let lease = stage.take("1").await;
    let recording = failure(&notification, start);
    let next = recording.decision.progress;
    apply(journal, recording).await;
    let again = Settlement::Again(next);
    stage.schedule.settle(lease, again).await.expect("settled");
    do_change(journal, &key("1"), Change::Retry, START_MS + 5_000).await;
    check(
        &stage,
        LATER_MS + 5_000,
        Repaired {
            moved: 1,
            ..NOTHING
        },
    )
    .await;
    stage.clock.turn_to(START_MS + 5_000);
    assert_eq!(stage.claim().await, ["1"]);
}

async fn a_cancellation_in_the_journal_alone_is_applied(stage: Stage) {
    stage.register("1", 0).await;
    let journal = stage.journal.as_ref();
    do_change(journal, &key("1"), Change::Cancel, START_MS + 1).await;
    check(
        &stage,
        LATER_MS,
        Repaired {
            removed: 1,
            ..NOTHING
        },
    )
    .await;
    assert!(stage.held("1").await.is_none());
    assert_eq!(stage.schedule.counts().await.expect("counted").in_flight, 0);
    let kinds = history(journal, &key("1")).await;
    assert_eq!(kinds, ["registered", "cancelled"]);
}

async fn a_discarded_one_is_never_sent(stage: Stage) {
    let journal = stage.journal.as_ref();
    let (notification, start) = stage.register("1", 0).await;
    apply(journal, refusal(&notification, start)).await;
    do_change(journal, &key("1"), Change::Discard, START_MS + 1).await;
    check(
        &stage,
        LATER_MS,
        Repaired {
            removed: 1,
            ..NOTHING
        },
    )
    .await;
    assert!(stage.claim().await.is_empty());
}

async fn what_is_leased_is_left_to_its_lease(stage: Stage) {
    stage.register("1", 0).await;
    let lease = stage.take("1").await;
    let journal = stage.journal.as_ref();
    do_change(journal, &key("1"), Change::Cancel, START_MS + 1).await;
    check(&stage, LATER_MS, NOTHING).await;
    // It comes back to be verified, whoever claims it.
    stage.clock.turn_to(lease.expires_ms());
    let claimed = stage
        .schedule
        .claim(ClaimQuota::of(1))
        .await
        .expect("claimed");
    assert!(claimed.leases[0].entry.verify);
}

async fn it_goes_on_where_it_was_and_a_little_before(stage: Stage) {
    let mut first = reconciler(&stage);
    assert_eq!(first.pass(LATER_MS).await.expect("repaired"), NOTHING);
    let place_ms = LATER_MS - REGISTRATION_MS - START_MS;
    // Written down late: what the journal showed late is found, what is much older is the sweep's.
    stage.journal_one("just before", place_ms - 30_000).await;
    stage.journal_one("long before", place_ms - 30_001).await;
    stage.journal_one("after", place_ms).await;
    drop(first);
    let repaired = reconciler(&stage).pass(LATER_MS + 3_600_000).await;
    assert_eq!(repaired.expect("repaired").restored, 2);
    assert!(stage.held("just before").await.is_some());
    assert!(stage.held("long before").await.is_none());
    assert!(stage.held("after").await.is_some());
}

async fn what_appears_after_the_first_look_is_found_by_the_second(stage: Stage) {
    let mut reconciler = reconciler(&stage);
    let pass = async |reconciler: &mut Reconciler, now_ms| {
        let repaired = reconciler.pass(now_ms).await;
        repaired.expect("repaired").restored
    };
    // Windows as short as when nothing holds them up. Each instant is looked at for the second time after 42 s.
    let every_ms = 8_000;
    let mut now_ms = LATER_MS;
    assert_eq!(pass(&mut reconciler, now_ms).await, 0);
    stage.journal_one("late", 0).await;
    while now_ms + every_ms <= START_MS + REGISTRATION_MS + 30_000 {
        now_ms += every_ms;
        assert_eq!(pass(&mut reconciler, now_ms).await, 0, "{now_ms}");
    }
    assert_eq!(pass(&mut reconciler, now_ms + every_ms).await, 1);
    assert!(stage.held("late").await.is_some());
}

async fn a_first_look_goes_through_everything_in_steps(stage: Stage) {
    let batch: Vec<_> = (0..1_700)
        .map(|number| registering_at(registration(key(&format!("{number}"))), number))
        .collect();
    stage.journal.register(&batch).await.expect("kept");
    let mut reconciler = reconciler(&stage);
    let mut steps = 1;
    let repaired = loop {
        match reconciler.step(LATER_MS).await.expect("repaired") {
            Step::More => steps += 1,
            Step::Done(repaired) => break repaired,
        }
    };
    assert_eq!((repaired.restored, steps), (1_700, 20));
    assert_eq!(
        stage.schedule.counts().await.expect("counted").pending,
        1_700
    );
    let found = stage.journal.snapshots(&[key("0")]).await.expect("read");
    let state = found[0].as_ref().map(|snapshot| snapshot.state);
    assert_eq!(state, Some(State::Scheduled));
}
