//! One Redis server among several, at ports that stay its own while it is dead.

use super::ports::HeldPort;
use super::redis::RedisServer;
use super::redis_tls::RedisAuthority;
use super::within;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, RedisResult};
use std::future::Future;
use std::time::Duration;

/// Ports that are tried for a node. Each was free just before.
const TRIES: usize = 10;
/// How long a node may take to answer that may be dead or hung.
const ANSWER: Duration = Duration::from_secs(2);
/// How often something is asked for that is awaited.
const AGAIN: Duration = Duration::from_millis(20);

/// A server and its ports.
pub struct Node {
    /// The server.
    pub server: RedisServer,
    /// Its port for clients, and that of the cluster bus if it has one.
    ports: Vec<HeldPort>,
    /// If its port for clients is one for TLS: another one, for the tests alone.
    _plain: Option<HeldPort>,
}

impl Node {
    /// Starts one that holds data alone or for Sentinel. With an authority, its clients must use TLS.
    pub fn start(arguments: &[String], tls: Option<&RedisAuthority>) -> Self {
        Self::start_at(|| vec![HeldPort::any()], arguments, tls)
    }

    /// Starts one of a cluster.
    pub fn start_in_cluster(arguments: &[String], tls: Option<&RedisAuthority>) -> Self {
        Self::start_at(|| HeldPort::pair().into(), arguments, tls)
    }

    fn start_at(
        ports: impl Fn() -> Vec<HeldPort>,
        arguments: &[String],
        tls: Option<&RedisAuthority>,
    ) -> Self {
        for _ in 0..TRIES {
            let ports = ports();
            let plain = tls.map(|_| HeldPort::any());
            let for_tls = tls.map(|tls| tls.server_arguments(ports[0].number));
            let arguments = [arguments, &for_tls.unwrap_or_default()].concat();
            let at = plain.as_ref().unwrap_or(&ports[0]).number;
            if let Some(server) = RedisServer::start_at(at, &arguments) {
                return Self {
                    server,
                    ports,
                    _plain: plain,
                };
            }
        }
        panic!("no Redis server came up at {TRIES} free ports");
    }

    /// Its port for clients.
    pub fn port(&self) -> u16 {
        self.ports[0].number
    }

    /// Runs a command that must succeed.
    pub async fn run<Reply: FromRedisValue>(&self, command: &Cmd) -> Reply {
        let answered = ask(self.server.port(), command).await;
        answered.unwrap_or_else(|error| panic!("{:?}: {error}", words(command)))
    }

    /// Runs a command, if it is there.
    pub async fn ask<Reply: FromRedisValue>(&self, command: &Cmd) -> Option<Reply> {
        if !self.server.is_there() {
            return None;
        }
        ask(self.server.port(), command).await.ok()
    }

    /// A field of what it says about its replication.
    pub async fn replication(&self, field: &str) -> Option<String> {
        let info: String = self.ask(redis::cmd("INFO").arg("replication")).await?;
        line_of(&info, field)
    }

    /// How many bytes of writes there have been since the data began, if it is a primary.
    pub async fn written(&self) -> Option<u64> {
        let offset = self.replication("master_repl_offset").await?;
        offset.parse().ok()
    }

    /// Whether it is a replica that has so many bytes of its primary's writes. That it is connected is not enough: the
    /// primary begins to send what is written after the first copy only once the replica has said that it has the copy.
    pub async fn has_copied(&self, written: u64) -> bool {
        if self.replication("master_link_status").await.as_deref() != Some("up") {
            return false;
        }
        let offset = self.replication("slave_repl_offset").await;
        let offset: Option<u64> = offset.and_then(|offset| offset.parse().ok());
        offset.is_some_and(|offset| offset >= written)
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.server.kill();
    }
}

/// Runs a command at a port of this machine. Each time over a new connection, since who answers there may have
/// changed.
pub async fn ask<Reply: FromRedisValue>(port: u16, command: &Cmd) -> RedisResult<Reply> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER))
        .set_response_timeout(Some(ANSWER));
    let mut connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    command.query_async(&mut connection).await
}

/// The value in a line `field:value` of a text of several lines.
pub fn line_of(text: &str, field: &str) -> Option<String> {
    let values = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = values.filter(|(name, _)| *name == field);
    values.next().map(|(_, value)| value.trim().to_string())
}

/// Asks again and again until there is an answer.
pub async fn until<Answer, Asked>(what: &str, asked: impl Fn() -> Asked) -> Answer
where
    Asked: Future<Output = Option<Answer>>,
{
    let asking = async {
        loop {
            if let Some(answer) = asked().await {
                return answer;
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    within(what, asking).await
}

/// A command and its arguments, for messages.
fn words(command: &Cmd) -> String {
    String::from_utf8_lossy(&command.get_packed_command()).replace("\r\n", " ")
}

/// The arguments of a server that has the user of the documents, with these rights; none if there are none.
pub fn user_with(rights: &[String]) -> Vec<String> {
    if rights.is_empty() {
        return Vec::new();
    }
    let user = ["--user", "ringback"].map(String::from);
    [user.to_vec(), rights.to_vec()].concat()
}

/// Asks what was refused to users.
pub fn acl_log() -> Cmd {
    redis::cmd("ACL").arg("LOG").to_owned()
}
