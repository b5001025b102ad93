//! What each server that has partitions says of its settings and its clock, to a command that changes nothing.

use super::connection::{COMMAND_TIMEOUT, Connection};
use super::connector::Connector;
use super::context::meta_key;
use super::info::text;
use super::recovery::server_run::ServerRun;
use super::recovery::write_counters::Loss;
use crate::clock::{Clock as _, SystemClock};
use crate::domain::redis_url::RedisHost;
use crate::schedule::ScheduleError;
use futures_util::stream::{self, StreamExt as _};
use redis::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of partitions that are asked at a time.
const AT_ONCE: usize = 16;

/// What one server says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSurvey {
    /// Its address in the cluster; empty without a cluster, where there is only one server.
    pub address: String,
    /// How far its clock is ahead of the clock of this machine, in milliseconds.
    pub clock_ahead_ms: i64,
    /// Whether it writes an append-only file. `None` if it does not tell.
    pub appends: Option<bool>,
    /// When it writes the append-only file to disk: `always`, `everysec` or `no`. `None` if it does not tell.
    pub append_sync: Option<String>,
    /// When it writes snapshots; empty: never. `None` if it does not tell.
    pub snapshots: Option<String>,
    /// What it does when its memory is full. `None` if it does not tell.
    pub eviction: Option<String>,
    /// Its limit of memory in bytes; 0 is none. `None` if it does not tell.
    pub memory_limit: Option<u64>,
    /// How many replicas follow it. `None` if it does not tell.
    pub replicas: Option<u64>,
}

/// What is found by asking for each partition.
#[derive(Debug, Default)]
pub(super) struct FoundNodes {
    /// The servers that have partitions, in the order of their first ones.
    pub nodes: Vec<NodeSurvey>,
    /// The first partition that cannot be reached, and why; and how many there are.
    pub unreachable: Option<(usize, String, usize)>,
}

/// Asks the server of each partition. They are all at one server, except in a cluster.
///
/// # Errors
/// [`ScheduleError`] if the server of the first partition does not answer.
pub(super) async fn nodes(
    connector: &Connector,
    partitions: usize,
) -> Result<FoundNodes, ScheduleError> {
    let many = match connector.is_cluster() {
        true => partitions.max(1),
        false => 1,
    };
    let reaching: Vec<_> = (0..many).map(|number| reach(connector, number)).collect();
    let reached: Vec<_> = stream::iter(reaching).buffered(AT_ONCE).collect().await;
    let mut found = FoundNodes::default();
    let mut seen: BTreeSet<RedisHost> = BTreeSet::new();
    for (number, reached) in reached.into_iter().enumerate() {
        let asked = match reached {
            Ok((_, Some(host))) if !seen.insert(host.clone()) => continue,
            Ok((connection, host)) => {
                let address = host.filter(|_| connector.is_cluster());
                ask(&connection, address).await
            }
            Err(error) => Err(error),
        };
        match asked {
            Ok(node) => found.nodes.push(node),
            Err(error) if number == 0 => return Err(error),
            Err(error) => {
                let first = (number, error.to_string(), 0);
                found.unreachable.get_or_insert(first).2 += 1;
            }
        }
    }
    Ok(found)
}

/// Connects to the server of a partition. A node that does not have the slot of the key redirects this.
async fn reach(
    connector: &Connector,
    number: usize,
) -> Result<(Connection, Option<RedisHost>), ScheduleError> {
    let run = ServerRun::new(vec![meta_key(number)], || None, Arc::new(Loss::default()));
    let server = connector.partition(number, Arc::new(run));
    let connection = server.connect(COMMAND_TIMEOUT);
    let exists = redis::cmd("EXISTS").arg(meta_key(number)).take();
    connection.run(&exists).await?;
    let host = connection.host();
    Ok((connection, host))
}

/// Asks one server. What it does not tell is left out.
async fn ask(
    connection: &Connection,
    address: Option<RedisHost>,
) -> Result<NodeSurvey, ScheduleError> {
    let sent_ms = SystemClock.now_ms();
    let time = connection.run(&redis::cmd("TIME")).await?;
    let received_ms = SystemClock.now_ms();
    let there_ms = milliseconds(&time)
        .ok_or_else(|| ScheduleError::Corrupt("the reply to TIME is no time".to_string()))?;
    let info = match connection.run(&redis::cmd("INFO")).await {
        Ok(reply) => fields(&text(&reply).unwrap_or_default()),
        Err(_) => BTreeMap::new(),
    };
    let says = |name: &str| info.get(name).cloned();
    let setting = async |name: &str| {
        let asked = connection
            .run(redis::cmd("CONFIG").arg("GET").arg(name))
            .await;
        asked.ok().and_then(second)
    };
    let appends = match says("aof_enabled") {
        Some(enabled) => Some(enabled == "1"),
        None => setting("appendonly").await.map(|value| value == "yes"),
    };
    let eviction = match says("maxmemory_policy") {
        Some(policy) => Some(policy),
        None => setting("maxmemory-policy").await,
    };
    let limit = match says("maxmemory") {
        Some(limit) => Some(limit),
        None => setting("maxmemory").await,
    };
    Ok(NodeSurvey {
        address: address.map(|host| host.to_string()).unwrap_or_default(),
        clock_ahead_ms: there_ms - (sent_ms + received_ms) / 2,
        appends,
        append_sync: setting("appendfsync").await,
        snapshots: setting("save").await,
        eviction,
        memory_limit: limit.and_then(|limit| limit.parse().ok()),
        replicas: says("connected_slaves").and_then(|many| many.parse().ok()),
    })
}

/// The fields of an answer to INFO.
pub(super) fn fields(info: &str) -> BTreeMap<String, String> {
    let lines = info.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, value)| (name.to_string(), value.trim().to_string()))
        .collect()
}

/// The value in a reply to CONFIG GET.
fn second(reply: Value) -> Option<String> {
    match reply {
        Value::Array(items) => text(items.get(1)?),
        Value::Map(pairs) => text(&pairs.first()?.1),
        _ => None,
    }
}

/// The time in a reply to TIME.
fn milliseconds(reply: &Value) -> Option<i64> {
    let Value::Array(items) = reply else {
        return None;
    };
    let number = |index: usize| -> Option<i64> { text(items.get(index)?)?.parse().ok() };
    Some(number(0)? * 1_000 + number(1)? / 1_000)
}
