//! The endpoints: setting, removing and reading them.

use super::{Actor, JournalError, LaneOrder};
use crate::domain::endpoint::{Endpoint, EndpointName, EndpointSettings, MOST_ENDPOINTS};
use crate::domain::endpoint_keys::EndpointKeys;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::{LaneLimits, LaneSetting};
use async_trait::async_trait;

/// The name under which a journal remembers the fingerprint of the master key that sealed its signing keys.
pub const MASTER_KEY: &str = "master-key";

/// The name under which a journal remembers the fingerprint of the default secret with which its servers sign.
pub const DEFAULT_SECRET: &str = "default-secret";

/// The part of a [`super::Journal`] that keeps endpoints.
///
/// Every change has a number, and numbers follow the order of the commits. So a server that has read everything
/// up to a number finds all later changes behind it.
#[async_trait]
pub trait JournalEndpoints: Send + Sync + 'static {
    /// Makes an endpoint or replaces its settings. Settings that are the same change nothing. It can be repeated.
    ///
    /// The first keys that are written decide the master key of the journal: their fingerprint is remembered in the
    /// same transaction, and keys with another fingerprint are refused from then on.
    async fn set_endpoint(&self, setting: &SettingEndpoint) -> Result<EndpointSet, JournalError>;

    /// Removes an endpoint. Its last settings are still returned by [`JournalEndpoints::endpoint`]. `false` if
    /// there is none.
    async fn remove_endpoint(&self, removing: &RemovingEndpoint) -> Result<bool, JournalError>;

    /// One endpoint, also if it was removed.
    async fn endpoint(&self, name: &EndpointName) -> Result<Option<StoredEndpoint>, JournalError>;

    /// The endpoints whose last change has a number above this, in the order of the numbers, at most `limit`.
    async fn endpoints_after(
        &self,
        number: i64,
        limit: usize,
    ) -> Result<Vec<EndpointRow>, JournalError>;
}

/// A request to set an endpoint.
#[derive(Debug, Clone)]
pub struct SettingEndpoint {
    /// Its name.
    pub name: EndpointName,
    /// Its settings from now on.
    pub settings: EndpointSettings,
    /// Its signing keys from now on. `None`: they stay as they are, and a new endpoint has none.
    pub keys: Option<SealedKeys>,
    /// The fingerprint of the master key, if the settings contain something that was encrypted just now.
    pub sealed_with: Option<String>,
    /// What the caller has read before.
    pub expected: ExpectedVersion,
    /// Who asks for it.
    pub actor: Actor,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// If one of this name was removed: how long after that was found what is registered means the new one, in milliseconds.
    /// By then, every server must know of the removal.
    pub made_again_after_ms: i64,
}

/// Keys of an endpoint, and the master key that encrypted them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedKeys {
    /// The keys.
    pub keys: EndpointKeys,
    /// The fingerprint of the master key, if one of the keys was encrypted just now.
    pub master_key: Option<String>,
}

/// The version that a change of an endpoint is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// What is there is replaced. If one of this name was removed, nothing is changed.
    Any,
    /// The endpoint has this version and was not removed; else nothing is changed.
    Exactly(u32),
    /// The endpoint was removed, and its last version was this; else nothing is changed.
    Removed(u32),
}

/// A request to remove an endpoint.
#[derive(Debug, Clone)]
pub struct RemovingEndpoint {
    /// Its name.
    pub name: EndpointName,
    /// Who asks for it.
    pub actor: Actor,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The result of setting an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointSet {
    /// There was none of that name.
    Created(Endpoint),
    /// Its settings were replaced.
    Changed(Endpoint),
    /// It has these settings already.
    Unchanged(Endpoint),
    /// It has not the expected version.
    Conflict,
    /// There are [`MOST_ENDPOINTS`] already. It was not made.
    Full,
    /// The journal has keys that another master key encrypted. Nothing was changed.
    OtherMasterKey,
    /// What is there cannot be read, and the request leaves out the keys, which would be kept. Nothing was changed.
    Unreadable,
}

/// An endpoint as the journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEndpoint {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The number of its last change.
    pub number: i64,
    /// Whether it was removed.
    pub is_removed: bool,
}

/// A row of the endpoints. One that cannot be read must not hide the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointRow {
    /// The name of the endpoint, as the row has it.
    pub name: String,
    /// The number of its last change.
    pub number: i64,
    /// The endpoint, or why it cannot be read.
    pub read: Result<StoredEndpoint, String>,
}

/// The change of the limits of an endpoint's lane, which is made in the transaction that changes the endpoint.
pub(super) fn limits_order(
    name: &EndpointName,
    limits: LaneLimits,
    actor: &Actor,
    at_ms: i64,
) -> LaneOrder {
    LaneOrder {
        lane: Lane::of_endpoint(name),
        setting: LaneSetting::Limits(limits),
        actor: actor.clone(),
        reason: "its endpoint was changed".to_string(),
        at_ms,
    }
}

/// The limits that a stored endpoint gives its lane now.
pub(super) fn limits_of(stored: Option<&StoredEndpoint>) -> LaneLimits {
    let live = stored.filter(|stored| !stored.is_removed);
    live.map_or_else(LaneLimits::default, |stored| {
        stored.endpoint.settings.limits
    })
}

/// What setting an endpoint means if the journal has this one of that name, and so many in all. The result is
/// `Created` or `Changed` if it has to be written.
///
/// Besides, the caller compares the fingerprint of the master key: see `new_master_key`. A schedule that keeps
/// endpoints decides by this too.
#[must_use]
pub fn effect(
    before: Option<StoredEndpoint>,
    total: i64,
    setting: &SettingEndpoint,
) -> EndpointSet {
    let live = before.as_ref().filter(|stored| !stored.is_removed);
    let is_expected = match setting.expected {
        ExpectedVersion::Any => before.is_none() || live.is_some(),
        ExpectedVersion::Exactly(version) => {
            live.is_some_and(|stored| stored.endpoint.version == version)
        }
        ExpectedVersion::Removed(version) => (before.as_ref())
            .is_some_and(|stored| stored.is_removed && stored.endpoint.version == version),
    };
    if !is_expected {
        return EndpointSet::Conflict;
    }
    let keys = match (&setting.keys, live) {
        (Some(given), _) => given.keys.clone(),
        (None, Some(stored)) => stored.endpoint.keys.clone(),
        // An endpoint that was removed and is made again may belong to somebody else.
        (None, None) => EndpointKeys::default(),
    };
    let made_again_ms = match (live, &before) {
        (Some(stored), _) => stored.endpoint.settings.made_again_ms,
        (None, Some(removed)) => Some(setting.made_again_ms(removed.endpoint.changed_ms)),
        (None, None) => None,
    };
    let settings = EndpointSettings {
        made_again_ms,
        ..setting.settings.clone()
    };
    if let Some(stored) = live
        && stored.endpoint.settings == settings
        && stored.endpoint.keys == keys
    {
        return EndpointSet::Unchanged(stored.endpoint.clone());
    }
    if live.is_none() && usize::try_from(total).is_ok_and(|total| total >= MOST_ENDPOINTS) {
        return EndpointSet::Full;
    }
    let endpoint = Endpoint {
        name: setting.name.clone(),
        version: (before.as_ref()).map_or(1, |stored| stored.endpoint.version.saturating_add(1)),
        settings,
        keys,
        created_ms: live.map_or(setting.at_ms, |stored| stored.endpoint.created_ms),
        changed_ms: setting.at_ms,
    };
    match live {
        Some(_) => EndpointSet::Changed(endpoint),
        None => EndpointSet::Created(endpoint),
    }
}

/// What is known of an endpoint that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnreadableRow {
    /// Its version.
    pub version: u32,
    /// Whether it was removed.
    pub is_removed: bool,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// When it was changed last, in milliseconds since 1970.
    pub changed_ms: Option<i64>,
}

/// What setting an endpoint means if what is there cannot be read. A request that says everything replaces it. One that
/// leaves out the keys does not: to take it for an endpoint without keys would sign its calls with the default keys.
#[must_use]
pub fn effect_on_unreadable(row: UnreadableRow, setting: &SettingEndpoint) -> EndpointSet {
    let keys = match (setting.expected, &setting.keys) {
        (ExpectedVersion::Exactly(_) | ExpectedVersion::Removed(_), _) => {
            return EndpointSet::Conflict;
        }
        (ExpectedVersion::Any, Some(given)) => given.keys.clone(),
        // An endpoint that was removed and is made again has none of its keys.
        (ExpectedVersion::Any, None) if row.is_removed => EndpointKeys::default(),
        (ExpectedVersion::Any, None) => return EndpointSet::Unreadable,
    };
    // What was registered for one that was removed before must not go to this one.
    let made_again_ms = match row.is_removed {
        true => Some(setting.made_again_ms(row.changed_ms.unwrap_or_default())),
        false => row.created_ms,
    };
    EndpointSet::Changed(Endpoint {
        name: setting.name.clone(),
        version: row.version.saturating_add(1),
        settings: EndpointSettings {
            made_again_ms,
            ..setting.settings.clone()
        },
        keys,
        created_ms: (row.created_ms)
            .filter(|_| !row.is_removed)
            .unwrap_or(setting.at_ms),
        changed_ms: setting.at_ms,
    })
}

impl SettingEndpoint {
    /// From when on what is registered means this endpoint, if one of its name was removed at that instant.
    fn made_again_ms(&self, removed_ms: i64) -> i64 {
        // After the removal, also if the clock was set back since.
        let found_ms = self.at_ms.max(removed_ms.saturating_add(1));
        found_ms.saturating_add(self.made_again_after_ms)
    }

    /// The fingerprint of the master key that encrypted what this request contains.
    pub(super) fn master_key(&self) -> Option<&str> {
        let keys = self.keys.as_ref();
        let of_keys = keys.and_then(|keys| keys.master_key.as_deref());
        of_keys.or(self.sealed_with.as_deref())
    }
}

/// What a request with this fingerprint means if the journal remembers that one. The caller writes the fingerprint
/// in the transaction of the request if it is the first.
pub(super) fn new_master_key(remembered: Option<&str>, given: &str) -> MasterKeyCheck {
    match remembered {
        None => MasterKeyCheck::First,
        Some(known) if known == given => MasterKeyCheck::Same,
        Some(_) => MasterKeyCheck::Other,
    }
}

/// See [`new_master_key`].
pub(super) enum MasterKeyCheck {
    /// The journal remembers none.
    First,
    /// It remembers this one.
    Same,
    /// It remembers another one.
    Other,
}
