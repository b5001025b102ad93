//! Listening for messages of other instances that something is due earlier than known here.
//!
//! Messages may be lost while the connection is down; then the dispatcher's slow poll finds the entries.

use super::connector::Connector;
use crate::schedule::wake::Wake;
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Wait before connecting again.
const BACK_OFF: Duration = Duration::from_millis(500);
/// How often the server is asked whether it is still there, and how long it may take to answer. Otherwise a server that no
/// longer answers would be listened to for ever.
const PING: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// The listening task; dropping it ends the task.
pub struct Listener {
    task: JoinHandle<()>,
}

impl Listener {
    /// Starts listening on the partitions' channels. In a cluster a message reaches every node, so one is listened to, and
    /// another one when it fails.
    pub fn start(connector: Connector, channels: Vec<String>, wake: Arc<Wake>) -> Self {
        let task = tokio::spawn(async move {
            let mut number = usize::from(Uuid::now_v7().as_bytes()[15]);
            loop {
                // The failure is not logged: calls to the same server report it.
                let _ = listen(&connector, number, &channels, &wake).await;
                number = number.wrapping_add(1);
                tokio::time::sleep(BACK_OFF).await;
            }
        });
        Self { task }
    }
}

/// Listens until the connection fails, or messages no longer reach it.
async fn listen(
    connector: &Connector,
    number: usize,
    channels: &[String],
    wake: &Wake,
) -> Option<()> {
    let mut listening = connector.listen(number).await.ok()?;
    let subscribing = listening.pubsub.subscribe(channels);
    tokio::time::timeout(PING_TIMEOUT, subscribing)
        .await
        .ok()?
        .ok()?;
    while listening.is_current() {
        let messages = async {
            let mut messages = listening.pubsub.on_message();
            while let Some(message) = messages.next().await {
                let due_ms = message.get_payload::<String>().ok();
                if let Some(due_ms) = due_ms.and_then(|text| text.parse().ok()) {
                    wake.bring_forward(due_ms);
                }
            }
        };
        if tokio::time::timeout(PING, messages).await.is_ok() {
            return None;
        }
        let ping = listening.pubsub.ping::<redis::Value>();
        tokio::time::timeout(PING_TIMEOUT, ping).await.ok()?.ok()?;
    }
    Some(())
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}
