//! The default keys: one first key, rotations, the master key; and in Redis, what becomes of them when it loses them.

use super::{Place, Postgres, Redis, START_MS, Schedule, Sqlite, fresh_postgres};
use crate::support::redis::connect;
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use ringback::domain::default_keys::{
    BadDefaultKeyChange, DefaultKey, DefaultKeyChange, DefaultKeys,
};
use ringback::domain::endpoint_keys::EndpointKey;
use ringback::domain::signing_key::KeyKind;
use ringback::endpoints::default_key_store::DefaultKeyStore;
use ringback::journal::{Actor, ChangingDefaultKeys, DefaultKeysChanged, MASTER_KEY};
use std::sync::Arc;

contract!(@ sqlite, Sqlite(tempfile::tempdir().expect("a directory")),
    the_first_key_is_given_once,
    keys_rotate_and_survive,
    changes_at_once_are_made_one_after_the_other,
    keys_have_one_master_key,
);
contract!(@ postgres, Postgres(fresh_postgres()),
    the_first_key_is_given_once,
    keys_rotate_and_survive,
    changes_at_once_are_made_one_after_the_other,
    keys_have_one_master_key,
);
contract!(@ redis_alone, Redis::with(1),
    the_first_key_is_given_once,
    keys_rotate_and_survive,
    changes_at_once_are_made_one_after_the_other,
    keys_have_one_master_key,
);
contract!(@ redis_partitions, Redis::with(5),
    the_first_key_is_given_once,
    keys_rotate_and_survive,
    changes_at_once_are_made_one_after_the_other,
    keys_have_one_master_key,
);

const RECORD: &str = "{rb:0}:default_keys";

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
    store: &DefaultKeyStore,
    change: DefaultKeyChange,
    master_key: Option<&str>,
    at_ms: i64,
) -> DefaultKeysChanged {
    let changing = ChangingDefaultKeys {
        change,
        master_key: master_key.map(str::to_string),
        actor: Actor::named("ann\n商户"),
        at_ms: START_MS + at_ms,
    };
    store.change(&changing).await.expect("answered")
}

async fn changed(store: &DefaultKeyStore, asked: DefaultKeyChange, at_ms: i64) -> DefaultKeys {
    match change(store, asked, Some("one"), at_ms).await {
        DefaultKeysChanged::Done { keys, .. } => keys,
        other => panic!("{other:?}"),
    }
}

async fn added(store: &DefaultKeyStore, id: &str, at_ms: i64) -> DefaultKeys {
    changed(store, DefaultKeyChange::Add(key(id), 50), at_ms).await
}

async fn kept(store: &DefaultKeyStore) -> DefaultKeys {
    store.read().await.expect("read")
}

/// A journal remembers the newest one for servers that sign with a secret of their own.
async fn check_remembered(store: &DefaultKeyStore, newest: &str) {
    if let DefaultKeyStore::Journal(_) = store {
        let remembered = store.remembered_secret().await.expect("read");
        assert_eq!(remembered.as_deref(), Some(newest));
    }
}

fn ids(keys: &DefaultKeys) -> Vec<&str> {
    keys.kept().map(|known| known.key.id.as_str()).collect()
}

async fn the_first_key_is_given_once(place: &impl Place) {
    let store = place.open_default_keys().await;
    assert!(kept(&store).await.is_empty());
    let refused = change(&store, DefaultKeyChange::Add(key("x"), 5), Some("one"), 0).await;
    let expected = DefaultKeysChanged::Refused(BadDefaultKeyChange::NotBegun);
    assert_eq!(refused, expected);
    let giving = ["a", "b", "c", "d"].map(|id| {
        let store = store.clone();
        async move { changed(&store, DefaultKeyChange::First(key(id)), 0).await }
    });
    let results = join_all(giving).await;
    let keys = kept(&store).await;
    assert_eq!(keys.all().len(), 1);
    assert!(results.iter().all(|result| *result == keys), "{results:?}");
    check_remembered(&store, &keys.all()[0].fingerprint).await;
}

async fn keys_rotate_and_survive(place: &impl Place) {
    let store = place.open_default_keys().await;
    let first = changed(&store, DefaultKeyChange::First(key("a")), 0).await;
    assert_eq!(first, DefaultKeys::of(vec![key("a")]));
    let two = added(&store, "b", 100).await;
    assert_eq!(ids(&two), ["b", "a"]);
    assert_eq!(two.all()[1].key.signs_until_ms, Some(START_MS + 150));
    assert_eq!(kept(&store).await, two);
    check_remembered(&store, "print b").await;
    // The same again, as after a lost answer.
    let same = change(&store, DefaultKeyChange::Add(key("b"), 50), None, 101).await;
    let expected = DefaultKeysChanged::Done {
        keys: two.clone(),
        existing: Some(key("b").key),
    };
    assert_eq!(same, expected);
    for (id, bad) in [
        ("b", BadDefaultKeyChange::Last),
        ("x", BadDefaultKeyChange::Unknown),
    ] {
        let refused = change(&store, DefaultKeyChange::Remove(id.to_string()), None, 102).await;
        assert_eq!(refused, DefaultKeysChanged::Refused(bad));
    }
    let one = changed(&store, DefaultKeyChange::Remove("a".to_string()), 103).await;
    let former = one.with_fingerprint("print a").expect("remembered");
    assert!(former.is_former() && former.key.signs_until_ms == Some(START_MS + 103));
    if let DefaultKeyStore::Journal(journal) = &store {
        journal.close().await;
    }
    drop(store);
    let store = place.open_default_keys().await;
    assert_eq!(kept(&store).await, one);
}

async fn changes_at_once_are_made_one_after_the_other(place: &impl Place) {
    let store = place.open_default_keys().await;
    changed(&store, DefaultKeyChange::First(key("a")), 0).await;
    let adding = ["b", "c", "d", "e"].map(|id| {
        let store = store.clone();
        async move { added(&store, id, 0).await }
    });
    join_all(adding).await;
    let keys = kept(&store).await;
    assert_eq!(keys.kept().count(), 5);
    let for_good = keys.kept().filter(|key| key.key.signs_until_ms.is_none());
    assert_eq!(for_good.count(), 1, "the one that was added last");
}

async fn keys_have_one_master_key(place: &impl Place) {
    let store = place.open_default_keys().await;
    changed(&store, DefaultKeyChange::First(key("a")), 0).await;
    if let DefaultKeyStore::Journal(journal) = &store {
        let remembered = journal.recall(MASTER_KEY).await.expect("read");
        assert_eq!(remembered.as_deref(), Some("one"));
    }
    let add = || DefaultKeyChange::Add(key("b"), 50);
    let refused = change(&store, add(), Some("two"), 1).await;
    assert_eq!(refused, DefaultKeysChanged::OtherMasterKey);
    assert_eq!(ids(&kept(&store).await), ["a"]);
    assert_eq!(changed(&store, add(), 1).await.all().len(), 2);
}

/// A Redis with a first key, a store of it, and a connection beside it.
async fn begun() -> (Redis, DefaultKeyStore, MultiplexedConnection) {
    let place = Redis::with(2);
    let store = place.open_default_keys().await;
    changed(&store, DefaultKeyChange::First(key("a")), 0).await;
    let connection = connect(&place.url).await;
    (place, store, connection)
}

async fn record(connection: &mut MultiplexedConnection) -> String {
    let read = redis::Cmd::get(RECORD);
    read.query_async(connection).await.expect("a record")
}

async fn overwrite(connection: &mut MultiplexedConnection, record: &str) {
    let write = redis::Cmd::set(RECORD, record);
    write.exec_async(connection).await.expect("written");
}

#[tokio::test]
async fn what_redis_loses_is_put_back_by_the_server_that_has_read_the_newest() {
    let (place, one, mut redis) = begun().await;
    let older = record(&mut redis).await;
    let two = place.open_default_keys().await;
    added(&one, "b", 1).await;
    assert_eq!(ids(&kept(&two).await), ["b", "a"]);
    let newer = added(&one, "c", 2).await;
    let newest = record(&mut redis).await;
    // The second server has not read the newest one. Whichever of both comes first, that is the one that stays.
    let mut lost = redis::cmd("RPUSH");
    lost.arg(RECORD).arg("of another type");
    for loss in 0..4 {
        redis::Cmd::del(RECORD)
            .exec_async(&mut redis)
            .await
            .expect("lost");
        match loss {
            0 => {}
            1 => lost.exec_async(&mut redis).await.expect("overwritten"),
            2 => overwrite(&mut redis, &older).await,
            _ => overwrite(&mut redis, "damaged").await,
        }
        if loss == 0 {
            assert_eq!(ids(&kept(&two).await), ["b", "a"]);
        }
        assert_eq!(kept(&one).await, newer);
        assert_eq!(kept(&two).await, newer, "{loss}");
        assert_eq!(record(&mut redis).await, newest, "{loss}");
    }
    // It is decided on the newest one, too.
    redis::Cmd::del(RECORD)
        .exec_async(&mut redis)
        .await
        .expect("lost");
    assert_eq!(ids(&added(&two, "d", 3).await), ["d", "c", "b", "a"]);
    assert_eq!(ids(&kept(&one).await), ["d", "c", "b", "a"]);
}

#[tokio::test]
async fn a_first_key_that_is_given_after_a_loss_does_not_replace_those_that_were_lost() {
    let (place, one, mut redis) = begun().await;
    for changes in 0..2 {
        if changes == 1 {
            added(&one, "b", 1).await;
        }
        let (before, written) = (kept(&one).await, record(&mut redis).await);
        let lost = redis::Cmd::del(RECORD);
        lost.exec_async(&mut redis).await.expect("lost");
        // A server that starts now finds none, and is faster than the one that puts them back.
        let schedule: Arc<dyn Schedule> = place.schedule_at(START_MS + 60_000).await;
        let started = DefaultKeyStore::of(None, schedule).expect("it keeps default keys");
        let first = changed(&started, DefaultKeyChange::First(key("x")), 60_000).await;
        assert_eq!(ids(&first), ["x"]);
        assert_eq!(kept(&one).await, before, "{changes}");
        assert_eq!(kept(&started).await, before, "{changes}");
        assert_eq!(record(&mut redis).await, written, "{changes}");
    }
    // If none puts them back before a key is added to the new first one, that is the newer record.
    let lost = redis::Cmd::del(RECORD);
    lost.exec_async(&mut redis).await.expect("lost");
    let schedule: Arc<dyn Schedule> = place.schedule_at(START_MS + 120_000).await;
    let started = DefaultKeyStore::of(None, schedule).expect("it keeps default keys");
    changed(&started, DefaultKeyChange::First(key("x")), 120_000).await;
    added(&started, "y", 120_001).await;
    assert_eq!(ids(&kept(&one).await), ["y", "x"]);
}

#[tokio::test]
async fn a_key_that_cannot_be_read_stays_as_it_is_until_it_is_removed() {
    let (place, _, mut redis) = begun().await;
    let written = record(&mut redis).await;
    let newer = written.replace(r#""kind":"ed25519""#, r#""kind":"newer","more":[1,2]"#);
    assert_ne!(written, newer);
    overwrite(&mut redis, &newer).await;
    let store = place.open_default_keys().await;
    let keys = kept(&store).await;
    assert_eq!((keys.all(), keys.unreadable().len()), (&[][..], 1));
    assert!(keys.unreadable()[0].why.contains("newer") && keys.may_have("print a"));
    let keys = added(&store, "b", 1).await;
    assert_eq!((ids(&keys), keys.unreadable().len()), (vec!["b"], 1));
    assert_eq!(kept(&store).await, keys);
    let now = record(&mut redis).await;
    assert!(now.contains(r#""more":[1,2]"#), "{now}");
    let keys = changed(&store, DefaultKeyChange::Remove("a".to_string()), 2).await;
    assert_eq!((ids(&keys), keys.unreadable().len()), (vec!["b"], 0));
    // A record that cannot be read at all is an error, and no server gives a first key in its place.
    overwrite(&mut redis, "9000000000000 {").await;
    assert!(store.read().await.is_err());
    let first = ChangingDefaultKeys {
        change: DefaultKeyChange::First(key("c")),
        master_key: Some("one".to_string()),
        actor: Actor::named("ann"),
        at_ms: START_MS,
    };
    assert!(store.change(&first).await.is_err());
}
