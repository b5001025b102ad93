use super::default_key_store::DefaultKeyStore;
use super::server_secret::ServerSecret;
use super::*;
use crate::domain::default_keys::{DefaultKey, DefaultKeyChange};
use crate::domain::endpoint::EndpointSettings;
use crate::domain::endpoint_keys::EndpointKey;
use crate::domain::signature::{SecretOrigin, SigningSecret};
use crate::domain::signing_key::KeyKind;
use crate::journal::decorator::{JournalCall, JournalDecorator};
use crate::journal::sqlite::SqliteJournal;
use crate::journal::{
    Actor, ChangingDefaultKeys, EndpointSet, ExpectedVersion, Journal, JournalError,
    RemovingEndpoint, SettingEndpoint,
};
use std::sync::atomic::{AtomicBool, Ordering};

fn shop() -> EndpointName {
    EndpointName::parse("shop").expect("a name")
}

/// Sets the endpoint to another URL, on whatever server.
async fn set(store: &EndpointStore, number: u32) -> Endpoint {
    let settings = format!(r#"{{"url":"https://{number}.example/"}}"#);
    let setting = SettingEndpoint {
        name: shop(),
        settings: EndpointSettings::from_text(&settings).expect("settings"),
        keys: None,
        sealed_with: None,
        expected: ExpectedVersion::Any,
        actor: Actor::named("ops"),
        at_ms: 1_000,
    };
    match store.set(&setting).await.expect("set") {
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
    let endpoints = Endpoints::open(Some(store.clone())).await.expect("read");
    let version = || endpoints.known(&shop()).map(|known| known.version);
    assert_eq!(version(), Some(1));

    // Another server changes it, and then this one, while the page with the first change is on its way.
    set(&store, 2).await;
    let (reached, doubtful) = endpoints.begin_reading();
    assert!(doubtful.is_empty());
    let changed = store.changes(&reached).await.expect("read").expect("some");
    endpoints.learn(&set(&store, 3).await);
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
    let set_here = set(&store, 5).await;
    remove(&store).await;
    endpoints.refresh().await.expect("read");
    endpoints.learn(&set_here);
    assert_eq!(version(), Some(set_here.version));
    endpoints.refresh().await.expect("read");
    assert_eq!(version(), None);
    endpoints.learn(&set_here);
    let store = endpoints.store().expect("given");
    endpoints.read_all(store).await.expect("read");
    assert_eq!(version(), None);
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

/// Changes the default keys, as another server would, and waits until this one knows.
async fn change_default_keys(endpoints: &Endpoints, change: DefaultKeyChange, expected: &str) {
    let changing = ChangingDefaultKeys {
        change,
        master_key: Some("one".to_string()),
        actor: Actor::named("ops"),
        at_ms: 1_000,
    };
    let store = endpoints.default_keys().store().expect("given");
    store.change(&changing).await.expect("changed");
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
    let own = ServerSecret {
        secret: SigningSecret::from_random(&[1; 32]),
        origin: SecretOrigin::Given,
    };
    let default_keys = DefaultKeyring::of_server(own);
    let default_keys = default_keys.with_store(Some(DefaultKeyStore::Journal(journal.clone())));
    let endpoints = Endpoints::open(Some(store)).await.expect("read");
    let endpoints = Arc::new(endpoints.with_default_keys(default_keys));
    journal.is_silent.store(true, Ordering::Relaxed);
    let stop = CancellationToken::new();
    let running = tokio::spawn(endpoints.clone().run(|| 1_000, stop.clone()));
    let key = |id: &str| DefaultKey {
        key: EndpointKey {
            id: id.to_string(),
            kind: KeyKind::Symmetric,
            sealed: "sealed".to_string(),
            public_key: None,
            created_ms: 0,
            signs_until_ms: None,
        },
        fingerprint: format!("print {id}"),
    };
    change_default_keys(&endpoints, DefaultKeyChange::First(key("a")), "a").await;
    change_default_keys(&endpoints, DefaultKeyChange::Add(key("b"), 50), "b, a").await;
    stop.cancel();
    running.await.expect("it stops");
}
