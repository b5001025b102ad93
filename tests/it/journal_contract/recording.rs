//! Attempts: those that count, and those that come too late.

use super::samples::{
    START_MS, apply, attempts, changing, delivery, do_change, failure, find, history, keep, key,
    record, recording, refusal, registering,
};
use super::{INSTANCE, Store};
use ringback::domain::attempt::Outcome;
use ringback::domain::change::Change;
use ringback::domain::notification::Notification;
use ringback::domain::progress::Progress;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::{Cause, State};
use ringback::journal::{ChangeResult, Journal, Recorded, Recording};
use std::sync::Arc;

/// A journal with one notification in it.
async fn with_one(store: &dyn Store) -> (Arc<dyn Journal>, Arc<Notification>, Progress) {
    let journal = store.open().await;
    let given = registering("1");
    let progress = given.progress;
    let notification = keep(&*journal, given).await;
    (journal, notification, progress)
}

/// A recording that must be kept without changing anything, and be told how things stand.
async fn check_stale(journal: &dyn Journal, late: Recording) {
    let before = find(journal, &late.key).await;
    let lines = history(journal, &late.key).await;
    let stands = Snapshot {
        attempts: Vec::new(),
        ..before.clone()
    };
    let reply = record(journal, late.clone()).await;
    assert_eq!(reply, Recorded::Stale(Box::new(stands)));
    let after = find(journal, &late.key).await;
    assert_eq!(after.attempts.last(), Some(&*late.attempt));
    assert_eq!(after.attempts.len(), before.attempts.len() + 1);
    assert_eq!(
        Snapshot {
            attempts: before.attempts.clone(),
            ..after
        },
        before
    );
    assert_eq!(history(journal, &late.key).await, lines);
}

pub async fn a_failed_attempt_moves_on_and_is_kept(store: &dyn Store) {
    let (journal, notification, start) = with_one(store).await;
    let first = failure(&notification, start);
    apply(&*journal, first.clone()).await;
    let second = recording(
        &notification,
        first.decision.progress,
        Outcome::Timeout,
        None,
    );
    apply(&*journal, second.clone()).await;
    let snapshot = find(&*journal, &notification.key).await;
    assert_eq!(snapshot.state, State::Scheduled);
    assert_eq!(snapshot.progress, second.decision.progress);
    assert_eq!(snapshot.ended_ms, None);
    assert_eq!(
        snapshot.attempts,
        [first.attempt, second.attempt].map(Arc::unwrap_or_clone)
    );
    assert_eq!(history(&*journal, &notification.key).await, ["registered"]);
}

pub async fn a_deferred_attempt_moves_the_deadline_of_its_notification_alone(store: &dyn Store) {
    let (journal, deferred, start) = with_one(store).await;
    let other = keep(&*journal, registering("2")).await;
    let mut moving = failure(&deferred, start);
    moving.decision.progress.deadline_ms += 60_000;
    let batch = [moving.clone(), failure(&other, start)];
    let replies = journal.record(&batch).await.expect("kept");
    assert_eq!(replies, [Recorded::Applied, Recorded::Applied]);
    for recorded in &batch {
        let snapshot = find(&*journal, &recorded.key).await;
        assert_eq!(snapshot.progress, recorded.decision.progress);
    }
    // What is pending now is expected to have the moved deadline.
    let mut last = delivery(&deferred, moving.decision.progress);
    last.decision.progress.deadline_ms += 1_000;
    apply(&*journal, last.clone()).await;
    let snapshot = find(&*journal, &deferred.key).await;
    assert_eq!(snapshot.state, State::Delivered);
    assert_eq!(snapshot.progress, last.decision.progress);
    assert_eq!(
        snapshot.attempts,
        [moving.attempt, last.attempt].map(Arc::unwrap_or_clone)
    );
}

pub async fn a_delivery_ends_it(store: &dyn Store) {
    let (journal, notification, start) = with_one(store).await;
    let given = delivery(&notification, start);
    apply(&*journal, given.clone()).await;
    let snapshot = find(&*journal, &notification.key).await;
    assert_eq!((snapshot.state, snapshot.cause), (State::Delivered, None));
    assert_eq!(snapshot.ended_ms, Some(given.at_ms));
    assert_eq!(snapshot.progress, given.decision.progress);
    let lines = journal.transitions(&notification.key).await.expect("read");
    let [_, line] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    assert_eq!((&*line.kind, line.at_ms), ("delivered", given.at_ms));
    assert_eq!((&*line.actor, &*line.instance), ("dispatcher", INSTANCE));
    check_stale(&*journal, later(given)).await;
}

/// The same attempt made again a moment later.
fn later(mut recording: Recording) -> Recording {
    Arc::make_mut(&mut recording.attempt).started_ms += 1;
    recording
}

pub async fn a_recording_that_is_repeated_is_kept_once(store: &dyn Store) {
    let (journal, notification, start) = with_one(store).await;
    let check = async |given: &Recording, expected: &[(u32, u32, Outcome)]| {
        apply(&*journal, given.clone()).await;
        apply(&*journal, given.clone()).await;
        let twice = [given.clone(), given.clone()];
        let replies = journal.record(&twice).await.expect("kept");
        assert_eq!(replies, [Recorded::Applied, Recorded::Applied]);
        let snapshot = find(&*journal, &notification.key).await;
        assert_eq!(attempts(&snapshot), expected);
        assert_eq!(snapshot.progress, given.decision.progress);
        assert_eq!(snapshot.state, given.decision.state);
    };
    let mut interrupted = recording(&notification, start, Outcome::Interrupted, None);
    Arc::make_mut(&mut interrupted.attempt).started_ms -= 1;
    let interruption = (1, 1, Outcome::Interrupted);
    check(&interrupted, &[interruption]).await;
    let failed = failure(&notification, start);
    let failure = (1, 1, Outcome::HttpStatus);
    check(&failed, &[interruption, failure]).await;
    let delivered = delivery(&notification, failed.decision.progress);
    let delivery = (1, 2, Outcome::Acknowledged);
    check(&delivered, &[interruption, failure, delivery]).await;
    // Long after, when it stands elsewhere.
    let reply = record(&*journal, failed).await;
    assert!(matches!(reply, Recorded::Stale(_)), "{reply:?}");
    let snapshot = find(&*journal, &notification.key).await;
    assert_eq!(attempts(&snapshot), [interruption, failure, delivery]);
    let lines = history(&*journal, &notification.key).await;
    assert_eq!(lines, ["registered", "delivered"]);
}

pub async fn a_last_failure_parks_it_with_its_cause(store: &dyn Store) {
    let journal = store.open().await;
    for (outcome, status, cause) in [
        (Outcome::HttpStatus, Some(410), Cause::Refused),
        (Outcome::Blocked, None, Cause::Blocked),
    ] {
        let given = registering(cause.as_str());
        let notification = keep(&*journal, given.clone()).await;
        let end = recording(&notification, given.progress, outcome, status);
        apply(&*journal, end.clone()).await;
        let snapshot = find(&*journal, &notification.key).await;
        assert_eq!((snapshot.state, snapshot.cause), (State::Dead, Some(cause)));
        assert_eq!(snapshot.ended_ms, Some(end.at_ms));
        let lines = journal.transitions(&notification.key).await.expect("read");
        let line = lines.last().expect("a line");
        assert_eq!((&*line.kind, &*line.detail), ("parked", cause.as_str()));
    }
}

pub async fn an_interrupted_attempt_is_kept_and_changes_nothing(store: &dyn Store) {
    let (journal, notification, start) = with_one(store).await;
    let given = recording(&notification, start, Outcome::Interrupted, None);
    apply(&*journal, given.clone()).await;
    let again = failure(&notification, start);
    apply(&*journal, again.clone()).await;
    let snapshot = find(&*journal, &notification.key).await;
    assert_eq!(snapshot.progress, again.decision.progress);
    assert_eq!(
        attempts(&snapshot),
        [(1, 1, Outcome::Interrupted), (1, 1, Outcome::HttpStatus)]
    );
    assert_eq!(history(&*journal, &notification.key).await, ["registered"]);
}

pub async fn a_repeated_note_of_an_interruption_says_that_it_has_ended(store: &dyn Store) {
    let (journal, notification, start) = with_one(store).await;
    let given = recording(&notification, start, Outcome::Interrupted, None);
    apply(&*journal, given.clone()).await;
    // Its reply was lost, and whoever asks again goes on with the attempt if it is pending still.
    apply(&*journal, given.clone()).await;
    do_change(&*journal, &notification.key, Change::Cancel, START_MS + 1).await;
    let again = record(&*journal, given).await;
    let Recorded::Stale(stands) = again else {
        panic!("{again:?}");
    };
    assert_eq!(stands.state, State::Cancelled);
    let snapshot = find(&*journal, &notification.key).await;
    assert_eq!(attempts(&snapshot), [(1, 1, Outcome::Interrupted)]);
}

pub async fn an_attempt_after_a_cancellation_is_kept_and_changes_nothing(store: &dyn Store) {
    let (journal, notification, start) = with_one(store).await;
    do_change(&*journal, &notification.key, Change::Cancel, START_MS + 1).await;
    check_stale(&*journal, failure(&notification, start)).await;
    check_stale(&*journal, delivery(&notification, start)).await;
}

pub async fn an_attempt_that_was_overtaken_is_kept_and_changes_nothing(store: &dyn Store) {
    let (journal, notification, start) = with_one(store).await;
    apply(&*journal, failure(&notification, start)).await;
    check_stale(&*journal, later(failure(&notification, start))).await;
    check_stale(&*journal, later(later(refusal(&notification, start)))).await;
}

pub async fn a_delivery_that_was_overtaken_counts_all_the_same(store: &dyn Store) {
    let (journal, notification, start) = with_one(store).await;
    let first = failure(&notification, start);
    let second = failure(&notification, first.decision.progress);
    apply(&*journal, first).await;
    apply(&*journal, second).await;
    apply(&*journal, delivery(&notification, start)).await;
    let snapshot = find(&*journal, &notification.key).await;
    assert_eq!(snapshot.state, State::Delivered);
    // The attempts that were recorded meanwhile stay counted.
    assert_eq!((snapshot.progress.step, snapshot.progress.attempts), (2, 2));
    assert_eq!(snapshot.attempts.len(), 3);
}

pub async fn a_delivery_of_what_died_meanwhile_counts_all_the_same(store: &dyn Store) {
    let (journal, notification, start) = with_one(store).await;
    let first = delivery(&notification, start);
    // Its lease has expired, and another server has made the attempt again.
    let mut again = later(refusal(&notification, start));
    again.at_ms += 1_000;
    apply(&*journal, again.clone()).await;
    assert_eq!(find(&*journal, &notification.key).await.state, State::Dead);
    // The second time, because the first reply was lost.
    for _ in 0..2 {
        apply(&*journal, first.clone()).await;
        let snapshot = find(&*journal, &notification.key).await;
        assert_eq!((snapshot.state, snapshot.cause), (State::Delivered, None));
        assert_eq!(snapshot.ended_ms, Some(first.at_ms));
        assert_eq!(snapshot.progress, first.decision.progress);
        assert_eq!(
            attempts(&snapshot),
            [(1, 1, Outcome::HttpStatus), (1, 1, Outcome::Acknowledged)]
        );
        let lines = history(&*journal, &notification.key).await;
        assert_eq!(lines, ["registered", "parked", "delivered"]);
    }
    let examined = journal.examine(9).await.expect("read");
    assert_eq!(examined.counters, examined.rows);
    assert_eq!((examined.rows.dead, examined.rows.delivered), (0, 1));
    // Whoever replays it now is told that it is delivered.
    let replay = changing(&notification.key, Change::Replay, START_MS + 90);
    let reply = journal.change(replay).await.expect("answered");
    assert!(
        matches!(&reply, ChangeResult::Refused(stands) if stands.state == State::Delivered),
        "{reply:?}"
    );
    do_change(
        &*journal,
        &notification.key,
        Change::Resend,
        START_MS + 2_000,
    )
    .await;
    let lines = history(&*journal, &notification.key).await;
    assert_eq!(lines, ["registered", "parked", "delivered", "resent"]);
    // Both are recorded at once.
    let other = keep(&*journal, registering("2")).await;
    let batch = [later(refusal(&other, start)), delivery(&other, start)];
    let replies = journal.record(&batch).await.expect("kept");
    assert_eq!(replies, [Recorded::Applied, Recorded::Applied]);
    assert_eq!(find(&*journal, &other.key).await.state, State::Delivered);
    // Somebody was answered that it is given up for good.
    let discarded = keep(&*journal, registering("3")).await;
    apply(&*journal, later(refusal(&discarded, start))).await;
    do_change(&*journal, &discarded.key, Change::Discard, START_MS + 90).await;
    check_stale(&*journal, delivery(&discarded, start)).await;
}

pub async fn an_attempt_of_an_earlier_series_is_kept_and_changes_nothing(store: &dyn Store) {
    let (journal, notification, start) = with_one(store).await;
    apply(&*journal, refusal(&notification, start)).await;
    do_change(&*journal, &notification.key, Change::Replay, START_MS + 90).await;
    check_stale(&*journal, delivery(&notification, start)).await;
    let of_its_attempts = Progress {
        attempts: 1,
        ..start
    };
    check_stale(&*journal, later(failure(&notification, of_its_attempts))).await;
}

pub async fn two_recordings_in_a_batch_are_applied_in_order(store: &dyn Store) {
    let (journal, notification, start) = with_one(store).await;
    let first = failure(&notification, start);
    let second = delivery(&notification, first.decision.progress);
    let third = later(failure(&notification, start));
    let batch = vec![first.clone(), second.clone(), third];
    let replies = journal.record(&batch).await.expect("kept");
    let snapshot = find(&*journal, &notification.key).await;
    let stands = Snapshot {
        attempts: Vec::new(),
        ..snapshot.clone()
    };
    assert_eq!(
        replies,
        [
            Recorded::Applied,
            Recorded::Applied,
            Recorded::Stale(Box::new(stands))
        ]
    );
    assert_eq!(snapshot.state, State::Delivered);
    assert_eq!(snapshot.progress, second.decision.progress);
    assert_eq!(
        attempts(&snapshot),
        [
            (1, 1, Outcome::HttpStatus),
            (1, 2, Outcome::Acknowledged),
            (1, 1, Outcome::HttpStatus)
        ]
    );
    assert_eq!(
        history(&*journal, &notification.key).await,
        ["registered", "delivered"]
    );
}

pub async fn a_recording_of_nothing_is_missing(store: &dyn Store) {
    let (journal, notification, start) = with_one(store).await;
    let given = failure(&notification, start);
    let of_nothing = Recording {
        key: key("none"),
        ..given.clone()
    };
    let batch = vec![of_nothing, given];
    let replies = journal.record(&batch).await.expect("kept");
    assert_eq!(replies, [Recorded::Missing, Recorded::Applied]);
    assert_eq!(journal.record(&[]).await.expect("kept"), []);
}

pub async fn an_end_forgets_the_attempt_asked_for_by_hand(store: &dyn Store) {
    let journal = store.open().await;
    for change in [None, Some(Change::Cancel)] {
        let given = registering(change.map_or("delivered", Change::as_str));
        let notification = keep(&*journal, given.clone()).await;
        let first = failure(&notification, given.progress);
        apply(&*journal, first.clone()).await;
        let asked = do_change(&*journal, &notification.key, Change::Retry, START_MS + 50).await;
        assert_eq!(asked.progress.retry_at_ms, Some(START_MS + 50));
        match change {
            None => apply(&*journal, delivery(&notification, asked.progress)).await,
            Some(change) => {
                do_change(&*journal, &notification.key, change, START_MS + 60).await;
            }
        }
        let snapshot = find(&*journal, &notification.key).await;
        assert_eq!(snapshot.progress.retry_at_ms, None);
        assert_eq!(snapshot.next_due_ms(), None);
    }
}
