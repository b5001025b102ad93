//! The default keys: one first key, rotations, and the master key that encrypted them.

use super::Store;
use ringback::domain::default_keys::{
    BadDefaultKeyChange, DefaultKey, DefaultKeyChange, DefaultKeys,
};
use ringback::domain::endpoint_keys::EndpointKey;
use ringback::domain::signing_key::KeyKind;
use ringback::journal::{
    Actor, ChangingDefaultKeys, DEFAULT_SECRET, DefaultKeysChanged, Journal, MASTER_KEY,
};

fn key(id: &str) -> DefaultKey {
    DefaultKey {
        key: EndpointKey {
            id: id.to_string(),
            kind: KeyKind::Ed25519,
            sealed: format!("sealed {id}"),
            public_key: Some(format!("whpk_{id}")),
            created_ms: 5,
            signs_until_ms: None,
        },
        fingerprint: format!("print {id}"),
    }
}

async fn change(
    journal: &dyn Journal,
    change: DefaultKeyChange,
    master_key: Option<&str>,
    at_ms: i64,
) -> DefaultKeysChanged {
    let changing = ChangingDefaultKeys {
        change,
        master_key: master_key.map(str::to_string),
        actor: Actor("ann".into()),
        at_ms,
    };
    let changed = journal.change_default_keys(&changing).await;
    changed.expect("answered")
}

async fn changed(journal: &dyn Journal, asked: DefaultKeyChange, at_ms: i64) -> DefaultKeys {
    match change(journal, asked, Some("one"), at_ms).await {
        DefaultKeysChanged::Done { keys, .. } => keys,
        other => panic!("{other:?}"),
    }
}

async fn kept(journal: &dyn Journal) -> DefaultKeys {
    journal.default_keys().await.expect("read")
}

pub async fn the_first_default_key_is_given_once(store: &impl Store) {
    let journal = store.open().await;
    assert!(kept(&*journal).await.is_empty());
    let ids = ["a", "b", "c", "d"];
    let giving = ids.map(|id| changed(&*journal, DefaultKeyChange::First(key(id)), 0));
    let results = futures_util::future::join_all(giving).await;
    let keys = kept(&*journal).await;
    assert_eq!(keys.all().len(), 1);
    assert!(results.iter().all(|result| *result == keys), "{results:?}");
    let remembered = journal.recall(DEFAULT_SECRET).await.expect("read");
    assert_eq!(remembered.as_ref(), Some(&keys.all()[0].fingerprint));
}

pub async fn default_keys_rotate_and_survive(store: &impl Store) {
    let journal = store.open().await;
    let first = changed(&*journal, DefaultKeyChange::First(key("a")), 0).await;
    assert_eq!(first, DefaultKeys::of(vec![key("a")]));
    let two = changed(&*journal, DefaultKeyChange::Add(key("b"), 50), 100).await;
    let [b, a] = two.all() else {
        panic!("{two:?}");
    };
    assert_eq!(*b, key("b"));
    assert_eq!(a.key.signs_until_ms, Some(150));
    assert_eq!(kept(&*journal).await, two);
    let remembered = journal.recall(DEFAULT_SECRET).await.expect("read");
    assert_eq!(remembered.as_deref(), Some("print b"));
    // The same again, as after a lost answer.
    let same = change(&*journal, DefaultKeyChange::Add(key("b"), 50), None, 101).await;
    let expected = DefaultKeysChanged::Done {
        keys: two.clone(),
        existing: Some(key("b").key),
    };
    assert_eq!(same, expected);
    for (id, bad) in [
        ("b", BadDefaultKeyChange::Last),
        ("x", BadDefaultKeyChange::Unknown),
    ] {
        let refused = change(
            &*journal,
            DefaultKeyChange::Remove(id.to_string()),
            None,
            102,
        )
        .await;
        assert_eq!(refused, DefaultKeysChanged::Refused(bad));
    }
    let one = changed(&*journal, DefaultKeyChange::Remove("a".to_string()), 103).await;
    let former = one.with_fingerprint("print a").expect("remembered");
    assert!(former.is_former() && former.key.signs_until_ms == Some(103));
    journal.close().await;
    drop(journal);
    let journal = store.open().await;
    assert_eq!(kept(&*journal).await, one);
}

pub async fn default_keys_have_the_master_key_of_the_journal(store: &impl Store) {
    let journal = store.open().await;
    let first = DefaultKeyChange::First(key("a"));
    changed(&*journal, first, 0).await;
    let recall = journal.recall(MASTER_KEY).await.expect("read");
    assert_eq!(recall.as_deref(), Some("one"));
    let add = || DefaultKeyChange::Add(key("b"), 50);
    let refused = change(&*journal, add(), Some("two"), 1).await;
    assert_eq!(refused, DefaultKeysChanged::OtherMasterKey);
    assert_eq!(kept(&*journal).await.all().len(), 1);
    assert_eq!(changed(&*journal, add(), 1).await.all().len(), 2);
}
