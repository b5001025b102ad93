//! Redis: whether it can be reached, may do what is needed, keeps its data, and belongs to this journal.

use super::clocks;
use super::finding::Finding;
use super::redis_certificates;
use crate::clock::{Clock as _, SystemClock};
use crate::config::{JournalConfig, ServeConfig};
use crate::domain::redis_url::RedisKind;
use crate::schedule::redis::survey::{NodeSurvey, RedisSurvey, ScheduleOwner, survey};

const SUBJECT: &str = "redis";
const NO_MEND: &str = "ask the operator of Redis, or look into the settings of the managed service";

/// Looks at the Redis server of the settings. `journal`: the id of the journal. `None`: it has none yet if `is_new`, or
/// else it cannot be read.
pub async fn examine(config: &ServeConfig, journal: Option<&str>, is_new: bool) -> Vec<Finding> {
    let Some(url) = &config.schedule.redis else {
        let text = "no --redis: the schedule is in the memory of the server, and the journal has everything";
        return vec![Finding::ok(SUBJECT, text)];
    };
    let partitions = usize::from(config.schedule.partitions);
    let expiries = redis_certificates::expiries(&config.schedule.redis_tls, SystemClock.now_ms());
    let found = match survey(
        url.expose(),
        &config.schedule.redis_tls,
        journal,
        partitions,
    )
    .await
    {
        Ok(found) => found,
        Err(error) => {
            let text = format!("{url} cannot be used: {error}");
            let mend = match url.is_tls() {
                false => {
                    "check host, port, user and password in --redis, and that Redis runs: `redis-cli -u URL ping`"
                }
                true => {
                    "check host, port, user and password in --redis, --redis-ca, --redis-client-certificate and its key, and \
                     that Redis runs: `redis-cli --tls --cacert FILE --cert FILE --key FILE -u URL ping`"
                }
            };
            let problem = Finding::problem(SUBJECT, text, mend);
            return [problem].into_iter().chain(expiries).collect();
        }
    };
    let server = found.server.as_deref().unwrap_or("version not told");
    let mut findings = vec![Finding::ok(
        SUBJECT,
        format!("{url} can be reached ({server})"),
    )];
    findings.extend(expiries);
    findings.extend(rights(&found));
    findings.extend(kind(&found, url.kind()));
    findings.extend(fail_over(&found, config));
    findings.extend(of_each(&found.nodes, eviction));
    findings.extend(of_each(&found.nodes, |node| {
        persistence(node, &config.journal)
    }));
    findings.push(match (&found.ownership, journal.is_some() || is_new) {
        (ScheduleOwner::Other(_), false) => Finding::unknown(
            "redis data",
            "Redis has a schedule, but the journal cannot be read, so it cannot be seen whether it belongs to it",
            "mend the journal first",
        ),
        (ownership, _) => owner(ownership),
    });
    findings.extend(of_each(&found.nodes, |node| {
        clocks::compare("clock", "Redis", node.clock_ahead_ms)
    }));
    findings
}

/// Judges each server. What holds for all is said once; else it is said of which.
fn of_each(nodes: &[NodeSurvey], judge: impl Fn(&NodeSurvey) -> Finding) -> Vec<Finding> {
    let mut findings: Vec<(Finding, Vec<&str>)> = Vec::new();
    for node in nodes {
        let finding = judge(node);
        match findings.iter_mut().find(|(known, _)| *known == finding) {
            Some((_, addresses)) => addresses.push(&node.address),
            None => findings.push((finding, vec![&node.address])),
        }
    }
    let differ = findings.len() > 1;
    let told = findings.into_iter().map(|(mut finding, addresses)| {
        if differ {
            finding.text = format!("{}: {}", addresses.join(", "), finding.text);
        }
        finding
    });
    told.collect()
}

fn rights(found: &RedisSurvey) -> Vec<Finding> {
    const SUBJECT: &str = "redis rights";
    let list = "give the user the rights in docs/operations.md, \"What Ringback needs of Redis\"";
    let mut findings = Vec::new();
    if let Some(why) = &found.scripts_refused {
        let text = format!("scripts cannot be run: {why}");
        findings.push(Finding::problem(SUBJECT, text, list));
    }
    for (command, why) in &found.missing_commands {
        let text = format!("scripts may not use {command}: {why}");
        findings.push(Finding::problem(SUBJECT, text, list));
    }
    if let Some(why) = &found.subscribing_refused {
        let text = format!(
            "channels {{rb:*}} cannot be subscribed to, so servers wake each other late: {why}"
        );
        findings.push(Finding::problem(SUBJECT, text, list));
    }
    if findings.is_empty() {
        let text = "scripts run, and every command that they need is allowed";
        findings.push(Finding::ok(SUBJECT, text));
    }
    findings
}

fn kind(found: &RedisSurvey, kind: &RedisKind) -> Vec<Finding> {
    let mut findings = Vec::new();
    if found.is_replica == Some(true) {
        let text = "this server is a replica, which refuses writes";
        let mend = "give --redis the address of the primary";
        findings.push(Finding::problem(SUBJECT, text, mend));
    }
    if found.is_cluster == Some(true) && *kind != RedisKind::Cluster {
        let text = "this server is a node of a cluster";
        let mend =
            "let --redis begin with redis+cluster:// or rediss+cluster://, and name several nodes";
        findings.push(Finding::problem(SUBJECT, text, mend));
    }
    if let Some((first, why, many)) = &found.unreachable {
        let text = format!("{many} partitions cannot be reached; partition {first}: {why}");
        let mend = "see `redis-cli --cluster check HOST:PORT` for nodes that are down and slots without a node";
        findings.push(Finding::problem(SUBJECT, text, mend));
    }
    findings
}

/// What a fail-over may lose.
fn fail_over(found: &RedisSurvey, config: &ServeConfig) -> Option<Finding> {
    const SUBJECT: &str = "redis fail-over";
    const TELL: &str = "see docs/operations.md, \"Sentinel and Cluster\"";
    let wanted = u64::from(config.schedule.replicas);
    let least = found.nodes.iter().filter_map(|node| node.replicas).min();
    if let Some(replicas) = least.filter(|replicas| *replicas < wanted) {
        let text = format!(
            "redis-wait is {wanted}, but {replicas} replicas follow a primary, so every registration there is refused"
        );
        let mend = "add replicas, or set redis-wait to a number that is always there";
        return Some(Finding::problem(SUBJECT, text, mend));
    }
    let url = config.schedule.redis.as_ref()?;
    match (url.kind(), &config.journal) {
        (RedisKind::Server, _) => None,
        (_, JournalConfig::None) if wanted == 0 => {
            let text = "there is no journal, and redis-wait is 0: when a replica takes over, it lacks the last registrations";
            Some(Finding::warning(SUBJECT, text, TELL))
        }
        (_, JournalConfig::None) => {
            let text = format!("{wanted} replicas have each registration before it is answered");
            Some(Finding::ok(SUBJECT, text))
        }
        (_, JournalConfig::Sqlite(_) | JournalConfig::Postgres(_)) => {
            let text = "what a fail-over takes back is loaded from the journal again";
            Some(Finding::ok(SUBJECT, text))
        }
    }
}

fn eviction(found: &NodeSurvey) -> Finding {
    const SUBJECT: &str = "redis memory";
    const MEND: &str =
        "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf";
    match (found.eviction.as_deref(), found.memory_limit) {
        (None, _) => {
            let text =
                "it cannot be seen whether Redis evicts keys when it is full (maxmemory-policy)";
            Finding::unknown(SUBJECT, text, NO_MEND)
        }
        (Some("noeviction"), _) => Finding::ok(SUBJECT, "Redis evicts nothing when it is full"),
        (Some(policy), Some(0)) => {
            let text = format!(
                "maxmemory-policy is {policy}; without a limit of memory it has no effect yet"
            );
            Finding::warning(SUBJECT, text, MEND)
        }
        (Some(policy), _) => {
            let text = format!(
                "maxmemory-policy is {policy}: when it is full, Redis deletes pending notifications"
            );
            Finding::problem(SUBJECT, text, MEND)
        }
    }
}

fn persistence(found: &NodeSurvey, journal: &JournalConfig) -> Finding {
    const SUBJECT: &str = "redis persistence";
    const MEND: &str =
        "set `appendonly yes` in redis.conf (docs/runbooks.md says how without a loss)";
    let alone = *journal == JournalConfig::None;
    let snapshots = match found.snapshots.as_deref() {
        Some("") => "no snapshots",
        Some(_) => "snapshots",
        None => "snapshots cannot be seen",
    };
    match (found.appends, found.append_sync.as_deref()) {
        (None, _) => {
            let text =
                "it cannot be seen whether Redis keeps its data over a restart (appendonly, save)";
            Finding::unknown(SUBJECT, text, NO_MEND)
        }
        (Some(false), _) if alone => {
            let text = format!(
                "no append-only file ({snapshots}), and there is no journal: a crash of Redis loses notifications"
            );
            Finding::warning(SUBJECT, text, MEND)
        }
        (Some(false), _) => {
            let text = format!(
                "no append-only file ({snapshots}): after a restart of Redis everything is loaded from the journal again"
            );
            Finding::warning(SUBJECT, text, MEND)
        }
        (Some(true), Some(sync)) if alone && sync != "always" => {
            let text = format!(
                "appendfsync is {sync}, and there is no journal: a power cut loses the last notifications"
            );
            let mend = "set `appendfsync always` in redis.conf, if nothing may be lost";
            Finding::warning(SUBJECT, text, mend)
        }
        (Some(true), _) => Finding::ok(SUBJECT, "Redis writes an append-only file"),
    }
}

fn owner(owner: &ScheduleOwner) -> Finding {
    const SUBJECT: &str = "redis data";
    match owner {
        ScheduleOwner::Nobody => {
            Finding::ok(SUBJECT, "Redis has no schedule yet; a server loads it")
        }
        ScheduleOwner::Own => Finding::ok(SUBJECT, "the schedule in Redis belongs to this journal"),
        ScheduleOwner::OtherNumber(number) => Finding::warning(
            SUBJECT,
            format!(
                "the schedule in Redis has {number} partitions, and --partitions says another number"
            ),
            &format!(
                "start all servers with --partitions {number}; or, to change the number, stop all servers first: the next one \
                 that starts loads the schedule from the journal"
            ),
        ),
        ScheduleOwner::Other(text) => {
            let mend = "name another database in --redis (such as /1 at its end), or the journal that it belongs to";
            Finding::problem(SUBJECT, text.clone(), mend)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::finding::FindingLevel;
    use std::path::PathBuf;

    fn found() -> RedisSurvey {
        RedisSurvey {
            server: None,
            scripts_refused: None,
            missing_commands: Vec::new(),
            subscribing_refused: None,
            is_replica: None,
            is_cluster: None,
            nodes: vec![NodeSurvey::default()],
            unreachable: None,
            ownership: ScheduleOwner::Nobody,
        }
    }

    #[test]
    fn what_a_managed_service_hides_is_no_failure() {
        let sqlite = JournalConfig::Sqlite(PathBuf::from("j"));
        let node = NodeSurvey::default();
        assert_eq!(eviction(&node).level, FindingLevel::Unknown);
        assert_eq!(persistence(&node, &sqlite).level, FindingLevel::Unknown);
        assert!(kind(&found(), &RedisKind::Server).is_empty());
    }

    #[test]
    fn eviction_and_persistence_are_judged() {
        let check = |policy: &str, limit: u64, level: FindingLevel| {
            let node = NodeSurvey {
                eviction: Some(policy.to_string()),
                memory_limit: Some(limit),
                ..NodeSurvey::default()
            };
            assert_eq!(eviction(&node).level, level, "{policy} {limit}");
        };
        check("noeviction", 100, FindingLevel::Ok);
        check("allkeys-lru", 0, FindingLevel::Warning);
        check("volatile-lru", 100, FindingLevel::Problem);
        let sqlite = JournalConfig::Sqlite(PathBuf::from("j"));
        let check = |appends: bool, sync: &str, journal: &JournalConfig, level: FindingLevel| {
            let node = NodeSurvey {
                appends: Some(appends),
                append_sync: Some(sync.to_string()),
                ..NodeSurvey::default()
            };
            assert_eq!(persistence(&node, journal).level, level, "{appends} {sync}");
        };
        check(true, "everysec", &sqlite, FindingLevel::Ok);
        check(
            true,
            "everysec",
            &JournalConfig::None,
            FindingLevel::Warning,
        );
        check(true, "always", &JournalConfig::None, FindingLevel::Ok);
        check(false, "everysec", &sqlite, FindingLevel::Warning);
        check(false, "always", &JournalConfig::None, FindingLevel::Warning);
    }

    #[test]
    fn servers_that_differ_are_named() {
        let node = |address: &str, policy: &str| NodeSurvey {
            address: address.to_string(),
            eviction: Some(policy.to_string()),
            memory_limit: Some(100),
            ..NodeSurvey::default()
        };
        let same = of_each(
            &[node("a:1", "noeviction"), node("b:1", "noeviction")],
            eviction,
        );
        assert_eq!(
            same,
            [Finding::ok(
                "redis memory",
                "Redis evicts nothing when it is full"
            )]
        );
        let nodes = [
            node("a:1", "noeviction"),
            node("b:1", "allkeys-lru"),
            node("c:1", "noeviction"),
        ];
        let found = of_each(&nodes, eviction);
        assert_eq!(found[0].level, FindingLevel::Ok);
        assert!(found[0].text.starts_with("a:1, c:1: Redis evicts nothing"));
        assert_eq!(found[1].level, FindingLevel::Problem);
        assert!(
            found[1]
                .text
                .starts_with("b:1: maxmemory-policy is allkeys-lru")
        );
    }
}
