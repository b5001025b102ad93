//! Encrypting everything in a journal again, under another master key. Only the command that changes the master key
//! does it, so it is no part of [`super::Journal`].

use crate::domain::default_keys::DefaultKeys;
use crate::domain::endpoint::Endpoint;

/// Encrypts secrets again. A journal knows no master keys.
pub trait Resealing: Send {
    /// The fingerprints of the master key that encrypted what is there, and of the one that encrypts it again.
    fn fingerprints(&self) -> [String; 2];

    /// An endpoint with its secrets encrypted again; `None` if nothing of it changes.
    fn endpoint(&mut self, endpoint: &Endpoint) -> Option<Endpoint>;

    /// The default keys encrypted again; `None` if nothing of them changes.
    fn default_keys(&mut self, keys: &DefaultKeys) -> Option<DefaultKeys>;

    /// Notes an endpoint that cannot be read. It stays as it is.
    fn unreadable(&mut self, name: &str);

    /// Whether everything could be encrypted. If not, nothing is written.
    fn succeeded(&self) -> bool;
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResealResult {
    /// All is written, in one transaction. The journal remembers the new master key.
    Done,
    /// Nothing in the journal was ever encrypted. Nothing was changed.
    NothingSealed,
    /// The master key of this fingerprint encrypted what is there, and it is neither of both. Nothing was changed.
    OtherMasterKey(String),
    /// Something could not be encrypted. Nothing was changed.
    Failed,
}

/// Endpoints that are read at a time.
pub(super) const PAGE: i64 = 500;
