use super::*;
use crate::domain::endpoint::EndpointSettings;
use crate::journal::sqlite::SqliteJournal;
use crate::journal::{Actor, EndpointSet, ExpectedVersion, RemovingEndpoint, SettingEndpoint};

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
        actor: Actor("ops".into()),
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
        actor: Actor("ops".into()),
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
