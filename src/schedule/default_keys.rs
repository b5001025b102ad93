//! The default signing keys in a schedule that is the record, because there is no journal.
//!
//! The schedule keeps one text with a number, and does not read it. The number grows with every change and is not below
//! the time of the change, so two readings tell which one is the newer. A server that has read a newer record than the
//! one that is here, because this was lost or set back to an older copy, puts the newer one back.
//!
//! A first record has a lower number than all changes, and than all first records that were written before it. So if a
//! server starts after a loss and writes a first record, the one that was lost still counts as the newer one.

use super::ScheduleError;
use async_trait::async_trait;
use std::fmt;

/// What is kept of the default keys.
#[derive(Clone, PartialEq, Eq)]
pub struct DefaultKeysRecord {
    /// The number of the last change, 1 or more.
    pub number: i64,
    /// The text that was written last.
    pub text: String,
}

/// Without the text, which has the encrypted secrets.
impl fmt::Debug for DefaultKeysRecord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DefaultKeysRecord")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// The part of a schedule that keeps the default keys.
#[async_trait]
pub trait ScheduleDefaultKeys: Send + Sync {
    /// The record; `None` if there is none, or if its number is damaged. May be called before
    /// [`super::recoverable::Recoverable::inspect`].
    async fn default_keys_record(&self) -> Result<Option<DefaultKeysRecord>, ScheduleError>;

    /// Writes the text, if the number of the record is the one that the caller has read, 0 for none. Returns the number
    /// that it gets; `None` if the record is another, and nothing was written. It can be repeated: the same text again
    /// is answered as the first time.
    async fn write_default_keys(
        &self,
        expected: i64,
        text: &str,
    ) -> Result<Option<i64>, ScheduleError>;

    /// Puts back a record with its number, unless the one that is here has the same number or a higher one. `true` if it
    /// was put back.
    async fn restore_default_keys(&self, record: &DefaultKeysRecord)
    -> Result<bool, ScheduleError>;

    /// The fingerprint of the secret of the server that was started last with a secret of its own. May be called before
    /// [`super::recoverable::Recoverable::inspect`].
    async fn signed_with(&self) -> Result<Option<String>, ScheduleError>;

    /// Says with which secret this server signs, before [`super::recoverable::Recoverable::inspect`] compares that with
    /// the servers that are alive. `None`: with the default keys, so nothing is compared.
    fn sign_with(&self, fingerprint: Option<String>);
}
