//! What a Redis server says of itself, to a command that changes nothing.
//!
//! Versions are not compared: Redis, Valkey and managed services number differently. A script tries each command that
//! Ringback uses in a way that has no effect: it names a key that is not there, or gives it a wrong value.

use super::NO_JOURNAL;
use super::connection::COMMAND_TIMEOUT;
use super::connector::Connector;
use super::context::meta_key;
use super::info::text;
use super::node_survey::{FoundNodes, fields, nodes};
use super::recovery::server_run::ServerRun;
use super::recovery::write_counters::Loss;
use super::recovery::{foreign, number_in, same_data};
use super::script::Script;
use crate::redis_tls::RedisTls;
use crate::schedule::ScheduleError;
use redis::{Cmd, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use super::node_survey::NodeSurvey;

/// How long a subscription may take.
const LONGEST_SUBSCRIBING: Duration = Duration::from_secs(2);
/// The channel to which the survey subscribes.
const CHANNEL: &str = "{rb:0}:survey";

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisSurvey {
    /// The server and its version, if it tells.
    pub server: Option<String>,
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
    /// The servers that have partitions, beginning with that of the first one.
    pub nodes: Vec<NodeSurvey>,
    /// The first partition that cannot be reached, and why; and how many there are.
    pub unreachable: Option<(usize, String, usize)>,
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
    let info = match run(&redis::cmd("INFO")).await {
        Ok(reply) => fields(&text(&reply).unwrap_or_default()),
        Err(_) => BTreeMap::new(),
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
    let epoch = run(&Cmd::get("{rb:0}:epoch"))
        .await
        .map(|reply| text(&reply))?;
    let epoch = match epoch {
        Some(epoch) => Some(epoch),
        None => text(&run(&Cmd::hget(meta_key(0), "owner")).await?),
    };
    let FoundNodes { nodes, unreachable } = nodes(&connector, partitions).await?;
    Ok(RedisSurvey {
        server: server_name(&info),
        scripts_refused,
        missing_commands,
        subscribing_refused: match subscribing {
            Ok(done) => done.err(),
            Err(_) => Some("no answer to SUBSCRIBE".to_string()),
        },
        is_replica: says("role").map(|role| role != "master"),
        is_cluster: says("cluster_enabled").map(|enabled| enabled == "1"),
        nodes,
        unreachable,
        ownership: ownership(epoch.as_deref(), journal, partitions),
    })
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

fn server_name(info: &BTreeMap<String, String>) -> Option<String> {
    match (info.get("valkey_version"), info.get("redis_version")) {
        (Some(version), _) => Some(format!("Valkey {version}")),
        (None, Some(version)) => Some(format!("Redis {version}")),
        (None, None) => None,
    }
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
