//! Opening connections: to the server of a partition, and for subscriptions.

use super::recovery::server_run::ServerRun;
use super::servers::{Servers, database_of, slot_of_tag};
use crate::domain::redis_url::{RedisHost, RedisUrl};
use crate::redis_tls::RedisTls;
use crate::schedule::ScheduleError;
use redis::aio::PubSub;
use redis::{ErrorKind, RedisError, ServerErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// How much longer a call may take than its command. This time is for connecting: before the command, and again
/// if the connection breaks.
pub const CALL_MARGIN: Duration = Duration::from_secs(2);

/// Opens connections to the servers of one schedule.
#[derive(Clone)]
pub struct Connector {
    servers: Arc<Servers>,
    database: i64,
    /// How many replicas must have a change that may not be lost, before it counts.
    replicas: u16,
}

/// The server of one partition.
#[derive(Clone)]
pub struct PartitionServer {
    connector: Connector,
    slot: u16,
    run: Arc<ServerRun>,
}

/// A connection for subscriptions.
pub struct ListeningConnection {
    pub pubsub: PubSub,
    servers: Arc<Servers>,
    host: RedisHost,
    version: usize,
}

impl Connector {
    /// Prepares connections to a URL; does not connect yet, but with Sentinel it begins to ask the sentinels.
    /// With `replicas` above 0, changes over [`PartitionServer::connect_for_changes`] count only when so many replicas have
    /// them.
    pub fn new(url: &str, tls: &RedisTls, replicas: u16) -> Result<Self, ScheduleError> {
        let url = RedisUrl::parse(url).map_err(ScheduleError::Unavailable)?;
        Ok(Self {
            servers: Arc::new(Servers::open(&url, tls).map_err(unavailable)?),
            database: database_of(&url).map_err(unavailable)?,
            replicas,
        })
    }

    /// The number of the database that the URL names. All databases of a server share the channels, so the
    /// number is part of a channel's name.
    pub fn database(&self) -> i64 {
        self.database
    }

    /// Whether the servers are nodes of a cluster.
    pub fn is_cluster(&self) -> bool {
        self.servers.cluster().is_some()
    }

    /// Whether another server may take over without the last changes.
    pub fn may_fail_over(&self) -> bool {
        self.servers.may_move()
    }

    /// The server of a partition.
    pub fn partition(&self, number: usize, run: Arc<ServerRun>) -> PartitionServer {
        PartitionServer {
            connector: self.clone(),
            slot: slot_of_tag(&format!("rb:{number}")),
            run,
        }
    }

    /// A connection for subscriptions. In a cluster, it is to another node for each number.
    pub async fn listen(&self, number: usize) -> Result<ListeningConnection, ScheduleError> {
        let listening = async {
            let located = self.servers.locate_any(number).await?;
            Ok(ListeningConnection {
                pubsub: located.client.get_async_pubsub().await?,
                servers: self.servers.clone(),
                host: located.host,
                version: located.version,
            })
        };
        let connected = tokio::time::timeout(CALL_MARGIN, listening).await;
        let connected = connected.map_or_else(|_| Err(timed_out()), |one| one.map_err(unavailable));
        if connected.is_err() {
            self.servers.suspect();
        }
        connected
    }
}

impl ListeningConnection {
    /// Whether messages still reach this connection, as far as is known. In a cluster they reach every node.
    pub fn is_current(&self) -> bool {
        self.servers.cluster().is_some()
            || self.version == self.servers.version()
            || self.servers.is_at(0, &self.host)
    }
}

impl PartitionServer {
    /// What all partitions share.
    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    /// How many replicas must have a change that may not be lost.
    pub fn replicas(&self) -> u16 {
        self.connector.replicas
    }

    /// Where the servers are.
    pub fn servers(&self) -> &Servers {
        &self.connector.servers
    }

    /// The slot of the keys of the partition in a cluster.
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// The run of the server.
    pub fn run(&self) -> &ServerRun {
        &self.run
    }
}

/// The error of a call that took too long.
pub fn timed_out() -> ScheduleError {
    ScheduleError::Unavailable("Redis did not answer in time".to_string())
}

/// The error of a call that failed.
pub fn unavailable(error: RedisError) -> ScheduleError {
    if error.code() == Some("REBUILDING") {
        return ScheduleError::Rebuilding;
    }
    if error.kind() == ErrorKind::Server(ServerErrorKind::Moved) {
        let hint = "is the server a node of a cluster? Then its URL begins with redis+cluster://";
        return ScheduleError::Unavailable(format!("Redis: {error}; {hint}"));
    }
    ScheduleError::Unavailable(format!("Redis: {error}"))
}
