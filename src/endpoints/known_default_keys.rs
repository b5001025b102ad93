//! The default keys as a server has read them last, opened: what it signs with, or why it signs nothing.

use super::server_secret::ServerSecret;
use crate::domain::default_keys::{DefaultKeyWarning, DefaultKeys};
use crate::domain::endpoint_keys;
use crate::domain::signers::{DefaultSigner, DefaultSigners};
use crate::keyring::{Keyring, UnusableKey, no_key_signs};
use std::sync::Arc;

/// See the documentation of the module. The default has none, and signs nothing.
#[derive(Debug, Default)]
pub(super) struct KnownDefaultKeys {
    /// As the store has them.
    keys: DefaultKeys,
    signers: Option<Arc<DefaultSigners>>,
    trouble: Option<DefaultKeyTrouble>,
    /// Whether it was logged that the store has lost them.
    is_loss_logged: bool,
}

/// Why the default keys sign nothing here.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DefaultKeyTrouble {
    /// The other servers sign with another secret, of this fingerprint.
    OtherSecret(String),
    /// One of them cannot be opened.
    Unusable(UnusableKey),
    /// One of them cannot be read.
    Unreadable(UnusableKey),
    /// The store has them, and none can be read.
    AllUnreadable(String),
}

impl KnownDefaultKeys {
    /// Those of a server that signs with its own secret.
    pub(super) fn of_server(own: &ServerSecret) -> Self {
        Self {
            signers: Some(own.signers(endpoint_keys::DEFAULT_SECRET)),
            ..Self::default()
        }
    }

    /// Opens the default keys that a store has. Those that sign no more need not be usable. Those that are usable are opened
    /// too: when a call is made decides which of them sign it, and the clock may have been ahead now.
    pub(super) fn open(
        keys: DefaultKeys,
        own: Option<&ServerSecret>,
        keyring: &Keyring,
        now_ms: i64,
    ) -> Self {
        let opened: Result<Vec<DefaultSigner>, UnusableKey> = (keys.kept())
            .map(|kept| (kept, keyring.open_default(&kept.key)))
            .filter(|(kept, opened)| opened.is_ok() || kept.key.signs_at(now_ms))
            .map(|(kept, opened)| {
                Ok(DefaultSigner {
                    id: kept.key.id.as_str().into(),
                    key: opened?,
                    signs_until_ms: kept.key.signs_until_ms,
                })
            })
            .collect();
        let unreadable = (keys.unreadable().iter()).find(|unreadable| unreadable.signs_at(now_ms));
        let (signers, trouble) = match (unreadable, opened) {
            (Some(unreadable), _) => {
                let unusable = UnusableKey {
                    key_id: unreadable.id.clone(),
                    why: unreadable.why.clone(),
                };
                (None, Some(DefaultKeyTrouble::Unreadable(unusable)))
            }
            (None, Ok(opened)) => (Some(Arc::new(DefaultSigners::of(opened))), None),
            (None, Err(unusable)) => match own_alone(own, &keys) {
                Some(own) => (Some(own), None),
                None => (None, Some(DefaultKeyTrouble::Unusable(unusable))),
            },
        };
        Self {
            keys,
            signers,
            trouble,
            is_loss_logged: false,
        }
    }

    /// As the store has them; none if this server signs with its own secret.
    pub(super) fn keys(&self) -> &DefaultKeys {
        &self.keys
    }

    /// Whether these keys are known, and sign.
    pub(super) fn are(&self, keys: &DefaultKeys) -> bool {
        self.keys == *keys && self.trouble.is_none()
    }

    /// What signs.
    ///
    /// # Errors
    /// [`UnusableKey`] if they cannot sign here.
    pub(super) fn signers(&self) -> Result<Arc<DefaultSigners>, UnusableKey> {
        match (&self.trouble, &self.signers) {
            (Some(trouble), _) => Err(trouble.unusable()),
            (None, Some(signers)) => Ok(signers.clone()),
            (None, None) => Err(no_key_signs()),
        }
    }

    /// What a person should know if they sign nothing here.
    pub(super) fn warning(&self) -> Option<DefaultKeyWarning> {
        Some(match self.trouble.as_ref()? {
            DefaultKeyTrouble::OtherSecret(fingerprint) => DefaultKeyWarning::OtherSecret {
                fingerprint: fingerprint.clone(),
            },
            DefaultKeyTrouble::Unreadable(UnusableKey { key_id, why }) => {
                DefaultKeyWarning::Unreadable {
                    key: key_id.clone(),
                    why: why.clone(),
                }
            }
            DefaultKeyTrouble::AllUnreadable(why) => {
                DefaultKeyWarning::AllUnreadable { why: why.clone() }
            }
            DefaultKeyTrouble::Unusable(UnusableKey { key_id, why }) => {
                DefaultKeyWarning::Unusable {
                    key: key_id.clone(),
                    why: why.clone(),
                }
            }
        })
    }

    /// Replaces these with those that were read just now, and logs what that changes.
    pub(super) fn replace(&mut self, next: Self) {
        match (&next.trouble, &self.trouble) {
            (Some(trouble), known) if known.as_ref() != Some(trouble) => {
                let UnusableKey { key_id, why } = trouble.unusable();
                tracing::error!(
                    key = key_id,
                    why,
                    "a default key cannot be used, so this server sends nothing that the default keys would sign; \
                     if it cannot be opened, give this server the master key of the others and start it again; if it cannot \
                     be read, update this server, or add another default key and remove this one"
                );
            }
            (Some(_), _) => {}
            (None, _) if self.keys.is_empty() => {}
            (None, _) => tracing::info!(
                default_keys = next.keys.ids(),
                "the default keys have changed; calls from now on are signed with these"
            ),
        }
        *self = next;
    }

    /// Notes that the store has them and cannot read any. What was read before may be a key that was removed.
    pub(super) fn note_unreadable(&mut self, why: String) {
        self.trouble = Some(DefaultKeyTrouble::AllUnreadable(why));
    }

    /// Notes that the store has lost them. They stay in use.
    pub(super) fn note_loss(&mut self) {
        if matches!(self.trouble, Some(DefaultKeyTrouble::AllUnreadable(_))) {
            self.trouble = None;
        }
        if !std::mem::replace(&mut self.is_loss_logged, true) {
            tracing::error!(
                "the journal has lost its default keys, as if it was restored from an old backup; those that were read last \
                 stay in use until this server is started again; then the journal gets the --signing-secret of that server"
            );
        }
    }

    /// Notes the fingerprint of the secret with which the servers sign that have no default keys, and of `own`.
    pub(super) fn note_secret(&mut self, own: &str, remembered: String) {
        let trouble = (remembered != own).then_some(DefaultKeyTrouble::OtherSecret(remembered));
        if self.trouble == trouble {
            return;
        }
        match &trouble {
            Some(trouble) => tracing::error!(
                own,
                why = trouble.unusable().why,
                "the servers of this journal sign with another default secret than this one (own and other: \
                 fingerprints), so this server sends nothing that it would sign with its own; give it the \
                 --signing-secret of the others and start it again"
            ),
            None => tracing::info!(
                own,
                "the default secret of this server is that of the others again, so it signs again"
            ),
        }
        self.trouble = trouble;
    }
}

impl DefaultKeyTrouble {
    fn unusable(&self) -> UnusableKey {
        match self {
            Self::OtherSecret(fingerprint) => UnusableKey {
                key_id: endpoint_keys::DEFAULT_SECRET.to_string(),
                why: format!(
                    "the servers of this journal sign with another default secret (fingerprint {fingerprint})"
                ),
            },
            Self::Unusable(unusable) | Self::Unreadable(unusable) => unusable.clone(),
            Self::AllUnreadable(why) => UnusableKey {
                key_id: endpoint_keys::DEFAULT_SECRET.to_string(),
                why: format!("the default keys cannot be read: {why}"),
            },
        }
    }
}

/// The secret of this server, if it is the only default key: a server without the master key can sign with that.
fn own_alone(own: Option<&ServerSecret>, keys: &DefaultKeys) -> Option<Arc<DefaultSigners>> {
    let mut kept = keys.kept();
    let (Some(own), Some(only), None) = (own, kept.next(), kept.next()) else {
        return None;
    };
    (only.fingerprint == own.secret.fingerprint()).then(|| own.signers(&only.key.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::default_keys::DefaultKey;
    use crate::domain::endpoint_keys::EndpointKey;
    use crate::domain::master_key::MasterKey;
    use crate::domain::signers::Signers;
    use crate::domain::signing_key::KeyKind;
    use zeroize::Zeroizing;

    fn keyring(byte: u8) -> Keyring {
        Keyring::with(MasterKey::from_random(Zeroizing::new([byte; 32])))
    }

    /// A key that this keyring has made.
    fn key(by: &Keyring, id: &str, signs_until_ms: Option<i64>) -> DefaultKey {
        let made = by.generate(KeyKind::Symmetric).expect("made");
        let sealed = by.seal_default(&made, 0).expect("sealed").key;
        DefaultKey {
            fingerprint: format!("print {id}"),
            key: EndpointKey {
                signs_until_ms,
                ..sealed
            },
        }
    }

    #[test]
    fn a_clock_that_was_ahead_when_the_keys_were_read_ends_no_overlap() {
        let keyring = keyring(1);
        let keys = vec![key(&keyring, "b", None), key(&keyring, "a", Some(1_000))];
        let ids: Vec<String> = keys.iter().map(|known| known.key.id.clone()).collect();
        let read_ms = 5_000;
        let known = KnownDefaultKeys::open(DefaultKeys::of(keys), None, &keyring, read_ms);
        let signers = known.signers().expect("they sign");
        let signing = |now_ms: i64| {
            let signers = Signers::of(Vec::new(), Some(signers.clone()), now_ms);
            signers.expect("some sign").ids().join(" ")
        };
        assert_eq!(signing(999), ids.join(" "));
        assert_eq!(signing(1_000), ids[0]);
    }

    #[test]
    fn a_key_that_cannot_be_opened_stops_nothing_once_its_time_has_passed() {
        let (own, other) = (keyring(1), keyring(2));
        let keys = DefaultKeys::of(vec![key(&own, "b", None), key(&other, "a", Some(1_000))]);
        let open = |now_ms: i64| KnownDefaultKeys::open(keys.clone(), None, &own, now_ms);
        assert!(open(999).signers().is_err());
        assert!(open(999).warning().is_some());
        assert!(open(1_000).signers().is_ok());
        assert_eq!(open(1_000).warning(), None);
    }
}
