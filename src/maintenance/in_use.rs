//! Every server keeps the lock that shows that its journal is in use, and sees whether the file of its journal is still there.

use crate::journal::{JournalError, JournalMaintenance};
use std::sync::Arc;
use std::time::Duration;

/// How often the lock is looked at. In this time and some seconds after a fail-over of PostgreSQL, a server with another
/// schedule could take it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Keeps the lock until another server has it, or may have it, or until the file of the journal is another one. That ends this
/// server: two servers with a schedule each would both send everything, and what is written into a file that was removed is lost.
pub(super) async fn keep(journal: Arc<dyn JournalMaintenance>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        match journal.keep_holding().await {
            Err(error @ JournalError::Refused(_)) => {
                tracing::error!(
                    %error,
                    "another server has taken the lock of the journal, or its file was replaced; this server ends, because both would \
                     send every notification, and what it writes may be lost"
                );
                return;
            }
            // `health` logs outages. The next look tries again.
            Err(error) => tracing::debug!(%error, "the lock of the journal cannot be looked at"),
            Ok(()) => {}
        }
    }
}
