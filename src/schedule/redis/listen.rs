//! Listening for messages of other instances: that something is due earlier than known here, or that an instance has begun or
//! stopped to claim.
//!
//! Messages are lost while the connection is down. So all partitions are looked into when it is there again; until then the
//! dispatcher's slow poll finds the entries.

use super::connector::Connector;
use super::partition_wakes::PartitionWakes;
use super::shares::{ClaimingInstances, INSTANCES_CHANGED};
use futures_util::StreamExt;
use std::collections::HashMap;
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
    /// Starts listening on the partitions' channels, which are in their order. In a cluster a message reaches every node, so one
    /// is listened to, and another one when it fails.
    pub fn start(
        connector: Connector,
        channels: Vec<String>,
        wakes: Arc<PartitionWakes>,
        instances: Arc<ClaimingInstances>,
    ) -> Self {
        let heard = Heard { wakes, instances };
        let channels = channels.into_iter().enumerate();
        let channels = channels
            .map(|(partition, channel)| (channel, partition))
            .collect();
        let task = tokio::spawn(async move {
            let mut is_first = true;
            let mut number = usize::from(Uuid::now_v7().as_bytes()[15]);
            loop {
                // The failure is not logged: calls to the same server report it.
                let _ = listen(&connector, number, &channels, &heard, &mut is_first).await;
                number = number.wrapping_add(1);
                tokio::time::sleep(BACK_OFF).await;
            }
        });
        Self { task }
    }
}

/// What messages are about.
struct Heard {
    wakes: Arc<PartitionWakes>,
    instances: Arc<ClaimingInstances>,
}

impl Heard {
    /// Takes in a message about a partition.
    fn take_in(&self, partition: usize, text: &str) {
        if text == INSTANCES_CHANGED {
            self.instances.note_change();
        } else if let Ok(due_ms) = text.parse() {
            self.wakes.bring_forward(partition, due_ms);
        }
    }
}

/// Listens until the connection fails, or messages no longer reach it.
async fn listen(
    connector: &Connector,
    number: usize,
    channels: &HashMap<String, usize>,
    heard: &Heard,
    is_first: &mut bool,
) -> Option<()> {
    let mut listening = connector.listen(number).await.ok()?;
    let names: Vec<&String> = channels.keys().collect();
    let subscribing = listening.pubsub.subscribe(names);
    tokio::time::timeout(PING_TIMEOUT, subscribing)
        .await
        .ok()?
        .ok()?;
    if !std::mem::take(is_first) {
        heard.wakes.poll_soon();
    }
    while listening.is_current() {
        let messages = async {
            let mut messages = listening.pubsub.on_message();
            while let Some(message) = messages.next().await {
                let partition = channels.get(message.get_channel_name());
                if let (Some(partition), Ok(text)) = (partition, message.get_payload::<String>()) {
                    heard.take_in(*partition, &text);
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
