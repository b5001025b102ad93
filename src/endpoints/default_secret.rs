//! Whether this server signs with the default secret of the servers of its journal.
//!
//! The journal remembers the fingerprint of the default secret of the server that started last. A server with another
//! one cannot start while that one is alive. But one that was suspended, or cut off from Redis, counts as ended after
//! half a minute, and may come back when the others were started with another secret. Its signatures would be refused,
//! and attempts spent. So every server compares the fingerprint twice a second, and signs nothing with its default
//! secret while the journal remembers another one.

use crate::journal::{DEFAULT_SECRET, Journal, JournalError};
use crate::keyring::UnusableKey;
use std::sync::{PoisonError, RwLock};

/// The fingerprint of the default secret of this server, and of the other one that the journal remembers. The default
/// compares nothing.
#[derive(Debug, Default)]
pub struct DefaultSecret {
    own: Option<String>,
    other: RwLock<Option<String>>,
}

impl DefaultSecret {
    /// Writes the fingerprint of this server's default secret into the journal. To be called at start, when no server
    /// with another one is alive.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn announce(own: String, journal: &dyn Journal) -> Result<Self, JournalError> {
        let before = journal.recall(DEFAULT_SECRET).await?;
        if before.as_ref() != Some(&own) {
            if let Some(before) = before {
                tracing::warn!(
                    before,
                    now = own,
                    "the default signing secret is another one than at the last start (before and now: fingerprints); \
                     every receiver that verifies with it needs the new one"
                );
            }
            journal.remember(DEFAULT_SECRET, &own).await?;
        }
        tracing::info!(
            fingerprint = own,
            "calls are signed with the default secret unless their endpoint has keys of its own; all receivers that know \
             it could forge calls to each other"
        );
        Ok(Self {
            own: Some(own),
            other: RwLock::default(),
        })
    }

    /// The fingerprint of the default secret with which the other servers sign, if it is another one.
    #[must_use]
    pub fn other(&self) -> Option<String> {
        let other = self.other.read().unwrap_or_else(PoisonError::into_inner);
        other.clone()
    }

    /// Whether the default secret may sign.
    ///
    /// # Errors
    /// [`UnusableKey`] if the other servers sign with another one.
    pub(super) fn check(&self) -> Result<(), UnusableKey> {
        match self.other() {
            None => Ok(()),
            Some(other) => Err(UnusableKey {
                key_id: "default".to_string(),
                why: format!(
                    "the servers of this journal sign with another default secret (fingerprint {other})"
                ),
            }),
        }
    }

    /// Compares the fingerprint with that in the journal. One that is missing there is written again.
    pub(super) async fn compare(&self, journal: &dyn Journal) -> Result<(), JournalError> {
        let Some(own) = &self.own else {
            return Ok(());
        };
        let Some(remembered) = journal.recall(DEFAULT_SECRET).await? else {
            return journal.remember(DEFAULT_SECRET, own).await;
        };
        let other = (remembered != *own).then_some(remembered);
        let before = self.other();
        if other == before {
            return Ok(());
        }
        match &other {
            Some(other) => tracing::error!(
                own,
                other,
                "the servers of this journal sign with another default secret than this one (own and other: \
                 fingerprints), so this server sends nothing that it would sign with its own; give it the \
                 --signing-secret of the others and start it again"
            ),
            None => tracing::info!(
                own,
                "the default secret of this server is that of the others again, so it signs again"
            ),
        }
        *self.other.write().unwrap_or_else(PoisonError::into_inner) = other;
        Ok(())
    }
}
