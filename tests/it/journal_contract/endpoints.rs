//! Endpoints: setting, removing, and reading what has changed.

use super::Store;
use super::samples::START_MS;
use futures_util::future::join_all;
use ringback::domain::endpoint::{Endpoint, EndpointName, EndpointSettings};
use ringback::domain::endpoint_keys::{EndpointKey, EndpointKeys};
use ringback::domain::signing_key::KeyKind;
use ringback::journal::{
    Actor, EndpointSet, ExpectedVersion, Journal, MASTER_KEY, RemovingEndpoint, SealedKeys,
    SettingEndpoint,
};
use std::collections::BTreeSet;

fn name(name: &str) -> EndpointName {
    EndpointName::parse(name).expect("a name")
}

fn setting(of: &str, url: &str) -> SettingEndpoint {
    let text =
        format!(r#"{{"url":"{url}","metadata":"{{\"商户\":1}}","headers":[["x-shop","1"]]}}"#);
    SettingEndpoint {
        name: name(of),
        settings: EndpointSettings::from_text(&text).expect("settings"),
        keys: None,
        sealed_with: None,
        expected: ExpectedVersion::Any,
        actor: Actor::named("ops"),
        at_ms: START_MS,
        made_again_after_ms: 0,
    }
}

async fn set(journal: &dyn Journal, setting: SettingEndpoint) -> EndpointSet {
    journal.set_endpoint(&setting).await.expect("set")
}

async fn remove(journal: &dyn Journal, of: &str) -> bool {
    let removing = RemovingEndpoint {
        name: name(of),
        actor: Actor::named("ops"),
        at_ms: START_MS + 9,
    };
    journal.remove_endpoint(&removing).await.expect("removed")
}

/// The names of what has changed after a number, and whether it was removed.
async fn changed(journal: &dyn Journal, after: i64, limit: usize) -> Vec<(String, bool, i64)> {
    let changed = journal.endpoints_after(after, limit).await.expect("read");
    let row = |row: ringback::journal::EndpointRow| {
        let stored = row.read.expect("readable");
        let name = stored.endpoint.name.as_str().to_string();
        (name, stored.is_removed, stored.number)
    };
    changed.into_iter().map(row).collect()
}

pub async fn an_endpoint_is_kept_and_gets_a_version_with_every_change(store: &impl Store) {
    let journal = store.open().await;
    let first = setting("shop", "https://a.example/n");
    let created = Endpoint {
        name: name("shop"),
        version: 1,
        settings: first.settings.clone(),
        keys: EndpointKeys::default(),
        created_ms: START_MS,
        changed_ms: START_MS,
    };
    assert_eq!(
        set(&*journal, first.clone()).await,
        EndpointSet::Created(created.clone())
    );
    let again = SettingEndpoint {
        at_ms: START_MS + 1,
        ..first
    };
    assert_eq!(
        set(&*journal, again).await,
        EndpointSet::Unchanged(created.clone())
    );
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
    assert_eq!(
        set(&*journal, second).await,
        EndpointSet::Changed(changed.clone())
    );
    journal.close().await;
    drop(journal);
    let journal = store.open().await;
    let kept = journal
        .endpoint(&name("shop"))
        .await
        .expect("read")
        .expect("there");
    assert_eq!((kept.endpoint, kept.is_removed), (changed, false));
    assert_eq!(journal.endpoint(&name("other")).await.expect("read"), None);
}

pub async fn a_change_that_is_based_on_an_older_version_is_refused(store: &impl Store) {
    let journal = store.open().await;
    let based_on = |version, url| SettingEndpoint {
        expected: ExpectedVersion::Exactly(version),
        ..setting("shop", url)
    };
    let url = "https://a.example/n";
    assert_eq!(
        set(&*journal, based_on(1, url)).await,
        EndpointSet::Conflict
    );
    set(&*journal, setting("shop", url)).await;
    let changed = set(&*journal, based_on(1, "https://b.example/n")).await;
    assert!(matches!(changed, EndpointSet::Changed(_)), "{changed:?}");
    assert_eq!(
        set(&*journal, based_on(1, url)).await,
        EndpointSet::Conflict
    );
    assert!(remove(&*journal, "shop").await);
    assert_eq!(
        set(&*journal, based_on(2, url)).await,
        EndpointSet::Conflict
    );
}

pub async fn a_removed_endpoint_is_still_known_and_its_versions_go_on(store: &impl Store) {
    let journal = store.open().await;
    assert!(!remove(&*journal, "shop").await);
    set(&*journal, setting("shop", "https://a.example/n")).await;
    assert!(remove(&*journal, "shop").await);
    assert!(!remove(&*journal, "shop").await);
    let removed = journal
        .endpoint(&name("shop"))
        .await
        .expect("read")
        .expect("known");
    assert!(removed.is_removed);
    assert_eq!(removed.endpoint.version, 1);
    let again = SettingEndpoint {
        expected: ExpectedVersion::Removed(1),
        ..setting("shop", "https://a.example/n")
    };
    let again = set(&*journal, again).await;
    let EndpointSet::Created(again) = again else {
        panic!("{again:?}");
    };
    assert_eq!(again.version, 2);
}

pub async fn what_has_changed_is_read_in_the_order_of_the_changes(store: &impl Store) {
    let journal = store.open().await;
    assert!(changed(&*journal, 0, 10).await.is_empty());
    for shop in ["b", "a", "c"] {
        set(&*journal, setting(shop, "https://a.example/n")).await;
    }
    remove(&*journal, "a").await;
    set(&*journal, setting("b", "https://b.example/n")).await;
    let all = changed(&*journal, 0, 10).await;
    let names: Vec<_> = all
        .iter()
        .map(|(name, removed, _)| (name.as_str(), *removed))
        .collect();
    assert_eq!(names, [("c", false), ("a", true), ("b", false)]);
    let first = all[0].2;
    assert_eq!(changed(&*journal, first, 10).await, all[1..]);
    assert_eq!(changed(&*journal, first, 1).await, all[1..2]);
    assert!(changed(&*journal, all[2].2, 10).await.is_empty());
}

pub async fn changes_made_at_once_get_different_numbers(store: &impl Store) {
    let journal = store.open().await;
    let settings = (0..12).map(|shop| setting(&format!("shop-{shop}"), "https://a.example/n"));
    let set = join_all(settings.map(|setting| {
        let journal = journal.clone();
        async move { set(&*journal, setting).await }
    }));
    for set in set.await {
        assert!(matches!(set, EndpointSet::Created(_)), "{set:?}");
    }
    let numbers: BTreeSet<i64> = changed(&*journal, 0, 100)
        .await
        .iter()
        .map(|row| row.2)
        .collect();
    assert_eq!(numbers.len(), 12);
    assert!(
        numbers.first() >= Some(&START_MS),
        "never below the time of the change"
    );
}

fn sealed(ids: &[&str], master_key: Option<&str>) -> SealedKeys {
    let key = |id: &&str| EndpointKey {
        id: (*id).to_string(),
        kind: KeyKind::Ed25519,
        sealed: "c2VhbGVk".to_string(),
        public_key: Some("whpk_x".to_string()),
        created_ms: START_MS,
        signs_until_ms: Some(START_MS + 5),
    };
    SealedKeys {
        keys: EndpointKeys::of(ids.iter().map(key).collect()).expect("few"),
        master_key: master_key.map(str::to_string),
    }
}

pub async fn keys_are_kept_until_they_are_replaced(store: &impl Store) {
    let journal = store.open().await;
    let url = "https://a.example/n";
    let with = |keys| SettingEndpoint {
        keys,
        ..setting("shop", url)
    };
    let two = sealed(&["key_2", "key_1"], Some("master"));
    let made = set(&*journal, with(Some(two.clone()))).await;
    let EndpointSet::Created(made) = made else {
        panic!("{made:?}");
    };
    assert_eq!(made.keys, two.keys);
    let same = set(&*journal, with(None)).await;
    assert_eq!(same, EndpointSet::Unchanged(made.clone()));
    let same = set(&*journal, with(Some(two.clone()))).await;
    assert_eq!(same, EndpointSet::Unchanged(made));
    let moved = set(&*journal, setting("shop", "https://b.example/n")).await;
    let EndpointSet::Changed(moved) = moved else {
        panic!("{moved:?}");
    };
    assert_eq!((moved.version, &moved.keys), (2, &two.keys));
    let one = sealed(&["key_2"], None);
    let changed = set(&*journal, with(Some(one.clone()))).await;
    assert!(matches!(changed, EndpointSet::Changed(_)), "{changed:?}");
    journal.close().await;
    drop(journal);
    let journal = store.open().await;
    let kept = journal.endpoint(&name("shop")).await.expect("read");
    assert_eq!(kept.expect("there").endpoint.keys, one.keys);
    let found = journal.endpoints_after(0, 10).await.expect("read");
    let found = found[0].read.as_ref().expect("readable");
    assert_eq!(found.endpoint.keys, one.keys);
    // The keys of a removed endpoint are still known, and a new one of its name has none of them.
    assert!(remove(&*journal, "shop").await);
    let kept = journal.endpoint(&name("shop")).await.expect("read");
    let kept = kept.expect("known");
    assert_eq!(kept.endpoint.keys, one.keys);
    let removed = kept.endpoint.version;
    let again = SettingEndpoint {
        expected: ExpectedVersion::Removed(removed),
        ..with(None)
    };
    let again = set(&*journal, again).await;
    let EndpointSet::Created(again) = again else {
        panic!("{again:?}");
    };
    assert_eq!(again.keys, EndpointKeys::default());
}

pub async fn the_first_keys_decide_the_master_key(store: &impl Store) {
    let journal = store.open().await;
    let with = |of: &str, keys| SettingEndpoint {
        keys: Some(keys),
        ..setting(of, "https://a.example/n")
    };
    let recall = async || journal.recall(MASTER_KEY).await.expect("read");
    set(&*journal, setting("shop", "https://a.example/n")).await;
    assert_eq!(recall().await, None);
    // Two servers with different master keys begin at the same time: one is refused.
    let first = with("a", sealed(&["key_1"], Some("one")));
    let second = with("b", sealed(&["key_1"], Some("two")));
    let (first, second) = tokio::join!(set(&*journal, first), set(&*journal, second));
    let refused = |set: &EndpointSet| *set == EndpointSet::OtherMasterKey;
    assert!(refused(&first) != refused(&second), "{first:?} {second:?}");
    let (own, other, missing) = if refused(&second) {
        ("one", "two", "b")
    } else {
        ("two", "one", "a")
    };
    assert_eq!(recall().await.as_deref(), Some(own));
    let read = journal.endpoint(&name(missing)).await.expect("read");
    assert_eq!(read, None, "nothing was changed");
    let refused = set(&*journal, with("shop", sealed(&["key_3"], Some(other)))).await;
    assert_eq!(refused, EndpointSet::OtherMasterKey);
    let changed = set(&*journal, with("shop", sealed(&["key_3"], Some(own)))).await;
    assert!(matches!(changed, EndpointSet::Changed(_)), "{changed:?}");
    // Keys that were encrypted before need no comparison.
    let removed = set(&*journal, with("shop", sealed(&[], None))).await;
    assert!(matches!(removed, EndpointSet::Changed(_)), "{removed:?}");
}
