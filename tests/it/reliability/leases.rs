//! The leases of attempts that Redis has out.
//!
//! Where Redis loses one, its attempt may be given to another server while it is in flight. Of a lease for
//! a change by hand nothing is sent, so that excuses nothing.

use super::plan::Plan;
use super::stage::SHARED_PARTITIONS;
use crate::support::redis::{RedisServer, connect};
use ringback::schedule::HeldProgress;
use ringback::schedule::envelope::decode_header;

/// One lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutLease {
    /// The number of the notification.
    pub number: u32,
    /// The number of the attempt; `None` if the entry is bare, so that Redis does not know it.
    pub attempt: Option<u32>,
    /// When it ends, with its number: a lease that is renewed has another expiry.
    expiry: String,
}

/// Reads the leases of attempts, each with the header of its entry, and empties Redis if that is asked for,
/// in one step.
const READ: &str = "
    local found = {}
    for partition = 0, ARGV[2] - 1 do
      local prefix = '{rb:' .. partition .. '}:'
      local leases = redis.call('ZRANGE', prefix .. 'leases', 0, -1, 'WITHSCORES')
      for i = 1, #leases, 2 do
        local envelope = redis.call('HGET', prefix .. 'jobs', leases[i])
        if envelope and redis.call('HEXISTS', prefix .. 'changing', leases[i]) == 0 then
          found[#found + 1] = { leases[i], leases[i + 1], string.sub(envelope, 1, 56) }
        end
      end
    end
    if ARGV[1] == 'flush' then redis.call('FLUSHALL') end
    return found";

/// Those that a server has out.
pub async fn leases(server: &RedisServer) -> Vec<OutLease> {
    read(server, "").await
}

/// Empties a server. Those that it had out at that very moment.
pub async fn flush(server: &RedisServer) -> Vec<OutLease> {
    read(server, "flush").await
}

async fn read(server: &RedisServer, then: &str) -> Vec<OutLease> {
    let mut connection = connect(&server.url(0)).await;
    let mut command = redis::cmd("EVAL");
    command.arg(READ).arg(0).arg(then).arg(SHARED_PARTITIONS);
    let found: Vec<(String, String, Vec<u8>)> = command
        .query_async(&mut connection)
        .await
        .expect("answered");
    let lease = |(key, expiry, header): (String, String, Vec<u8>)| {
        let (_, progress) = decode_header(&key, &header).expect("an envelope");
        let id = key.split_once('/').expect("a key").1;
        OutLease {
            number: Plan::number_of(id).expect("one of ours"),
            attempt: match progress {
                HeldProgress::Whole(progress) => Some(progress.next_number()),
                HeldProgress::Due(_) => None,
            },
            expiry,
        }
    };
    found.into_iter().map(lease).collect()
}
