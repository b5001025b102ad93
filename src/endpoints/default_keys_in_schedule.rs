//! The default keys in the schedule, as the rows of a journal.
//!
//! The schedule keeps them as one record, and writes it only if it is the one that was read before. So a change is
//! decided here from that record, and decided again if another server was faster.
//!
//! Records have ascending numbers. A server remembers the newest one that it has seen. If the schedule has lost it, or
//! was set back to an older copy, the server puts it back, and the highest number wins whichever server does so. So a
//! key that was removed signs no more, and one that was added signs on, as long as one server lives.

use crate::domain::default_keys::{DefaultKey, DefaultKeys, UnreadableDefaultKey};
use crate::domain::endpoint_keys::EndpointKey;
use crate::domain::signing_key::KeyKind;
use crate::journal::{
    ChangingDefaultKeys, DefaultKeysChanged, DefaultKeysDecision, decide_default_keys,
};
use crate::keyring::Keyring;
use crate::keyring::reseal::Resealer;
use crate::schedule::default_keys::{DefaultKeysRecord, ScheduleDefaultKeys};
use crate::schedule::{Schedule, ScheduleError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
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

/// The text of a record. A field that a later version adds needs a default.
#[derive(Serialize, Deserialize)]
struct DefaultKeysText {
    /// The fingerprint of the master key.
    master_key: String,
    changed_ms: i64,
    /// Who made the last change.
    actor: String,
    /// Each as [`DefaultKeyText`]; those that this version cannot read stay as they are.
    keys: Vec<Value>,
}

/// One of the keys: the columns that a row of a journal has.
#[derive(Serialize, Deserialize)]
struct DefaultKeyText {
    id: String,
    kind: String,
    sealed: String,
    #[serde(default)]
    public_key: Option<String>,
    fingerprint: String,
    created_ms: i64,
    #[serde(default)]
    signs_until_ms: Option<i64>,
}

/// A record that was read.
#[derive(Default)]
struct StoredDefaultKeys {
    /// 0 if there is none.
    number: i64,
    /// The fingerprint of the master key.
    master_key: Option<String>,
    keys: DefaultKeys,
    /// The keys that cannot be read, as they are kept.
    left: Vec<Value>,
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

    /// The fingerprint of the master key that encrypted the default keys, if there are any.
    ///
    /// # Errors
    /// If the schedule fails.
    pub(super) async fn master_key(&self) -> Result<Option<String>, ScheduleError> {
        Ok(self.stored().await?.master_key)
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
            let by = (&*changing.actor.0, changing.at_ms);
            let text = text_of(&keys, &before, master_key, by);
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
            let text = text_of(&keys, &before, master_key, (ACTOR, at_ms));
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
        stored(&record)
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

/// Reads a record. A key that cannot be read is told apart and hides no other.
fn stored(record: &DefaultKeysRecord) -> Result<StoredDefaultKeys, String> {
    let text: DefaultKeysText =
        serde_json::from_str(&record.text).map_err(|error| error.to_string())?;
    let (mut keys, mut unreadable, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for value in text.keys {
        match default_key(&value) {
            Ok(key) => keys.push(key),
            Err(why) => {
                unreadable.push(unreadable_key(&value, why)?);
                left.push(value);
            }
        }
    }
    Ok(StoredDefaultKeys {
        number: record.number,
        master_key: Some(text.master_key),
        keys: DefaultKeys::of(keys).with_unreadable(unreadable),
        left,
    })
}

fn default_key(value: &Value) -> Result<DefaultKey, String> {
    let text = DefaultKeyText::deserialize(value).map_err(|error| error.to_string())?;
    let kind = KeyKind::from_name(&text.kind)
        .ok_or_else(|| format!("unknown kind of key `{}`", text.kind))?;
    let key = EndpointKey {
        id: text.id,
        kind,
        sealed: text.sealed,
        public_key: text.public_key,
        created_ms: text.created_ms,
        signs_until_ms: text.signs_until_ms,
    };
    let fingerprint = text.fingerprint;
    Ok(DefaultKey { key, fingerprint })
}

/// What is known of a key that cannot be read. What of it cannot be read either counts as that of a key that signs.
fn unreadable_key(value: &Value, why: String) -> Result<UnreadableDefaultKey, String> {
    let Some(id) = value["id"].as_str() else {
        return Err(why);
    };
    Ok(UnreadableDefaultKey {
        id: id.to_string(),
        fingerprint: value["fingerprint"].as_str().map(str::to_string),
        why,
        is_former: value["sealed"].as_str().is_some_and(str::is_empty),
        signs_until_ms: value["signs_until_ms"].as_i64(),
    })
}

/// The text of a record. Of `before` come the keys that cannot be read and are still there. `actor` made the change at
/// `changed_ms`.
fn text_of(
    keys: &DefaultKeys,
    before: &StoredDefaultKeys,
    master_key: String,
    (actor, changed_ms): (&str, i64),
) -> String {
    let is_left = |value: &&Value| {
        let id = value["id"].as_str();
        (keys.unreadable().iter()).any(|unreadable| Some(&*unreadable.id) == id)
    };
    let left = before.left.iter().filter(is_left).cloned();
    let known = keys.all().iter().map(|known| {
        let text = DefaultKeyText {
            id: known.key.id.clone(),
            kind: known.key.kind.as_str().to_string(),
            sealed: known.key.sealed.clone(),
            public_key: known.key.public_key.clone(),
            fingerprint: known.fingerprint.clone(),
            created_ms: known.key.created_ms,
            signs_until_ms: known.key.signs_until_ms,
        };
        serde_json::to_value(text).expect("invariant: strings and numbers serialise")
    });
    let text = DefaultKeysText {
        master_key,
        changed_ms,
        actor: actor.to_string(),
        keys: left.chain(known).collect(),
    };
    serde_json::to_string(&text).expect("invariant: strings and numbers serialise")
}
