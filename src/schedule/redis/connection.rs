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
//! server or the wrong one is sent again ([`resend`]). A server that redirects or refuses a call has not executed it.

mod resend;

use super::connector::{CALL_MARGIN, PartitionServer, timed_out, unavailable};
use super::reply::ScriptReply;
use super::script::Script;
use super::servers::{LocatedServer, Servers};
use crate::domain::redis_url::RedisHost;
use crate::schedule::ScheduleError;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value,
    make_extension_error,
};
use resend::ServerSearch;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::OnceCell;

/// How long one command may take before it counts as failed. A command that was lost in a network outage
/// is still waited for this long after the network works again, and work should continue within two seconds.
/// If a command was only slow, its caller makes the call again, which does no harm.
pub const COMMAND_TIMEOUT: Duration = Duration::from_millis(1_200);
/// How long a command about many entries may take.
pub const BULK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
impl PartitionServer {
    /// A connection that is opened at its first use, and opened again after a failure. Each of its commands
    /// may take `timeout`.
    pub fn connect(&self, timeout: Duration) -> Connection {
        Connection::to(self.clone(), timeout, 0)
    }

    /// A connection as of [`PartitionServer::connect`], for changes that may not be lost in a fail-over: if the settings ask
    /// for it, each fails unless enough replicas have it. It may have been made nevertheless, as after a lost reply.
    pub fn connect_for_changes(&self) -> Connection {
        Connection::to(self.clone(), COMMAND_TIMEOUT, self.replicas())
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

impl Connection {
    /// A connection to the server of a partition, each of whose commands may take `timeout`, and counts only when so many
    /// replicas have its change.
    fn to(server: PartitionServer, timeout: Duration, replicas: u16) -> Self {
        Self {
            server,
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(CONNECT_TIMEOUT))
                .set_response_timeout(Some(timeout)),
            current: Arc::default(),
            search: Arc::default(),
            timeout: timeout + CALL_MARGIN,
            replicas,
        }
    }

    fn servers(&self) -> &Servers {
        self.server.servers()
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
        if self.servers().is_at(self.server.slot(), &opened.host) {
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
        } = self.servers().locate(self.server.slot()).await?;
        let opening = client.get_multiplexed_async_connection_with_config(&self.config);
        let mut connection = opening.await?;
        if self.servers().needs_role() {
            check_role(&mut connection, &host).await?;
        }
        self.server.run().check(&mut connection).await?;
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
