//! The journal in a PostgreSQL database: for production, and for several servers at once.
//!
//! A group of registrations is one statement and one round trip, and so is a group of recordings
//! whose notifications still stand where their attempts began, which is nearly all of them. What was
//! answered is on the server's disk. The database decides between instances: its unique index who
//! registers a key, its row locks who moves a notification on.
//!
//! A call may be made twice when a connection breaks, which registering and recording are made for;
//! a change by hand is not, once its commit was sent.

mod advance;
mod change;
mod check;
mod connections;
mod error;
mod examination;
mod list;
mod load;
mod maintenance;
mod meta;
mod open;
mod pending;
mod pruning;
mod reads;
mod record;
mod register;
mod schema;
mod session;
mod set_aside;
mod statements;
mod writes;

use connections::Connections;
pub use open::Sharing;
use sqlx::postgres::PgConnection;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A journal in a PostgreSQL database. See [`PostgresJournal::open`].
pub struct PostgresJournal {
    id: String,
    instance: Arc<str>,
    /// Who takes on duties: this very value, since names of instances can be alike.
    holder: String,
    connections: Connections,
    /// The session that says who is at work on it.
    held: Mutex<Option<PgConnection>>,
}
