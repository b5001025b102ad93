//! The connections of the partitions.

use super::connection::{BULK_TIMEOUT, COMMAND_TIMEOUT, Connection};
use super::connector::{Connector, PartitionServer};
use super::context::meta_key;
use super::recovery::server_run::ServerRun;
use std::sync::Arc;

/// Where all partitions are at one server, that many have connections of their own, and further ones share them: hundreds of
/// connections would help none, since a server runs one script at a time. In a cluster each partition has its own, since
/// it may move alone.
const MOST_APART: usize = 16;

/// The connections that a partition uses. Clones share them.
#[derive(Clone)]
pub struct PartitionConnections {
    pub server: PartitionServer,
    pub reads: Connection,
    pub changes: Connection,
    pub claims: Connection,
    pub bulk: Connection,
    pub registrations: Connection,
    pub settlements: Connection,
    pub directory: Connection,
}

impl PartitionConnections {
    /// The connections of each of so many partitions. `run` makes what knows the run of the server of partitions with these
    /// `meta` hashes.
    pub fn of_all(
        connector: &Connector,
        many: usize,
        run: impl Fn(Vec<String>) -> Arc<ServerRun>,
    ) -> Vec<Self> {
        let numbers = 0..many;
        if connector.is_cluster() {
            let own = |number| Self::to(connector.partition(number, run(vec![meta_key(number)])));
            return numbers.map(own).collect();
        }
        let run = run(numbers.clone().map(meta_key).collect());
        let own = |number| Self::to(connector.partition(number, run.clone()));
        let apart: Vec<_> = numbers.clone().take(MOST_APART).map(own).collect();
        numbers
            .map(|number| apart[number % MOST_APART].clone())
            .collect()
    }

    /// New connections to the server of a partition, each of which is opened at its first use.
    fn to(server: PartitionServer) -> Self {
        Self {
            reads: server.connect(COMMAND_TIMEOUT),
            changes: server.connect_for_changes(),
            claims: server.connect(COMMAND_TIMEOUT),
            bulk: server.connect(BULK_TIMEOUT),
            registrations: server.connect_for_changes(),
            settlements: server.connect_for_changes(),
            directory: server.connect_for_changes(),
            server,
        }
    }
}
