//! The API keys: adding, revoking, and what cannot be read.

use super::Store;
use futures_util::future::join_all;
use ringback::domain::api_key::{ApiKeyDigest, ApiKeyName, ApiKeyRecord, KeyTopics};
use ringback::domain::role::Role;
use ringback::journal::{
    Actor, AddingApiKey, ApiKeyAdded, ApiKeyRevoked, ApiKeyRow, Journal, OperatorKey,
    RevokingApiKey,
};

fn record(name: &str, role: Role) -> ApiKeyRecord {
    ApiKeyRecord {
        name: ApiKeyName::parse(name).expect("a name"),
        role,
        topics: None,
        digest: ApiKeyDigest::of(name.as_bytes()),
        created_by: "ann".into(),
        created_ms: 7,
        expires_ms: None,
    }
}

async fn add(journal: &dyn Journal, record: ApiKeyRecord) -> ApiKeyAdded {
    let adding = AddingApiKey {
        record,
        operator: OperatorKey::Needed,
        actor: Actor::named("ann"),
    };
    journal.add_api_key(&adding).await.expect("answered")
}

async fn revoke(journal: &dyn Journal, name: &str) -> ApiKeyRevoked {
    let revoking = RevokingApiKey {
        name: name.to_string(),
        operator: OperatorKey::Needed,
        actor: Actor::named("ann"),
        at_ms: 9,
    };
    journal.revoke_api_key(&revoking).await.expect("answered")
}

async fn kept(journal: &dyn Journal) -> Vec<ApiKeyRow> {
    journal.api_keys().await.expect("read")
}

pub async fn an_api_key_is_kept_as_it_was_added(store: &impl Store) {
    let journal = store.open().await;
    assert_eq!(kept(&*journal).await, []);
    let bound = ApiKeyRecord {
        topics: KeyTopics::from_text("a b"),
        expires_ms: Some(1_000),
        ..record("bound", Role::Producer)
    };
    assert_eq!(add(&*journal, bound.clone()).await, ApiKeyAdded::NoOperator);
    let admin = record("admin", Role::Operator);
    for added in [admin.clone(), bound.clone(), bound.clone()] {
        assert_eq!(add(&*journal, added).await, ApiKeyAdded::Added);
    }
    let other = ApiKeyRecord {
        digest: ApiKeyDigest::of(b"other"),
        ..bound.clone()
    };
    assert_eq!(add(&*journal, other).await, ApiKeyAdded::NameTaken);
    drop(journal);
    let journal = store.open().await;
    let expected = [admin, bound].map(|record| ApiKeyRow {
        name: record.name.as_str().to_string(),
        read: Ok(record),
    });
    assert_eq!(kept(&*journal).await, expected);
    assert_eq!(
        revoke(&*journal, "admin").await,
        ApiKeyRevoked::LastOperator
    );
    for expected in [ApiKeyRevoked::Revoked, ApiKeyRevoked::Missing] {
        assert_eq!(revoke(&*journal, "bound").await, expected);
    }
    assert_eq!(revoke(&*journal, "admin").await, ApiKeyRevoked::Revoked);
    assert_eq!(kept(&*journal).await, []);
}

pub async fn changes_of_api_keys_wait_for_each_other(store: &impl Store) {
    let journal = store.open().await;
    let names = ["a", "b", "c", "d"];
    let adding = names.map(|name| add(&*journal, record(name, Role::Operator)));
    assert_eq!(join_all(adding).await, [ApiKeyAdded::Added; 4]);
    assert_eq!(
        add(&*journal, record("desk", Role::Support)).await,
        ApiKeyAdded::Added
    );
    // One of them stays, whichever is asked last.
    let revoked = join_all(names.map(|name| revoke(&*journal, name))).await;
    let last = revoked
        .iter()
        .filter(|revoked| **revoked == ApiKeyRevoked::LastOperator);
    assert_eq!(last.count(), 1, "{revoked:?}");
    assert_eq!(kept(&*journal).await.len(), 2);
}

pub async fn an_api_key_that_cannot_be_read_hides_no_other(store: &impl Store) {
    let journal = store.open().await;
    for name in ["admin", "broken"] {
        assert_eq!(
            add(&*journal, record(name, Role::Operator)).await,
            ApiKeyAdded::Added
        );
    }
    journal.close().await;
    drop(journal);
    store
        .damage("UPDATE api_keys SET role = 'king' WHERE name = 'broken'")
        .await;
    let journal = store.open().await;
    let rows = kept(&*journal).await;
    assert!(rows[0].read.is_ok(), "{rows:?}");
    let why = rows[1].read.as_ref().expect_err("damaged");
    assert!(rows[1].name == "broken" && why.contains("`king`"), "{why}");
    assert_eq!(
        revoke(&*journal, "admin").await,
        ApiKeyRevoked::LastOperator
    );
    assert_eq!(revoke(&*journal, "broken").await, ApiKeyRevoked::Revoked);
}
