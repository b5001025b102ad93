//! Noticing that the server was restarted, or that another one answers under its name.
//!
//! A server that was killed comes back without its last changes, as much as its persistence lets it
//! forget. An instance that lives on knows how many of its own changes were answered; of an instance
//! that died with the server, nobody knows. So the data of a server that was restarted is suspect, all
//! of it, until it was compared with the journal. This notices that whenever a connection is made: a
//! server that was restarted has broken all of them.

use super::write_counters::Loss;
use crate::schedule::redis::script::Script;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Which run of the server this process works with.
pub struct ServerRun {
    /// The `meta` hash of each partition.
    meta: Vec<String>,
    /// Now by a clock of the caller's; `None` for the server's own.
    now_ms: Box<dyn Fn() -> Option<i64> + Send + Sync>,
    loss: Arc<Loss>,
    restarted: Script,
    /// `None` before the first connection.
    known: Mutex<Option<KnownRun>>,
}

/// What is known of a run.
struct KnownRun {
    /// Its name; empty where the server does not say.
    name: String,
    /// Whether it is the first one, or was written down.
    noted: bool,
}

impl ServerRun {
    /// Nothing is known yet.
    pub fn new(
        meta: Vec<String>,
        now_ms: impl Fn() -> Option<i64> + Send + Sync + 'static,
        loss: Arc<Loss>,
    ) -> Self {
        Self {
            meta,
            now_ms: Box::new(now_ms),
            loss,
            restarted: Script::new(include_str!("restarted.lua")),
            known: Mutex::new(None),
        }
    }

    /// The name of the run, once something was connected.
    pub async fn name(&self) -> String {
        let known = self.known.lock().await;
        known
            .as_ref()
            .map(|known| known.name.clone())
            .unwrap_or_default()
    }

    /// Looks over a new connection whether it leads to the run that is known, and writes down if not.
    pub async fn check(&self, connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
        // Others that connect at the same time wait: nothing is sent before it is written down.
        let mut known = self.known.lock().await;
        let info = connection
            .send_packed_command(redis::cmd("INFO").arg("server"))
            .await?;
        let name = run_id(info).unwrap_or_default();
        let is_same = |known: &KnownRun| known.name == name && known.noted && !name.is_empty();
        let mut noted = true;
        if !known.as_ref().is_none_or(is_same) {
            for meta in &self.meta {
                let mut command = self.restarted.eval();
                command.arg(1).arg(meta);
                match (self.now_ms)() {
                    Some(now_ms) => command.arg(now_ms),
                    None => command.arg(""),
                };
                command.arg(&name);
                let reply = connection.send_packed_command(&command).await?;
                // One that may not be written to holds nothing up: its calls fail by themselves. The
                // next connection tries again.
                noted &= reply.extract_error().is_ok();
            }
            self.loss.set(true);
        }
        *known = Some(KnownRun { name, noted });
        Ok(())
    }
}

/// The run's name in what the server says of itself; `None` if it does not say.
fn run_id(info: Value) -> Option<String> {
    let text = match info {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok()?,
        Value::VerbatimString { text, .. } => text,
        _ => return None,
    };
    let line = text.lines().find_map(|line| line.strip_prefix("run_id:"))?;
    Some(line.trim().to_string())
}
