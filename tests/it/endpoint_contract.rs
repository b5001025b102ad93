//! The contract of every store of endpoints and default keys: the journals, and Redis where there is no journal.

use crate::support::postgres::fresh_database as fresh_postgres;
use crate::support::redis::fresh_database;
use async_trait::async_trait;
use futures_util::future::join_all;
use ringback::clock::ManualClock;
use ringback::domain::endpoint::{Endpoint, EndpointName, EndpointSettings};
use ringback::domain::endpoint_keys::EndpointKeys;
use ringback::domain::lane::Lane;
use ringback::endpoints::default_key_store::DefaultKeyStore;
use ringback::endpoints::store::{ChangesReached, EndpointReading, EndpointRemoved, EndpointStore};
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::sqlite::SqliteJournal;
use ringback::journal::{
    Actor, EndpointRow, EndpointSet, ExpectedVersion, RemovingEndpoint, SettingEndpoint,
};
use ringback::redis_tls::RedisTls;
use ringback::schedule::recoverable::{Inspection, Recoverable as _};
use ringback::schedule::redis::{ClaimTimes, NO_JOURNAL, Options, RedisSchedule, Time};
use ringback::schedule::window::Window;
use ringback::schedule::{Limits, Schedule, ScheduleReads as _, SettingsSource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tempfile::TempDir;

/// When everything happens here.
const START_MS: i64 = 1_800_000_000_000;
const INSTANCE: &str = "instance-1";

/// A place where endpoints are kept, which can be opened again.
#[async_trait]
trait Place: Send + Sync {
    async fn open(&self) -> EndpointStore;

    async fn open_default_keys(&self) -> DefaultKeyStore {
        match self.open().await {
            EndpointStore::Journal(journal) => DefaultKeyStore::Journal(journal),
            EndpointStore::Schedule(_) => panic!("it has a journal"),
        }
    }
}

struct Sqlite(TempDir);

#[async_trait]
impl Place for Sqlite {
    async fn open(&self) -> EndpointStore {
        let journal = SqliteJournal::open(&self.0.path().join("journal.db"), INSTANCE).await;
        EndpointStore::Journal(Arc::new(journal.expect("it opens")))
    }
}

struct Postgres(String);

#[async_trait]
impl Place for Postgres {
    async fn open(&self) -> EndpointStore {
        let journal = PostgresJournal::open(&self.0, INSTANCE, true).await;
        EndpointStore::Journal(Arc::new(journal.expect("it opens")))
    }
}

struct Redis {
    url: String,
    partitions: usize,
}

impl Redis {
    fn with(partitions: usize) -> Self {
        Self {
            url: fresh_database(),
            partitions,
        }
    }

    async fn schedule(&self) -> Arc<RedisSchedule> {
        self.schedule_at(START_MS).await
    }

    async fn schedule_at(&self, now_ms: i64) -> Arc<RedisSchedule> {
        let options = Options {
            url: self.url.clone(),
            partitions: self.partitions,
            limits: Limits {
                lane_start: 100,
                lane_cap: 100,
                lease_ms: 20_000,
                remember_ms: Some(600_000),
                settings_source: SettingsSource::Schedule,
                window: Window::WHOLE,
                early_ms: 0,
            },
            time: Time::Clock,
            owner: NO_JOURNAL.into(),
            signing: None,
            replicas: 0,
            tls: RedisTls::default(),
            claim_times: ClaimTimes::default(),
        };
        let clock = Arc::new(ManualClock::at(now_ms));
        let schedule = Arc::new(RedisSchedule::open(&options, clock).expect("a URL"));
        let found = schedule.inspect(false).await.expect("looked");
        assert_eq!(found, Inspection::Whole);
        schedule
    }
}

#[async_trait]
impl Place for Redis {
    async fn open(&self) -> EndpointStore {
        let schedule: Arc<dyn Schedule> = self.schedule().await;
        EndpointStore::of(None, schedule).expect("it keeps endpoints")
    }

    async fn open_default_keys(&self) -> DefaultKeyStore {
        let schedule: Arc<dyn Schedule> = self.schedule().await;
        DefaultKeyStore::of(None, schedule).expect("it keeps default keys")
    }
}

macro_rules! contract {
    ($module:ident, $place:expr) => {
        contract!(@ $module, $place,
            an_endpoint_is_kept_and_gets_a_version_with_every_change,
            a_change_that_is_based_on_an_older_version_is_refused,
            a_removed_endpoint_is_still_known_and_its_versions_go_on,
            what_has_changed_is_read_from_any_change_on,
            a_reading_of_all_endpoints_comes_in_pages_and_leaves_nothing_out,
            changes_of_one_endpoint_at_once_are_made_one_after_the_other,
        );
    };
    (@ $module:ident, $place:expr, $($test:ident),+ $(,)?) => {
        mod $module {
            use super::*;

            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(&$place).await;
                }
            )+
        }
    };
}

mod default_keys;
mod default_keys_at_start;

contract!(sqlite, Sqlite(tempfile::tempdir().expect("a directory")));
contract!(postgres, Postgres(fresh_postgres()));
contract!(redis_alone, Redis::with(1));
contract!(redis_partitions, Redis::with(5));

fn name(name: &str) -> EndpointName {
    EndpointName::parse(name).expect("a name")
}

fn setting(of: &str, url: &str) -> SettingEndpoint {
    let text = format!(
        r#"{{"url":"{url}","concurrency":3,"metadata":"{{\"商户\":1}}","headers":[["x-shop","1 2\n"]]}}"#
    );
    SettingEndpoint {
        name: name(of),
        settings: EndpointSettings::from_text(&text.replace("\n", "\\n")).expect("settings"),
        keys: None,
        sealed_with: None,
        expected: ExpectedVersion::Any,
        actor: Actor::named("ops"),
        at_ms: START_MS,
        made_again_after_ms: 0,
    }
}

async fn set(store: &EndpointStore, setting: SettingEndpoint) -> EndpointSet {
    store.set(&setting).await.expect("set")
}

async fn remove(store: &EndpointStore, of: &str) -> EndpointRemoved {
    let removing = RemovingEndpoint {
        name: name(of),
        actor: Actor::named("ops"),
        at_ms: START_MS + 9,
    };
    store.remove(&removing).await.expect("removed")
}

/// The names of rows, and whether each was removed.
fn names(rows: Vec<EndpointRow>) -> BTreeMap<String, bool> {
    let row = |row: EndpointRow| (row.name, row.read.expect("readable").is_removed);
    rows.into_iter().map(row).collect()
}

/// All endpoints, and from where on changes are to be read.
async fn all(store: &EndpointStore) -> (BTreeMap<String, bool>, ChangesReached) {
    let (mut reading, mut rows) = (EndpointReading::default(), Vec::new());
    while let Some(page) = store.read_more(&mut reading).await.expect("read") {
        rows.extend(page);
    }
    (names(rows), reading.reached())
}

/// Everything that has changed, and how far it is read then.
async fn changes(
    store: &EndpointStore,
    after: &ChangesReached,
) -> (BTreeMap<String, bool>, ChangesReached) {
    let (mut reached, mut rows) = (after.clone(), Vec::new());
    loop {
        let changed = store.changes(&reached).await.expect("read");
        let changed = changed.expect("nothing was lost");
        rows.extend(changed.rows);
        reached = changed.reached;
        if !changed.has_more {
            return (names(rows), reached);
        }
    }
}

fn expected(rows: &[(&str, bool)]) -> BTreeMap<String, bool> {
    let row = |(name, removed): &(&str, bool)| ((*name).to_string(), *removed);
    rows.iter().map(row).collect()
}

async fn an_endpoint_is_kept_and_gets_a_version_with_every_change(place: &impl Place) {
    let store = place.open().await;
    let first = setting("shop", "https://a.example/n");
    let created = Endpoint {
        name: name("shop"),
        version: 1,
        settings: first.settings.clone(),
        keys: EndpointKeys::default(),
        created_ms: START_MS,
        changed_ms: START_MS,
    };
    let made = set(&store, first.clone()).await;
    assert_eq!(made, EndpointSet::Created(created.clone()));
    let again = SettingEndpoint {
        at_ms: START_MS + 1,
        ..first
    };
    let same = set(&store, again).await;
    assert_eq!(same, EndpointSet::Unchanged(created.clone()));
    let second = SettingEndpoint {
        at_ms: START_MS + 2,
        ..setting("shop", "https://b.example/n")
    };
    let changed = Endpoint {
        version: 2,
        settings: second.settings.clone(),
        changed_ms: START_MS + 2,
        ..created
    };
    let made = set(&store, second).await;
    assert_eq!(made, EndpointSet::Changed(changed.clone()));
    if let EndpointStore::Journal(journal) = &store {
        journal.close().await;
    }
    drop(store);
    let store = place.open().await;
    let kept = store
        .find(&name("shop"))
        .await
        .expect("read")
        .expect("kept");
    assert_eq!((kept.endpoint, kept.is_removed), (changed, false));
    assert_eq!(store.find(&name("other")).await.expect("read"), None);
}

async fn a_change_that_is_based_on_an_older_version_is_refused(place: &impl Place) {
    let store = place.open().await;
    let based_on = |version, url| SettingEndpoint {
        expected: ExpectedVersion::Exactly(version),
        ..setting("shop", url)
    };
    let url = "https://a.example/n";
    assert_eq!(set(&store, based_on(1, url)).await, EndpointSet::Conflict);
    set(&store, setting("shop", url)).await;
    let changed = set(&store, based_on(1, "https://b.example/n")).await;
    assert!(matches!(changed, EndpointSet::Changed(_)), "{changed:?}");
    assert_eq!(set(&store, based_on(1, url)).await, EndpointSet::Conflict);
    assert_eq!(remove(&store, "shop").await, EndpointRemoved::Done);
    assert_eq!(set(&store, based_on(2, url)).await, EndpointSet::Conflict);
}

async fn a_removed_endpoint_is_still_known_and_its_versions_go_on(place: &impl Place) {
    let store = place.open().await;
    assert_eq!(remove(&store, "shop").await, EndpointRemoved::Missing);
    set(&store, setting("shop", "https://a.example/n")).await;
    assert_eq!(remove(&store, "shop").await, EndpointRemoved::Done);
    assert_eq!(remove(&store, "shop").await, EndpointRemoved::Missing);
    let removed = store.find(&name("shop")).await.expect("read");
    let removed = removed.expect("still known");
    assert!(removed.is_removed);
    assert_eq!(removed.endpoint.version, 1);
    assert_eq!(all(&store).await.0, expected(&[("shop", true)]));
    // Whoever makes it again has read of its removal: this one, not an earlier one, and not that there is none.
    let again = |expected| SettingEndpoint {
        expected,
        made_again_after_ms: 3_000,
        ..setting("shop", "https://a.example/n")
    };
    for unread in [
        ExpectedVersion::Any,
        ExpectedVersion::Exactly(1),
        ExpectedVersion::Removed(2),
    ] {
        assert_eq!(set(&store, again(unread)).await, EndpointSet::Conflict);
    }
    let made = set(&store, again(ExpectedVersion::Removed(1))).await;
    let EndpointSet::Created(again) = made else {
        panic!("{made:?}");
    };
    assert_eq!(again.version, 2);
    // What was registered before that means the one that was removed.
    let made_ms = again.settings.made_again_ms.expect("remembered");
    assert_eq!(
        made_ms,
        removed.endpoint.changed_ms + 1 + 3_000,
        "the clock was set back since"
    );
    assert!(!again.is_meant_by(START_MS) && again.is_meant_by(made_ms));
    let same = set(&store, setting("shop", "https://a.example/n")).await;
    assert_eq!(same, EndpointSet::Unchanged(again.clone()));
    set(&store, setting("shop", "https://b.example/n")).await;
    let changed = store.find(&name("shop")).await.expect("read");
    let changed = changed.expect("kept").endpoint;
    assert_eq!(changed.settings.made_again_ms, Some(made_ms));
}

async fn what_has_changed_is_read_from_any_change_on(place: &impl Place) {
    let store = place.open().await;
    let (none, reached) = all(&store).await;
    assert!(none.is_empty());
    let url = "https://a.example/n";
    for shop in ["b", "a", "c"] {
        set(&store, setting(shop, url)).await;
    }
    let (made, reached) = changes(&store, &reached).await;
    assert_eq!(made, expected(&[("a", false), ("b", false), ("c", false)]));
    remove(&store, "a").await;
    set(&store, setting("b", "https://b.example/n")).await;
    let (changed, later) = changes(&store, &reached).await;
    assert_eq!(changed, expected(&[("a", true), ("b", false)]));
    assert!(changes(&store, &later).await.0.is_empty());
    assert_eq!(
        changes(&store, &reached).await.0,
        changed,
        "as often as asked"
    );
}

async fn a_reading_of_all_endpoints_comes_in_pages_and_leaves_nothing_out(place: &impl Place) {
    let store = place.open().await;
    let (_, from_start) = all(&store).await;
    let shops: Vec<String> = (0..350).map(|shop| format!("shop-{shop}")).collect();
    for shop in &shops {
        let set = set(&store, setting(shop, "https://a.example/n")).await;
        assert!(matches!(set, EndpointSet::Created(_)), "{set:?}");
    }
    remove(&store, "shop-17").await;
    let (found, reached) = all(&store).await;
    let wanted: BTreeMap<String, bool> = (shops.iter())
        .map(|shop| (shop.clone(), shop == "shop-17"))
        .collect();
    assert_eq!(found, wanted);
    assert_eq!(changes(&store, &from_start).await.0, wanted);
    assert!(changes(&store, &reached).await.0.is_empty());
}

async fn changes_of_one_endpoint_at_once_are_made_one_after_the_other(place: &impl Place) {
    let store = place.open().await;
    let set = join_all((0..6).map(|number| {
        let store = store.clone();
        async move {
            let url = format!("https://{number}.example/n");
            set(&store, setting("shop", &url)).await
        }
    }));
    let versions: BTreeSet<u32> = (set.await.into_iter())
        .map(|set| match set {
            EndpointSet::Created(made) | EndpointSet::Changed(made) => made.version,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(versions, BTreeSet::from_iter(1..=6));
    let kept = store
        .find(&name("shop"))
        .await
        .expect("read")
        .expect("kept");
    assert_eq!(kept.endpoint.version, 6);
}

#[tokio::test]
async fn the_lane_of_an_endpoint_in_redis_gets_its_limits_in_the_same_step() {
    let place = Redis::with(3);
    let schedule = place.schedule().await;
    let store = EndpointStore::of(None, schedule.clone()).expect("it keeps endpoints");
    let lane = Lane::of_endpoint(&name("shop"));
    let concurrency = async || {
        let lane = schedule.lane(&lane).await.expect("read");
        lane.settings.limits.concurrency.map(u32::from)
    };
    set(&store, setting("shop", "https://a.example/n")).await;
    assert_eq!(concurrency().await, Some(3));
    let mut without = setting("shop", "https://a.example/n");
    without.settings.limits.concurrency = None;
    set(&store, without).await;
    assert_eq!(concurrency().await, None);
    set(&store, setting("shop", "https://a.example/n")).await;
    remove(&store, "shop").await;
    assert_eq!(concurrency().await, None);
}
