//! Attempts and transitions in PostgreSQL are forgotten by dropping the partition of their time: nothing of a notification that is
//! kept goes with it.

use super::PostgresStore;
use super::older::older_postgres;
use super::partition_scene::{DAY_MS, FROM_MS, KEPT_MS, Scene, open};
use super::postgres_sharing::until_one_waits;
use super::samples::{
    apply, attempts, changing, delivery, do_change, failure, find, history, keep, key, record,
    registering,
};
use crate::support::postgres::{connect, run};
use ringback::domain::attempt::Outcome;
use ringback::domain::change::Change;
use ringback::domain::state::State;
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::{
    ChangeResult, DaySelection, Journal, JournalMaintenance, JournalReads, JournalWrites, Prune,
    Pruned, Recording,
};
use ringback::maintenance::prune::{Pruner, Retention};
use std::sync::Arc;

impl Scene {
    /// Its next attempt, which fails, as it must be recorded now.
    async fn next_failure(&self, id: &str) -> Recording {
        let pending = self.journal.pending(&key(id)).await.expect("read");
        let pending = pending.expect("pending");
        Recording {
            at_ms: self.now_ms,
            ..failure(&pending.notification, pending.progress)
        }
    }

    async fn fail(&self, id: &str) {
        apply(&*self.journal, self.next_failure(id).await).await;
    }

    /// Registers one whose first attempt fails.
    async fn register_failed(&self, id: &str) {
        self.register(id).await;
        self.fail(id).await;
    }

    /// What is kept of one: its attempts, and the kinds of the lines of its history.
    async fn kept_of(&self, id: &str) -> (usize, Vec<String>) {
        let found = find(&*self.journal, &key(id)).await;
        (
            found.attempts.len(),
            history(&*self.journal, &key(id)).await,
        )
    }
}

#[tokio::test]
async fn the_history_of_what_is_kept_outlives_the_partition_of_its_time() {
    let mut scene = Scene::of_history().await;
    for id in ["early", "early-2", "early-3", "early-4", "early-5"] {
        scene.deliver(id).await;
    }
    scene.kill("dead").await;
    scene.register("cancelled").await;
    let cancelled_ms = FROM_MS + 5;
    do_change(
        &*scene.journal,
        &key("cancelled"),
        Change::Cancel,
        cancelled_ms,
    )
    .await;
    for id in ["pending", "late"] {
        scene.register_failed(id).await;
        scene.fail(id).await;
    }
    scene.deliver("resent").await;
    scene.resend("resent").await;
    for table in ["attempts_kept", "transitions_kept"] {
        assert_eq!(scene.rows(table).await, 0, "{table}");
    }
    scene.now_ms = FROM_MS + DAY_MS;
    scene.deliver("next-day").await;
    scene.deliver_now("late").await;
    let mut before = Vec::new();
    for id in ["dead", "pending", "late", "resent"] {
        before.push(scene.kept_of(id).await);
    }
    assert_eq!(before[1].0, 2, "{before:?}");
    let all = scene.rows("attempts").await;
    scene.mark().await;
    let gone = scene.journal.find(&key("early")).await.expect("read");
    assert!(gone.is_none(), "deleted, and its attempt is not yet");
    assert_eq!(scene.rows("attempts").await, all);
    scene.move_needed().await;
    assert_eq!(scene.rows("attempts_kept").await, 7);
    assert_eq!(scene.rows("attempts").await, all);
    scene.drop_first().await;
    assert_eq!(
        scene.rows("attempts").await,
        8,
        "those, and that of the next day"
    );
    for (id, before) in ["dead", "pending", "late", "resent"].iter().zip(&before) {
        assert_eq!(&scene.kept_of(id).await, before, "{id}");
    }
    // What is recorded later is put to them.
    scene.fail("pending").await;
    scene.deliver_now("pending").await;
    scene.deliver_now("resent").await;
    do_change(&*scene.journal, &key("dead"), Change::Replay, scene.now_ms).await;
    scene.deliver_now("dead").await;
    assert_eq!(scene.rows("attempts_kept").await, 11);
    let pending = find(&*scene.journal, &key("pending")).await;
    let numbers: Vec<u32> = (attempts(&pending).iter()).map(|one| one.1).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(attempts(&pending)[3].2, Outcome::Acknowledged);
    // It is deleted one by one when it is old.
    scene.now_ms += KEPT_MS + 1;
    scene.prune().await;
    for table in ["attempts_kept", "transitions_kept", "statuses"] {
        assert_eq!(scene.rows(table).await, 0, "{table}");
    }
}

#[tokio::test]
async fn what_is_recorded_while_its_partition_is_going_is_kept() {
    // Mark, wait for the others, move, drop.
    for steps in 0..=4 {
        let mut scene = Scene::of_history().await;
        scene.deliver("1").await;
        scene.register_failed("pending").await;
        scene.kill("dead").await;
        scene.make_old().await;
        for _ in 0..steps {
            assert!(scene.tend().await.more, "{steps}");
        }
        scene.fail("pending").await;
        do_change(&*scene.journal, &key("dead"), Change::Discard, scene.now_ms).await;
        let kept = (scene.kept_of("pending").await, scene.kept_of("dead").await);
        assert_eq!(kept.0.0, 2, "{steps}");
        scene.journal = open(&scene.store, "other").await;
        while scene.tend().await.more {}
        assert_eq!(scene.partitions().await[0], (1, 2), "{steps}");
        let after = (scene.kept_of("pending").await, scene.kept_of("dead").await);
        assert_eq!(after, kept, "{steps}");
        assert_eq!(scene.rows("attempts").await, 3, "{steps}");
    }
}

/// It has decided where to put the attempt before the partition was marked, and commits when what is needed is moved.
#[tokio::test]
async fn a_recording_that_has_not_seen_the_mark_is_waited_for() {
    let mut scene = Scene::of_history().await;
    scene.deliver("1").await;
    scene.register("pending").await;
    scene.make_old().await;
    let mut blocking = scene.connect().await;
    run(&mut blocking, "BEGIN; SELECT FROM statuses FOR UPDATE").await;
    let recording = scene.next_failure("pending").await;
    let journal = scene.journal.clone();
    let recording = tokio::spawn(async move { journal.record(&[recording]).await });
    until_one_waits(&scene.store).await;
    assert!(scene.tend().await.more, "it is marked");
    assert_eq!(scene.tend().await, Pruned::default());
    run(&mut blocking, "COMMIT").await;
    recording.await.expect("ended").expect("recorded");
    assert_eq!(scene.rows("attempts_kept").await, 0);
    scene.drop_first().await;
    assert_eq!(scene.kept_of("pending").await.0, 1);
    assert_eq!(scene.rows("attempts_kept").await, 1);
}

#[tokio::test]
async fn two_servers_that_do_the_same_step_at_once_lose_no_history() {
    let mut scene = Scene::of_history().await;
    for id in ["1", "2", "3"] {
        scene.deliver(id).await;
    }
    scene.register("pending").await;
    scene.kill("dead").await;
    let kept = scene.kept_of("dead").await;
    scene.make_old().await;
    let other = open(&scene.store, "other").await;
    let prune = Prune {
        payloads_before_ms: i64::MIN,
        records_before_ms: scene.now_ms - KEPT_MS,
        dead_before_ms: None,
    };
    for _ in 0..8 {
        let work = scene.work();
        let (one, two, pruned) = tokio::join!(
            scene.journal.tend_partitions(&work),
            other.tend_partitions(&work),
            other.prune(&prune, 4),
        );
        one.expect("tended");
        two.expect("tended");
        pruned.expect("pruned");
        scene.fail("pending").await;
    }
    assert_eq!(scene.partitions().await[0], (1, 2));
    assert_eq!(scene.kept_of("dead").await, kept);
    let pending = find(&*scene.journal, &key("pending")).await;
    let numbers: Vec<u32> = (attempts(&pending).iter()).map(|one| one.1).collect();
    let expected: Vec<u32> = (1..=8).collect();
    assert_eq!(numbers, expected);
    assert_eq!(scene.rows("attempts").await, 9);
}

/// It has more rows than are moved in one step.
#[tokio::test]
async fn a_long_history_is_moved_in_several_steps() {
    let mut scene = Scene::of_history().await;
    for id in ["1", "2", "3"] {
        scene.register_failed(id).await;
    }
    let lengthen = "INSERT INTO transitions (notification, at_ms, kind, actor, instance, detail, kept)
        SELECT notification, 1, 'restored', 'it', 'it', '', FALSE FROM attempts, generate_series(1, 6000)";
    run(&mut scene.connect().await, lengthen).await;
    scene.deliver("ended").await;
    scene.mark().await;
    scene.move_needed().await;
    assert_eq!(scene.rows("transitions_kept").await, 6_000);
    assert_eq!(scene.rows("attempts_kept").await, 1);
    scene.tend().await;
    assert_eq!(scene.rows("transitions_kept").await, 12_000);
    scene.tend().await;
    assert_eq!(scene.rows("transitions_kept").await, 18_000);
    scene.drop_first().await;
    assert_eq!(scene.rows("transitions").await, 18_000);
    assert_eq!(scene.rows("attempts").await, 3);
}

/// An export of a day: it sees the rows of the instant at which it began, where they were then.
#[tokio::test]
async fn a_day_that_is_being_read_keeps_its_partition() {
    let mut scene = Scene::of_history().await;
    scene.deliver("1").await;
    scene.kill("dead").await;
    scene.mark().await;
    let selection = DaySelection {
        from_ms: FROM_MS,
        until_ms: FROM_MS + DAY_MS,
        topic: None,
        lane: None,
    };
    let mut reading = scene.journal.read_day(&selection).await.expect("begun");
    scene.move_needed().await;
    assert_eq!(scene.tend().await, Pruned::default());
    assert_eq!(scene.partitions().await[0], (0, 1), "it is being read");
    let page = reading.page(10).await.expect("read").expect("a page");
    assert_eq!(page.items.len(), 1, "the other one was deleted before");
    assert!(page.items[0].last_attempt.is_some());
    reading.end().await;
    scene.drop_first().await;
}

/// As `DETACH PARTITION` by hand leaves it.
#[tokio::test]
async fn where_a_partition_of_history_was_removed_by_hand_nothing_is_refused() {
    let mut scene = Scene::of_history().await;
    let removed = format!("DROP TABLE attempts_{}_{}", FROM_MS, FROM_MS + DAY_MS);
    run(&mut scene.connect().await, &removed).await;
    scene.deliver("1").await;
    scene.register_failed("pending").await;
    scene.kill("dead").await;
    assert_eq!(scene.rows("attempts_rest").await, 3);
    assert_eq!(scene.rows("transitions_rest").await, 0);
    scene.now_ms = FROM_MS + DAY_MS + KEPT_MS;
    assert_eq!(scene.prune().await, 1);
    assert_eq!(scene.rows("attempts").await, 2);
    while scene.tend().await.more {}
    // Those of the transitions go as if nothing had happened, and what is needed is moved from either.
    let mut connection = scene.connect().await;
    let there: Option<String> = sqlx::query_scalar("SELECT to_regclass($1)::TEXT")
        .bind(format!("transitions_{}_{}", FROM_MS, FROM_MS + DAY_MS))
        .fetch_one(&mut connection)
        .await
        .expect("answered");
    assert_eq!(there, None);
    assert_eq!(scene.kept_of("dead").await.0, 1);
    assert_eq!(history(&*scene.journal, &key("dead")).await.len(), 2);
}

#[tokio::test]
async fn history_without_a_partition_is_deleted_with_its_notification() {
    let mut scene = Scene::of_history().await;
    scene.now_ms = FROM_MS - 5;
    scene.deliver("before").await;
    scene.now_ms = FROM_MS;
    scene.deliver("in-partition").await;
    assert_eq!(scene.rows("attempts_kept").await, 1);
    scene.now_ms += KEPT_MS + 1_000;
    assert_eq!(scene.prune().await, 2);
    assert_eq!(scene.rows("attempts_kept").await, 0);
    assert_eq!(
        scene.rows("attempts").await,
        1,
        "it goes with its partition"
    );
}

#[tokio::test]
async fn bodies_and_history_are_dropped_beside_each_other() {
    let mut scene = Scene::of_history().await;
    let both = async |scene: &Scene| {
        let retention = Retention {
            payloads_ms: Some(KEPT_MS),
            records_ms: Some(KEPT_MS),
            dead_ms: None,
        };
        let mut pruner = Pruner::new(scene.journal.clone(), retention);
        pruner.pass(scene.now_ms).await.expect("pruned")
    };
    both(&scene).await;
    scene.deliver("1").await;
    scene.kill("dead").await;
    let kept = scene.kept_of("dead").await;
    scene.now_ms = FROM_MS + DAY_MS + KEPT_MS;
    let pruned = both(&scene).await;
    assert_eq!(pruned.records, 1);
    assert_eq!(scene.partitions().await[0], (1, 2));
    for table in ["payloads", "attempts"] {
        assert_eq!(scene.rows(table).await, 1, "{table}");
    }
    assert_eq!(scene.kept_of("dead").await, kept);
    do_change(&*scene.journal, &key("dead"), Change::Replay, scene.now_ms).await;
    assert!(scene.has_body("dead").await);
}

/// What cannot be done for the one must not keep the other.
#[tokio::test]
async fn damaged_bodies_do_not_keep_history_nor_the_other_way_round() {
    for (is_history, other) in [(true, "payloads_live"), (false, "history_live")] {
        let mut scene = match is_history {
            true => Scene::of_history().await,
            false => Scene::begun().await,
        };
        scene.deliver("1").await;
        scene.now_ms = FROM_MS + DAY_MS + KEPT_MS;
        let damage = format!("UPDATE meta SET value = 'nonsense' WHERE name = 'kept:{other}'");
        run(&mut scene.connect().await, &damage).await;
        let retention = Retention {
            payloads_ms: Some(KEPT_MS),
            records_ms: Some(KEPT_MS),
            dead_ms: None,
        };
        let mut pruner = Pruner::new(scene.journal.clone(), retention);
        pruner.pass(scene.now_ms).await.expect("pruned");
        assert_eq!(scene.partitions().await[0], (1, 2), "{other}");
    }
}

/// By `DETACH PARTITION`, to keep it.
#[tokio::test]
async fn a_partition_that_was_detached_is_not_dropped() {
    let mut scene = Scene::of_history().await;
    scene.deliver("1").await;
    let of = |table: &str| format!("{table}_{}_{}", FROM_MS, FROM_MS + DAY_MS);
    let detach = format!(
        "ALTER TABLE attempts_live DETACH PARTITION {}",
        of("attempts")
    );
    run(&mut scene.connect().await, &detach).await;
    scene.now_ms = FROM_MS + DAY_MS + KEPT_MS;
    scene.prune().await;
    while scene.tend().await.more {}
    assert_eq!(scene.rows(&of("attempts")).await, 1);
    let there: Option<String> = sqlx::query_scalar("SELECT to_regclass($1)::TEXT")
        .bind(of("transitions"))
        .fetch_one(&mut scene.connect().await)
        .await
        .expect("answered");
    assert_eq!(there, None);
}

/// The drop waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_is_being_detached_is_not_dropped() {
    let mut scene = Scene::of_history().await;
    scene.deliver("1").await;
    scene.mark().await;
    scene.move_needed().await;
    let of = |table: &str| format!("{table}_{}_{}", FROM_MS, FROM_MS + DAY_MS);
    let detach = format!(
        "BEGIN; ALTER TABLE attempts_live DETACH PARTITION {}",
        of("attempts")
    );
    let mut detaching = scene.connect().await;
    run(&mut detaching, &detach).await;
    {
        let (mut tended, mut waits) = (
            Box::pin(scene.tend()),
            Box::pin(until_one_waits(&scene.store)),
        );
        loop {
            tokio::select! {
                () = &mut waits => break,
                // It did not wait for long enough.
                _ = &mut tended => tended.set(scene.tend()),
            }
        }
        run(&mut detaching, "COMMIT").await;
        tended.await;
    }
    while scene.tend().await.more {}
    assert_eq!(scene.partitions().await[0], (1, 2));
    assert_eq!(scene.rows(&of("attempts")).await, 1);
}

/// It has written its line before the partition was marked, and commits when what is needed is moved.
#[tokio::test]
async fn a_change_that_has_not_seen_the_mark_is_waited_for() {
    let mut scene = Scene::of_history().await;
    scene.deliver("1").await;
    scene.register("pending").await;
    scene.make_old().await;
    let mut blocking = scene.connect().await;
    run(&mut blocking, "BEGIN; LOCK TABLE audit_log").await;
    let cancel = changing(&key("pending"), Change::Cancel, scene.now_ms);
    let journal = scene.journal.clone();
    let cancelling = tokio::spawn(async move { journal.change(cancel).await });
    until_one_waits(&scene.store).await;
    assert!(scene.tend().await.more, "it is marked");
    assert_eq!(scene.tend().await, Pruned::default());
    run(&mut blocking, "COMMIT").await;
    let cancelled = cancelling.await.expect("ended").expect("answered");
    assert!(matches!(cancelled, ChangeResult::Done(_)), "{cancelled:?}");
    assert_eq!(scene.rows("transitions_kept").await, 0);
    scene.drop_first().await;
    assert_eq!(
        scene.kept_of("pending").await.1,
        ["registered", "cancelled"]
    );
}

/// Its reply was lost.
#[tokio::test]
async fn an_attempt_that_is_recorded_again_after_the_mark_is_there_once() {
    let mut scene = Scene::of_history().await;
    scene.deliver("1").await;
    scene.register("pending").await;
    let recording = scene.next_failure("pending").await;
    apply(&*scene.journal, recording.clone()).await;
    scene.mark().await;
    record(&*scene.journal, recording.clone()).await;
    assert_eq!(scene.kept_of("pending").await.0, 1);
    scene.move_needed().await;
    record(&*scene.journal, recording).await;
    scene.drop_first().await;
    assert_eq!(scene.kept_of("pending").await.0, 1);
}

/// Its partition may stay for longer than the notification was meant to.
#[tokio::test]
async fn what_has_a_shorter_limit_than_its_partition_is_deleted_at_once() {
    let all = ["attempts", "transitions", "payloads", "statuses"];
    // A dead letter; with and without a limit for what was delivered.
    for (is_history, records_before_ms) in [(true, i64::MIN), (true, FROM_MS), (false, FROM_MS)] {
        let scene = match is_history {
            true => Scene::of_history().await,
            false => Scene::begun().await,
        };
        scene.kill("dead").await;
        let prune = Prune {
            payloads_before_ms: FROM_MS,
            records_before_ms,
            dead_before_ms: Some(FROM_MS + DAY_MS),
        };
        let pruned = scene.journal.prune(&prune, 10).await.expect("pruned");
        assert_eq!(pruned.records, 1);
        for table in all {
            assert_eq!(scene.rows(table).await, 0, "{table}");
        }
    }
    // The body of what was delivered, if bodies may stay for longer than records.
    for (payloads_before_ms, bodies) in [(FROM_MS, 0), (FROM_MS + DAY_MS, 1)] {
        let scene = Scene::begun().await;
        scene.deliver("1").await;
        let prune = Prune {
            payloads_before_ms,
            records_before_ms: FROM_MS + DAY_MS,
            dead_before_ms: None,
        };
        let pruned = scene.journal.prune(&prune, 10).await.expect("pruned");
        assert_eq!(pruned.records, 1);
        assert_eq!(scene.rows("payloads").await, bodies, "{payloads_before_ms}");
    }
}

/// As `pg_dump` does, which reads each partition and sequence itself.
#[tokio::test]
async fn who_may_read_history_may_read_each_new_partition() {
    let mut scene = Scene::of_history().await;
    let mut connection = scene.connect().await;
    let user = format!("history_{}", std::process::id());
    let create = format!("CREATE ROLE {user}; GRANT SELECT ON attempts, transitions TO {user}");
    run(&mut connection, &create).await;
    scene.now_ms = FROM_MS + DAY_MS;
    while scene.tend().await.more {}
    let new = format!("{}_{}", FROM_MS + 2 * DAY_MS, FROM_MS + 3 * DAY_MS);
    let granted: Vec<bool> = sqlx::query_scalar(
        "SELECT has_table_privilege($1, name || suffix, 'SELECT')
         FROM (VALUES ('attempts_'), ('transitions_')) AS t (name), unnest($2::TEXT[]) AS suffix",
    )
    .bind(&user)
    .bind(vec![new, "live".to_string(), "rest".to_string()])
    .fetch_all(&mut connection)
    .await
    .expect("answered");
    assert_eq!(granted, [true; 6]);
    let remove = format!("DROP OWNED BY {user}; DROP ROLE {user}");
    run(&mut connection, &remove).await;
}

/// It was prepared before the migration.
#[tokio::test]
async fn a_server_of_the_version_before_goes_on_recording() {
    let store = PostgresStore::new();
    let journal = open(&store, "before").await;
    let given = registering("1");
    let progress = given.progress;
    let notification = keep(&*journal, given).await;
    apply(&*journal, delivery(&notification, progress)).await;
    journal.close().await;
    let url = older_postgres(&store, 24).await;
    let mut before = connect(&url).await;
    let user = format!("recording_{}", std::process::id());
    let create = format!(
        "CREATE ROLE {user}; GRANT USAGE ON SCHEMA older_24 TO {user}; GRANT INSERT ON transitions TO {user}"
    );
    run(&mut before, &create).await;
    run(
        &mut before,
        "SET plan_cache_mode = 'force_generic_plan';
         GRANT INSERT, DELETE, SELECT ON attempts, transitions TO PUBLIC;
         PREPARE put (BIGINT) AS
            INSERT INTO transitions (notification, at_ms, kind, actor, instance, detail) VALUES ($1, 1, 'restored', 'it', 'it', '');
         EXECUTE put (1)",
    )
    .await;
    PostgresJournal::migrate(&url).await.expect("migrated");
    let put = format!("SET ROLE {user}; EXECUTE put (1); RESET ROLE; EXECUTE put (1)");
    run(&mut before, &put).await;
    let kept: Vec<i64> = sqlx::query_scalar("SELECT row_id FROM transitions_kept ORDER BY row_id")
        .fetch_all(&mut before)
        .await
        .expect("read");
    assert_eq!(kept.len(), 3);
    assert_eq!(kept[2], kept[0] + 2, "they are numbered on: {kept:?}");
    let granted: Vec<bool> = sqlx::query_scalar(
        "SELECT has_table_privilege('public', t, 'UPDATE') AND has_table_privilege('public', t || '_live', 'SELECT')
            AND has_sequence_privilege('public', s, 'USAGE') AND has_sequence_privilege('public', s, 'SELECT')
         FROM (VALUES ('attempts', 'attempt_rows'), ('transitions', 'transition_rows')) AS v (t, s)",
    )
    .fetch_all(&mut before)
    .await
    .expect("read");
    assert_eq!(granted, [true, true]);
    // The index that finds changes by hand is not made anew.
    let of_parent: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = 'transitions_changed_by_hand'::regclass",
    )
    .fetch_one(&mut before)
    .await
    .expect("read");
    let of_kept: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_index WHERE indrelid = 'transitions_kept'::regclass",
    )
    .fetch_one(&mut before)
    .await
    .expect("read");
    assert_eq!((of_parent, of_kept), (2, 2));
    let remove = format!("DROP OWNED BY {user}; DROP ROLE {user}");
    run(&mut before, &remove).await;
}

#[tokio::test]
async fn history_from_before_partitions_is_kept_and_deleted_by_itself() {
    let filled = PostgresStore::new();
    let journal = open(&filled, "before").await;
    for id in ["delivered", "pending"] {
        let given = registering(id);
        let progress = given.progress;
        let notification = keep(&*journal, given).await;
        let ended = match id {
            "delivered" => delivery(&notification, progress),
            _ => failure(&notification, progress),
        };
        apply(&*journal, ended).await;
    }
    journal.close().await;
    let url = older_postgres(&filled, 24).await;
    let journal = PostgresJournal::open(&url, "after", true).await;
    let journal: Arc<dyn Journal> = Arc::new(journal.expect("it opens"));
    let pending = journal.pending(&key("pending")).await.expect("read");
    let pending = pending.expect("pending");
    apply(&*journal, delivery(&pending.notification, pending.progress)).await;
    let found = find(&*journal, &key("pending")).await;
    assert_eq!(
        attempts(&found),
        [(1, 1, Outcome::HttpStatus), (1, 2, Outcome::Acknowledged)]
    );
    assert_eq!(found.state, State::Delivered);
    let mut connection = connect(&url).await;
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM attempts_kept WHERE kept")
        .fetch_one(&mut connection)
        .await
        .expect("counted");
    assert_eq!(kept, 3);
    let prune = Prune {
        payloads_before_ms: i64::MIN,
        records_before_ms: i64::MAX,
        dead_before_ms: None,
    };
    let pruned = journal.prune(&prune, 10).await.expect("pruned");
    assert_eq!(pruned.records, 2);
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM attempts")
        .fetch_one(&mut connection)
        .await
        .expect("counted");
    assert_eq!(left, 0);
}
