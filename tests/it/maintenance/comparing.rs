//! What counts as a disagreement.

use super::on_each_pair;
use super::stage::Stage;
use crate::journal_contract::samples::{apply, delivery, do_change, failure, key, place};
use ringback::domain::change::Change;
use ringback::domain::lane::KeyInLane;
use ringback::journal::Standing;
use ringback::maintenance::difference::{DifferenceKind, find, find_among};
use ringback::schedule::Settlement;
use std::collections::BTreeSet;

on_each_pair!(
    each_kind_of_difference_is_found,
    what_the_journal_says_otherwise_by_now_is_none,
    what_is_leased_is_none,
);

async fn kinds(stage: &Stage, ids: &[&str]) -> Vec<(String, DifferenceKind)> {
    let entries: Vec<KeyInLane> = ids.iter().map(|id| place(&key(id))).collect();
    let found = find_among(
        stage.journal.as_ref(),
        stage.schedule.as_ref(),
        &entries,
        &BTreeSet::new(),
    )
    .await;
    let found = found.expect("compared");
    found
        .differences
        .into_iter()
        .map(|difference| (difference.entry.key.id().to_string(), difference.kind))
        .collect()
}

async fn each_kind_of_difference_is_found(stage: Stage) {
    let journal = stage.journal.as_ref();
    stage.register("same", 0).await;
    let (delivered, start) = stage.register("delivered", 0).await;
    stage.unschedule("delivered").await;
    apply(journal, delivery(&delivered, start)).await;
    stage.journal_one("missing", 0).await;
    let (elsewhere, start) = stage.register("elsewhere", 0).await;
    apply(journal, failure(&elsewhere, start)).await;
    let (ended, _) = stage.register("ended", 0).await;
    do_change(journal, &ended.key, Change::Cancel, 1).await;
    let other = Stage::memory().await;
    let (unknown, start) = other.register("unknown", 0).await;
    stage.schedule_one(&unknown, start).await;

    let ids = [
        "same",
        "delivered",
        "missing",
        "elsewhere",
        "ended",
        "unknown",
        "nobody",
    ];
    let expected = [
        ("missing", DifferenceKind::Missing),
        ("elsewhere", DifferenceKind::Elsewhere),
        ("ended", DifferenceKind::Ended),
        ("unknown", DifferenceKind::Unknown),
    ];
    let expected = expected.map(|(id, kind)| (id.to_string(), kind));
    assert_eq!(kinds(&stage, &ids).await, expected);
    assert_eq!(kinds(&stage, &[]).await, []);
}

async fn what_the_journal_says_otherwise_by_now_is_none(stage: Stage) {
    let journal = stage.journal.as_ref();
    let (notification, start) = stage.register("1", 0).await;
    let read = journal.snapshots(&[key("1")]).await.expect("read");
    let entry = notification.key_in_lane();
    let read = [(entry, read[0].as_ref().map(Standing::of))];
    // It is delivered between the two looks.
    let lease = stage.take("1").await;
    let recording = delivery(&notification, start);
    let ended = Settlement::to(
        recording.decision.state,
        None,
        recording.decision.progress,
        recording.at_ms,
    );
    apply(journal, recording).await;
    stage.schedule.settle(lease, ended).await.expect("settled");
    let found = find(journal, stage.schedule.as_ref(), &read, &BTreeSet::new()).await;
    assert_eq!(found.expect("compared"), []);
}

async fn what_is_leased_is_none(stage: Stage) {
    let (cancelled, _) = stage.register("cancelled", 0).await;
    stage.take("cancelled").await;
    let journal = stage.journal.as_ref();
    do_change(journal, &cancelled.key, Change::Cancel, 1).await;
    let (failed, start) = stage.register("failed", 0).await;
    stage.take("failed").await;
    apply(journal, failure(&failed, start)).await;
    assert_eq!(kinds(&stage, &["cancelled", "failed"]).await, []);
}
