//! Every server keeps the lock that shows that its journal is in use.

use crate::journal::{JournalError, JournalMaintenance};
use std::sync::Arc;
use std::time::Duration;

/// How often the lock is looked at. In this time and some seconds after a fail-over of PostgreSQL, a server with another
/// schedule could take it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Keeps the lock until another server has it. That ends this server: two servers with a schedule each would both send
/// everything.
pub(super) async fn keep(journal: Arc<dyn JournalMaintenance>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        match journal.keep_holding().await {
            Err(error @ JournalError::Refused(_)) => {
                tracing::error!(
                    %error,
                    "another server has taken the lock of the journal while PostgreSQL or a pooler was away; this server ends, \
                     because both would send every notification"
                );
                return;
            }
            // `health` logs outages. The next look tries again.
            Err(error) => tracing::debug!(%error, "the lock of the journal cannot be looked at"),
            Ok(()) => {}
        }
    }
}
