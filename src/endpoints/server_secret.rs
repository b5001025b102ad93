//! The secret that a server was started with, beside the default keys that the servers share.

use crate::domain::default_keys::DefaultKeys;
use crate::domain::signature::{SecretOrigin, SigningSecret};
use crate::domain::signers::{DefaultSigner, DefaultSigners};
use crate::domain::signing_key::SigningKey;
use std::sync::Arc;

/// The secret that a server was started with.
#[derive(Debug, Clone)]
pub struct ServerSecret {
    /// The secret.
    pub secret: SigningSecret,
    /// Where it comes from.
    pub origin: SecretOrigin,
}

impl ServerSecret {
    /// Whether a server that was given this secret may use these default keys. One that a person has given is meant to
    /// sign, so it must be one of them, or one that was replaced. None at all: it may become the first.
    pub(super) fn may_use(&self, keys: &DefaultKeys) -> bool {
        match self.origin {
            SecretOrigin::Given => keys.is_empty() || keys.may_have(&self.secret.fingerprint()),
            SecretOrigin::Kept => true,
        }
    }

    /// This secret alone, as the default key of this id.
    pub(super) fn signers(&self, id: &str) -> Arc<DefaultSigners> {
        Arc::new(DefaultSigners::of(vec![DefaultSigner {
            id: id.into(),
            key: SigningKey::Symmetric(self.secret.clone()),
            signs_until_ms: None,
        }]))
    }

    /// Logs if this secret is not what signs.
    pub(super) fn log_if_replaced(&self, keys: &DefaultKeys) {
        let known = keys.with_fingerprint(&self.secret.fingerprint());
        if known.is_some_and(|known| known.key.signs_until_ms.is_none()) {
            return;
        }
        let signing = keys.ids();
        match self.origin {
            SecretOrigin::Given => tracing::warn!(
                signing,
                "the --signing-secret of this server was replaced by another default key, which signs; leave the setting out"
            ),
            SecretOrigin::Kept => tracing::info!(
                signing,
                "the signing-secret in the data directory is not used: the default keys that the servers share sign"
            ),
        }
    }
}
