//! The endpoints: setting, removing and reading them.

use super::{Actor, JournalError, LaneOrder};
use crate::domain::endpoint::{Endpoint, EndpointName, EndpointSettings, MOST_ENDPOINTS};
use crate::domain::lane::Lane;
use crate::domain::lane_settings::{LaneLimits, LaneSetting};
use async_trait::async_trait;

/// The part of a [`super::Journal`] that keeps endpoints.
///
/// Every change has a number, and numbers follow the order of the commits. So a server that has read everything
/// up to a number finds all later changes behind it.
#[async_trait]
pub trait JournalEndpoints: Send + Sync + 'static {
    /// Makes an endpoint or replaces its settings. Settings that are the same change nothing. It can be repeated.
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
    /// What the caller has read before.
    pub expected: ExpectedVersion,
    /// Who asks for it.
    pub actor: Actor,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The version that a change of an endpoint is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Whatever is there is replaced.
    Any,
    /// The endpoint has this version and was not removed; else nothing is changed.
    Exactly(u32),
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
/// A schedule that keeps endpoints decides by this too.
#[must_use]
pub fn effect(
    before: Option<StoredEndpoint>,
    total: i64,
    setting: &SettingEndpoint,
) -> EndpointSet {
    let live = before.as_ref().filter(|stored| !stored.is_removed);
    let is_expected = match setting.expected {
        ExpectedVersion::Any => true,
        ExpectedVersion::Exactly(version) => {
            live.is_some_and(|stored| stored.endpoint.version == version)
        }
    };
    if !is_expected {
        return EndpointSet::Conflict;
    }
    if let Some(stored) = live
        && stored.endpoint.settings == setting.settings
    {
        return EndpointSet::Unchanged(stored.endpoint.clone());
    }
    if live.is_none() && usize::try_from(total).is_ok_and(|total| total >= MOST_ENDPOINTS) {
        return EndpointSet::Full;
    }
    let endpoint = Endpoint {
        name: setting.name.clone(),
        version: (before.as_ref()).map_or(1, |stored| stored.endpoint.version.saturating_add(1)),
        settings: setting.settings.clone(),
        created_ms: live.map_or(setting.at_ms, |stored| stored.endpoint.created_ms),
        changed_ms: setting.at_ms,
    };
    match live {
        Some(_) => EndpointSet::Changed(endpoint),
        None => EndpointSet::Created(endpoint),
    }
}
