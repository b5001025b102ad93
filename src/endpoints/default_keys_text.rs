//! The record of the default keys that a schedule keeps, as a text: the columns that the rows of a journal have, in JSON.

use crate::domain::default_keys::{DefaultKey, DefaultKeys, UnreadableDefaultKey};
use crate::domain::endpoint_keys::EndpointKey;
use crate::domain::signing_key::KeyKind;
use crate::schedule::default_keys::DefaultKeysRecord;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A record that was read. The default: there is none.
#[derive(Default)]
pub(super) struct StoredDefaultKeys {
    /// 0 if there is none.
    pub(super) number: i64,
    /// The fingerprint of the master key.
    pub(super) master_key: Option<String>,
    pub(super) keys: DefaultKeys,
    /// The keys that cannot be read, as they are kept.
    left: Vec<Value>,
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

impl StoredDefaultKeys {
    /// Reads a record. A key that cannot be read is told apart and hides no other.
    ///
    /// # Errors
    /// Says what cannot be read, if that is not a key of which the id can be read.
    pub(super) fn read(record: &DefaultKeysRecord) -> Result<Self, String> {
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
        Ok(Self {
            number: record.number,
            master_key: Some(text.master_key),
            keys: DefaultKeys::of(keys).with_unreadable(unreadable),
            left,
        })
    }

    /// The text of the record with these keys that follows this one, of which come the keys that cannot be read and are
    /// still there. `actor` made the change at `changed_ms`.
    pub(super) fn text_with(
        &self,
        keys: &DefaultKeys,
        master_key: String,
        (actor, changed_ms): (&str, i64),
    ) -> String {
        let is_left = |value: &&Value| {
            let id = value["id"].as_str();
            (keys.unreadable().iter()).any(|unreadable| Some(&*unreadable.id) == id)
        };
        let left = self.left.iter().filter(is_left).cloned();
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
