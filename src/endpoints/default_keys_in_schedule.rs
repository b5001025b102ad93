//! The default keys in the schedule, as the rows of a journal.
//!
//! The schedule keeps them as one record, and writes it only if it is the one that was read before. So a change is
//! decided here from that record, and decided again if another server was faster.
//!
//! Records have ascending numbers. A server remembers the newest one that it has seen. If the schedule has lost it, or
//! was set back to an older copy, the server puts it back, and the highest number wins whichever server does so. So a
//! key that was removed signs no more, and one that was added signs on, as long as one server lives. That holds too if a
//! server starts between the loss and the repair, and gives a first key: its record has a lower number.

use super::default_keys_text::StoredDefaultKeys;
use crate::domain::default_keys::DefaultKeys;
use crate::journal::{
    ChangingDefaultKeys, DefaultKeysChanged, DefaultKeysDecision, decide_default_keys,
};
use crate::keyring::Keyring;
use crate::keyring::reseal::Resealer;
use crate::schedule::default_keys::{DefaultKeysRecord, ScheduleDefaultKeys};
use crate::schedule::{Schedule, ScheduleError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often a change is decided again because another server was faster.
const MOST_TRIES: usize = 8;
/// Who encrypts the keys again.
const ACTOR: &str = "maintenance";

/// The default keys of a schedule that can keep them. Clones share what they remember.
#[derive(Clone)]
pub struct DefaultKeysInSchedule {
    schedule: Arc<dyn Schedule>,
    newest: Arc<Mutex<Option<DefaultKeysRecord>>>,
}

impl DefaultKeysInSchedule {
    /// `None` if this schedule keeps no default keys.
    #[must_use]
    pub fn of(schedule: Arc<dyn Schedule>) -> Option<Self> {
        schedule.default_keys()?;
        Some(Self {
            schedule,
            newest: Arc::default(),
        })
    }

    fn store(&self) -> &dyn ScheduleDefaultKeys {
        let default_keys = self.schedule.default_keys();
        default_keys.expect("invariant: it was asked when this was made")
    }

    /// See [`super::default_key_store::DefaultKeyStore::read`].
    pub(super) async fn read(&self) -> Result<DefaultKeys, ScheduleError> {
        Ok(self.stored().await?.keys)
    }

    /// The default keys, and the fingerprint of the master key that encrypted them, if there are any.
    ///
    /// # Errors
    /// If the schedule fails.
    pub(super) async fn read_with_master_key(
        &self,
    ) -> Result<(DefaultKeys, Option<String>), ScheduleError> {
        let stored = self.stored().await?;
        Ok((stored.keys, stored.master_key))
    }

    /// See [`super::default_key_store::DefaultKeyStore::remembered_secret`].
    pub(super) async fn remembered_secret(&self) -> Result<Option<String>, ScheduleError> {
        self.store().signed_with().await
    }

    /// See [`ScheduleDefaultKeys::sign_with`].
    pub(super) fn sign_with(&self, fingerprint: Option<String>) {
        self.store().sign_with(fingerprint);
    }

    /// See [`super::default_key_store::DefaultKeyStore::change`].
    pub(super) async fn change(
        &self,
        changing: &ChangingDefaultKeys,
    ) -> Result<DefaultKeysChanged, ScheduleError> {
        for _ in 0..MOST_TRIES {
            let before = self.stored().await?;
            let keys = match decide_default_keys(before.keys.clone(), changing) {
                DefaultKeysDecision::Write(keys) => keys,
                DefaultKeysDecision::Answer(answer) => return Ok(answer),
            };
            let master_key = match (&before.master_key, &changing.master_key) {
                (Some(before), Some(now)) if before != now => {
                    return Ok(DefaultKeysChanged::OtherMasterKey);
                }
                (Some(known), _) | (None, Some(known)) => known.clone(),
                (None, None) => String::new(),
            };
            let by = (changing.actor.name(), changing.at_ms);
            let text = before.text_with(&keys, master_key, by);
            if self.write(before.number, text).await? {
                let existing = None;
                return Ok(DefaultKeysChanged::Done { keys, existing });
            }
        }
        Err(busy())
    }

    /// Encrypts the default keys again under the master key of this server, if they are encrypted under the other one
    /// that it was given. Either all are, or none. Returns how many.
    ///
    /// # Errors
    /// If the schedule fails.
    pub(super) async fn reseal(&self, keyring: &Keyring, at_ms: i64) -> Result<u64, ScheduleError> {
        for _ in 0..MOST_TRIES {
            let before = self.stored().await?;
            let from = before.master_key.as_deref();
            let resealer = from.and_then(|from| Resealer::of(keyring, from));
            let Some(mut resealer) = resealer else {
                return Ok(0);
            };
            let again = resealer.default_keys(&before.keys);
            let counts = resealer.counts().ok();
            let counts = counts.filter(|counts| counts.unopened == 0);
            let (Some(keys), Some(counts)) = (again, counts) else {
                tracing::error!(
                    "the default keys were not encrypted again under the master key of this server, because it cannot open \
                     all of them; they stay as they are"
                );
                return Ok(0);
            };
            let [_, master_key] = resealer.fingerprints();
            let text = before.text_with(&keys, master_key, (ACTOR, at_ms));
            if self.write(before.number, text).await? {
                return Ok(counts.default_keys);
            }
        }
        Err(busy())
    }

    /// Writes a text if the record is the one with this number. `false` if it is another.
    async fn write(&self, expected: i64, text: String) -> Result<bool, ScheduleError> {
        let written = self.store().write_default_keys(expected, &text).await?;
        let Some(number) = written else {
            return Ok(false);
        };
        self.note(DefaultKeysRecord { number, text });
        Ok(true)
    }

    async fn stored(&self) -> Result<StoredDefaultKeys, ScheduleError> {
        let Some(record) = self.record().await? else {
            return Ok(StoredDefaultKeys::default());
        };
        StoredDefaultKeys::read(&record)
            .map_err(|why| ScheduleError::Corrupt(format!("the record of the default keys: {why}")))
    }

    /// The newest record. Puts it back if the schedule has an older one, or none.
    async fn record(&self) -> Result<Option<DefaultKeysRecord>, ScheduleError> {
        let here = self.store().default_keys_record().await?;
        let known = self.newest().clone();
        let is_older = |known: &DefaultKeysRecord| {
            (here.as_ref()).is_none_or(|here| here.number < known.number)
        };
        if let Some(known) = known.filter(is_older) {
            // Between the two readings above, this server itself may have written the newer one.
            if self.store().restore_default_keys(&known).await? {
                tracing::error!(
                    "Redis has lost the default keys, or was set back to an older copy of them; this server has put back \
                     those that it has read last"
                );
            }
            return Ok(Some(known));
        }
        if let Some(here) = &here {
            self.note(here.clone());
        }
        Ok(here)
    }

    fn note(&self, record: DefaultKeysRecord) {
        let mut newest = self.newest();
        if (newest.as_ref()).is_none_or(|known| known.number < record.number) {
            *newest = Some(record);
        }
    }

    fn newest(&self) -> MutexGuard<'_, Option<DefaultKeysRecord>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy() -> ScheduleError {
    ScheduleError::Unavailable("the default keys are changed again and again".to_string())
}
