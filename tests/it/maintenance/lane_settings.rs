//! The settings of lanes when the schedule has lost them: until they are back, nothing is sent.

use super::stage::Stage;
use crate::support::redis::connect;
use crate::support::redis_node::until;
use crate::support::within;
use ringback::clock::Clock as _;
use ringback::domain::lane::Lane;
use ringback::domain::lane_settings::{LaneHold, LaneSetting};
use ringback::journal::{Actor, LaneOrder};
use ringback::maintenance::Maintenance;
use ringback::maintenance::prune::Retention;
use ringback::schedule::{ClaimQuota, ScheduleError};
use ringback::telemetry::metrics::Metrics;
use tokio_util::sync::CancellationToken;

pub(super) const FOR_EVER: Retention = Retention {
    payloads_ms: None,
    records_ms: None,
    dead_ms: None,
};

#[tokio::test]
async fn the_recovery_brings_them_back_and_does_not_wait_for_another_duty() {
    let stage = Stage::redis().await;
    let (journal, schedule) = (stage.journal.clone(), stage.schedule.clone());
    let order = LaneOrder {
        lane: Lane::from_name("https://shop.example"),
        setting: LaneSetting::Hold(Some(LaneHold {
            by: "anna".into(),
            reason: "moving".into(),
            since_ms: stage.clock.now_ms(),
        })),
        actor: Actor::named("anna"),
        reason: "moving".into(),
        at_ms: stage.clock.now_ms(),
    };
    let number = journal.change_lane(&order).await.expect("kept");
    let maintenance =
        Maintenance::begin(Some(journal), schedule.clone(), FOR_EVER, Metrics::new()).await;
    let maintenance = maintenance.expect("both stores answer");
    let reached = async || schedule.settings_reached(None).await.ok()?.number;
    assert_eq!(reached().await, Some(number));

    let mut redis = connect(stage.redis.as_deref().expect("on Redis")).await;
    let flushed = redis::cmd("FLUSHDB").exec_async(&mut redis).await;
    flushed.expect("flushed");
    let claimed = schedule.claim(ClaimQuota::of(1)).await;
    assert!(matches!(claimed, Err(ScheduleError::Rebuilding)));
    let stop = CancellationToken::new();
    let duties = maintenance.duties(&stop);
    let recovery = duties.into_iter().find(|(name, _)| *name == "recovery");
    let (_, recovery) = recovery.expect("Redis may lose data");
    let bringing = async {
        until("the settings", async || {
            reached().await.filter(|reached| *reached == number)
        })
        .await;
        stop.cancel();
    };
    within("a recovery", async { tokio::join!(recovery, bringing) }).await;
}
