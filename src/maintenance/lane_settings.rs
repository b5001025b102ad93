//! Every server brings changed settings of lanes into the schedule, whoever made the change.

use crate::journal::JournalMaintenance;
use crate::schedule::Schedule;
use crate::settings_sync::bring_settings;
use std::sync::Arc;
use std::time::Duration;

/// How often the journal is asked for changes. A change that another server made, and died before it brought it,
/// holds within this time.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Brings changes for ever. An error that does not pass is logged once until a call succeeds; `health` logs
/// outages.
pub(super) async fn follow(journal: Arc<dyn JournalMaintenance>, schedule: Arc<dyn Schedule>) {
    let mut logged = false;
    loop {
        match bring_settings(journal.as_ref(), schedule.as_ref(), None).await {
            Ok(()) => logged = false,
            Err(error) if logged || error.may_pass() => {
                tracing::debug!(%error, "changed settings of lanes could not be brought into the schedule");
            }
            Err(error) => {
                logged = true;
                tracing::error!(
                    %error,
                    "changed settings of lanes cannot be brought into the schedule; a hold or release may have no \
                     effect, and after a loss of data nothing is sent until this succeeds; trying again"
                );
            }
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}
