//! Endpoints in a schedule that is the record, because there is no journal.
//!
//! The schedule keeps a text for each endpoint, and does not read it. It knows of an endpoint only what it needs to
//! keep order: its name, the number of its last change, whether it was removed, and the limits of its lane, which a
//! write changes in the same step.
//!
//! Changes have ascending numbers within a part of the data. A reader remembers how far it has read each part
//! ([`PartReached`]). It is told when it must read everything again, because the part was lost or set back to an
//! older copy.

use super::ScheduleError;
use crate::domain::endpoint::EndpointName;
use crate::domain::lane_settings::LaneLimits;
use async_trait::async_trait;

/// What is kept of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointRecord {
    /// Its name.
    pub name: String,
    /// The number of its last change; 0 if the record cannot be read.
    pub number: i64,
    /// Whether it was removed.
    pub is_removed: bool,
    /// The text that was written last.
    pub text: String,
}

/// A request to write an endpoint.
#[derive(Debug, Clone)]
pub struct EndpointWrite {
    /// Its name.
    pub name: EndpointName,
    /// The number of the record that the caller has read; 0 for none.
    pub expected: i64,
    /// Whether it is removed by this. Its record stays.
    pub is_removed: bool,
    /// The limits of its lane from now on.
    pub limits: LaneLimits,
    /// The text to keep.
    pub text: String,
}

/// The result of an [`EndpointWrite`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointWritten {
    /// It was written.
    Done,
    /// The record is another than the caller has read. Nothing was written.
    Differs,
    /// There are as many endpoints as there may be. Nothing was written.
    Full,
    /// It was not removed, because something that is pending waits in its lane.
    InUse,
}

/// How far one part of the data was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartReached {
    /// Since when the data is here, as the store names it.
    pub generation: String,
    /// The number of the last change that was read.
    pub number: i64,
}

/// Endpoints that have changed.
#[derive(Debug, Clone, Default)]
pub struct ChangedEndpoints {
    /// Their records, within a part in the order of their changes.
    pub records: Vec<EndpointRecord>,
    /// How far each part is read with them.
    pub reached: Vec<PartReached>,
    /// Whether there are more.
    pub has_more: bool,
}

/// A reading of all endpoints, page by page. It begins with the default.
#[derive(Debug, Clone, Default)]
pub struct EndpointScan {
    /// How far the parts were read when the reading of each began. Changes since then are found behind that.
    pub reached: Vec<PartReached>,
    /// The cursor of the next page in the last of these parts; `None` if that part is read to its end.
    pub cursor: Option<String>,
}

/// The part of a schedule that keeps endpoints.
#[async_trait]
pub trait ScheduleEndpoints: Send + Sync {
    /// One endpoint, also if it was removed.
    async fn endpoint(&self, name: &EndpointName) -> Result<Option<EndpointRecord>, ScheduleError>;

    /// Writes an endpoint and the limits of its lane, if its record is the one that the caller has read. It can be
    /// repeated: the same text again is answered as the first time.
    ///
    /// Endpoints that were removed are remembered up to a bound. Beyond that, the one that was removed first is
    /// forgotten, if nothing that is pending waits in its lane.
    async fn write_endpoint(&self, write: &EndpointWrite)
    -> Result<EndpointWritten, ScheduleError>;

    /// Number of endpoints, without those that were removed.
    async fn count_endpoints(&self) -> Result<u64, ScheduleError>;

    /// What has changed since. `None` if everything must be read again.
    async fn changed_endpoints(
        &self,
        after: &[PartReached],
    ) -> Result<Option<ChangedEndpoints>, ScheduleError>;

    /// The next page of all endpoints, those that were removed included; `None` at the end. An endpoint that is
    /// here all the time comes at least once. Also repairs what is kept beside the records.
    async fn scan_endpoints(
        &self,
        scan: &mut EndpointScan,
    ) -> Result<Option<Vec<EndpointRecord>>, ScheduleError>;
}
