//! The settings of lanes are kept, and whoever reads their changes misses none.

use super::Store;
use super::samples::START_MS;
use ringback::domain::call_rate::CallRate;
use ringback::domain::lane::Lane;
use ringback::domain::lane_settings::{
    ChangeRange, LaneChange, LaneHold, LaneLimits, LaneSetting, LaneSettings,
};
use ringback::journal::{Actor, Journal, LaneOrder};
use std::num::NonZeroU32;
use std::sync::Arc;
use tokio::task::JoinSet;

fn lane(name: &str) -> Lane {
    Lane::from_name(&format!("https://{name}.example"))
}

fn held(reason: &str) -> LaneSetting {
    LaneSetting::Hold(Some(LaneHold {
        by: "anna".into(),
        reason: reason.into(),
        since_ms: START_MS,
    }))
}

fn order(name: &str, setting: LaneSetting, at_ms: i64) -> LaneOrder {
    LaneOrder {
        lane: lane(name),
        setting,
        actor: Actor::named("anna"),
        reason: "moving".into(),
        at_ms,
    }
}

async fn change(journal: &dyn Journal, name: &str, setting: LaneSetting) -> i64 {
    let order = order(name, setting, START_MS);
    journal.change_lane(&order).await.expect("kept")
}

async fn changes(journal: &dyn Journal, after: i64, limit: usize) -> (Vec<LaneChange>, i64, bool) {
    let found = journal.lane_changes(after, limit).await.expect("read");
    let range = found.range.expect("a journal numbers them");
    let ChangeRange { until, is_last, .. } = range;
    assert_eq!(range.after, after);
    (found.changes, until, is_last)
}

fn names(changes: &[LaneChange]) -> Vec<&str> {
    changes.iter().map(|change| change.lane.as_str()).collect()
}

pub async fn a_change_of_a_lane_is_numbered_and_found(store: &dyn Store) {
    let journal = store.open().await;
    assert_eq!(changes(&*journal, 0, 10).await, (vec![], 0, true));
    let first = change(&*journal, "a", held("a\0b\nc")).await;
    assert_eq!(first, START_MS, "no number below the time");
    let limits = LaneLimits {
        concurrency: NonZeroU32::new(7),
        rate: CallRate::per_second(0.5).ok(),
    };
    let second = change(&*journal, "b", LaneSetting::Limits(limits)).await;
    assert_eq!(second, START_MS + 1);
    journal.close().await;
    drop(journal);

    let journal = store.open().await;
    let (found, until, is_last) = changes(&*journal, 0, 10).await;
    assert_eq!(names(&found), ["https://a.example", "https://b.example"]);
    assert_eq!((until, is_last), (second, true));
    let LaneSetting::All(LaneSettings { hold, .. }) = &found[0].setting else {
        panic!("{found:?}");
    };
    let reason = &*hold.as_ref().expect("held").reason;
    assert!(["a\0b\nc", "a\\0b\nc"].contains(&reason), "{reason}");
    let expected = LaneSettings { limits, hold: None };
    assert_eq!(found[1].setting, LaneSetting::All(expected));
    assert_eq!(changes(&*journal, first, 10).await.0, found[1..]);
    assert_eq!(changes(&*journal, second, 10).await, (vec![], second, true));
}

pub async fn a_lane_that_changed_twice_comes_once_with_all_its_settings(store: &dyn Store) {
    let journal = store.open().await;
    let limits = LaneLimits {
        concurrency: NonZeroU32::new(7),
        rate: None,
    };
    change(&*journal, "a", LaneSetting::Limits(limits)).await;
    let second = change(&*journal, "b", held("x")).await;
    let third = change(&*journal, "a", held("moving")).await;
    let (found, until, _) = changes(&*journal, 0, 10).await;
    assert_eq!(names(&found), ["https://b.example", "https://a.example"]);
    assert_eq!((found[1].number, until), (third, third));
    let mut settings = LaneSettings::default();
    settings.apply(LaneSetting::Limits(limits));
    settings.apply(held("moving"));
    assert_eq!(found[1].setting, LaneSetting::All(settings));
    change(&*journal, "a", LaneSetting::Hold(None)).await;
    let (found, ..) = changes(&*journal, second, 10).await;
    let expected = LaneSettings { limits, hold: None };
    assert_eq!(found[0].setting, LaneSetting::All(expected));
}

pub async fn changes_of_lanes_come_in_pages(store: &dyn Store) {
    let journal = store.open().await;
    for name in ["a", "b", "c", "d", "e"] {
        change(&*journal, name, held("x")).await;
    }
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let (found, until, is_last) = changes(&*journal, after, 2).await;
        seen.extend(names(&found).into_iter().map(str::to_string));
        after = until;
        if is_last {
            break;
        }
        assert_eq!(found.len(), 2);
    }
    let expected = ["a", "b", "c", "d", "e"].map(|name| format!("https://{name}.example"));
    assert_eq!(seen, expected);
}

pub async fn a_lane_whose_settings_cannot_be_read_is_held(store: &dyn Store) {
    let journal = store.open().await;
    let limits = LaneLimits {
        concurrency: NonZeroU32::new(7),
        rate: None,
    };
    for name in ["a", "b", "c"] {
        change(&*journal, name, LaneSetting::Limits(limits)).await;
    }
    let damage = "UPDATE lanes SET rate = 0 WHERE lane = 'https://b.example'";
    store.damage(damage).await;
    let (found, until, is_last) = changes(&*journal, 0, 10).await;
    assert_eq!((until, is_last), (START_MS + 2, true));
    assert_eq!(
        names(&found),
        ["a", "b", "c"].map(|name| lane(name).to_string())
    );
    let good = LaneSettings { limits, hold: None };
    assert_eq!(found[0].setting, LaneSetting::All(good.clone()));
    assert_eq!(found[2].setting, LaneSetting::All(good.clone()));
    let LaneSetting::All(damaged) = &found[1].setting else {
        panic!("{found:?}")
    };
    assert_eq!(damaged.limits, LaneLimits::default());
    let hold = damaged.hold.as_ref().expect("it is held");
    assert_eq!((&*hold.by, hold.since_ms), ("ringback", START_MS + 1));
    assert!(hold.reason.contains("`0` is not a valid rate"), "{hold:?}");
    // It cannot be released before its row is repaired: it would be sent to without its limits.
    let release = order("b", LaneSetting::Hold(None), START_MS);
    let refused = journal.change_lane(&release).await.expect_err("damaged");
    let expected = "the settings of the lane https://b.example: `0` is not a valid rate";
    assert!(refused.to_string().contains(expected), "{refused}");
    let repair = "UPDATE lanes SET rate = NULL WHERE lane = 'https://b.example'";
    store.damage(repair).await;
    change(&*journal, "b", LaneSetting::Hold(None)).await;
    let (found, ..) = changes(&*journal, START_MS + 2, 10).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].setting, LaneSetting::All(good));
}

pub async fn a_hold_of_the_dispatcher_replaces_no_hold(store: &dyn Store) {
    let journal = store.open().await;
    let hold = |by: &str, reason: &str| LaneHold {
        by: by.into(),
        reason: reason.into(),
        since_ms: START_MS,
    };
    let gone = hold(Actor::dispatcher().name(), "it asks for no more calls");
    let of_dispatcher = LaneOrder {
        actor: Actor::dispatcher(),
        ..order("a", LaneSetting::Hold(Some(gone.clone())), START_MS)
    };
    let release = order("a", LaneSetting::Hold(None), START_MS);
    let moving = hold("anna", "moving");
    let hold_by_anna = order("a", LaneSetting::Hold(Some(moving.clone())), START_MS);
    for (order, expected) in [
        (&of_dispatcher, Some(&gone)),
        // A person replaces it.
        (&hold_by_anna, Some(&moving)),
        (&of_dispatcher, Some(&moving)),
        (&release, None),
        (&of_dispatcher, Some(&gone)),
    ] {
        journal.change_lane(order).await.expect("kept");
        let (found, ..) = changes(&*journal, 0, 10).await;
        let LaneSetting::All(settings) = &found[0].setting else {
            panic!("{found:?}");
        };
        assert_eq!(settings.hold.as_ref(), expected, "{order:?}");
    }
}

pub async fn numbers_of_changes_never_go_back(store: &dyn Store) {
    let journal = store.open().await;
    let later = order("a", held("x"), START_MS + 500);
    let later = journal.change_lane(&later).await.expect("kept");
    let number = change(&*journal, "a", LaneSetting::Hold(None)).await;
    assert_eq!((later, number), (START_MS + 500, START_MS + 501));
}

pub async fn changes_of_lanes_at_once_get_a_number_each(store: &dyn Store) {
    let journal: Arc<dyn Journal> = store.open().await;
    let mut tasks = JoinSet::new();
    for number in 0..12 {
        let journal = journal.clone();
        tasks.spawn(async move { change(&*journal, &format!("l{}", number % 3), held("x")).await });
    }
    let mut numbers = tasks.join_all().await;
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 12);
    let (found, until, _) = changes(&*journal, 0, 100).await;
    assert_eq!(found.len(), 3);
    assert_eq!(Some(&until), numbers.last());
}
