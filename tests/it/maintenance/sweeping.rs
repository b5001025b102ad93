//! Everything is compared in the end, also what happened long ago.

use super::on_each_pair;
use super::stage::Stage;
use crate::journal_contract::samples::{
    START_MS, apply, delivery, do_change, failure, history, key, registering_at, registration,
};
use ringback::domain::change::Change;
use ringback::domain::destination::Destination;
use ringback::domain::notification::{Registration, Target};
use ringback::domain::order::{OrderMode, OrderPlace};
use ringback::domain::state::State;
use ringback::journal::{Journal, Registering, SettingAside};
use ringback::maintenance::REGISTRATION_MS;
use ringback::maintenance::duty::{Duty as _, Step};
use ringback::maintenance::reconcile::Reconciler;
use ringback::maintenance::recovery::load::load;
use ringback::maintenance::repair::Repaired;
use ringback::maintenance::sweep::Sweep;
use ringback::schedule::{ClaimQuota, Settlement};

on_each_pair!(
    each_kind_of_difference_is_repaired,
    what_the_journal_forgot_is_written_down_again_and_delivered_once,
    what_is_set_aside_is_removed_and_never_put_back,
    what_the_journal_cannot_read_stops_nothing,
    what_is_young_is_left_for_the_next_round,
    what_is_held_in_another_lane_than_the_journal_has_is_replaced,
    what_a_higher_number_has_ended_is_kept_until_its_lost_attempt_is_recorded,
    it_goes_on_where_it_was,
    a_small_round_writes_nothing_and_a_place_of_another_time_is_no_trouble,
);

const DAY_MS: i64 = 86_400_000;
const NOTHING: Repaired = Repaired {
    restored: 0,
    moved: 0,
    removed: 0,
    registered_again: 0,
};

fn sweep(stage: &Stage) -> Sweep {
    Sweep::new(stage.journal.clone(), stage.schedule.clone())
}

fn numbered(id: &str, number: i64) -> Registering {
    let registration = Registration {
        order: Some(OrderPlace::new("o", number, OrderMode::Latest).expect("a place")),
        ..registration(key(id))
    };
    registering_at(registration, START_MS)
}

/// Its server died during the attempt. The receiver may have got the call, so its history must have it.
async fn what_a_higher_number_has_ended_is_kept_until_its_lost_attempt_is_recorded(stage: Stage) {
    let first = numbered("first", 1);
    stage
        .journal
        .register(std::slice::from_ref(&first))
        .await
        .expect("kept");
    stage
        .schedule_one(&first.notification, first.progress)
        .await;
    assert_eq!(stage.claim().await, ["first"]);
    stage
        .journal
        .register(&[numbered("second", 2)])
        .await
        .expect("kept");
    stage.clock.advance(stage.schedule.limits().lease_ms);
    let mut sweep = sweep(&stage);
    for _ in 0..2 {
        let repaired = sweep.pass(START_MS + DAY_MS).await.expect("repaired");
        assert_eq!(repaired.removed, 0);
    }
    assert!(stage.held("first").await.is_some());
}

/// A journal that was set back had forgotten it, and its key was registered again for another destination.
async fn what_is_held_in_another_lane_than_the_journal_has_is_replaced(stage: Stage) {
    let (recorded, _) = stage.journal_one("1", 0).await;
    let other = Registration {
        target: Target::Url(Destination::parse("https://other.example/x").expect("a URL")),
        ..registration(key("1"))
    };
    let registering = registering_at(other, START_MS);
    let held = registering.notification;
    stage.schedule_one(&held, registering.progress).await;
    let mut sweep = sweep(&stage);
    let mut repaired = Repaired::default();
    for _ in 0..2 {
        repaired += sweep.pass(START_MS + DAY_MS).await.expect("repaired");
    }
    assert_eq!(
        (repaired.restored, repaired.removed),
        (1, 1),
        "{repaired:?}"
    );
    let claimed = stage
        .schedule
        .claim(ClaimQuota::of(9))
        .await
        .expect("claimed")
        .leases;
    let lanes: Vec<&str> = (claimed.iter())
        .map(|lease| lease.entry.notification.lane.as_str())
        .collect();
    assert_eq!(lanes, [recorded.lane.as_str()]);
}

async fn each_kind_of_difference_is_repaired(stage: Stage) {
    let journal = stage.journal.as_ref();
    stage.register("same", 0).await;
    stage.register("leased", 0).await;
    stage.take("leased").await;
    let (delivered, start) = stage.journal_one("delivered", 0).await;
    apply(journal, delivery(&delivered, start)).await;
    stage.journal_one("missing", 0).await;
    let (elsewhere, start) = stage.register("elsewhere", 0).await;
    let recording = failure(&elsewhere, start);
    let next = recording.decision.progress;
    apply(journal, recording).await;
    stage.register("ended", 0).await;
    do_change(journal, &key("ended"), Change::Cancel, 1).await;

    let mut sweep = sweep(&stage);
    let repaired = sweep.pass(START_MS + DAY_MS).await.expect("repaired");
    let expected = Repaired {
        restored: 1,
        moved: 1,
        removed: 1,
        registered_again: 0,
    };
    assert_eq!(repaired, expected);
    let again = sweep.pass(START_MS + DAY_MS).await.expect("repaired");
    assert_eq!(again, NOTHING);
    assert_eq!(
        stage
            .held("elsewhere")
            .await
            .expect("held")
            .progress
            .next_due_ms(),
        next.due_ms
    );
    assert!(stage.held("missing").await.expect("held").verify);
    assert!(stage.held("ended").await.is_none());
    let kinds = history(journal, &key("missing")).await;
    assert_eq!(kinds, ["registered", "restored"]);
    assert_eq!(history(journal, &key("same")).await, ["registered"]);
}

/// Neither the sweep, nor the comparing of what was registered and changed of late.
async fn what_the_journal_cannot_read_stops_nothing(stage: Stage) {
    for id in ["broken", "broken and changed", "ended"] {
        stage.register(id, 0).await;
    }
    let journal = stage.journal.as_ref();
    do_change(journal, &key("broken and changed"), Change::Retry, START_MS).await;
    do_change(journal, &key("ended"), Change::Cancel, START_MS).await;
    stage
        .sql("UPDATE notifications SET ladder = 'rope' WHERE id LIKE 'broken%'")
        .await;
    let mut reconciler = Reconciler::new(stage.journal.clone(), stage.schedule.clone());
    let repaired = reconciler.pass(START_MS + DAY_MS).await.expect("repaired");
    let removed = Repaired {
        removed: 1,
        ..NOTHING
    };
    assert_eq!(repaired, removed);
    stage.register("another", 0).await;
    do_change(journal, &key("another"), Change::Cancel, START_MS).await;
    let repaired = sweep(&stage).pass(START_MS + DAY_MS).await;
    assert_eq!(repaired.expect("repaired"), removed);
    for id in ["broken", "broken and changed"] {
        assert!(stage.held(id).await.is_some(), "the attempt sets it aside");
    }
}

/// An entry whose header can be read, and nothing behind its lane.
#[tokio::test]
async fn an_entry_that_cannot_be_read_does_not_keep_others_from_being_repaired() {
    let stage = Stage::redis().await;
    for id in ["broken", "ended"] {
        stage.register(id, 0).await;
        do_change(stage.journal.as_ref(), &key(id), Change::Cancel, START_MS).await;
    }
    let cut = "for _, jobs in ipairs(redis.call('KEYS', '*:jobs')) do \
                 local held = redis.call('HGET', jobs, ARGV[1]) \
                 if held then \
                   local lane = struct.unpack('>I2', held, 57) \
                   redis.call('HSET', jobs, ARGV[1], string.sub(held, 1, 58 + lane)) \
                 end \
               end";
    let broken = key("broken");
    stage
        .redis_command(&["EVAL", cut, "0", broken.as_str()])
        .await;
    for _ in 0..2 {
        let repaired = sweep(&stage).pass(START_MS + DAY_MS).await;
        repaired.expect("the others are compared");
    }
    assert_eq!(stage.held("ended").await, None);
}

async fn what_is_set_aside_is_removed_and_never_put_back(stage: Stage) {
    stage.journal_one("missing", 0).await;
    stage.register("held", 0).await;
    stage.register("leased", 0).await;
    let lease = stage.take("leased").await;
    for id in ["missing", "held", "leased"] {
        let setting = SettingAside {
            key: key(id),
            at_ms: START_MS,
            reason: "damage".to_string(),
        };
        stage.journal.set_aside(&setting).await.expect("kept");
    }
    let mut sweep = sweep(&stage);
    let repaired = sweep.pass(START_MS + DAY_MS).await.expect("repaired");
    let removed = Repaired {
        removed: 1,
        ..NOTHING
    };
    assert_eq!(repaired, removed);
    assert_eq!(stage.held("missing").await, None);
    assert_eq!(stage.held("held").await, None);
    assert!(stage.held("leased").await.is_some());
    let settled = stage.schedule.settle(lease, Settlement::Release).await;
    settled.expect("answered");
    let repaired = sweep.pass(START_MS + DAY_MS).await.expect("repaired");
    assert_eq!(repaired, removed);
    let repaired = sweep.pass(START_MS + DAY_MS).await.expect("repaired");
    assert_eq!(repaired, NOTHING);
    let loaded = load(stage.journal.clone(), stage.schedule.as_ref()).await;
    assert_eq!(loaded.expect("loaded").read, 0);
    assert_eq!(stage.claim().await, [""; 0]);
}

async fn what_the_journal_forgot_is_written_down_again_and_delivered_once(stage: Stage) {
    // A journal that was set back to an older copy: the schedule holds what came later.
    let newer = Stage::memory().await;
    let (forgotten, start) = newer.register("forgotten", 0).await;
    let next = failure(&forgotten, start).decision.progress;
    stage.schedule_one(&forgotten, next).await;
    let repaired = sweep(&stage).pass(START_MS + DAY_MS).await;
    let expected = Repaired {
        registered_again: 1,
        ..NOTHING
    };
    assert_eq!(repaired.expect("repaired"), expected);
    let journal = stage.journal.as_ref();
    let pending = journal.pending(&forgotten.key).await.expect("read");
    let pending = pending.expect("it is pending again");
    assert_eq!(pending.notification, forgotten);
    assert_eq!(pending.progress, next);
    let line = stage.last_line(&forgotten.key).await;
    assert_eq!((&*line.kind, &*line.actor), ("restored", "maintenance"));
    assert_eq!(line.detail, "the journal did not know it, the schedule did");
    apply(journal, delivery(&forgotten, next)).await;
    let counts = journal.counts().await.expect("read");
    assert_eq!((counts.registered, counts.delivered), (1, 1));
}

async fn what_is_young_is_left_for_the_next_round(stage: Stage) {
    stage.journal_one("1", 0).await;
    let mut sweep = sweep(&stage);
    let now_ms = START_MS + REGISTRATION_MS;
    assert_eq!(sweep.pass(now_ms).await.expect("repaired"), NOTHING);
    assert_eq!(sweep.pass(now_ms + 1).await.expect("repaired").restored, 1);
}

async fn it_goes_on_where_it_was(stage: Stage) {
    // Twenty-five pages; the place is written down after twenty.
    stage.journal_many(10_000).await;
    let now_ms = START_MS + DAY_MS;
    let mut first = sweep(&stage);
    for _ in 0..22 {
        let step = first.step(now_ms).await.expect("repaired");
        assert_eq!(step, Step::More);
    }
    drop(first);
    let pending = stage.schedule.counts().await.expect("counted").pending;
    assert_eq!(pending, 8_800, "newest first");
    assert!(stage.held("01199").await.is_none());
    let mut second = sweep(&stage);
    let repaired = second.pass(now_ms).await.expect("repaired");
    assert_eq!(repaired.restored, 1_200);
    let place = stage.journal.recall("swept").await.expect("read");
    assert_eq!(place.as_deref(), Some("pending"), "from the beginning");
    // Whoever loses the duty asks the journal again.
    second.start_over();
    assert_eq!(second.pass(now_ms).await.expect("repaired"), NOTHING);
    let found = stage
        .journal
        .snapshots(&[key("00000")])
        .await
        .expect("read");
    let state = found[0].as_ref().map(|snapshot| snapshot.state);
    assert_eq!(state, Some(State::Scheduled));
}

async fn a_small_round_writes_nothing_and_a_place_of_another_time_is_no_trouble(stage: Stage) {
    stage.journal_one("1", 0).await;
    let now_ms = START_MS + DAY_MS;
    let repaired = sweep(&stage).pass(now_ms).await.expect("repaired");
    assert_eq!(repaired.restored, 1);
    let journal: &dyn Journal = stage.journal.as_ref();
    assert_eq!(journal.recall("swept").await.expect("read"), None);
    for place in ["nonsense", "held nonsense", "held 99-0", "end"] {
        stage.unschedule("1").await;
        journal.remember("swept", place).await.expect("kept");
        let mut sweep = sweep(&stage);
        let first = sweep.pass(now_ms).await.expect("repaired");
        let second = sweep.pass(now_ms).await.expect("repaired");
        assert_eq!(first.restored + second.restored, 1, "{place}");
    }
}
