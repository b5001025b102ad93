//! The Redis schedule in a cluster, whose partitions are spread over its shards.

use super::fixture::*;
use super::redis::{open_with, options};
use crate::support::redis_shared::fresh_cluster;
use ringback::schedule::Limits;
use ringback::schedule::redis::Options;

/// Partitions, of which each of three shards has one: the fourth is the first in the third shard. Each costs time in every test.
const PARTITIONS: usize = 4;

fn in_cluster(partitions: usize, limits: Limits) -> Options {
    Options {
        partitions,
        ..options(fresh_cluster(), limits)
    }
}

/// With a journal: whoever asks knows the lane.
pub async fn with_a_journal(limits: Limits) -> Fixture {
    let options = Options {
        owner: "journal".into(),
        ..in_cluster(PARTITIONS, limits)
    };
    open_with(&options, Box::new(())).await
}

/// All lanes at one node.
pub async fn in_one_partition(limits: Limits) -> Fixture {
    open_with(&in_cluster(1, limits), Box::new(())).await
}
