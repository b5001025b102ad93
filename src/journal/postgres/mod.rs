//! The journal in a PostgreSQL database: for production, and for several servers at once.
//!
//! A batch of registrations is one statement and one round trip. A usual batch of recordings is too: nearly
//! all notifications still have the progress that they had before the attempt. When a write is answered, it
//! is on the server's disk. The database decides between instances: a unique index decides which instance
//! registers a key, and row locks decide which instance changes a notification first.
//!
//! When a connection breaks, a call may be made twice. Registering and recording can be repeated. A change by
//! hand is not repeated after its commit was sent.

mod activity;
mod advance;
mod api_keys;
mod audit_log;
mod change;
mod check;
mod connections;
mod day;
mod default_keys;
mod endpoints;
mod error;
mod examination;
mod fences;
mod filtered_pages;
mod in_use;
mod job_changes;
mod job_leases;
mod job_orders;
mod job_pages;
mod job_results;
mod jobs;
mod lanes;
mod later;
mod list;
mod load;
mod maintenance;
mod meta;
mod open;
mod order;
mod partition_drop;
mod partitioned;
mod partitions;
mod pending;
mod places;
mod pruning;
mod reads;
mod record;
mod register;
mod reseal;
mod schema;
mod search;
mod session;
mod set_aside;
mod statements;
mod survey;
mod time_partition;
mod writes;

use connections::Connections;
use in_use::InUse;
pub use in_use::Sharing;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A journal in a PostgreSQL database. See [`PostgresJournal::open`].
pub struct PostgresJournal {
    id: String,
    instance: Arc<str>,
    /// The name under which this value takes maintenance duties. It is unique; names of instances are not.
    holder: String,
    connections: Connections,
    /// The lock of [`PostgresJournal::hold`].
    in_use: Mutex<Option<InUse>>,
}
