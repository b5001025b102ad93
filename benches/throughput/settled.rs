//! What registering many notifications leaves behind, which would be measured otherwise: comparing them, cleaning up, and writing them
//! to the disk.

use crate::postgres;
use crate::server::Setup;

/// How long before they are due notifications are registered, in milliseconds, besides the time that this takes. Until then the
/// server has compared them with the schedule, twice, and PostgreSQL has cleaned up for the first time. Both take a share of the
/// processors that has nothing to do with the attempts.
pub const SETTLED_MS: u64 = 50_000;

/// Waits until what was registered is on the disk. Otherwise the disk would still be writing hundreds of megabytes of it during
/// the measurement, and commits would wait for that. They would also wait for new files of PostgreSQL's log, which after a
/// checkpoint are those that it does not need any more, as in a server that has run for long.
pub async fn on_disk(setup: &Setup) {
    if let Some(server) = &setup.postgres {
        let mut connection = postgres::connect(&server.url("postgres")).await;
        postgres::run(&mut connection, "CHECKPOINT").await;
    }
    rustix::fs::sync();
}
