//! Which notifications a schedule in Redis has: those with content, and those of which it has only the place in a lane.

use super::{short_pause, within};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult};

/// The keys of one partition, whose `jobs` is the first key of the script.
macro_rules! keys {
    ($returns:literal) => {
        concat!(
            "local prefix = string.sub(KEYS[1], 1, -5)
             local found, many = {}, 0
             local function add(keys)
               for _, key in ipairs(keys) do
                 if not found[key] then
                   found[key], many = true, many + 1
                 end
               end
             end
             add(redis.call('HKEYS', KEYS[1]))
             for _, lane in ipairs(redis.call('ZRANGE', prefix .. 'lanes', 0, -1)) do
               add(redis.call('ZRANGE', prefix .. 'lane:' .. lane, 0, -1))
             end
             return ",
            $returns
        )
    };
}

/// The command that counts those of the first partition.
pub const HELD: [&str; 4] = ["EVAL", keys!("many"), "1", "{rb:0}:jobs"];

/// How many the first partition has.
pub async fn held(connection: &mut MultiplexedConnection) -> usize {
    let mut command = redis::cmd(HELD[0]);
    command.arg(&HELD[1..]);
    command.query_async(connection).await.expect("a number")
}

/// Whether a partition has the notification with this key (`topic/id`).
pub async fn holds(
    connection: &mut MultiplexedConnection,
    partition: usize,
    key: &str,
) -> RedisResult<bool> {
    let mut command = Cmd::new();
    command.arg("EVAL").arg(keys!("found[ARGV[1]] and 1 or 0"));
    command.arg(1).arg(format!("{{rb:{partition}}}:jobs"));
    command.arg(key).query_async(connection).await
}

/// Awaits that nothing is leased.
pub async fn until_leases_are_back(redis: &mut MultiplexedConnection) {
    within("the leases to end", async {
        let leases = Cmd::zcard("{rb:0}:leases");
        while leases.query_async::<usize>(redis).await.expect("a number") > 0 {
            short_pause().await;
        }
    })
    .await;
}
