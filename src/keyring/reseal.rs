//! Encrypts again, under another master key, what one master key encrypted.
//!
//! What the new master key opens is left as it is, so the work can be done again after it was interrupted. What neither
//! of both opens is left too, and named.

use super::{DEFAULT_KEYS, Keyring, SealFailure};
use crate::domain::default_keys::{DefaultKey, DefaultKeys};
use crate::domain::endpoint::Endpoint;
use crate::domain::endpoint_keys::EndpointKey;
use crate::domain::endpoint_tls::{ClientIdentity, EndpointTls};
use crate::domain::master_key::MasterKey;

/// Maximum number of names of what cannot be opened.
const MOST_NAMED: usize = 20;

/// An old and a new master key, and what was done with them.
pub struct Resealer {
    old: Keyring,
    new: Keyring,
    counts: ResealCounts,
    failure: Option<SealFailure>,
}

/// What was encrypted again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResealCounts {
    /// Default keys.
    pub default_keys: u64,
    /// Signing keys of endpoints.
    pub endpoint_keys: u64,
    /// Keys of client certificates.
    pub client_keys: u64,
    /// Secrets that the new master key had encrypted before.
    pub already: u64,
    /// Secrets that neither master key opens.
    pub unopened: u64,
    /// The endpoints and default keys of some of them.
    pub unopened_names: Vec<String>,
}

/// What became of one secret.
enum Resealed<Secret> {
    Again(Secret),
    Already,
    Unopened,
}

impl Resealer {
    /// Encrypts under `new` what `old` encrypted.
    #[must_use]
    pub fn new(old: MasterKey, new: MasterKey) -> Self {
        Self {
            old: Keyring::with(old),
            new: Keyring::with(new),
            counts: ResealCounts::default(),
            failure: None,
        }
    }

    /// Encrypts under the master key of a keyring what its other one encrypted. `None` if `from` is not the fingerprint of
    /// the other one.
    #[must_use]
    pub fn of(keyring: &Keyring, from: &str) -> Option<Self> {
        let (new, old) = (keyring.master.get()?, keyring.other.as_ref()?);
        let is_other = old.fingerprint() == from && new.fingerprint() != from;
        is_other.then(|| Self::new(old.clone(), new.clone()))
    }

    /// The fingerprints of the old and the new master key.
    #[must_use]
    pub fn fingerprints(&self) -> [String; 2] {
        [&self.old, &self.new].map(|keyring| keyring.fingerprint().unwrap_or_default())
    }

    /// What was done.
    ///
    /// # Errors
    /// [`SealFailure`] if something could not be encrypted again. Then nothing may be written.
    pub fn counts(&self) -> Result<ResealCounts, SealFailure> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(self.counts.clone()),
        }
    }

    /// Notes what the journal cannot read.
    pub fn unreadable(&mut self, name: &str) {
        self.counts.unopened += 1;
        if self.counts.unopened_names.len() < MOST_NAMED {
            self.counts.unopened_names.push(name.to_string());
        }
    }

    /// An endpoint with its secrets encrypted again; `None` if nothing of it changes.
    pub fn endpoint(&mut self, endpoint: &Endpoint) -> Option<Endpoint> {
        let name = endpoint.name.as_str();
        let mut changed = false;
        let keys = endpoint.keys.clone().map_keys(|key| {
            let resealed = self.key(name, key);
            let again = self.count(resealed, name, |counts| &mut counts.endpoint_keys);
            changed |= again.is_some();
            again
        });
        let mut settings = endpoint.settings.clone();
        if let Some(tls) = &settings.tls
            && let Some(identity) = tls.identity()
        {
            let resealed = self.client_key(name, &identity.sealed_key);
            let again = self.count(resealed, name, |counts| &mut counts.client_keys);
            if let Some(sealed_key) = again {
                let identity = ClientIdentity {
                    certificate: identity.certificate.clone(),
                    sealed_key,
                };
                settings.tls = EndpointTls::of(tls.ca().cloned(), Some(identity));
                changed = true;
            }
        }
        changed.then(|| Endpoint {
            settings,
            keys,
            // A change that was begun before, and would write what it has read, is refused.
            version: endpoint.version.saturating_add(1),
            ..endpoint.clone()
        })
    }

    /// The default keys encrypted again; `None` if nothing changes.
    pub fn default_keys(&mut self, keys: &DefaultKeys) -> Option<DefaultKeys> {
        let mut changed = false;
        let mut again = Vec::with_capacity(keys.all().len());
        for known in keys.all() {
            let mut known: DefaultKey = known.clone();
            if !known.is_former() {
                let resealed = self.key(DEFAULT_KEYS, &known.key);
                let id = known.key.id.clone();
                if let Some(key) = self.count(resealed, &id, |counts| &mut counts.default_keys) {
                    known.key = key;
                    changed = true;
                }
            }
            again.push(known);
        }
        for key in keys.unreadable().iter().filter(|key| !key.is_former) {
            self.unreadable(&key.id);
        }
        let unreadable = keys.unreadable().to_vec();
        changed.then(|| DefaultKeys::of(again).with_unreadable(unreadable))
    }

    fn key(&mut self, owner: &str, key: &EndpointKey) -> Resealed<EndpointKey> {
        if self.new.open(owner, key).is_ok() {
            return Resealed::Already;
        }
        let Ok(opened) = self.old.open(owner, key) else {
            return Resealed::Unopened;
        };
        let sealed = (self.new).seal_under(owner, key.id.clone(), &opened, key.created_ms);
        match sealed {
            Ok(sealed) => Resealed::Again(EndpointKey {
                sealed: sealed.key.sealed,
                ..key.clone()
            }),
            Err(failure) => self.failed(failure),
        }
    }

    fn client_key(&mut self, owner: &str, sealed: &str) -> Resealed<String> {
        if self.new.open_client_key(owner, sealed).is_ok() {
            return Resealed::Already;
        }
        let Ok(opened) = self.old.open_client_key(owner, sealed) else {
            return Resealed::Unopened;
        };
        match self.new.seal_client_key(owner, &opened) {
            Ok(again) => Resealed::Again(again.sealed),
            Err(failure) => self.failed(failure),
        }
    }

    fn failed<Secret>(&mut self, failure: SealFailure) -> Resealed<Secret> {
        self.failure = Some(failure);
        Resealed::Unopened
    }

    fn count<Secret>(
        &mut self,
        resealed: Resealed<Secret>,
        name: &str,
        counter: impl Fn(&mut ResealCounts) -> &mut u64,
    ) -> Option<Secret> {
        match resealed {
            Resealed::Again(secret) => {
                *counter(&mut self.counts) += 1;
                Some(secret)
            }
            Resealed::Already => {
                self.counts.already += 1;
                None
            }
            Resealed::Unopened => {
                self.unreadable(name);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::client_key::ClientKey;
    use crate::domain::endpoint::{EndpointName, EndpointSettings};
    use crate::domain::endpoint_keys::EndpointKeys;
    use crate::domain::signing_key::KeyKind;
    use zeroize::Zeroizing;

    fn master(byte: u8) -> MasterKey {
        MasterKey::from_random(Zeroizing::new([byte; 32]))
    }

    fn endpoint(keyring: &Keyring) -> Endpoint {
        let settings = EndpointSettings::from_text(r#"{"url":"https://shop.example/n"}"#);
        let mut keys = EndpointKeys::default();
        for (kind, now_ms) in [(KeyKind::Symmetric, 0), (KeyKind::Ed25519, 5)] {
            let key = keyring.generate(kind).expect("made");
            let sealed = keyring.seal("shop-1", &key, now_ms).expect("sealed");
            keys = keys.with_added(sealed.key, now_ms, 100).expect("added");
        }
        Endpoint {
            name: EndpointName::parse("shop-1").expect("a name"),
            version: 3,
            settings: settings.expect("settings"),
            keys,
            created_ms: 0,
            changed_ms: 0,
        }
    }

    #[test]
    fn everything_is_opened_by_the_new_master_key_afterwards_and_nothing_else_changes() {
        let (old, new) = (Keyring::with(master(1)), Keyring::with(master(2)));
        let before = endpoint(&old);
        let mut resealer = Resealer::new(master(1), master(2));
        let after = resealer.endpoint(&before).expect("changed");
        assert_eq!(after.version, 4);
        assert_eq!(
            after.keys.default_until_ms(),
            before.keys.default_until_ms()
        );
        for (was, is) in before.keys.list().iter().zip(after.keys.list()) {
            let (was_open, is_open) = (old.open("shop-1", was), new.open("shop-1", is));
            assert!(was_open.expect("opened").is_same(&is_open.expect("opened")));
            assert!(old.open("shop-1", is).is_err());
            let sealed = is.sealed.clone();
            assert_eq!(
                EndpointKey {
                    sealed,
                    ..was.clone()
                },
                *is
            );
        }
        assert_eq!(resealer.endpoint(&after), None, "once is enough");
        let counts = resealer.counts().expect("done");
        assert_eq!(
            (counts.endpoint_keys, counts.already, counts.unopened),
            (2, 2, 0)
        );
        let mut other = Resealer::new(master(3), master(4));
        assert_eq!(other.endpoint(&before), None);
        let counts = other.counts().expect("done");
        assert_eq!((counts.endpoint_keys, counts.unopened), (0, 2));
        assert_eq!(counts.unopened_names, ["shop-1", "shop-1"]);
    }

    #[test]
    fn default_keys_and_client_keys_are_sealed_again() {
        let (old, new) = (Keyring::with(master(1)), Keyring::with(master(2)));
        let key = old.generate(KeyKind::Symmetric).expect("made");
        let sealed = old.seal_default(&key, 7).expect("sealed").key;
        let former = EndpointKey {
            sealed: String::new(),
            ..sealed.clone()
        };
        let with = |key: &EndpointKey| DefaultKey {
            key: key.clone(),
            fingerprint: "x".to_string(),
        };
        let keys = DefaultKeys::of(vec![with(&sealed), with(&former)]);
        let mut resealer = Resealer::new(master(1), master(2));
        let again = resealer.default_keys(&keys).expect("changed");
        let opened = new.open_default(&again.all()[0].key).expect("opened");
        assert!(opened.is_same(&key));
        assert_eq!(again.all()[1], with(&former));
        assert_eq!(resealer.default_keys(&again), None);
        let pem = rcgen::KeyPair::generate().expect("a key").serialize_pem();
        let client = ClientKey::parse(&pem).expect("a key");
        let sealed = old.seal_client_key("shop-1", &client).expect("sealed");
        let Resealed::Again(again) = resealer.client_key("shop-1", &sealed.sealed) else {
            panic!("it is sealed again");
        };
        let opened = new.open_client_key("shop-1", &again).expect("opened");
        assert!(opened.is_same(&client));
        let counts = resealer.counts().expect("done");
        assert_eq!(
            (counts.default_keys, counts.already, counts.unopened),
            (1, 1, 0)
        );
    }
}
