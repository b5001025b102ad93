//! Redis that lost single keys, as to somebody's hand or a policy that evicts them.

use super::stage::Stage;
use crate::journal_contract::samples::{START_MS, key};
use crate::support::redis::connect;
use ringback::maintenance::REGISTRATION_MS;
use ringback::maintenance::error::MaintenanceError;
use ringback::maintenance::reconcile::Reconciler;
use ringback::schedule::ScheduleError;

/// Two lanes, one in each partition.
const LANE: &str = "https://other.example";
const OTHER_LANE: &str = "https://shop.example";
const LATER_MS: i64 = START_MS + REGISTRATION_MS + 1;

/// Twenty notifications, of which some key is then lost.
async fn check(lose: &[&str], restored: impl Fn(u64) -> u64) {
    let stage = Stage::redis().await;
    for number in 0..20 {
        let lane = [LANE, OTHER_LANE][number % 2];
        stage.register_for(&format!("{number:02}"), lane).await;
    }
    let mut connection = connect(stage.redis.as_deref().expect("on Redis")).await;
    let count = redis::Cmd::hlen("{rb:0}:jobs");
    let here: u64 = count.query_async(&mut connection).await.expect("a number");
    assert_eq!(here, 10, "each partition holds one lane");
    stage.redis_command(lose).await;
    let mut reconciler = Reconciler::new(stage.journal.clone(), stage.schedule.clone());
    let repaired = reconciler.pass(LATER_MS).await.expect("repaired");
    assert_eq!(repaired.restored, restored(here), "{lose:?}");
    let mut claimed = Vec::new();
    while claimed.len() < 20 {
        let more = stage.claim().await;
        assert!(!more.is_empty(), "{lose:?}: {claimed:?}");
        claimed.extend(more);
    }
}

#[tokio::test]
async fn whatever_key_is_lost_everything_comes_up_again() {
    // What waits is in its lane, and the journal has the rest.
    check(&["DEL", "{rb:0}:jobs"], |_| 0).await;
    check(&["DEL", &format!("{{rb:0}}:lane:{LANE}")], |here| here).await;
    // With the first that is put back, its lane has a place again.
    check(&["DEL", "{rb:0}:lanes"], |_| 1).await;
}

#[tokio::test]
async fn a_single_entry_that_lost_its_content_is_delivered_all_the_same() {
    let stage = Stage::redis().await;
    let (one, _) = stage.register("one", 0).await;
    stage.register("other", 0).await;
    for partition in 0..2 {
        let jobs = format!("{{rb:{partition}}}:jobs");
        stage
            .redis_command(&["HDEL", &jobs, one.key.as_str()])
            .await;
    }
    let mut reconciler = Reconciler::new(stage.journal.clone(), stage.schedule.clone());
    let repaired = reconciler.pass(LATER_MS).await.expect("repaired");
    assert_eq!((repaired.restored, repaired.moved), (0, 0));
    let mut claimed = stage.claim().await;
    claimed.sort_unstable();
    assert_eq!(claimed, ["one", "other"]);
}

#[tokio::test]
async fn a_schedule_that_lost_everything_is_left_to_its_keeper() {
    let stage = Stage::redis().await;
    stage.register("1", 0).await;
    stage.redis_command(&["FLUSHDB"]).await;
    let mut reconciler = Reconciler::new(stage.journal.clone(), stage.schedule.clone());
    let refused = reconciler.pass(LATER_MS).await;
    assert!(
        matches!(
            refused,
            Err(MaintenanceError::Schedule(ScheduleError::Rebuilding))
        ),
        "{refused:?}"
    );
    assert!(stage.held("1").await.is_none());
    let lines = stage.journal.transitions(&key("1")).await.expect("read");
    assert_eq!(lines.len(), 1, "nothing was put back: {lines:?}");
    // Once it is being loaded, the same window is gone on with.
    let recoverable = stage.schedule.recoverable().expect("in Redis");
    recoverable.inspect(false).await.expect("looked");
    let repaired = reconciler.pass(LATER_MS).await.expect("repaired");
    assert_eq!(repaired.restored, 1);
}
