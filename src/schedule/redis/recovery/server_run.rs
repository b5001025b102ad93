//! Noticing that the server was restarted, or that another server answers under its name.
//!
//! A server that was killed comes back without its last changes; its persistence settings decide how many.
//! An instance that is still running knows how many of its own changes were answered. If the instance died
//! with the server, that number is not known. So all data of a restarted server must be compared with the
//! journal. A restart breaks all connections, so it is noticed when a connection is opened.

use super::write_counters::Loss;
use crate::schedule::redis::info::{field, text};
use crate::schedule::redis::script::Script;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long it may take to write down that a server was restarted.
const NOTING_TIMEOUT: Duration = Duration::from_secs(1);

/// The run of the server that has one partition, or several that are always at one server, as far as this process is
/// connected to it. A partition that has moved to another server is treated as after a restart: it cannot be told whether
/// its last changes came along.
pub struct ServerRun {
    /// The `meta` hashes of the partitions.
    metas: Vec<String>,
    /// The time by the caller's clock; `None` to use the server's clock.
    now_ms: Box<dyn Fn() -> Option<i64> + Send + Sync>,
    loss: Arc<Loss>,
    restarted: Script,
    /// `None` before the first connection.
    known: Mutex<Option<KnownRun>>,
}

/// A run that was seen.
struct KnownRun {
    /// Its id; empty if the server does not report it.
    name: String,
    /// Whether it is the first one, or is written down in `meta`.
    noted: bool,
}

impl ServerRun {
    /// No run is known yet.
    pub fn new(
        metas: Vec<String>,
        now_ms: impl Fn() -> Option<i64> + Send + Sync + 'static,
        loss: Arc<Loss>,
    ) -> Self {
        Self {
            metas,
            now_ms: Box::new(now_ms),
            loss,
            restarted: Script::new(include_str!("restarted.lua")),
            known: Mutex::new(None),
        }
    }

    /// The id of the run; empty before the first connection.
    pub async fn name(&self) -> String {
        let known = self.known.lock().await;
        known
            .as_ref()
            .map(|known| known.name.clone())
            .unwrap_or_default()
    }

    /// Checks whether a new connection leads to the known run, and if not, writes that down in `meta`.
    pub async fn check(&self, connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
        let info = connection
            .send_packed_command(redis::cmd("INFO").arg("server"))
            .await?;
        let info = text(&info).unwrap_or_default();
        // Valkey 9 calls it otherwise.
        let mode = field(&info, "redis_mode").or_else(|| field(&info, "server_mode"));
        if mode == Some("sentinel") {
            return Err(RedisError::from((
                ErrorKind::Client,
                "this server is a sentinel; its URL begins with redis+sentinel:// and ends with the name of the primary",
            )));
        }
        let name = field(&info, "run_id").unwrap_or_default().to_string();
        // Other connections that are opened now wait, so nothing is sent before the new run is written down.
        let mut known = self.known.lock().await;
        let is_same = |known: &KnownRun| known.name == name && known.noted && !name.is_empty();
        let mut noted = true;
        if !known.as_ref().is_none_or(is_same) {
            let mut command = self.restarted.eval();
            command.arg(self.metas.len()).arg(&self.metas);
            match (self.now_ms)() {
                Some(now_ms) => command.arg(now_ms),
                None => command.arg(""),
            };
            command.arg(&name);
            // A connection for many entries would wait longer for a server that has stopped to answer.
            let noting = connection.send_packed_command(&command);
            let reply = tokio::time::timeout(NOTING_TIMEOUT, noting)
                .await
                .map_err(|_| {
                    RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))
                })??;
            // A read-only server gives an error here, and a node that does not have the partition. That is not an
            // error of the connection: calls to that server fail anyway, and the next connection tries again.
            noted = reply.extract_error().is_ok();
            self.loss.set(true);
        }
        *known = Some(KnownRun { name, noted });
        Ok(())
    }
}
