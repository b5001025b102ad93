//! The journal: the permanent record of every notification.
//!
//! Contains all SQL of the program. A journal keeps every accepted notification with its body, every
//! attempt with the receiver's answer, and every transition with its time, its actor and the instance that
//! made it. When a journal answers a write, the data is on disk. A journal gives no leases, but accepts a
//! change by hand only with the token of a lease. It knows nothing of HTTP.
//!
//! Each database has a folder with its SQL. The files beside these folders contain the code that both
//! databases use: reading rows, choosing the index of a list, applying recordings and changes, and pruning.
//!
//! The trait has nine parts, one for each kind of caller: [`JournalWrites`] (accepting, delivering,
//! changing by hand), [`JournalReads`] (look-ups), [`JournalEndpoints`] (receivers that have a name),
//! [`JournalDefaultKeys`] (what signs the calls to all others), [`JournalApiKeys`] (who may use the API),
//! [`JournalAuditLog`] (what people have done), [`JournalJobs`] (requests that concern many notifications),
//! [`JournalActivity`] (counters for plots over time), [`JournalMaintenance`] (keeping the schedule in agreement with the
//! journal, checks, audits).
//! [`Journal`] combines them.
//!
//! The journal is written before the schedule. So an entry that the schedule loses can be read again from the
//! journal. One test suite (`tests/it/journal_contract`) checks this contract for every implementation:
//!
//! * A key is registered once. A second registration returns the existing notification and changes nothing.
//! * The state of a notification that has ended changes only by a [`Change`](crate::domain::change::Change)
//!   by hand. A recording that comes too late does not change the state, with one exception: an acknowledged attempt of the
//!   same series makes a dead letter delivered, and so what only a higher number of its order has ended. The attempt is
//!   kept in each case, since support staff must see every attempt.
//! * An attempt is kept once, even if it is recorded again because the first reply was lost. Two attempts
//!   of a notification with the same series, number, start and outcome are the same attempt.
//! * A batch is answered when all of it is kept. If the call fails, a part may have been kept. The call can
//!   be repeated safely: that part is not written a second time.
//! * Changes of the settings of lanes have ascending numbers, in the order in which they were kept. A reader that has
//!   all changes up to a number has missed none.
//! * An act of a person is in the audit log if and only if its change is made: both are one transaction.
//! * If the journal cannot read a notification or record its outcome, the notification is set aside: it
//!   stays pending, but no schedule is loaded with it. The mark is in a table of its own, so it can be
//!   written even if the journal refuses writes to the notification's other rows. A change by hand releases
//!   the notification in the same transaction, and adds to its history that it was set aside.

mod activity;
mod actor;
mod api_keys;
mod applied_change;
mod audit_log;
mod change;
mod check_sample;
mod damaged_row;
mod day;
pub mod decorator;
mod default_keys;
mod effect;
mod endpoints;
mod error;
mod examination;
mod expected_advance;
mod history;
mod job_results;
mod job_rows;
mod jobs;
mod journal_call;
mod lane_order;
mod lane_rows;
mod list;
mod list_plan;
mod maintenance;
mod ordering;
mod payload;
mod pending;
mod person_act;
pub mod postgres;
mod pruning;
mod reads;
pub mod recorder;
mod recording;
mod recording_batch;
mod registration;
pub mod resealing;
mod rows;
mod search;
mod set_aside;
mod sql_values;
pub mod sqlite;
mod standing;
mod survey;
#[cfg(test)]
pub(crate) mod timeless;
mod transition;
mod unreadable;
pub mod watched;
mod writes;

pub use activity::JournalActivity;
pub use actor::Actor;
pub use api_keys::{
    AddingApiKey, ApiKeyAdded, ApiKeyRevoked, ApiKeyRow, JournalApiKeys, OperatorKey,
    RevokingApiKey,
};
pub use audit_log::{AuditEntry, AuditFilter, AuditPage, JournalAuditLog};
pub use change::{ChangeResult, Changing};
pub use day::{DayAttempt, DayNotification, DayPage, DayReading, DaySelection, PrunedUntil};
pub use default_keys::{
    ChangingDefaultKeys, DefaultKeysChanged, DefaultKeysDecision, JournalDefaultKeys,
    decide as decide_default_keys,
};
pub use endpoints::{
    DEFAULT_SECRET, EndpointRow, EndpointSet, ExpectedVersion, JournalEndpoints, MASTER_KEY,
    RemovingEndpoint, SealedKeys, SettingEndpoint, StoredEndpoint, UnreadableRow,
    effect as effect_of_setting, effect_on_unreadable,
};
pub use error::JournalError;
pub use examination::{Examined, Fault, JournalCounts};
pub use job_results::{JobUnchanged, ListedUnchanged, ReasonCounts, listed};
pub use jobs::{
    JobAdded, JobEnd, JobMatches, JobOrdered, JobPage, JobStep, JobStepped, JobTrial, JournalJobs,
    TakenJob,
};
pub use lane_order::LaneOrder;
pub use list::{Cursor, Filter, MOST_TOPICS, Order, SnapshotPage, UrlFilter};
pub use maintenance::{JournalMaintenance, LONGEST_DUTY_MS};
pub use payload::{BodyReading, PageBodies, Payload, PayloadContent, SHORT_BODY};
pub use pending::{Pending, PlacesPage};
pub use person_act::{LONGEST_TEXT, PersonAct};
pub use pruning::{PartitionWork, PartitionedTables, Prune, Pruned};
pub use reads::{JournalReads, MOST_ATTEMPTS_SHOWN};
pub use recording::{Recorded, Recording};
pub use registration::{RegisterResult, Registering};
pub use set_aside::{AllSetAside, SettingAside};
pub use standing::{FoundStanding, Standing};
pub use survey::{JournalSurvey, JournalUsers, SurveyedHazard, SurveyedSchema};
pub use transition::{MOST_TRANSITIONS_SHOWN, Noting, Rebuild, Transition};
pub use unreadable::UnreadableNotification;
pub use writes::JournalWrites;

/// A whole journal. See the module's documentation for the contract.
///
/// Code that needs only one of the nine parts takes the trait of that part.
pub trait Journal:
    JournalWrites
    + JournalReads
    + JournalEndpoints
    + JournalDefaultKeys
    + JournalApiKeys
    + JournalAuditLog
    + JournalJobs
    + JournalActivity
    + JournalMaintenance
{
}

impl<Whole> Journal for Whole where
    Whole: JournalWrites
        + JournalReads
        + JournalEndpoints
        + JournalDefaultKeys
        + JournalApiKeys
        + JournalAuditLog
        + JournalJobs
        + JournalActivity
        + JournalMaintenance
{
}
