//! Connections to the Redis or Valkey servers of the schedule, and running scripts over them.
//!
//! Every call has a time limit. If the connection of a call breaks, the call is sent once more over a new
//! connection. Otherwise the first call after an outage would fail on every connection. Redis may execute both
//! calls, but every script can be repeated. A call that timed out is not sent again, because its caller has
//! waited long enough; the next call then uses a new connection, because the old one may be dead. The next call
//! also uses a new connection if the server answers that it is read-only, because the host name may lead to
//! another server by now.
//!
//! With Sentinel and in a cluster, the server of a partition may change ([`super::servers`]). There, a call that finds no
//! server or the wrong one is sent again for [`SEARCH`]. A server that redirects or refuses a call has not executed it.

use super::recovery::server_run::ServerRun;
use super::reply::ScriptReply;
use super::script::Script;
use super::servers::{LocatedServer, Servers, database_of, slot_of_tag};
use crate::domain::redis_url::{RedisHost, RedisUrl};
use crate::schedule::ScheduleError;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{
    Arg, AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value,
    make_extension_error,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// How long one command may take before it counts as failed. A command that was lost in a network outage
/// is still waited for this long after the network works again, and work should continue within two seconds.
/// If a command was only slow, its caller makes the call again, which does no harm.
pub const COMMAND_TIMEOUT: Duration = Duration::from_millis(1_200);
/// How long a command about many entries may take.
pub const BULK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How much longer a call may take than its command. This time is for connecting: before the command, and again
/// if the connection breaks.
const CALL_MARGIN: Duration = Duration::from_secs(2);
/// For how long calls that find no server or the wrong one are sent again, from the first such call on. Later, each fails at
/// once: a caller must not wait for a server that stays away.
const SEARCH: Duration = Duration::from_secs(2);
/// After this time without such a call, the next one begins a new search.
const SEARCH_OVER: Duration = Duration::from_secs(5);
/// First and longest wait before a call is sent again.
const SEARCH_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_SEARCH_PAUSE: Duration = Duration::from_millis(200);

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
    pub fn new(url: &str, replicas: u16) -> Result<Self, ScheduleError> {
        let url = RedisUrl::parse(url).map_err(ScheduleError::Unavailable)?;
        Ok(Self {
            servers: Arc::new(Servers::open(&url).map_err(unavailable)?),
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

    /// The run of the server.
    pub fn run(&self) -> &ServerRun {
        &self.run
    }

    /// A connection that is opened at its first use, and opened again after a failure. Each of its commands
    /// may take `timeout`.
    pub fn connect(&self, timeout: Duration) -> Connection {
        Connection {
            server: self.clone(),
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(CONNECT_TIMEOUT))
                .set_response_timeout(Some(timeout)),
            current: Arc::default(),
            search: Arc::default(),
            timeout: timeout + CALL_MARGIN,
            replicas: 0,
        }
    }

    /// A connection as of [`PartitionServer::connect`], for changes that may not be lost in a fail-over: if the settings ask
    /// for it, each fails unless enough replicas have it. It may have been made nevertheless, as after a lost reply.
    pub fn connect_for_changes(&self) -> Connection {
        Connection {
            replicas: self.connector.replicas,
            ..self.connect(COMMAND_TIMEOUT)
        }
    }
}

/// One multiplexed connection, opened at its first use and again after a failure. Clones share it.
#[derive(Clone)]
pub struct Connection {
    server: PartitionServer,
    config: AsyncConnectionConfig,
    current: Arc<RwLock<Arc<Opened>>>,
    search: Arc<Mutex<Option<ServerSearch>>>,
    timeout: Duration,
    /// How many replicas must have a change.
    replicas: u16,
}

/// A connection that is open, or will be opened.
type Opened = OnceCell<OpenConnection>;

/// An open connection.
struct OpenConnection {
    connection: MultiplexedConnection,
    host: RedisHost,
    /// The [`Servers::version`] for which the host is right.
    version: AtomicUsize,
}

/// How long a change waits for replicas, in milliseconds: less than its command may take.
const REPLICAS_MS: u64 = 800;
/// The code of the error if too few replicas have a change. Redis has the same for `min-replicas-to-write`.
const TOO_FEW_REPLICAS: &str = "NOREPLICAS";

/// When calls found no server, or the wrong one: first and last.
#[derive(Debug, Clone, Copy)]
struct ServerSearch {
    since: Instant,
    last: Instant,
}

/// What is done about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterError {
    /// Nothing: the call has failed.
    Fail,
    /// The connection could not be opened, or broke: the call may have been executed.
    Reconnect,
    /// The slot is at another node: the call is sent there.
    Follow,
    /// The slot is on its way to another node: the call is sent there, and the next one not.
    Ask,
    /// The server may take the call later, or another one does.
    Wait,
}

impl Connection {
    fn servers(&self) -> &Servers {
        &self.server.connector.servers
    }

    /// The connection that the next command uses: a new one if the partition is at another server by now.
    fn current(&self) -> Arc<Opened> {
        let current = self.held();
        let version = self.servers().version();
        let Some(opened) = current.get() else {
            return current;
        };
        if opened.version.load(Ordering::Relaxed) == version {
            return current;
        }
        if self.servers().is_at(self.server.slot, &opened.host) {
            opened.version.store(version, Ordering::Relaxed);
            return current;
        }
        self.replace(&current);
        self.held()
    }

    fn held(&self) -> Arc<Opened> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    /// The next command opens a new connection, unless another call has opened one. Calls in flight
    /// continue over the old connection.
    fn replace(&self, used: &Arc<Opened>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&current, used) {
            *current = Arc::default();
        }
    }

    /// Connects. Before anything else is sent, checks whether this is another server, or the same server after
    /// a restart: that must be known before its data is used.
    async fn open(&self) -> Result<OpenConnection, RedisError> {
        let LocatedServer {
            client,
            host,
            version,
        } = self.servers().locate(self.server.slot).await?;
        let opening = client.get_multiplexed_async_connection_with_config(&self.config);
        let mut connection = opening.await?;
        if self.servers().needs_role() {
            check_role(&mut connection, &host).await?;
        }
        self.server.run.check(&mut connection).await?;
        Ok(OpenConnection {
            connection,
            host,
            version: AtomicUsize::new(version),
        })
    }

    /// The server of the open connection.
    pub fn host(&self) -> Option<RedisHost> {
        self.held().get().map(|opened| opened.host.clone())
    }

    /// Connects, unless the connection is open.
    pub async fn ready(&self) -> Result<(), ScheduleError> {
        self.run(redis::cmd("PING").arg("")).await.map(drop)
    }

    /// Runs one command.
    pub async fn run(&self, command: &Cmd) -> Result<Value, ScheduleError> {
        self.send(command, None).await?.map_err(unavailable)
    }

    /// Runs the script that `command` calls. If the server does not know the script, sends it first or along.
    pub async fn run_script(
        &self,
        script: &Script,
        command: &Cmd,
    ) -> Result<ScriptReply, ScheduleError> {
        ScriptReply::of(self.eval(script, command, None).await?)
    }

    /// Runs a script as [`Connection::run_script`]. If the command is sent a second time, its argument at
    /// this index is 0 then.
    pub async fn run_script_marking_repeat(
        &self,
        script: &Script,
        command: &Cmd,
        place: usize,
    ) -> Result<ScriptReply, ScheduleError> {
        ScriptReply::of(self.eval(script, command, Some(place)).await?)
    }

    async fn eval(
        &self,
        script: &Script,
        command: &Cmd,
        zero_on_repeat: Option<usize>,
    ) -> Result<Value, ScheduleError> {
        let result = match self.send(command, zero_on_repeat).await? {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                if self.servers().cluster().is_some() {
                    // A command that only loads the script could reach another node than the call.
                    let command = script.with_text(command);
                    Box::pin(self.send(&command, zero_on_repeat)).await?
                } else {
                    self.run(&script.load()).await?;
                    Box::pin(self.send(command, zero_on_repeat)).await?
                }
            }
            result => result,
        };
        result.map_err(unavailable)
    }

    async fn send(
        &self,
        command: &Cmd,
        zero_on_repeat: Option<usize>,
    ) -> Result<Result<Value, RedisError>, ScheduleError> {
        let sending = async {
            match self.send_once(command).await {
                Ok(value) if !matches!(value, Value::ServerError(_)) => Ok(value),
                // Rare, and its future is large.
                sent => Box::pin(self.send_again(command, zero_on_repeat, sent)).await,
            }
        };
        let Ok(sent) = tokio::time::timeout(self.timeout, sending).await else {
            self.replace(&self.held());
            self.servers().suspect();
            return Err(timed_out());
        };
        Ok(sent)
    }

    /// Sends a command again that was refused or perhaps lost, if that can help.
    async fn send_again(
        &self,
        command: &Cmd,
        zero_on_repeat: Option<usize>,
        mut sent: Result<Value, RedisError>,
    ) -> Result<Value, RedisError> {
        let (mut may_be_executed, mut is_first, mut pause) = (false, true, SEARCH_PAUSE);
        loop {
            // The client returns an error reply of the server as a value.
            let error = match sent.and_then(Value::extract_error) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let next = self.react_to(&error);
            may_be_executed |= next == AfterError::Reconnect;
            match next {
                AfterError::Fail => return Err(error),
                AfterError::Reconnect | AfterError::Follow | AfterError::Ask if is_first => {}
                AfterError::Reconnect | AfterError::Follow | AfterError::Ask | AfterError::Wait => {
                    if !self.servers().may_move() || !self.search_on() {
                        return Err(error);
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_SEARCH_PAUSE);
                }
            }
            is_first = false;
            let zeroed = match zero_on_repeat {
                Some(place) if may_be_executed => Some(zeroed(command, place)),
                Some(_) | None => None,
            };
            let again = zeroed.as_ref().unwrap_or(command);
            sent = match next {
                AfterError::Ask => self.send_asking(again, &error).await,
                AfterError::Fail
                | AfterError::Reconnect
                | AfterError::Follow
                | AfterError::Wait => self.send_once(again).await,
            };
        }
    }

    /// What is done about an error. Notes what it says about the servers.
    fn react_to(&self, error: &RedisError) -> AfterError {
        let servers = self.servers();
        if is_read_only(error) {
            self.replace(&self.held());
            servers.suspect();
            return match servers.may_move() {
                true => AfterError::Wait,
                false => AfterError::Fail,
            };
        }
        match (error.kind(), servers.cluster()) {
            (ErrorKind::Server(ServerErrorKind::Moved), Some(cluster)) => {
                let held = self.held();
                if let (Some(opened), Some((address, slot))) = (held.get(), error.redirect_node()) {
                    cluster.moved(slot, address, &opened.host);
                }
                self.replace(&held);
                AfterError::Follow
            }
            (ErrorKind::Server(ServerErrorKind::Ask), Some(_)) => AfterError::Ask,
            (ErrorKind::Server(ServerErrorKind::TryAgain), Some(_)) => AfterError::Wait,
            (
                ErrorKind::Server(
                    ServerErrorKind::ClusterDown
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::BusyLoading,
                ),
                _,
            ) if servers.may_move() => {
                self.replace(&self.held());
                servers.suspect();
                AfterError::Wait
            }
            (ErrorKind::Server(_) | ErrorKind::Extension, _) => AfterError::Fail,
            _ => {
                servers.suspect();
                match error.is_timeout() {
                    true => AfterError::Fail,
                    false => AfterError::Reconnect,
                }
            }
        }
    }

    /// Notes that a call found no server, or the wrong one. Whether such calls are still sent again.
    fn search_on(&self) -> bool {
        let mut search = self.search.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let since = match *search {
            Some(search) if now.duration_since(search.last) < SEARCH_OVER => search.since,
            Some(_) | None => now,
        };
        *search = Some(ServerSearch { since, last: now });
        now.duration_since(since) < SEARCH
    }

    /// Sends a command to the node that the error names, which takes it although the slot is not there yet.
    async fn send_asking(&self, command: &Cmd, error: &RedisError) -> Result<Value, RedisError> {
        let held = self.held();
        let (Some(cluster), Some((address, _)), Some(opened)) =
            (self.servers().cluster(), error.redirect_node(), held.get())
        else {
            return Err(error.clone());
        };
        let client = cluster.located_at(address, &opened.host)?.client;
        let connecting = client.get_multiplexed_async_connection_with_config(&self.config);
        let mut connection = connecting.await?;
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ASKING").add_command(command.clone());
        let replies = connection.send_packed_commands(&pipeline, 0, 2).await?;
        let reply = replies.into_iter().nth(1);
        reply.ok_or_else(|| (ErrorKind::Parse, "no reply after ASKING").into())
    }

    /// Sends a change and waits until enough replicas have it.
    async fn send_to_replicas(
        &self,
        connection: &MultiplexedConnection,
        command: &Cmd,
    ) -> Result<Value, RedisError> {
        let mut pipeline = Pipeline::new();
        pipeline.add_command(command.clone());
        pipeline.cmd("WAIT").arg(self.replicas).arg(REPLICAS_MS);
        let mut connection = connection.clone();
        let replies = connection.send_packed_commands(&pipeline, 0, 2).await?;
        let mut replies = replies.into_iter();
        let (Some(reply), Some(waited)) = (replies.next(), replies.next()) else {
            return Err((ErrorKind::Parse, "no reply to WAIT").into());
        };
        if matches!(reply, Value::ServerError(_)) {
            return Ok(reply);
        }
        match waited.extract_error()? {
            Value::Int(many) if many >= i64::from(self.replicas) => Ok(reply),
            Value::Int(many) => Err(make_extension_error(
                TOO_FEW_REPLICAS.to_string(),
                Some(format!(
                    "{many} replicas have the change in time, and --redis-wait asks for {}",
                    self.replicas
                )),
            )),
            _ => Err((ErrorKind::Parse, "the reply to WAIT is no number").into()),
        }
    }

    /// Sends a command. Every error here comes from the connection: it could not be opened, or it gave no
    /// complete answer. The library considers only some of these connections broken, and would return the same
    /// error for ever over the others. So the connection is replaced.
    async fn send_once(&self, command: &Cmd) -> Result<Value, RedisError> {
        let used = self.current();
        // Connecting is rare, and its future is large.
        let sent = match used.get_or_try_init(|| Box::pin(self.open())).await {
            Ok(opened) if self.replicas > 0 => {
                Box::pin(self.send_to_replicas(&opened.connection, command)).await
            }
            Ok(opened) => opened.connection.clone().send_packed_command(command).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &sent
            && error.code() != Some(TOO_FEW_REPLICAS)
        {
            self.replace(&used);
        }
        sent
    }
}

/// The same command with 0 as its argument at one index.
fn zeroed(command: &Cmd, place: usize) -> Cmd {
    let mut again = Cmd::new();
    for (number, argument) in command.args_iter().enumerate() {
        match argument {
            Arg::Simple(bytes) if number != place => again.arg(bytes),
            _ => again.arg(0),
        };
    }
    again
}

/// Checks that a server is a primary. Sentinel may name one that is a replica by now, or not a primary yet.
async fn check_role(
    connection: &mut MultiplexedConnection,
    host: &RedisHost,
) -> Result<(), RedisError> {
    let reply = connection.send_packed_command(&redis::cmd("ROLE")).await?;
    let role = match reply.extract_error()? {
        Value::Array(parts) => parts.into_iter().next(),
        _ => None,
    };
    match role {
        Some(Value::BulkString(role)) if role == b"master" => Ok(()),
        _ => Err(RedisError::from((
            ErrorKind::Client,
            "the server that Sentinel names is not a primary",
            host.to_string(),
        ))),
    }
}

/// Whether the server is read-only. Before version 7, the error of a command within a script is only quoted
/// in the text.
fn is_read_only(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        || error
            .detail()
            .is_some_and(|detail| detail.contains(" -READONLY "))
}

fn timed_out() -> ScheduleError {
    ScheduleError::Unavailable("Redis did not answer in time".to_string())
}

fn unavailable(error: RedisError) -> ScheduleError {
    if error.code() == Some("REBUILDING") {
        return ScheduleError::Rebuilding;
    }
    if error.kind() == ErrorKind::Server(ServerErrorKind::Moved) {
        let hint = "is the server a node of a cluster? Then its URL begins with redis+cluster://";
        return ScheduleError::Unavailable(format!("Redis: {error}; {hint}"));
    }
    ScheduleError::Unavailable(format!("Redis: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_may_not_be_written_to_is_recognised() {
        fn check(reply: &str, expected: bool) {
            let reply = redis::parse_redis_value(reply.as_bytes()).expect("a reply");
            let error = reply.extract_error().expect_err("an error");
            assert_eq!(is_read_only(&error), expected, "{error}");
        }
        check(
            "-READONLY You can't write against a read only replica. script: 12, on @user_script:1.\r\n",
            true,
        );
        // From a script in version 6.2.
        check(
            "-ERR Error running script (call to f_12): @user_script:1: @user_script: 1: -READONLY \
             You can't write against a read only replica.\r\n",
            true,
        );
        check(
            "-ERR Error running script (call to f_12): @user_script:1: @user_script: 1: -OOM command \
             not allowed when used memory > 'maxmemory'.\r\n",
            false,
        );
    }
}
