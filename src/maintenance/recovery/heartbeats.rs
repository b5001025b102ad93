//! Telling the other instances that this one is alive.

use crate::schedule::recoverable::Recoverable;
use std::time::Duration;

/// How often an instance reports that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How soon it does so again if other instances have begun or stopped to claim.
const SOONEST_HEARTBEAT: Duration = Duration::from_millis(100);

/// Reports to the other instances that this one is alive, for ever.
pub(super) async fn send_heartbeats(recoverable: &dyn Recoverable) {
    loop {
        tokio::time::sleep(SOONEST_HEARTBEAT).await;
        tokio::select! {
            () = tokio::time::sleep(HEARTBEAT - SOONEST_HEARTBEAT) => {}
            () = recoverable.wait_for_instances() => {}
        }
        // While the store is unavailable this fails, and `health` logs that.
        let _ = recoverable.heartbeat().await;
    }
}
