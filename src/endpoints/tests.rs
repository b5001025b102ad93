use super::default_key_store::DefaultKeyStore;
use super::server_secret::ServerSecret;
use super::*;
use crate::clock::ManualClock;
use crate::domain::default_keys::{DefaultKey, DefaultKeyChange};
use crate::domain::endpoint::EndpointSettings;
use crate::domain::endpoint_keys::{EndpointKey, EndpointKeys};
use crate::domain::signature::{SecretOrigin, SigningSecret};
use crate::domain::signing_key::KeyKind;
use crate::journal::decorator::{JournalCall, JournalDecorator};
use crate::journal::sqlite::SqliteJournal;
use crate::journal::timeless::TimelessJournal;
use crate::journal::{
    Actor, ChangingDefaultKeys, EndpointSet, ExpectedVersion, Journal, JournalError,
    RemovingEndpoint, SealedKeys, SettingEndpoint,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn shop() -> EndpointName {
    EndpointName::parse("shop").expect("a name")
}

/// Sets the endpoint to another URL, on whatever server.
async fn set(store: &EndpointStore, number: u32) -> Endpoint {
    set_over(store, number, ExpectedVersion::Any, 0).await
}

/// Makes it again after it was removed, on another server, which takes the time that it has for that.
async fn make_again(
    store: &EndpointStore,
    version: u32,
    number: u32,
    made_again_after_ms: i64,
) -> Endpoint {
    let removed = ExpectedVersion::Removed(version);
    set_over(store, number, removed, made_again_after_ms).await
}

async fn set_over(
    store: &EndpointStore,
    number: u32,
    expected: ExpectedVersion,
    made_again_after_ms: i64,
) -> Endpoint {
    let asked = SettingEndpoint {
        expected,
        made_again_after_ms,
        ..setting(&format!(r#"{{"url":"https://{number}.example/"}}"#))
    };
    make(store, &asked).await
}

/// A request for these settings.
fn setting(settings: &str) -> SettingEndpoint {
    SettingEndpoint {
        name: shop(),
        settings: EndpointSettings::from_text(settings).expect("settings"),
        keys: None,
        sealed_with: None,
        expected: ExpectedVersion::Any,
        actor: Actor::named("ops"),
        at_ms: 1_000,
        made_again_after_ms: 0,
    }
}

async fn make(store: &EndpointStore, asked: &SettingEndpoint) -> Endpoint {
    match store.set(asked).await.expect("set") {
        EndpointSet::Created(endpoint) | EndpointSet::Changed(endpoint) => endpoint,
        other => panic!("{other:?}"),
    }
}

async fn remove(store: &EndpointStore) {
    let removing = RemovingEndpoint {
        name: shop(),
        actor: Actor::named("ops"),
        at_ms: 2_000,
    };
    store.remove(&removing).await.expect("removed");
}

#[tokio::test]
async fn a_reading_brings_back_nothing_that_this_server_has_changed_meanwhile() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    let store = EndpointStore::Journal(Arc::new(journal.expect("it opens")));
    set(&store, 1).await;
    let endpoints = Endpoints::open(Some(store.clone()), None)
        .await
        .expect("read");
    let version = || endpoints.known(&shop()).map(|known| known.version);
    assert_eq!(version(), Some(1));

    // Another server changes it, and then this one, while the page with the first change is on its way.
    set(&store, 2).await;
    let (reached, doubtful) = endpoints.begin_reading();
    assert!(doubtful.is_empty());
    let changed = store.changes(&reached).await.expect("read").expect("some");
    endpoints
        .learn(&set(&store, 3).await, endpoints.readings_begun())
        .await;
    let left = endpoints.write().take_page(changed.rows.clone());
    assert_eq!((left.as_slice(), version()), ([shop()].as_slice(), Some(3)));
    // The other server changes it once more. The page has that already, or does not have it: either way it is found.
    set(&store, 4).await;
    let left: BTreeSet<EndpointName> = left.into_iter().collect();
    endpoints.read_again(&store, left).await.expect("read");
    assert_eq!(version(), Some(4));

    // Likewise if this server removes it.
    endpoints.begin_reading();
    remove(&store).await;
    endpoints.forget(&shop());
    let left = endpoints.write().take_page(changed.rows);
    assert_eq!((left.len(), version()), (1, None));
    endpoints.refresh().await.expect("read");
    assert_eq!(version(), None);

    // A reading sees the removal by another server before this one learns what it has set before that.
    let begun = endpoints.readings_begun();
    let set_here = make_again(&store, 4, 5, 0).await;
    remove(&store).await;
    endpoints.refresh().await.expect("read");
    endpoints.learn(&set_here, begun).await;
    assert_eq!(version(), None);
    // Or it sees neither.
    endpoints.learn(&set_here, endpoints.readings_begun()).await;
    assert_eq!(version(), Some(set_here.version));
    endpoints.refresh().await.expect("read");
    assert_eq!(version(), None);
}

#[tokio::test]
async fn what_this_server_has_read_does_not_count_for_what_is_registered_long_after() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    let store = EndpointStore::Journal(Arc::new(journal.expect("it opens")));
    set(&store, 1).await;
    let clock = ManualClock::at(10_000);
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let opening = Endpoints::open(Some(store.clone()), Some(shared));
    let endpoints = opening.await.expect("read");
    // The last reading was as long before the removal as can be.
    remove(&store).await;
    make_again(&store, 1, 2, 11_000).await;
    let used = async |at_ms| {
        let registering = endpoints.find(&shop(), at_ms).await.expect("read");
        let pending = endpoints.of_pending(&shop(), at_ms).await.expect("read");
        assert_eq!(registering, pending);
        pending.map(|endpoint| (endpoint.version, endpoint.is_meant_by(at_ms)))
    };
    assert_eq!(used(11_000).await, Some((1, true)));
    assert_eq!(used(13_001).await, Some((2, true)), "it reads");
    assert_eq!(used(11_000).await, Some((2, false)));
    // What was read before the clock was set back counts from the instant that it shows now.
    clock.set_back_to(1_000);
    remove(&store).await;
    assert_eq!(used(1_000).await.map(|used| used.0), Some(2));
    assert_eq!(endpoints.find(&shop(), 3_001).await.expect("read"), None);
    assert!(endpoints.known(&shop()).is_none());
}

/// Those who wait for a reading while one runs share the next one.
#[tokio::test]
async fn what_was_not_read_in_time_is_read_once_for_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    let store = EndpointStore::Journal(Arc::new(journal.expect("it opens")));
    set(&store, 1).await;
    let shared: Arc<dyn Clock> = Arc::new(ManualClock::at(10_000));
    let opening = Endpoints::open(Some(store.clone()), Some(shared));
    let endpoints = opening.await.expect("read");
    let (name, begun) = (shop(), endpoints.readings_begun());
    let asking = (0..100).map(|_| endpoints.find(&name, 20_000));
    let found = futures_util::future::join_all(asking).await;
    for found in found {
        assert_eq!(found.expect("read").map(|found| found.version), Some(1));
    }
    // The first one reads, and all others share the next reading.
    assert_eq!(endpoints.readings_begun() - begun, 2);
}

/// A journal that can be told to answer nobody who asks what has changed of endpoints.
struct SilentOnEndpoints {
    inner: SqliteJournal,
    is_silent: AtomicBool,
}

impl JournalDecorator for SilentOnEndpoints {
    fn inner(&self) -> &dyn Journal {
        &self.inner
    }

    async fn around<T: Send>(
        &self,
        call: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        if call == JournalCall::EndpointsAfter && self.is_silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        calling.await
    }
}

/// Default keys that are kept in this journal, and another secret of the server.
fn default_keys_in(journal: Arc<dyn Journal>) -> DefaultKeyring {
    let own = ServerSecret {
        secret: SigningSecret::from_random(&[1; 32]),
        origin: SecretOrigin::Given,
    };
    DefaultKeyring::of_server(own).with_store(Some(DefaultKeyStore::Journal(journal)))
}

fn key(id: &str) -> EndpointKey {
    EndpointKey {
        id: id.to_string(),
        kind: KeyKind::Symmetric,
        sealed: "sealed".to_string(),
        public_key: None,
        created_ms: 0,
        signs_until_ms: None,
    }
}

fn default_key(id: &str) -> DefaultKey {
    DefaultKey {
        key: key(id),
        fingerprint: format!("print {id}"),
    }
}

/// Changes the default keys, as another server would.
async fn change_default_keys(endpoints: &Endpoints, change: DefaultKeyChange) {
    let changing = ChangingDefaultKeys {
        change,
        master_key: Some("one".to_string()),
        actor: Actor::named("ops"),
        at_ms: 1_000,
    };
    let store = endpoints.default_keys().store().expect("given");
    store.change(&changing).await.expect("changed");
}

/// Waits until a server knows these default keys.
async fn until_default_keys(endpoints: &Endpoints, expected: &str) {
    let known = async {
        while endpoints.default_keys().keys().ids() != expected {
            tokio::task::yield_now().await;
        }
    };
    let known = tokio::time::timeout(Duration::from_secs(60), known).await;
    known.expect("the change is known");
}

#[tokio::test]
async fn a_reading_of_endpoints_that_takes_long_delays_no_change_of_the_default_keys() {
    let dir = tempfile::tempdir().expect("a directory");
    let inner = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    let journal = Arc::new(SilentOnEndpoints {
        inner: inner.expect("it opens"),
        is_silent: AtomicBool::new(false),
    });
    let store = EndpointStore::Journal(journal.clone());
    let endpoints = Endpoints::open(Some(store), None).await.expect("read");
    let endpoints = Arc::new(endpoints.with_default_keys(default_keys_in(journal.clone())));
    journal.is_silent.store(true, Ordering::Relaxed);
    let stop = CancellationToken::new();
    let running = tokio::spawn(endpoints.clone().run(|| 1_000, stop.clone()));
    change_default_keys(&endpoints, DefaultKeyChange::First(default_key("a"))).await;
    until_default_keys(&endpoints, "a").await;
    change_default_keys(&endpoints, DefaultKeyChange::Add(default_key("b"), 50)).await;
    until_default_keys(&endpoints, "b, a").await;
    stop.cancel();
    running.await.expect("it stops");
}

const MS: Duration = Duration::from_millis(1);
/// For how long another server may not know a change: half a second, and the steps of the timers. The calls of the journal
/// themselves take none of the paused time.
const UNKNOWN_FOR: Duration = Duration::from_millis(505);

/// Waits by the paused clock until a change that was just made is known.
async fn until_known(what: &str, is_known: impl Fn() -> bool) {
    let changed = tokio::time::Instant::now();
    while !is_known() {
        tokio::time::sleep(MS).await;
        let unknown = changed.elapsed();
        assert!(unknown <= UNKNOWN_FOR, "{what}: {unknown:?}");
    }
}

#[tokio::test]
async fn a_change_on_another_server_is_known_after_half_a_second() {
    let dir = tempfile::tempdir().expect("a directory");
    let inner = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    let inner = Arc::new(inner.expect("it opens"));
    let journal: Arc<dyn Journal> = Arc::new(TimelessJournal::over(inner));
    let store = EndpointStore::Journal(journal.clone());
    let endpoints = Endpoints::open(Some(store.clone()), None).await;
    let endpoints = endpoints.expect("read");
    let endpoints = Arc::new(endpoints.with_default_keys(default_keys_in(journal)));
    let stop = CancellationToken::new();
    tokio::time::pause();
    let running = tokio::spawn(endpoints.clone().run(|| 1_000, stop.clone()));
    let with_key = SettingEndpoint {
        keys: Some(SealedKeys {
            keys: EndpointKeys::of(vec![key("own")]).expect("one key"),
            master_key: Some("one".to_string()),
        }),
        ..setting(r#"{"url":"https://b.example/"}"#)
    };
    let changes = [
        ("made", setting(r#"{"url":"https://a.example/"}"#)),
        ("url", setting(r#"{"url":"https://b.example/"}"#)),
        ("key", with_key),
        (
            "rate",
            setting(r#"{"url":"https://b.example/","rate":20000}"#),
        ),
        (
            "ack",
            setting(r#"{"url":"https://b.example/","ack":"{\"status\":\"2xx\"}"}"#),
        ),
    ];
    for (what, asked) in &changes {
        // At another moment between two readings each time.
        tokio::time::sleep(170 * MS).await;
        let made = make(&store, asked).await;
        let is_known = || {
            let known = endpoints.known(&shop());
            known.is_some_and(|known| *known == made)
        };
        until_known(what, is_known).await;
    }
    for (change, expected) in [
        (DefaultKeyChange::First(default_key("a")), "a"),
        (DefaultKeyChange::Add(default_key("b"), 50), "b, a"),
    ] {
        tokio::time::sleep(170 * MS).await;
        change_default_keys(&endpoints, change).await;
        let is_known = || endpoints.default_keys().keys().ids() == expected;
        until_known(expected, is_known).await;
    }
    stop.cancel();
    running.await.expect("it stops");
}
