//! A lane's keys in Redis hold another type, written by somebody else: the lane is put right, and the
//! others never notice.

use super::damage::{Scene, by_id, lane_key, scene};
use super::fixture::*;
use super::lane_settings::held;
use ringback::domain::lane_health::{LaneClass, LaneReport};
use ringback::domain::lane_settings::{
    ChangeRange, LaneChange, LaneChanges, LaneSetting, LaneSettings,
};
use ringback::domain::state::State;
use ringback::schedule::ScheduleMaintenance as _;
use ringback::schedule::{Configured, LeaseRequest, Limits, Registered, SettingsSource, Settled};

/// Due so late that no attempt of it can be in flight.
const LATER_MS: i64 = 10_050;

/// What a lane's key of another type does, for each of its two keys.
async fn with_a_foreign_type(test: impl AsyncFn(&Scene, &str)) {
    for kind in ["lane", "leased"] {
        let scene = scene(LIMITS).await;
        test(&scene, kind).await;
        let name = lane_key(kind, "shop");
        let kind_now: String = scene.ask(&["TYPE", &name]).await;
        assert!(["zset", "none"].contains(&kind_now.as_str()), "{kind_now}");
    }
}

#[tokio::test]
async fn a_lane_of_a_foreign_type_costs_registrations_beside_it_nothing() {
    with_a_foreign_type(async |scene, kind| {
        let fixture = &scene.fixture;
        let name = lane_key(kind, "shop");
        scene.command(&["SET", &name, "foreign"]).await;
        let entries = ["a", "shop", "z"].map(|lane| entry(lane, lane, 0));
        for registered in scene.register_all(&entries).await {
            assert_eq!(registered, Registered::Created, "{kind}");
        }
        let claimed = by_id(fixture.claim_all(3).await);
        assert_eq!(ids(&claimed), ["a", "shop", "z"], "{kind}");
        assert_eq!(scene.reindexed().await, 0, "{kind}");
    })
    .await;
}

#[tokio::test]
async fn a_lane_of_a_foreign_type_costs_what_is_restored_beside_it_nothing() {
    with_a_foreign_type(async |scene, kind| {
        let fixture = &scene.fixture;
        let name = lane_key(kind, "shop");
        scene.command(&["SET", &name, "foreign"]).await;
        let entries = ["a", "shop", "z"].map(|lane| entry(lane, lane, 0));
        assert_eq!(fixture.restore(&entries).await, (3, 0), "{kind}");
        let claimed = by_id(fixture.claim_all(3).await);
        assert_eq!(ids(&claimed), ["a", "shop", "z"], "{kind}");
        assert_eq!(scene.reindexed().await, 0, "{kind}");
    })
    .await;
}

#[tokio::test]
async fn a_lane_of_a_foreign_type_costs_what_is_claimed_beside_it_nothing() {
    with_a_foreign_type(async |scene, kind| {
        let fixture = &scene.fixture;
        for lane in ["a", "shop", "z"] {
            fixture.put(lane, lane, 0).await;
        }
        let name = lane_key(kind, "shop");
        scene.command(&["SET", &name, "foreign"]).await;
        let mut claimed = fixture.claim_all(2).await;
        claimed.extend(fixture.claim(9).await.leases);
        // What waited in a lane that was overwritten is nowhere, until it is put back.
        let lost = u64::from(kind == "lane");
        assert_eq!(scene.reindexed().await, lost, "{kind}");
        claimed.extend(fixture.claim(9).await.leases);
        assert_eq!(ids(&by_id(claimed)), ["a", "shop", "z"], "{kind}");
    })
    .await;
}

#[tokio::test]
async fn a_lane_of_a_foreign_type_costs_what_is_settled_beside_it_nothing() {
    with_a_foreign_type(async |scene, kind| {
        let fixture = &scene.fixture;
        for lane in ["a", "shop", "z"] {
            fixture.put(lane, lane, 0).await;
        }
        let leases = by_id(fixture.claim_all(3).await);
        let name = lane_key(kind, "shop");
        scene.command(&["SET", &name, "foreign"]).await;
        let settled = scene.settle_all(&leases, |lease| again(lease, 50)).await;
        assert_eq!(settled, [Settled::Done; 3], "{kind}");
        fixture.turn_to(50);
        let claimed = by_id(fixture.claim_all(3).await);
        assert_eq!(ids(&claimed), ["a", "shop", "z"], "{kind}");
        assert_eq!(scene.reindexed().await, 0, "{kind}");
    })
    .await;
}

#[tokio::test]
async fn a_lane_of_a_foreign_type_holds_up_no_change_by_hand() {
    with_a_foreign_type(async |scene, kind| {
        let fixture = &scene.fixture;
        let entry = fixture.put("shop", "1", LATER_MS).await;
        let name = lane_key(kind, "shop");
        scene.command(&["SET", &name, "foreign"]).await;
        let request = LeaseRequest::new(place("1"));
        let lease = leased(fixture.ask(&request).await);
        assert_eq!(lease.entry, entry, "{kind}");
        scene.command(&["SET", &name, "foreign"]).await;
        fixture.done(&lease, again(&lease, LATER_MS)).await;
        fixture.turn_to(LATER_MS);
        assert_eq!(fixture.claim_ids(9).await, ["1"], "{kind}");
        assert_eq!(scene.reindexed().await, 0, "{kind}");
    })
    .await;
}

#[tokio::test]
async fn states_of_lanes_of_a_foreign_type_are_begun_anew() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    let lane = lane_of("shop");
    for call in 0..3 {
        let foreign: &[&str] = match call {
            0 => &["SET", "{rb:0}:health", "foreign"],
            1 => &["HSET", "{rb:0}:health", lane.as_str(), "foreign"],
            _ => &["LPUSH", "{rb:0}:health", "foreign"],
        };
        scene.command(&["DEL", "{rb:0}:health"]).await;
        scene.command(foreign).await;
        fixture.put("shop", "1", 0).await;
        let lease = fixture.claim_one().await;
        scene.command(&["DEL", "{rb:0}:health"]).await;
        scene.command(foreign).await;
        let lease = lease.with_report(Some(LaneReport::Answered(5)));
        fixture.done(&lease, end(&lease, State::Delivered, 0)).await;
        let kind: String = scene.ask(&["TYPE", "{rb:0}:health"]).await;
        assert_eq!(kind, "hash", "{foreign:?}");
        fixture.put("shop", "2", 0).await;
        let lease = fixture.claim_one().await;
        assert_eq!(lease.class, LaneClass::Idle, "{foreign:?}");
        fixture.done(&lease, end(&lease, State::Delivered, 0)).await;
    }
}

/// What is lost of the settings is brought again before anything is given.
#[tokio::test]
async fn a_lane_is_not_called_because_its_hold_was_lost() {
    let limits = Limits {
        settings_source: SettingsSource::Journal,
        ..LIMITS
    };
    let settings = "{rb:0}:settings";
    let lost: [&[&str]; 3] = [
        &["DEL", settings],
        &["SET", settings, "foreign"],
        &["LPUSH", settings, "foreign"],
    ];
    for lose in lost {
        let scene = scene(limits).await;
        let (fixture, schedule) = (&scene.fixture, &scene.schedule);
        let holding = |after| LaneChanges {
            changes: vec![LaneChange {
                lane: lane_of("shop"),
                setting: held(),
                number: 4,
            }],
            range: Some(ChangeRange {
                after,
                until: 4,
                is_last: true,
            }),
        };
        let bring = async |after| {
            let reached = schedule.settings_reached(None).await.expect("answered");
            let configured = schedule.configure_lanes(&holding(after), &reached).await;
            matches!(configured.expect("answered"), Configured::Obeyed)
        };
        assert!(bring(0).await);
        fixture.put("shop", "1", 0).await;
        fixture.put("other", "2", 0).await;
        scene.command(&["DEL", settings]).await;
        scene.command(lose).await;
        assert_eq!(fixture.claim_ids(9).await.len(), 0, "{lose:?}");
        let reached = schedule.settings_reached(None).await.expect("answered");
        assert_eq!(reached.number, None, "{lose:?}");
        assert!(!bring(4).await, "changes before are missing: {lose:?}");
        assert!(bring(0).await);
        assert_eq!(fixture.claim_ids(9).await, ["2"], "{lose:?}");
    }
}

#[tokio::test]
async fn settings_that_cannot_be_read_hold_their_lane() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    fixture.configure("other", held()).await;
    let lane = lane_of("shop");
    let garbage = ["HSET", "{rb:0}:settings", lane.as_str(), "garbage"];
    scene.command(&garbage).await;
    fixture.put("shop", "1", 0).await;
    assert_eq!(fixture.claim_ids(9).await.len(), 0);
    let default = LaneSetting::All(LaneSettings::default());
    fixture.configure("shop", default).await;
    assert_eq!(fixture.claim_ids(9).await, ["1"]);
}
