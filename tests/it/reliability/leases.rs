//! The leases of attempts that Redis has out.
//!
//! Where Redis loses one, its attempt may be given to another server while it is under way. Of a lease for
//! a change by hand nothing is sent, so that excuses nothing.

use super::plan::Plan;
use super::receiver::Try;
use crate::support::redis::{RedisServer, connect};
use redis::Pipeline;
use ringback::schedule::envelope::decode_header;
use std::collections::HashMap;

/// One lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutLease {
    /// The attempt.
    pub this: Try,
    /// When it ends, with its number: a lease that is renewed has another expiry.
    expiry: String,
}

/// What [`read_leases`] reads.
pub type Read = (
    Vec<(String, String)>,
    HashMap<String, String>,
    HashMap<String, Vec<u8>>,
);

/// Adds what has to be read.
pub fn read_leases(pipe: &mut Pipeline) {
    pipe.cmd("ZRANGE")
        .arg("{rb:0}:leases")
        .arg(&["0", "-1", "WITHSCORES"]);
    pipe.hgetall("{rb:0}:changing").hgetall("{rb:0}:jobs");
}

/// The leases of attempts in what was read.
pub fn leases_of((leases, changing, jobs): Read) -> Vec<OutLease> {
    let attempts = leases
        .into_iter()
        .filter(|(key, _)| !changing.contains_key(key));
    attempts
        .filter_map(|(key, expiry)| {
            let (_, progress) = decode_header(&key, jobs.get(&key)?).expect("an envelope");
            let id = key.split_once('/').expect("a key").1;
            let this = Try {
                number: Plan::number_of(id).expect("one of ours"),
                attempt: progress.next_number(),
            };
            Some(OutLease { this, expiry })
        })
        .collect()
}

/// Those of a server.
pub async fn leases(server: &RedisServer) -> Vec<OutLease> {
    let mut connection = connect(&server.url(0)).await;
    let mut pipe = redis::pipe();
    read_leases(pipe.atomic());
    leases_of(pipe.query_async(&mut connection).await.expect("answered"))
}
