//! Bodies in PostgreSQL are forgotten by dropping the partition of their time: nothing that is still needed goes with it.

use super::PostgresStore;
use super::older::older_postgres;
use super::partition_scene::{DAY_MS, FROM_MS, HOUR_MS, KEPT_MS, Scene, open};
use super::postgres_sharing::until_one_waits;
use super::samples::{
    apply, changing, delivery, do_change, find, keep, key, registering, registering_at,
    registration,
};
use crate::support::postgres::{connect, run};
use ringback::domain::body::Body;
use ringback::domain::change::Change;
use ringback::domain::state::State;
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::{
    ChangeResult, JournalMaintenance, JournalReads, JournalWrites, Prune, Pruned,
};
use std::sync::Arc;

#[tokio::test]
async fn bodies_that_are_needed_outlive_the_partition_of_their_time() {
    let mut scene = Scene::begun().await;
    for id in [
        "early", "early-2", "early-3", "early-4", "early-5", "early-6",
    ] {
        scene.deliver(id).await;
    }
    scene.kill("dead").await;
    scene.kill("replayed").await;
    for id in ["pending", "late", "cancelled"] {
        scene.register(id).await;
    }
    do_change(
        &*scene.journal,
        &key("cancelled"),
        Change::Cancel,
        FROM_MS + 5,
    )
    .await;
    assert_eq!(scene.rows("payloads_kept").await, 0);
    scene.now_ms = FROM_MS + DAY_MS;
    scene.deliver("next-day").await;
    scene.deliver_now("late").await;
    scene.mark().await;
    let not_needed = scene.move_needed().await;
    assert_eq!(not_needed, 7, "the early ones and the cancelled one");
    assert_eq!(scene.rows("payloads_kept").await, 4);
    scene.drop_first().await;
    assert_eq!(scene.rows("payloads").await, 5);
    assert!(scene.has_body("pending").await);
    do_change(
        &*scene.journal,
        &key("replayed"),
        Change::Replay,
        scene.now_ms,
    )
    .await;
    assert!(scene.has_body("replayed").await);
    let resent = scene.resend("early").await;
    assert!(
        matches!(resent, ChangeResult::PayloadDeleted(_)),
        "{resent:?}"
    );
    assert_eq!(
        find(&*scene.journal, &key("early")).await.state,
        State::Delivered
    );
    assert!(matches!(scene.resend("late").await, ChangeResult::Done(_)));
    assert!(scene.has_body("late").await);
    // What was kept is deleted one by one when it is old.
    for id in ["late", "pending", "replayed"] {
        scene.deliver_now(id).await;
    }
    scene.now_ms += KEPT_MS + 1;
    assert_eq!(scene.prune().await, 3);
    assert_eq!(
        scene.rows("payloads_kept").await,
        1,
        "that of the dead letter"
    );
}

#[tokio::test]
async fn what_is_sent_again_while_its_partition_is_going_keeps_its_body() {
    let mut scene = Scene::begun().await;
    for id in ["1", "2", "3"] {
        scene.deliver(id).await;
    }
    scene.mark().await;
    assert!(matches!(scene.resend("1").await, ChangeResult::Done(_)));
    assert_eq!(scene.rows("payloads_kept").await, 1);
    assert_eq!(scene.move_needed().await, 2);
    assert!(matches!(scene.resend("2").await, ChangeResult::Done(_)));
    scene.drop_first().await;
    assert!(scene.has_body("1").await && scene.has_body("2").await);
    let resent = scene.resend("3").await;
    assert!(
        matches!(resent, ChangeResult::PayloadDeleted(_)),
        "{resent:?}"
    );
}

/// The journal was set back, and gets it from the schedule.
#[tokio::test]
async fn what_is_registered_for_a_time_that_is_going_keeps_its_body() {
    let mut scene = Scene::begun().await;
    scene.deliver("1").await;
    let lost = registering_at(registration(key("lost")), FROM_MS + 1);
    scene.mark().await;
    assert_eq!(scene.move_needed().await, 1);
    keep(&*scene.journal, lost).await;
    assert_eq!(scene.rows("payloads_kept").await, 1);
    scene.drop_first().await;
    assert!(scene.has_body("lost").await);
}

#[tokio::test]
async fn another_server_goes_on_at_any_step() {
    // Mark, wait for the others, move, drop.
    for steps in 0..=4 {
        let mut scene = Scene::begun().await;
        for id in ["1", "2", "3"] {
            scene.deliver(id).await;
        }
        scene.kill("dead").await;
        scene.make_old().await;
        for _ in 0..steps {
            assert!(scene.tend().await.more, "{steps}");
        }
        let there = scene.partitions().await;
        assert_eq!(there[0] != (0, 1), steps == 4, "{steps} {there:?}");
        scene.journal = open(&scene.store, "other").await;
        while scene.tend().await.more {}
        assert_eq!(scene.partitions().await[0], (1, 2), "{steps}");
        assert_eq!(scene.rows("payloads").await, 1, "{steps}");
        do_change(&*scene.journal, &key("dead"), Change::Replay, scene.now_ms).await;
        assert!(scene.has_body("dead").await, "{steps}");
    }
}

#[tokio::test]
async fn two_servers_that_do_the_same_step_at_once_lose_nothing() {
    let mut scene = Scene::begun().await;
    scene.deliver("1").await;
    scene.kill("dead").await;
    scene.make_old().await;
    let other = open(&scene.store, "other").await;
    for _ in 0..8 {
        let work = scene.work();
        let (one, two) = tokio::join!(
            scene.journal.tend_partitions(&work),
            other.tend_partitions(&work)
        );
        one.expect("tended");
        two.expect("tended");
    }
    assert_eq!(scene.partitions().await[0], (1, 2));
    do_change(&*scene.journal, &key("dead"), Change::Replay, scene.now_ms).await;
    assert!(scene.has_body("dead").await);
    assert_eq!(scene.rows("payloads").await, 1);
}

#[tokio::test]
async fn a_partition_is_not_dropped_before_pruning_has_passed_it() {
    let mut scene = Scene::begun().await;
    scene.deliver("1").await;
    scene.now_ms += HOUR_MS;
    scene.deliver("2").await;
    // Pruning has come to the first one.
    scene.now_ms += KEPT_MS;
    scene.prune().await;
    scene.now_ms = FROM_MS + DAY_MS + KEPT_MS;
    while scene.tend().await.more {}
    assert_eq!(scene.partitions().await[0], (0, 1));
    scene.prune().await;
    while scene.tend().await.more {}
    assert_eq!(scene.partitions().await[0], (1, 2));
}

/// It has looked for the body before the partition was marked, and commits when needed bodies are moved.
#[tokio::test]
async fn a_resend_that_has_not_seen_the_mark_is_waited_for() {
    let mut scene = Scene::begun().await;
    scene.deliver("1").await;
    scene.make_old().await;
    let mut blocking = scene.connect().await;
    run(&mut blocking, "BEGIN; LOCK TABLE transitions").await;
    let resend = changing(&key("1"), Change::Resend, scene.now_ms);
    let journal = scene.journal.clone();
    let resending = tokio::spawn(async move { journal.change(resend).await });
    until_one_waits(&scene.store).await;
    assert!(scene.tend().await.more, "it is marked");
    assert_eq!(scene.tend().await, Pruned::default());
    assert_eq!(scene.tend().await, Pruned::default());
    run(&mut blocking, "COMMIT").await;
    let resent = resending.await.expect("ended").expect("answered");
    assert!(matches!(resent, ChangeResult::Done(_)), "{resent:?}");
    assert_eq!(scene.rows("payloads_kept").await, 0);
    scene.drop_first().await;
    assert!(scene.has_body("1").await);
}

/// Together they are larger than what is moved in one step.
#[tokio::test]
async fn large_bodies_are_moved_in_several_steps() {
    let mut scene = Scene::begun().await;
    for id in ["1", "2", "3"] {
        scene.kill(id).await;
    }
    let mut connection = scene.connect().await;
    let enlarge = "UPDATE payloads SET body = decode(repeat('00', 9 << 20), 'hex')";
    run(&mut connection, enlarge).await;
    scene.mark().await;
    scene.move_needed().await;
    assert_eq!(scene.rows("payloads_kept").await, 1);
    scene.tend().await;
    assert_eq!(scene.rows("payloads_kept").await, 2);
    scene.tend().await;
    assert_eq!(scene.rows("payloads_kept").await, 3);
    scene.drop_first().await;
    assert_eq!(scene.rows("payloads").await, 3);
}

/// It sees the rows of the instant at which it began, where they were then.
#[tokio::test]
async fn an_examination_finds_each_body_although_it_was_moved() {
    let mut scene = Scene::begun().await;
    scene.register("pending").await;
    scene.deliver("1").await;
    scene.mark().await;
    let mut blocking = scene.connect().await;
    run(&mut blocking, "BEGIN; LOCK TABLE notifications").await;
    let journal = scene.journal.clone();
    let examining = tokio::spawn(async move { journal.examine(10).await });
    until_one_waits(&scene.store).await;
    assert_eq!(scene.move_needed().await, 1);
    assert_eq!(scene.tend().await, Pruned::default());
    assert_eq!(scene.partitions().await[0], (0, 1), "it is being read");
    run(&mut blocking, "COMMIT").await;
    let examined = examining.await.expect("ended").expect("examined");
    assert_eq!(examined.faults, [], "{examined:?}");
    scene.drop_first().await;
}

/// Such as `pg_dump`.
#[tokio::test]
async fn a_long_reader_holds_up_the_drop_and_nothing_else() {
    let mut scene = Scene::begun().await;
    scene.deliver("1").await;
    scene.mark().await;
    assert_eq!(scene.move_needed().await, 1);
    let mut reader = scene.connect().await;
    run(&mut reader, "BEGIN; SELECT FROM payloads").await;
    assert_eq!(scene.tend().await, Pruned::default());
    assert_eq!(scene.partitions().await[0], (0, 1));
    scene.deliver("2").await;
    run(&mut reader, "COMMIT").await;
    scene.drop_first().await;
}

#[tokio::test]
async fn without_a_partition_for_its_time_a_body_is_deleted_by_itself() {
    let mut scene = Scene::begun().await;
    scene.now_ms = FROM_MS - 5;
    scene.deliver("before").await;
    // No server was there to make partitions.
    scene.now_ms = FROM_MS + 3 * DAY_MS;
    scene.deliver("after").await;
    assert_eq!(scene.rows("payloads_kept").await, 2);
    while scene.tend().await.more {}
    scene.deliver("later").await;
    assert_eq!(scene.rows("payloads_kept").await, 2);
    scene.now_ms = FROM_MS + 3 * DAY_MS + KEPT_MS + 1_000;
    assert_eq!(scene.prune().await, 2);
    assert_eq!(scene.rows("payloads").await, 1);
}

/// As `DETACH PARTITION` by hand leaves it.
#[tokio::test]
async fn where_a_partition_was_removed_by_hand_nothing_is_refused() {
    let mut scene = Scene::begun().await;
    let removed = format!("DROP TABLE payloads_{}_{}", FROM_MS, FROM_MS + DAY_MS);
    run(&mut scene.connect().await, &removed).await;
    scene.deliver("1").await;
    assert_eq!(scene.rows("payloads_rest").await, 1);
    scene.now_ms += KEPT_MS + 1_000;
    assert_eq!(scene.prune().await, 1);
    while scene.tend().await.more {}
    let there = scene.partitions().await;
    assert_eq!(there.last(), Some(&(18, 19)));
}

/// A user that may read and write, and nothing else.
#[tokio::test]
async fn without_the_right_to_drop_all_is_deleted_one_by_one() {
    let mut scene = Scene::begun().await;
    scene.deliver("1").await;
    let mut connection = scene.connect().await;
    let user = format!("deleting_{}", std::process::id());
    let create = format!(
        "CREATE ROLE {user} LOGIN PASSWORD 'hunter2';
         GRANT ALL ON ALL TABLES IN SCHEMA public TO {user};
         GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {user}"
    );
    run(&mut connection, &create).await;
    let (scheme, rest) = scene.store.url.split_once("://").expect("a URL");
    let (_, place) = rest.split_once('@').expect("a user");
    let url = format!("{scheme}://{user}:hunter2@{place}");
    let journal = PostgresJournal::open(&url, "other", false).await;
    scene.journal = Arc::new(journal.expect("it opens"));
    scene.now_ms += KEPT_MS + 1_000;
    assert_eq!(scene.tend().await, Pruned::default());
    assert_eq!(scene.prune().await, 1);
    assert_eq!(scene.rows("payloads").await, 0);
    let remove = format!("DROP OWNED BY {user}; DROP ROLE {user}");
    run(&mut connection, &remove).await;
}

/// As `pg_dump` does, which reads each partition itself.
#[tokio::test]
async fn who_may_read_bodies_may_read_each_partition() {
    let mut scene = Scene::begun().await;
    let mut connection = scene.connect().await;
    let user = format!("reading_{}", std::process::id());
    let create = format!("CREATE ROLE \"{user} 2\"; GRANT SELECT ON payloads TO \"{user} 2\"");
    run(&mut connection, &create).await;
    scene.now_ms += DAY_MS;
    while scene.tend().await.more {}
    let refused: Vec<String> = sqlx::query_scalar(
        "SELECT relname::TEXT FROM pg_class
         WHERE relname LIKE 'payloads\\_%' AND relkind IN ('r', 'p')
            AND NOT has_table_privilege($1, oid, 'SELECT') ORDER BY relname",
    )
    .bind(format!("{user} 2"))
    .fetch_all(&mut connection)
    .await
    .expect("answered");
    // What was made before it got its right.
    let name = |from_ms| format!("payloads_{from_ms}_{}", from_ms + DAY_MS);
    let before = [
        name(FROM_MS),
        name(FROM_MS + DAY_MS),
        "payloads_kept".into(),
    ];
    assert_eq!(refused, before);
    let remove = format!("DROP OWNED BY \"{user} 2\"; DROP ROLE \"{user} 2\"");
    run(&mut connection, &remove).await;
}

/// Also of one that was detached by hand meanwhile, and is attached again.
#[tokio::test]
async fn of_several_partitions_that_are_old_at_once_all_that_is_needed_is_moved() {
    let mut scene = Scene::begun().await;
    let mut connection = scene.connect().await;
    let first = format!("payloads_{FROM_MS}_{}", FROM_MS + DAY_MS);
    scene.kill("first").await;
    for day in 1..4 {
        scene.now_ms = FROM_MS + day * DAY_MS;
        while scene.tend().await.more {}
        scene.kill(&format!("dead-{day}")).await;
        scene.deliver(&format!("delivered-{day}")).await;
    }
    assert_eq!(scene.rows("payloads_kept").await, 0);
    let detach = format!("ALTER TABLE payloads_live DETACH PARTITION {first}");
    run(&mut connection, &detach).await;
    scene.now_ms = FROM_MS + 3 * DAY_MS + KEPT_MS;
    scene.prune().await;
    for _ in 0..99 {
        if scene.rows("payloads_kept").await == 2 {
            break;
        }
        assert!(scene.tend().await.more);
    }
    let (from, until) = (FROM_MS << 21, (FROM_MS + DAY_MS) << 21);
    let attach = format!(
        "ALTER TABLE payloads_live ATTACH PARTITION {first} FOR VALUES FROM ({from}) TO ({until})"
    );
    run(&mut connection, &attach).await;
    while scene.tend().await.more {}
    assert_eq!(scene.partitions().await[0], (3, 4));
    assert_eq!(scene.rows("payloads_kept").await, 3);
    assert_eq!(scene.rows("payloads").await, 5);
}

/// It was prepared before the migration.
#[tokio::test]
async fn a_server_of_the_version_before_goes_on_registering() {
    let store = PostgresStore::new();
    open(&store, "before").await.close().await;
    let url = older_postgres(&store, 21).await;
    let mut before = connect(&url).await;
    run(
        &mut before,
        "SET plan_cache_mode = 'force_generic_plan';
         GRANT INSERT, DELETE ON payloads TO PUBLIC;
         PREPARE put (BIGINT) AS INSERT INTO payloads (notification, headers, body) VALUES ($1, '[]', '');
         EXECUTE put (1)",
    )
    .await;
    PostgresJournal::migrate(&url).await.expect("migrated");
    run(&mut before, "EXECUTE put (2); EXECUTE put (3)").await;
    let kept = sqlx::query_scalar(
        "SELECT array_agg(notification ORDER BY notification) FROM payloads_kept",
    );
    let kept: Vec<i64> = kept.fetch_one(&mut before).await.expect("read");
    assert_eq!(kept, [1, 2, 3]);
    let granted = sqlx::query_scalar("SELECT has_table_privilege('public', 'payloads', 'UPDATE')");
    let granted: bool = granted.fetch_one(&mut before).await.expect("read");
    assert!(granted);
}

#[tokio::test]
async fn what_was_there_before_partitions_were_is_kept_and_deleted_by_itself() {
    let filled = PostgresStore::new();
    let journal = open(&filled, "before").await;
    let given = registering("delivered");
    let progress = given.progress;
    let notification = keep(&*journal, given).await;
    apply(&*journal, delivery(&notification, progress)).await;
    keep(&*journal, registering("pending")).await;
    journal.close().await;
    let url = older_postgres(&filled, 21).await;
    let journal = PostgresJournal::open(&url, "after", true).await;
    let journal = Arc::new(journal.expect("it opens"));
    let mut connection = connect(&url).await;
    let kept = sqlx::query_scalar("SELECT count(*) FROM payloads_kept WHERE kept");
    let kept: i64 = kept.fetch_one(&mut connection).await.expect("counted");
    assert_eq!(kept, 2);
    let pending = journal.pending(&key("pending")).await.expect("read");
    assert!(matches!(
        pending.expect("pending").notification.body,
        Body::Here(_)
    ));
    let prune = Prune {
        payloads_before_ms: i64::MAX,
        records_before_ms: i64::MIN,
        dead_before_ms: None,
    };
    let pruned = journal.prune(&prune, 10).await.expect("pruned");
    assert_eq!(pruned.payloads, 1);
    keep(&*journal, registering("new")).await;
    let kept = sqlx::query_scalar("SELECT count(*) FROM payloads_kept");
    let kept: i64 = kept.fetch_one(&mut connection).await.expect("counted");
    assert_eq!(kept, 2);
}
