//! The keyring of a server: its master key, with which signing keys of endpoints, and the keys of their client
//! certificates, are sealed before the journal keeps them and opened for a call.
//!
//! A server may have no master key: then it seals nothing and opens nothing. A key that cannot be opened is an
//! error, and nothing else signs in its place. Opened keys are dropped, and so overwritten, after the call.

pub mod reseal;

use crate::domain::client_key::ClientKey;
use crate::domain::endpoint::Endpoint;
use crate::domain::endpoint_keys::EndpointKey;
use crate::domain::master_key::{MasterKey, NotOpened};
use crate::domain::signers::{DefaultSigners, Signers};
use crate::domain::signing_key::{KeyKind, SigningKey};
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use thiserror::Error;
use zeroize::Zeroizing;

/// In the place of the name of an endpoint, for the default keys: no endpoint has this name.
const DEFAULT_KEYS: &str = "";

/// Makes a master key when the first one is needed, or reads the one that was made before.
pub type MakeMasterKey = Box<dyn Fn() -> Result<MasterKey, String> + Send + Sync>;

/// See the documentation of the module. The default has no master key and makes none.
#[derive(Default)]
pub struct Keyring {
    master: OnceLock<MasterKey>,
    make: Option<MakeMasterKey>,
    /// Opens too, and seals nothing.
    other: Option<MasterKey>,
}

/// Why a key cannot be sealed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SealFailure {
    /// The server has no master key and makes none.
    #[error("this server has no master key")]
    NoMasterKey,
    /// The master key cannot be made or read.
    #[error("the master key cannot be made: {0}")]
    Making(String),
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes: {0}")]
    Random(String),
}

/// A key that cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the signing key {key_id} cannot be opened: {why}")]
pub struct UnusableKey {
    /// The id of the key.
    pub key_id: String,
    /// Why not.
    pub why: String,
}

/// A key that was sealed, and the fingerprint of the master key.
#[derive(Debug)]
pub struct Sealed {
    /// The key, which signs for good.
    pub key: EndpointKey,
    /// The fingerprint.
    pub master_key: String,
}

/// A private key of a client certificate that cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the key of the client certificate cannot be opened: {0}")]
pub struct UnusableClientKey(String);

impl UnusableClientKey {
    /// Why not.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.0
    }
}

/// A private key that was sealed, and the fingerprint of the master key.
#[derive(Debug)]
pub struct SealedClientKey {
    /// The encrypted key.
    pub sealed: String,
    /// The fingerprint.
    pub master_key: String,
}

impl Keyring {
    /// A keyring with this master key.
    #[must_use]
    pub fn with(master: MasterKey) -> Self {
        Self {
            master: OnceLock::from(master),
            make: None,
            other: None,
        }
    }

    /// A keyring without a master key, which makes one when a key is sealed for the first time.
    #[must_use]
    pub fn making(make: MakeMasterKey) -> Self {
        Self {
            master: OnceLock::new(),
            make: Some(make),
            other: None,
        }
    }

    /// Opens with this master key too, while the master key is being changed.
    #[must_use]
    pub fn with_other(self, other: Option<MasterKey>) -> Self {
        Self { other, ..self }
    }

    /// The fingerprint of the master key, if there is one.
    #[must_use]
    pub fn fingerprint(&self) -> Option<String> {
        self.master.get().map(MasterKey::fingerprint)
    }

    /// Whether one of its master keys has this fingerprint, so that it can open what that one encrypted.
    #[must_use]
    pub fn has(&self, fingerprint: &str) -> bool {
        let mut masters = self.master.get().into_iter().chain(&self.other);
        masters.any(|master| master.fingerprint() == fingerprint)
    }

    /// The key that signs the cookies of the page, derived from the master key. A server that makes its master key when it
    /// needs one makes it now. `None` if this server has none.
    ///
    /// # Errors
    /// [`SealFailure::Making`].
    pub fn page_sessions(&self) -> Result<Option<Zeroizing<[u8; 32]>>, SealFailure> {
        match self.master() {
            Ok(master) => Ok(Some(master.page_sessions())),
            Err(SealFailure::NoMasterKey) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Makes a key of random bytes.
    ///
    /// # Errors
    /// [`SealFailure::Random`].
    pub fn generate(&self, kind: KeyKind) -> Result<SigningKey, SealFailure> {
        Ok(SigningKey::from_random(kind, random()?))
    }

    /// Encrypts a new key of an endpoint, under a new id.
    ///
    /// # Errors
    /// [`SealFailure`].
    pub fn seal(
        &self,
        endpoint: &str,
        key: &SigningKey,
        created_ms: i64,
    ) -> Result<Sealed, SealFailure> {
        let id = id_of("key_", &random::<8>()?[..]);
        self.seal_under(endpoint, id, key, created_ms)
    }

    /// Encrypts a new default key, under a new id.
    ///
    /// # Errors
    /// [`SealFailure`].
    pub fn seal_default(&self, key: &SigningKey, created_ms: i64) -> Result<Sealed, SealFailure> {
        // Every attempt without keys of an endpoint shows the id, so it is short.
        let id = id_of("default_", &random::<4>()?[..]);
        self.seal_under(DEFAULT_KEYS, id, key, created_ms)
    }

    fn seal_under(
        &self,
        owner: &str,
        id: String,
        key: &SigningKey,
        created_ms: i64,
    ) -> Result<Sealed, SealFailure> {
        let master = self.master()?;
        let nonce = *random()?;
        let public_key = key.public_key();
        let place = place(&id, key.kind(), public_key.as_deref());
        let sealed = master.seal(nonce, owner, &place, &key.expose());
        Ok(Sealed {
            key: EndpointKey {
                id,
                kind: key.kind(),
                sealed,
                public_key,
                created_ms,
                signs_until_ms: None,
            },
            master_key: master.fingerprint(),
        })
    }

    /// Decrypts a key of an endpoint.
    ///
    /// # Errors
    /// [`UnusableKey`].
    pub fn open(&self, endpoint: &str, key: &EndpointKey) -> Result<SigningKey, UnusableKey> {
        let unusable = |why: String| UnusableKey {
            key_id: key.id.clone(),
            why,
        };
        let place = place(&key.id, key.kind, key.public_key.as_deref());
        let text = self
            .open_with(|master| master.open(endpoint, &place, &key.sealed))
            .map_err(unusable)?;
        SigningKey::parse(&text).map_err(|bad| unusable(bad.to_string()))
    }

    /// Decrypts a default key.
    ///
    /// # Errors
    /// [`UnusableKey`].
    pub fn open_default(&self, key: &EndpointKey) -> Result<SigningKey, UnusableKey> {
        self.open(DEFAULT_KEYS, key)
    }

    /// What signs a call to this endpoint at this instant. `default`: the default keys, if they sign along.
    ///
    /// # Errors
    /// [`UnusableKey`] names the first key that cannot be opened. Then the call must not be made.
    pub fn signers(
        &self,
        endpoint: &Endpoint,
        default: Option<Arc<DefaultSigners>>,
        now_ms: i64,
    ) -> Result<Signers, UnusableKey> {
        let mut opened = Vec::new();
        for key in endpoint.keys.signing_at(now_ms) {
            let own = self.open(endpoint.name.as_str(), key)?;
            opened.push((key.id.clone(), own));
        }
        Signers::of(opened, default, now_ms).ok_or_else(no_key_signs)
    }

    /// Encrypts the key of the client certificate of an endpoint.
    ///
    /// # Errors
    /// [`SealFailure`].
    pub fn seal_client_key(
        &self,
        endpoint: &str,
        key: &ClientKey,
    ) -> Result<SealedClientKey, SealFailure> {
        let master = self.master()?;
        let nonce = *random()?;
        Ok(SealedClientKey {
            sealed: master.seal_client_key(nonce, endpoint, &key.expose()),
            master_key: master.fingerprint(),
        })
    }

    /// Decrypts the key of the client certificate of an endpoint.
    ///
    /// # Errors
    /// [`UnusableClientKey`].
    pub fn open_client_key(
        &self,
        endpoint: &str,
        sealed: &str,
    ) -> Result<ClientKey, UnusableClientKey> {
        let text = self
            .open_with(|master| master.open_client_key(endpoint, sealed))
            .map_err(UnusableClientKey)?;
        ClientKey::parse(&text).map_err(|bad| UnusableClientKey(bad.to_string()))
    }

    /// Opens something with the master key, or else with the other one.
    fn open_with(
        &self,
        open: impl Fn(&MasterKey) -> Result<Zeroizing<String>, NotOpened>,
    ) -> Result<Zeroizing<String>, String> {
        let Some(master) = self.master.get() else {
            return Err(SealFailure::NoMasterKey.to_string());
        };
        let opened = open(master).or_else(|why| match &self.other {
            Some(other) => open(other).map_err(|_| why),
            None => Err(why),
        });
        opened.map_err(|why| why.to_string())
    }

    fn master(&self) -> Result<&MasterKey, SealFailure> {
        if let Some(master) = self.master.get() {
            return Ok(master);
        }
        let make = self.make.as_ref().ok_or(SealFailure::NoMasterKey)?;
        let made = make().map_err(SealFailure::Making)?;
        // Two that come at the same time read the same file, so both have the same key.
        Ok(self.master.get_or_init(|| made))
    }
}

/// The error when nothing would sign.
#[must_use]
pub fn no_key_signs() -> UnusableKey {
    UnusableKey {
        key_id: "-".to_string(),
        why: "no key signs at this time".to_string(),
    }
}

fn id_of(prefix: &str, random: &[u8]) -> String {
    let mut id = prefix.to_string();
    for byte in random {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

/// What a sealed key is bound to besides its endpoint: whoever can write to the database cannot make a shared secret
/// out of an asymmetric key, nor announce another public key. None of the three has a line break.
fn place(id: &str, kind: KeyKind, public_key: Option<&str>) -> String {
    format!("{id}\n{}\n{}", kind.as_str(), public_key.unwrap_or("-"))
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, SealFailure> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(&mut bytes[..]).map_err(|error| SealFailure::Random(error.to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
