//! Listening for messages of other instances that something is due earlier than known here.
//!
//! Messages may be lost while the connection is down; then the dispatcher's slow poll finds the entries.

use super::connection::Connector;
use crate::schedule::wake::Wake;
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Wait before connecting again.
const BACK_OFF: Duration = Duration::from_millis(500);

/// The listening task; dropping it ends the task.
pub struct Listener {
    task: JoinHandle<()>,
}

impl Listener {
    /// Starts listening on the partitions' channels.
    pub fn start(connector: Connector, channels: Vec<String>, wake: Arc<Wake>) -> Self {
        let task = tokio::spawn(async move {
            loop {
                if let Ok(mut subscription) = connector.listen().await
                    && subscription.subscribe(&channels).await.is_ok()
                {
                    let mut messages = subscription.on_message();
                    while let Some(message) = messages.next().await {
                        let due_ms = message.get_payload::<String>().ok();
                        if let Some(due_ms) = due_ms.and_then(|text| text.parse().ok()) {
                            wake.bring_forward(due_ms);
                        }
                    }
                }
                // The failure is not logged here: calls to the same server report it.
                tokio::time::sleep(BACK_OFF).await;
            }
        });
        Self { task }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}
