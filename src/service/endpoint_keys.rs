//! The signing keys of endpoints: adding and removing them.
//!
//! A secret is in the clear only while a request is handled. The journal gets it encrypted, and the answer to the
//! request that made it is the only one that shows it.

use super::endpoints::{EndpointReply, MOST_TRIES};
use super::{Service, ServiceError};
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::domain::endpoint_keys::{BadKeyChange, EndpointKey, EndpointKeys};
use crate::domain::signing_key::{KeyKind, SigningKey};
use crate::journal::{Actor, ExpectedVersion, SealedKeys};
use crate::keyring::{SealFailure, Sealed};
use zeroize::Zeroizing;

/// A request to add a signing key.
#[derive(Debug)]
pub struct KeyToAdd {
    /// The key. `None`: one is made.
    pub key: Option<SigningKey>,
    /// The kind of a key that is made.
    pub kind: KeyKind,
    /// How long the other keys sign along, in milliseconds.
    pub overlap_ms: i64,
}

/// The result of adding a signing key.
pub struct AddedKey {
    /// The key.
    pub key: EndpointKey,
    /// The secret, if it was made here.
    pub secret: Option<Zeroizing<String>>,
    /// Whether the endpoint did not have it before.
    pub is_new: bool,
}

fn note_added(name: &EndpointName, key: &EndpointKey, overlap_ms: i64, actor: &Actor) {
    tracing::info!(
        endpoint = %name, key = key.id, kind = key.kind.as_str(), overlap_ms, actor = %actor.name(),
        "a signing key was added to an endpoint; it signs from now on, and the others for the overlap"
    );
}

fn note_removed(name: &EndpointName, id: &str, actor: &Actor) {
    tracing::info!(
        endpoint = %name, key = id, actor = %actor.name(),
        "a signing key was removed from an endpoint"
    );
}

impl Service {
    /// Adds a signing key to an endpoint. It signs from now on; all others sign along for the overlap, also the
    /// default secret if the endpoint had no keys.
    ///
    /// A given secret that signs for good already is left as it is, so that the request can be repeated. A key that
    /// is made is another one each time: if the answer was lost, add one more and remove the lost one.
    ///
    /// # Errors
    /// [`ServiceError::MissingEndpoint`]; if the endpoint has too many keys, or has this secret for some time only; if
    /// the key cannot be encrypted; if the journal fails.
    pub async fn add_signing_key(
        &self,
        name: &EndpointName,
        KeyToAdd {
            key,
            kind,
            overlap_ms,
        }: KeyToAdd,
        actor: &Actor,
    ) -> Result<AddedKey, ServiceError> {
        let keyring = self.endpoints.keyring();
        let is_made = key.is_none();
        let signing = match key {
            Some(given) => given,
            None => keyring.generate(kind).map_err(sealing)?,
        };
        let _change = self.change_of_endpoints().await?;
        for _ in 0..MOST_TRIES {
            let before = self.stored_endpoint(name).await?;
            if let Some(known) = self.same_key(&before.name, &before.keys, &signing) {
                if is_made {
                    // Nobody else has this secret: the journal has kept the key, and its answer was lost.
                    note_added(name, known, overlap_ms, actor);
                    return Ok(AddedKey {
                        key: known.clone(),
                        secret: Some(signing.expose()),
                        is_new: true,
                    });
                }
                return match known.signs_until_ms {
                    None => Ok(AddedKey {
                        key: known.clone(),
                        secret: None,
                        is_new: false,
                    }),
                    Some(_) => Err(ServiceError::EndingKey(known.id.clone())),
                };
            }
            let now_ms = self.clock.now_ms();
            let sealed = keyring.seal(name.as_str(), &signing, now_ms);
            let Sealed { key, master_key } = sealed.map_err(sealing)?;
            let keys = before.keys.with_added(key.clone(), now_ms, overlap_ms)?;
            let keys = SealedKeys {
                keys,
                master_key: Some(master_key),
            };
            if self.write_keys(before, keys, actor).await? {
                note_added(name, &key, overlap_ms, actor);
                return Ok(AddedKey {
                    key,
                    secret: is_made.then(|| signing.expose()),
                    is_new: true,
                });
            }
        }
        Err(ServiceError::EndpointUnsettled)
    }

    /// Removes a signing key from an endpoint. It signs no attempt that begins from now on; other servers know that
    /// within a second.
    ///
    /// # Errors
    /// [`ServiceError::MissingEndpoint`]; if there is no such key, or no other would sign for good; if the journal fails.
    pub async fn remove_signing_key(
        &self,
        name: &EndpointName,
        id: &str,
        actor: &Actor,
    ) -> Result<(), ServiceError> {
        let _change = self.change_of_endpoints().await?;
        for number in 0..MOST_TRIES {
            let before = self.stored_endpoint(name).await?;
            let left = match before.keys.without(id) {
                Ok(left) => left,
                // The key was there at the first try: the journal has kept that one, and its answer was lost, or somebody else
                // has removed the key since.
                Err(BadKeyChange::Unknown) if number > 0 => {
                    note_removed(name, id, actor);
                    return Ok(());
                }
                Err(bad) => return Err(bad.into()),
            };
            let keys = SealedKeys {
                keys: left,
                master_key: None,
            };
            if self.write_keys(before, keys, actor).await? {
                note_removed(name, id, actor);
                return Ok(());
            }
        }
        Err(ServiceError::EndpointUnsettled)
    }

    /// Encrypts all keys of a request. A key that the endpoint has already stays as it is, but signs for good, so
    /// that the request can be repeated.
    pub(super) fn seal_all(
        &self,
        name: &EndpointName,
        given: &[SigningKey],
        before: EndpointKeys,
    ) -> Result<SealedKeys, ServiceError> {
        let now_ms = self.clock.now_ms();
        let mut fingerprint = None;
        let mut keys = Vec::with_capacity(given.len());
        for signing in given {
            if let Some(known) = self.same_key(name, &before, signing) {
                keys.push(EndpointKey {
                    signs_until_ms: None,
                    ..known.clone()
                });
                continue;
            }
            let keyring = self.endpoints.keyring();
            let sealed = keyring.seal(name.as_str(), signing, now_ms);
            let Sealed { key, master_key } = sealed.map_err(sealing)?;
            keys.push(key);
            fingerprint = Some(master_key);
        }
        Ok(SealedKeys {
            keys: EndpointKeys::of(keys)?,
            master_key: fingerprint,
        })
    }

    /// The key with the same secret. One that cannot be opened is another key.
    fn same_key<'keys>(
        &self,
        name: &EndpointName,
        keys: &'keys EndpointKeys,
        signing: &SigningKey,
    ) -> Option<&'keys EndpointKey> {
        let keyring = self.endpoints.keyring();
        keys.list().iter().find(|key| {
            let opened = keyring.open(name.as_str(), key);
            opened.is_ok_and(|opened| opened.is_same(signing))
        })
    }

    /// `false` if the endpoint was changed meanwhile.
    async fn write_keys(
        &self,
        before: Endpoint,
        keys: SealedKeys,
        actor: &Actor,
    ) -> Result<bool, ServiceError> {
        let expected = ExpectedVersion::Exactly(before.version);
        let content = (before.settings, Some(keys), None);
        let written: Option<EndpointReply> =
            (self.write_endpoint(&before.name, content, expected, actor)).await?;
        Ok(written.is_some())
    }
}

pub(super) fn sealing(failure: SealFailure) -> ServiceError {
    match failure {
        SealFailure::NoMasterKey => ServiceError::NoMasterKey,
        SealFailure::Making(_) | SealFailure::Random(_) => ServiceError::Sealing(failure),
    }
}
