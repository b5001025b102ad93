//! What a Redis server says of itself, to a command that changes nothing.
//!
//! Versions are not compared: Redis, Valkey and managed services number differently. A script tries each command that
//! Ringback uses in a way that has no effect: it names a key that is not there, or gives it a wrong value.

use super::NO_JOURNAL;
use super::connection::COMMAND_TIMEOUT;
use super::connector::Connector;
use super::context::meta_key;
use super::info::text;
use super::recovery::server_run::ServerRun;
use super::recovery::write_counters::Loss;
use super::recovery::{foreign, number_in, same_data};
use super::script::Script;
use crate::clock::{Clock as _, SystemClock};
use crate::redis_tls::RedisTls;
use crate::schedule::ScheduleError;
use futures_util::stream::{self, StreamExt as _};
use redis::{Cmd, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a subscription may take.
const LONGEST_SUBSCRIBING: Duration = Duration::from_secs(2);
/// Maximum number of partitions that are asked at a time.
const AT_ONCE: usize = 16;
/// The channel to which the survey subscribes.
const CHANNEL: &str = "{rb:0}:survey";

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisSurvey {
    /// The server and its version, if it tells.
    pub server: Option<String>,
    /// How far its clock is ahead of the clock of this machine, in milliseconds.
    pub clock_ahead_ms: i64,
    /// Why scripts cannot be run at all.
    pub scripts_refused: Option<String>,
    /// The commands that scripts may not run, or that the server does not have, each with what the server said.
    pub missing_commands: Vec<(String, String)>,
    /// Why channels cannot be subscribed to.
    pub subscribing_refused: Option<String>,
    /// Whether it is a replica, which refuses writes. `None` if it does not tell.
    pub is_replica: Option<bool>,
    /// Whether it is a node of a cluster. `None` if it does not tell.
    pub is_cluster: Option<bool>,
    /// How many replicas follow it. `None` if it does not tell.
    pub replicas: Option<u64>,
    /// The first partition that cannot be reached, and why; and how many there are.
    pub unreachable: Option<(usize, String, usize)>,
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
    /// To whom the data belongs.
    pub ownership: ScheduleOwner,
}

/// To whom the data of a schedule belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleOwner {
    /// There is no data yet.
    Nobody,
    /// To this journal.
    Own,
    /// To this journal, but it has another number of partitions. Contains that.
    OtherNumber(String),
    /// To another journal, or to none. Contains the sentence.
    Other(String),
}

/// Looks at a Redis server. `journal`: the id of the journal to which the schedule should belong; `None`: it is not known yet.
/// `partitions`: the number of partitions that it should have.
///
/// # Errors
/// [`ScheduleError::Unavailable`] if the server cannot be reached, or refuses the user.
pub async fn survey(
    url: &str,
    tls: &RedisTls,
    journal: Option<&str>,
    partitions: usize,
) -> Result<RedisSurvey, ScheduleError> {
    let run = ServerRun::new(vec![meta_key(0)], || None, Arc::new(Loss::default()));
    let connector = Connector::new(url, tls, 0)?;
    let server = connector.partition(0, Arc::new(run));
    let connection = server.connect(COMMAND_TIMEOUT);
    connection.ready().await?;
    let run = async |command: &Cmd| connection.run(command).await;
    let sent_ms = SystemClock.now_ms();
    let time = run(&redis::cmd("TIME")).await?;
    let received_ms = SystemClock.now_ms();
    let there_ms = milliseconds(&time)
        .ok_or_else(|| ScheduleError::Corrupt("the reply to TIME is no time".to_string()))?;
    let info = match run(&redis::cmd("INFO")).await {
        Ok(reply) => fields(&text(&reply).unwrap_or_default()),
        Err(_) => BTreeMap::new(),
    };
    let setting = async |name: &str| {
        let asked = run(redis::cmd("CONFIG").arg("GET").arg(name)).await;
        asked.ok().and_then(second)
    };
    let says = |name: &str| info.get(name).cloned();
    let (scripts_refused, missing_commands) = match run(&probe()).await {
        Ok(reply) => (None, refused(reply)),
        Err(error) => (Some(error.to_string()), Vec::new()),
    };
    let subscribing = async {
        let mut listening = connector
            .listen(0)
            .await
            .map_err(|error| error.to_string())?;
        let subscribed = listening.pubsub.subscribe(CHANNEL).await;
        subscribed.map_err(|error| error.to_string())
    };
    let subscribing = tokio::time::timeout(LONGEST_SUBSCRIBING, subscribing).await;
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
    let epoch = run(&Cmd::get("{rb:0}:epoch"))
        .await
        .map(|reply| text(&reply))?;
    let epoch = match epoch {
        Some(epoch) => Some(epoch),
        None => text(&run(&Cmd::hget(meta_key(0), "owner")).await?),
    };
    Ok(RedisSurvey {
        server: server_name(&info),
        clock_ahead_ms: there_ms - (sent_ms + received_ms) / 2,
        scripts_refused,
        missing_commands,
        subscribing_refused: match subscribing {
            Ok(done) => done.err(),
            Err(_) => Some("no answer to SUBSCRIBE".to_string()),
        },
        is_replica: says("role").map(|role| role != "master"),
        is_cluster: says("cluster_enabled").map(|enabled| enabled == "1"),
        replicas: says("connected_slaves").and_then(|many| many.parse().ok()),
        unreachable: unreachable(&connector, partitions).await,
        appends,
        append_sync: setting("appendfsync").await,
        snapshots: setting("save").await,
        eviction,
        memory_limit: limit.and_then(|limit| limit.parse().ok()),
        ownership: ownership(epoch.as_deref(), journal, partitions),
    })
}

/// The partitions that cannot be reached. They are all at one server, except in a cluster.
async fn unreachable(connector: &Connector, partitions: usize) -> Option<(usize, String, usize)> {
    if !connector.is_cluster() {
        return None;
    }
    let reaching = (0..partitions.max(1)).map(|number| async move {
        let run = ServerRun::new(vec![meta_key(number)], || None, Arc::new(Loss::default()));
        let server = connector.partition(number, Arc::new(run));
        // A node that does not have the slot of the key redirects this.
        let exists = redis::cmd("EXISTS").arg(meta_key(number)).take();
        let reached = server.connect(COMMAND_TIMEOUT).run(&exists).await;
        reached.err().map(|error| (number, error.to_string()))
    });
    let reaching: Vec<_> = reaching.collect();
    let reached: Vec<_> = stream::iter(reaching).buffered(AT_ONCE).collect().await;
    let failed: Vec<_> = reached.into_iter().flatten().collect();
    let many = failed.len();
    let (first, why) = failed.into_iter().next()?;
    Some((first, why, many))
}

fn ownership(epoch: Option<&str>, journal: Option<&str>, partitions: usize) -> ScheduleOwner {
    let Some(epoch) = epoch else {
        return ScheduleOwner::Nobody;
    };
    let own = format!("{}/{}", journal.unwrap_or("new"), partitions.max(1));
    match (journal, epoch == own) {
        (Some(_), true) => ScheduleOwner::Own,
        (Some(journal), false) if journal != NO_JOURNAL && epoch.starts_with(same_data(&own)) => {
            ScheduleOwner::OtherNumber(number_in(epoch).to_string())
        }
        (Some(_), false) => ScheduleOwner::Other(foreign(epoch, &own)),
        (None, _) => {
            let owner = epoch.rsplit_once('/').map_or(epoch, |(owner, _)| owner);
            let owner = match owner {
                NO_JOURNAL => "servers without a journal".to_string(),
                owner => format!("journal {owner}"),
            };
            ScheduleOwner::Other(format!(
                "this Redis schedule belongs to {owner}, but the journal of this server is new"
            ))
        }
    }
}

/// The script that tries every command. Its reply: of each that is refused, the name and what the server said.
fn probe() -> Cmd {
    let script = Script::new(include_str!("lua/survey.lua"));
    let mut command = script.eval();
    command.arg(1).arg(CHANNEL);
    command
}

/// The names and the answers in the reply of the script.
fn refused(reply: Value) -> Vec<(String, String)> {
    let Value::Array(items) = reply else {
        return Vec::new();
    };
    let texts: Vec<String> = items.iter().filter_map(text).collect();
    let pairs = texts.chunks_exact(2);
    pairs
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

/// The fields of an answer to INFO.
fn fields(info: &str) -> BTreeMap<String, String> {
    let lines = info.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, value)| (name.to_string(), value.trim().to_string()))
        .collect()
}

fn server_name(info: &BTreeMap<String, String>) -> Option<String> {
    match (info.get("valkey_version"), info.get("redis_version")) {
        (Some(version), _) => Some(format!("Valkey {version}")),
        (None, Some(version)) => Some(format!("Redis {version}")),
        (None, None) => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_belongs_to_one_journal_with_one_number_of_partitions() {
        let other = |epoch: &str, journal: Option<&str>, said: &str| {
            let ScheduleOwner::Other(text) = ownership(Some(epoch), journal, 1) else {
                panic!("{epoch}");
            };
            assert!(text.contains(said), "{text}");
        };
        assert_eq!(ownership(None, Some("a"), 1), ScheduleOwner::Nobody);
        assert_eq!(ownership(Some("a/1"), Some("a"), 1), ScheduleOwner::Own);
        other("b/1", Some("a"), "belongs to journal b");
        other("none/1", Some("a"), "belongs to no journal");
        assert_eq!(
            ownership(Some("a/4"), Some("a"), 1),
            ScheduleOwner::OtherNumber("4".into())
        );
        other("none/4", Some("none"), "--partitions 4");
        other(
            "a/1",
            None,
            "belongs to journal a, but the journal of this server is new",
        );
    }
}
