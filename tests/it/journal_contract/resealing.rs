//! Encrypting everything again under another master key: all of it, or nothing.

use super::Store;
use super::samples::START_MS;
use crate::support::tls::Identity;
use futures_util::FutureExt as _;
use ringback::domain::certificates::Certificates;
use ringback::domain::client_key::ClientKey;
use ringback::domain::default_keys::{DefaultKey, DefaultKeyChange, DefaultKeys};
use ringback::domain::endpoint::{Endpoint, EndpointName, EndpointSettings};
use ringback::domain::endpoint_keys::{EndpointKey, EndpointKeys};
use ringback::domain::endpoint_tls::{ClientIdentity, EndpointTls};
use ringback::domain::master_key::MasterKey;
use ringback::domain::signing_key::KeyKind;
use ringback::journal::resealing::{ResealResult, Resealing};
use ringback::journal::{
    Actor, ChangingDefaultKeys, DefaultKeysChanged, EndpointRow, EndpointSet, ExpectedVersion,
    Journal, MASTER_KEY, RemovingEndpoint, SealedKeys, SettingEndpoint,
};
use ringback::keyring::Keyring;
use ringback::keyring::reseal::Resealer;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use zeroize::Zeroizing;

/// When the master key is changed.
const CHANGED_MS: i64 = START_MS + 1_000;

fn master(byte: u8) -> MasterKey {
    MasterKey::from_random(Zeroizing::new([byte; 32]))
}

fn keyring(byte: u8) -> Keyring {
    Keyring::with(master(byte))
}

fn resealer() -> Resealer {
    Resealer::new(master(1), master(2))
}

fn actor() -> Actor {
    Actor::named("ops")
}

/// A signing key of an endpoint, sealed with this keyring.
fn signing_key(keyring: &Keyring, endpoint: &str, kind: KeyKind) -> EndpointKey {
    let key = keyring.generate(kind).expect("made");
    let sealed = keyring.seal(endpoint, &key, START_MS).expect("sealed");
    sealed.key
}

/// A client certificate of an endpoint, whose key is sealed with this keyring.
fn client(keyring: &Keyring, endpoint: &str) -> EndpointTls {
    let made = Identity::self_signed(&["client"], |_| {});
    let key = ClientKey::parse(&made.key_pem()).expect("a key");
    let sealed = keyring.seal_client_key(endpoint, &key).expect("sealed");
    let identity = ClientIdentity {
        certificate: Certificates::parse(&made.certificate_pem()).expect("a certificate"),
        sealed_key: sealed.sealed,
    };
    EndpointTls::of(None, Some(identity)).expect("settings")
}

async fn set(
    journal: &dyn Journal,
    of: &str,
    keys: Vec<EndpointKey>,
    tls: Option<EndpointTls>,
    sealed_with: u8,
) {
    let settings = EndpointSettings::from_text(r#"{"url":"https://shop.example/n"}"#);
    let mut settings = settings.expect("settings");
    settings.tls = tls;
    let setting = SettingEndpoint {
        name: EndpointName::parse(of).expect("a name"),
        settings,
        keys: Some(SealedKeys {
            keys: EndpointKeys::of(keys).expect("few"),
            master_key: None,
        }),
        sealed_with: (sealed_with == 1).then(|| master(1).fingerprint()),
        expected: ExpectedVersion::Any,
        actor: actor(),
        at_ms: START_MS,
        made_again_after_ms: 0,
    };
    let set = journal.set_endpoint(&setting).await.expect("set");
    assert!(matches!(set, EndpointSet::Created(_)), "{set:?}");
}

async fn change_default_keys(journal: &dyn Journal, change: DefaultKeyChange, at_ms: i64) {
    let changing = ChangingDefaultKeys {
        change,
        master_key: Some(master(1).fingerprint()),
        actor: actor(),
        at_ms,
    };
    let changed = journal.change_default_keys(&changing).await;
    let changed = changed.expect("answered");
    assert!(
        matches!(changed, DefaultKeysChanged::Done { .. }),
        "{changed:?}"
    );
}

/// Gives the journal a secret of each kind: signing keys of both kinds and client keys of endpoints, one of which is
/// removed, and default keys, one of which has ended. `plain` has no secret.
async fn fill(journal: &dyn Journal) {
    let old = keyring(1);
    let both = [KeyKind::Symmetric, KeyKind::Ed25519].map(|kind| signing_key(&old, "both", kind));
    let tls = Some(client(&old, "both"));
    set(journal, "both", both.to_vec(), tls, 1).await;
    let tls = Some(client(&old, "client"));
    set(journal, "client", Vec::new(), tls, 1).await;
    set(journal, "plain", Vec::new(), None, 0).await;
    let keys = vec![signing_key(&old, "removed", KeyKind::Symmetric)];
    set(journal, "removed", keys, None, 1).await;
    let removing = RemovingEndpoint {
        name: EndpointName::parse("removed").expect("a name"),
        actor: actor(),
        at_ms: START_MS + 1,
    };
    assert!(journal.remove_endpoint(&removing).await.expect("removed"));
    let mut ids = Vec::new();
    for number in 0..3 {
        let key = old.generate(KeyKind::Symmetric).expect("made");
        let sealed = old.seal_default(&key, START_MS).expect("sealed").key;
        ids.push(sealed.id.clone());
        let key = DefaultKey {
            key: sealed,
            fingerprint: key.fingerprint(),
        };
        let change = match number {
            0 => DefaultKeyChange::First(key),
            _ => DefaultKeyChange::Add(key, 100_000),
        };
        change_default_keys(journal, change, START_MS + number).await;
    }
    let ended = DefaultKeyChange::Remove(ids[0].clone());
    change_default_keys(journal, ended, START_MS + 3).await;
}

/// All that a change of the master key may change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Everything {
    endpoints: Vec<EndpointRow>,
    default_keys: DefaultKeys,
    fingerprint: Option<String>,
}

impl Everything {
    async fn of(journal: &dyn Journal) -> Self {
        Self {
            endpoints: journal.endpoints_after(0, 2_000).await.expect("read"),
            default_keys: journal.default_keys().await.expect("read"),
            fingerprint: journal.recall(MASTER_KEY).await.expect("read"),
        }
    }

    /// Opens it, and closes it again.
    async fn kept(store: &impl Store) -> Self {
        let journal = store.open().await;
        let everything = Self::of(&*journal).await;
        journal.close().await;
        everything
    }

    fn row(&self, name: &str) -> &EndpointRow {
        let found = self.endpoints.iter().find(|row| row.name == name);
        found.expect("there")
    }

    fn endpoint(&self, name: &str) -> &Endpoint {
        let read = self.row(name).read.as_ref();
        &read.expect("readable").endpoint
    }

    /// Every secret by its place; `None` if this keyring does not open it.
    fn secrets(&self, keyring: &Keyring) -> BTreeMap<String, Option<String>> {
        let mut secrets = BTreeMap::new();
        for read in self
            .endpoints
            .iter()
            .filter_map(|row| row.read.as_ref().ok())
        {
            let endpoint = &read.endpoint;
            let name = endpoint.name.as_str();
            for key in endpoint.keys.list() {
                let opened = keyring.open(name, key).ok();
                let opened = opened.map(|key| key.expose().to_string());
                secrets.insert(format!("{name} {}", key.id), opened);
            }
            let tls = endpoint.settings.tls.as_ref();
            if let Some(identity) = tls.and_then(EndpointTls::identity) {
                let opened = keyring.open_client_key(name, &identity.sealed_key).ok();
                let opened = opened.map(|key| key.expose().to_string());
                secrets.insert(format!("{name} client"), opened);
            }
        }
        for known in self.default_keys.kept() {
            let opened = keyring.open_default(&known.key).ok();
            let opened = opened.map(|key| key.expose().to_string());
            secrets.insert(format!("default {}", known.key.id), opened);
        }
        secrets
    }
}

/// The same without its secrets.
fn without_secrets(endpoint: &Endpoint) -> Endpoint {
    let mut bare = endpoint.clone();
    bare.keys = bare.keys.map_keys(|key| {
        Some(EndpointKey {
            sealed: String::new(),
            ..key.clone()
        })
    });
    let tls = bare.settings.tls.take();
    bare.settings.tls = tls.and_then(|tls| {
        let identity = tls.identity().map(|identity| ClientIdentity {
            certificate: identity.certificate.clone(),
            sealed_key: String::new(),
        });
        EndpointTls::of(tls.ca().cloned(), identity)
    });
    bare
}

fn all_opened(secrets: &BTreeMap<String, Option<String>>) -> bool {
    secrets.values().all(Option::is_some)
}

pub async fn all_secrets_are_encrypted_again_in_one_transaction(store: &impl Store) {
    let journal = store.open().await;
    fill(&*journal).await;
    journal.close().await;
    drop(journal);
    let before = Everything::kept(store).await;
    let secrets = before.secrets(&keyring(1));
    assert_eq!(secrets.len(), 7, "{:?}", secrets.keys());
    assert!(all_opened(&secrets));
    let mut resealer = resealer();
    let result = store.reseal(&mut resealer, CHANGED_MS).await;
    assert_eq!(result.expect("resealed"), ResealResult::Done);
    let counts = resealer.counts().expect("done");
    let counted = (
        counts.endpoint_keys,
        counts.client_keys,
        counts.default_keys,
        counts.already,
        counts.unopened,
    );
    assert_eq!(counted, (3, 2, 2, 0, 0));
    let after = Everything::kept(store).await;
    assert_eq!(after.secrets(&keyring(2)), secrets);
    let left = after.secrets(&keyring(1));
    assert!(left.values().all(Option::is_none), "{:?}", left.keys());
    assert_eq!(after.fingerprint, Some(master(2).fingerprint()));
    let highest = before.endpoints.last().expect("some").number;
    for name in ["both", "client", "removed"] {
        let (was, is) = (before.endpoint(name), after.endpoint(name));
        let expected = Endpoint {
            version: was.version + 1,
            changed_ms: CHANGED_MS,
            ..without_secrets(was)
        };
        assert_eq!(without_secrets(is), expected);
        // Every server reads it again.
        assert!(after.row(name).number > highest.max(CHANGED_MS - 1));
    }
    assert_eq!(after.row("plain"), before.row("plain"));
    let removed = after.row("removed").read.as_ref().expect("readable");
    assert!(removed.is_removed);
    let pairs = before
        .default_keys
        .all()
        .iter()
        .zip(after.default_keys.all());
    for (was, is) in pairs {
        let mut expected = was.clone();
        expected.key.sealed.clone_from(&is.key.sealed);
        assert_eq!(*is, expected);
        assert_eq!(is.is_former(), was.is_former());
    }
    assert_eq!(after.default_keys.all().len(), 3);
    // The same again finds that all is done.
    let mut again = self::resealer();
    let result = store.reseal(&mut again, CHANGED_MS + 1).await;
    assert_eq!(result.expect("resealed"), ResealResult::Done);
    assert_eq!(again.counts().expect("done").already, 7);
    assert_eq!(Everything::kept(store).await, after);
}

pub async fn more_endpoints_than_a_page_are_encrypted_again(store: &impl Store) {
    let journal = store.open().await;
    fill(&*journal).await;
    journal.close().await;
    drop(journal);
    // Between `client` and `removed`, in the order of the names.
    store
        .damage(
            "INSERT INTO endpoints
                (name, number, version, removed, settings, created_ms, changed_ms, actor, instance, keys)
             WITH RECURSIVE places(place) AS (SELECT 1 UNION ALL SELECT place + 1 FROM places WHERE place < 1200)
             SELECT name || '-' || place, place, version, removed, settings, created_ms, changed_ms, actor, instance, keys
             FROM endpoints, places WHERE name = 'plain'",
        )
        .await;
    let before = Everything::kept(store).await;
    assert_eq!(before.endpoints.len(), 1_204);
    let mut resealer = resealer();
    let result = store.reseal(&mut resealer, CHANGED_MS).await;
    assert_eq!(result.expect("resealed"), ResealResult::Done);
    let after = Everything::kept(store).await;
    let secrets = after.secrets(&keyring(2));
    assert!(all_opened(&secrets), "{:?}", secrets.keys());
    assert_eq!(secrets, before.secrets(&keyring(1)));
    assert_eq!(after.row("plain-700"), before.row("plain-700"));
}

pub async fn what_neither_master_key_opens_stays_as_it_is(store: &impl Store) {
    let journal = store.open().await;
    fill(&*journal).await;
    let other = keyring(3);
    let keys = vec![
        signing_key(&keyring(1), "mixed", KeyKind::Ed25519),
        signing_key(&other, "mixed", KeyKind::Ed25519),
    ];
    set(&*journal, "mixed", keys, None, 0).await;
    let (keys, tls) = (
        vec![signing_key(&other, "closed", KeyKind::Symmetric)],
        Some(client(&other, "closed")),
    );
    set(&*journal, "closed", keys, tls, 0).await;
    set(&*journal, "broken", Vec::new(), None, 0).await;
    journal.close().await;
    drop(journal);
    store
        .damage("UPDATE endpoints SET settings = 'x' WHERE name = 'broken'")
        .await;
    let before = Everything::kept(store).await;
    let mut resealer = resealer();
    let result = store.reseal(&mut resealer, CHANGED_MS).await;
    assert_eq!(result.expect("resealed"), ResealResult::Done);
    let counts = resealer.counts().expect("done");
    assert_eq!((counts.endpoint_keys, counts.unopened), (4, 4));
    assert_eq!(
        counts.unopened_names,
        ["broken", "closed", "closed", "mixed"]
    );
    let after = Everything::kept(store).await;
    for name in ["broken", "closed"] {
        assert_eq!(after.row(name), before.row(name));
    }
    let (was, is) = (
        before.endpoint("mixed").keys.list(),
        after.endpoint("mixed").keys.list(),
    );
    assert_eq!(is[1], was[1]);
    assert!(keyring(2).open("mixed", &is[0]).is_ok());
    // All the others are encrypted again.
    let mut secrets = after.secrets(&keyring(2));
    secrets.retain(|_, secret| secret.is_none());
    assert_eq!(secrets.len(), 3, "{:?}", secrets.keys());
    assert_eq!(after.fingerprint, Some(master(2).fingerprint()));
}

/// Encrypts again until something is in the way.
struct Hindered {
    resealer: Resealer,
    /// Whether it dies at the last endpoint.
    dies: bool,
}

impl Resealing for Hindered {
    fn fingerprints(&self) -> [String; 2] {
        self.resealer.fingerprints()
    }

    fn endpoint(&mut self, endpoint: &Endpoint) -> Option<Endpoint> {
        let is_last = endpoint.name.as_str() == "removed";
        assert!(
            !(self.dies && is_last),
            "the process dies, as the test wants it"
        );
        self.resealer.endpoint(endpoint)
    }

    fn default_keys(&mut self, keys: &DefaultKeys) -> Option<DefaultKeys> {
        self.resealer.default_keys(keys)
    }

    fn unreadable(&mut self, name: &str) {
        self.resealer.unreadable(name);
    }

    fn succeeded(&self) -> bool {
        false
    }
}

pub async fn nothing_is_changed_if_one_secret_cannot_be_encrypted(store: &impl Store) {
    let journal = store.open().await;
    fill(&*journal).await;
    journal.close().await;
    drop(journal);
    let before = Everything::kept(store).await;
    let mut hindered = Hindered {
        resealer: resealer(),
        dies: false,
    };
    let result = store.reseal(&mut hindered, CHANGED_MS).await;
    assert_eq!(result.expect("answered"), ResealResult::Failed);
    let counts = hindered.resealer.counts().expect("done");
    assert_eq!(counts.endpoint_keys, 3, "it was tried");
    assert_eq!(Everything::kept(store).await, before);
}

pub async fn nothing_is_changed_if_something_fails_half_way(store: &impl Store) {
    let journal = store.open().await;
    fill(&*journal).await;
    journal.close().await;
    drop(journal);
    let before = Everything::kept(store).await;
    // The default keys come last.
    store
        .damage("ALTER TABLE default_keys RENAME TO hidden_keys")
        .await;
    let mut resealer = resealer();
    let result = store.reseal(&mut resealer, CHANGED_MS).await;
    assert!(result.is_err(), "{result:?}");
    let counts = resealer.counts().expect("done");
    assert_eq!(counts.endpoint_keys, 3, "it was half-way");
    store
        .damage("ALTER TABLE hidden_keys RENAME TO default_keys")
        .await;
    assert_eq!(Everything::kept(store).await, before);
}

pub async fn nothing_is_changed_if_the_process_dies_half_way(store: &impl Store) {
    let journal = store.open().await;
    fill(&*journal).await;
    journal.close().await;
    drop(journal);
    let before = Everything::kept(store).await;
    let mut hindered = Hindered {
        resealer: resealer(),
        dies: true,
    };
    let resealing = AssertUnwindSafe(store.reseal(&mut hindered, CHANGED_MS));
    assert!(resealing.catch_unwind().await.is_err());
    let counts = hindered.resealer.counts().expect("done");
    assert_eq!(counts.endpoint_keys, 2, "it was half-way");
    assert_eq!(Everything::kept(store).await, before);
    // The connection of the dead one blocks nobody.
    let mut resealer = resealer();
    let result = store.reseal(&mut resealer, CHANGED_MS).await;
    assert_eq!(result.expect("resealed"), ResealResult::Done);
    let after = Everything::kept(store).await;
    assert_eq!(after.secrets(&keyring(2)), before.secrets(&keyring(1)));
}

pub async fn a_journal_of_another_master_key_or_of_none_is_left_alone(store: &impl Store) {
    let journal = store.open().await;
    set(&*journal, "plain", Vec::new(), None, 0).await;
    journal.close().await;
    drop(journal);
    let before = Everything::kept(store).await;
    let result = store.reseal(&mut resealer(), CHANGED_MS).await;
    assert_eq!(result.expect("answered"), ResealResult::NothingSealed);
    assert_eq!(Everything::kept(store).await, before);
    let journal = store.open().await;
    let keys = vec![signing_key(&keyring(1), "shop", KeyKind::Symmetric)];
    set(&*journal, "shop", keys, None, 1).await;
    journal.close().await;
    drop(journal);
    let before = Everything::kept(store).await;
    let mut others = Resealer::new(master(3), master(4));
    let result = store.reseal(&mut others, CHANGED_MS).await;
    let expected = ResealResult::OtherMasterKey(master(1).fingerprint());
    assert_eq!(result.expect("answered"), expected);
    assert_eq!(Everything::kept(store).await, before);
}
