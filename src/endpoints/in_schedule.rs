//! Endpoints in the schedule, as the rows of a journal.
//!
//! The schedule writes an endpoint only if its record is the one that was read before. So a change is decided here
//! from that record, and decided again if another server was faster.

use crate::domain::endpoint::{Endpoint, EndpointName, EndpointSettings};
use crate::domain::endpoint_keys::EndpointKeys;
use crate::domain::lane_settings::LaneLimits;
use crate::journal::{
    EndpointRow, EndpointSet, RemovingEndpoint, SettingEndpoint, StoredEndpoint, UnreadableRow,
    effect_of_setting, effect_on_unreadable,
};
use crate::schedule::endpoints::{
    EndpointRecord, EndpointScan, EndpointWrite, EndpointWritten, PartReached, ScheduleEndpoints,
};
use crate::schedule::{Schedule, ScheduleError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How often a change is decided again because another server was faster.
const MOST_TRIES: usize = 8;

/// The endpoints of a schedule that can keep them.
#[derive(Clone)]
pub struct InSchedule(Arc<dyn Schedule>);

/// The text of a record: the columns that a row of a journal has. A field that a later version adds needs a default.
#[derive(Serialize, Deserialize)]
struct RecordText {
    version: u32,
    /// As [`EndpointSettings::to_text`] writes them.
    settings: String,
    /// As [`EndpointKeys::to_text`] writes them.
    #[serde(default)]
    keys: String,
    created_ms: i64,
    changed_ms: i64,
    /// Who made the last change.
    actor: String,
}

/// The result of removing an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointRemoved {
    /// It was removed.
    Done,
    /// There is none.
    Missing,
    /// Something that is pending names it. Only a schedule finds that out in the same step.
    InUse,
}

/// Rows that have changed, how far the parts are read with them, and whether there are more.
type Changes = (Vec<EndpointRow>, Vec<PartReached>, bool);

impl InSchedule {
    /// `None` if this schedule keeps no endpoints.
    #[must_use]
    pub fn of(schedule: Arc<dyn Schedule>) -> Option<Self> {
        schedule.endpoints().is_some().then_some(Self(schedule))
    }

    fn store(&self) -> &dyn ScheduleEndpoints {
        let endpoints = self.0.endpoints();
        endpoints.expect("invariant: it was asked when this was made")
    }

    /// See [`super::store::EndpointStore::set`].
    pub(super) async fn set(
        &self,
        setting: &SettingEndpoint,
    ) -> Result<EndpointSet, ScheduleError> {
        for _ in 0..MOST_TRIES {
            let record = self.store().endpoint(&setting.name).await?;
            let expected = record.as_ref().map_or(0, |record| record.number);
            // A record without a number is damaged. It is written again as if there were none.
            let record = record.filter(|record| record.number > 0);
            let row = record.as_ref().map(unreadable_row).unwrap_or_default();
            let set = match record.map(stored).transpose() {
                Ok(before) => {
                    let total = match before.as_ref().is_some_and(|before| !before.is_removed) {
                        true => 0,
                        false => self.store().count_endpoints().await?,
                    };
                    let total = i64::try_from(total).unwrap_or(i64::MAX);
                    effect_of_setting(before, total, setting)
                }
                Err(_) => effect_on_unreadable(row, setting),
            };
            let (EndpointSet::Created(endpoint) | EndpointSet::Changed(endpoint)) = &set else {
                return Ok(set);
            };
            let write = EndpointWrite {
                name: setting.name.clone(),
                expected,
                is_removed: false,
                limits: endpoint.settings.limits,
                text: text_of(endpoint, setting.actor.name()),
            };
            match self.store().write_endpoint(&write).await? {
                EndpointWritten::Done => return Ok(set),
                EndpointWritten::Full => return Ok(EndpointSet::Full),
                EndpointWritten::Differs | EndpointWritten::InUse => {}
            }
        }
        Ok(EndpointSet::Conflict)
    }

    /// See [`super::store::EndpointStore::remove`].
    pub(super) async fn remove(
        &self,
        removing: &RemovingEndpoint,
    ) -> Result<EndpointRemoved, ScheduleError> {
        for _ in 0..MOST_TRIES {
            let record = self.store().endpoint(&removing.name).await?;
            let Some(record) = record.filter(|record| !record.is_removed) else {
                return Ok(EndpointRemoved::Missing);
            };
            let (expected, mut text) = (record.number, record.text.clone());
            // One that cannot be read can be removed too.
            if let Ok(before) = stored(record) {
                let endpoint = Endpoint {
                    changed_ms: removing.at_ms,
                    ..before.endpoint
                };
                text = text_of(&endpoint, removing.actor.name());
            }
            let write = EndpointWrite {
                name: removing.name.clone(),
                expected,
                is_removed: true,
                limits: LaneLimits::default(),
                text,
            };
            match self.store().write_endpoint(&write).await? {
                EndpointWritten::Done => return Ok(EndpointRemoved::Done),
                EndpointWritten::InUse => return Ok(EndpointRemoved::InUse),
                EndpointWritten::Differs | EndpointWritten::Full => {}
            }
        }
        let busy = "the endpoint is changed again and again".to_string();
        Err(ScheduleError::Unavailable(busy))
    }

    /// See [`super::store::EndpointStore::find`].
    pub(super) async fn find(
        &self,
        name: &EndpointName,
    ) -> Result<Option<StoredEndpoint>, ScheduleError> {
        let record = self.store().endpoint(name).await?;
        let stored = record.map(|record| stored(record).map_err(unreadable(name)));
        stored.transpose()
    }

    /// See [`super::store::EndpointStore::changes`].
    pub(super) async fn changes(
        &self,
        after: &[PartReached],
    ) -> Result<Option<Changes>, ScheduleError> {
        let changed = self.store().changed_endpoints(after).await?;
        Ok(changed.map(|changed| (rows(changed.records), changed.reached, changed.has_more)))
    }

    /// See [`super::store::EndpointStore::read_more`].
    pub(super) async fn read_more(
        &self,
        scan: &mut EndpointScan,
    ) -> Result<Option<Vec<EndpointRow>>, ScheduleError> {
        Ok(self.store().scan_endpoints(scan).await?.map(rows))
    }
}

fn unreadable(name: &EndpointName) -> impl Fn(String) -> ScheduleError {
    move |why| ScheduleError::Corrupt(format!("the endpoint {name}: {why}"))
}

fn rows(records: Vec<EndpointRecord>) -> Vec<EndpointRow> {
    let row = |record: EndpointRecord| EndpointRow {
        name: record.name.clone(),
        number: record.number,
        read: stored(record),
    };
    records.into_iter().map(row).collect()
}

/// What can be read of a record whose settings or keys cannot be.
fn unreadable_row(record: &EndpointRecord) -> UnreadableRow {
    let text: Option<RecordText> = serde_json::from_str(&record.text).ok();
    UnreadableRow {
        version: text.as_ref().map_or(0, |text| text.version),
        is_removed: record.is_removed,
        created_ms: text.as_ref().map(|text| text.created_ms),
        changed_ms: text.as_ref().map(|text| text.changed_ms),
    }
}

/// Reads a record.
fn stored(record: EndpointRecord) -> Result<StoredEndpoint, String> {
    let EndpointRecord {
        name,
        number,
        is_removed,
        text,
    } = record;
    let text: RecordText = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let endpoint = Endpoint {
        name: EndpointName::parse(&name).map_err(|bad| bad.to_string())?,
        version: text.version,
        settings: EndpointSettings::from_text(&text.settings)?,
        keys: EndpointKeys::from_text(&text.keys).map_err(|bad| bad.to_string())?,
        created_ms: text.created_ms,
        changed_ms: text.changed_ms,
    };
    Ok(StoredEndpoint {
        endpoint,
        number,
        is_removed,
    })
}

/// The text of a record.
fn text_of(endpoint: &Endpoint, actor: &str) -> String {
    let text = RecordText {
        version: endpoint.version,
        settings: endpoint.settings.to_text(),
        keys: endpoint.keys.to_text(),
        created_ms: endpoint.created_ms,
        changed_ms: endpoint.changed_ms,
        actor: actor.to_string(),
    };
    serde_json::to_string(&text).expect("invariant: strings and numbers serialise")
}
