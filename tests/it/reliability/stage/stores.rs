//! Which stores a run has, and how many servers use them.

/// Which stores a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Memory and SQLite, one server.
    Embedded,
    /// Redis and SQLite, one server.
    RedisAndSqlite,
    /// Redis and PostgreSQL, two servers.
    RedisAndPostgres,
    /// Redis with so many partitions that two servers share them out, and PostgreSQL.
    PartitionsAndPostgres,
    /// A primary with replicas behind sentinels, and PostgreSQL; two servers.
    SentinelsAndPostgres,
    /// A cluster, and PostgreSQL; two servers.
    ClusterAndPostgres,
}

/// Partitions of a schedule in a cluster.
pub const CLUSTER_PARTITIONS: usize = 8;
/// Partitions of one Redis that are shared out, and the most that any has.
pub const SHARED_PARTITIONS: usize = 16;

impl Stores {
    /// For messages and names of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::RedisAndSqlite => "redis-and-sqlite",
            Self::RedisAndPostgres => "redis-and-postgres",
            Self::PartitionsAndPostgres => "partitions-and-postgres",
            Self::SentinelsAndPostgres => "sentinels-and-postgres",
            Self::ClusterAndPostgres => "cluster-and-postgres",
        }
    }

    /// How many servers it has.
    pub fn servers(self) -> usize {
        match self {
            Self::Embedded | Self::RedisAndSqlite => 1,
            Self::RedisAndPostgres
            | Self::PartitionsAndPostgres
            | Self::SentinelsAndPostgres
            | Self::ClusterAndPostgres => 2,
        }
    }

    /// How many partitions its schedule has.
    pub fn partitions(self) -> usize {
        match self {
            Self::Embedded
            | Self::RedisAndSqlite
            | Self::RedisAndPostgres
            | Self::SentinelsAndPostgres => 1,
            Self::PartitionsAndPostgres => SHARED_PARTITIONS,
            Self::ClusterAndPostgres => CLUSTER_PARTITIONS,
        }
    }
}
