//! Whether the server's settings may lose notifications, as far as it reports them.

use super::RedisSchedule;
use super::info::field;
use redis::Value;

impl RedisSchedule {
    /// Whether another server may take over without the last changes: with Sentinel, and in a cluster.
    #[must_use]
    pub fn may_fail_over(&self) -> bool {
        self.may_fail_over
    }

    /// Reasons not to keep notifications in this server alone, one sentence each. Empty if there are none,
    /// or if the server does not report its settings: managed services often hide them.
    pub async fn durability_warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        let Some(partition) = self.partitions.first() else {
            return warnings;
        };
        let bytes = match partition.reads.run(&redis::cmd("INFO")).await {
            Ok(Value::BulkString(bytes)) => bytes,
            Ok(Value::VerbatimString { text, .. }) => text.into_bytes(),
            _ => return warnings,
        };
        let info = String::from_utf8_lossy(&bytes);
        let field = |name| field(&info, name);
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
}
