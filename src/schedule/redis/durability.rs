//! Whether the server's settings may lose notifications, as far as it reports them.

use super::RedisSchedule;
use super::info::{field, text};
use futures_util::stream::{self, StreamExt as _};

/// Maximum number of partitions that are asked at a time.
const AT_ONCE: usize = 16;

impl RedisSchedule {
    /// Whether another server may take over without the last changes: with Sentinel, and in a cluster.
    #[must_use]
    pub fn may_fail_over(&self) -> bool {
        self.may_fail_over
    }

    /// Reasons not to keep notifications in Redis alone, one sentence each: those of every server that has partitions. Empty if
    /// there are none, or if the servers do not report their settings: managed services often hide them.
    pub async fn durability_warnings(&self) -> Vec<&'static str> {
        let servers = match self.away.is_some() {
            true => &self.partitions[..],
            false => &self.partitions[..1],
        };
        let numbered = servers.iter().enumerate();
        let asking: Vec<_> = numbered
            .filter(|(number, _)| !self.is_away(*number))
            .map(|(_, partition)| async { partition.reads.run(&redis::cmd("INFO")).await })
            .collect();
        let told: Vec<_> = stream::iter(asking).buffered(AT_ONCE).collect().await;
        let infos = told.into_iter().filter_map(|reply| text(&reply.ok()?));
        let mut warnings: Vec<_> = infos.flat_map(|info| warnings(&info)).collect();
        warnings.sort_unstable();
        warnings.dedup();
        warnings
    }
}

/// What one server says.
fn warnings(info: &str) -> Vec<&'static str> {
    let mut warnings = Vec::new();
    let field = |name| field(info, name);
    if field("aof_enabled") == Some("0") {
        warnings.push(
            "Redis runs without its append-only file: a crash of Redis can lose notifications; set appendonly to yes",
        );
    }
    let evicts = field("maxmemory_policy").is_some_and(|policy| policy != "noeviction");
    if evicts && field("maxmemory").is_some_and(|limit| limit != "0") {
        warnings.push(
            "Redis may evict keys when its memory is full: that can lose notifications; set maxmemory-policy to \
             noeviction",
        );
    }
    warnings
}
