//! Connections to one Redis or Valkey, and running scripts over them.
//!
//! Every call has a time limit. If the connection of a call breaks, the call is sent once more over a new
//! connection. Otherwise the first call after an outage would fail on every connection. Redis may execute both
//! calls, but every script can be repeated. A call that timed out is not sent again, because its caller has
//! waited long enough; the next call then uses a new connection, because the old one may be dead. The next call
//! also uses a new connection if the server answers that it is read-only, because the host name may lead to
//! another server by now.

use super::recovery::server_run::ServerRun;
use super::reply::ScriptReply;
use super::script::Script;
use crate::schedule::ScheduleError;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    Arg, AsyncConnectionConfig, Client, Cmd, ErrorKind, IntoConnectionInfo, RedisError,
    ServerErrorKind, Value,
};
use std::sync::{Arc, PoisonError, RwLock};
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
/// How much longer a call may take than its command. This time is for connecting: before the command, and again
/// if the connection breaks.
const CALL_MARGIN: Duration = Duration::from_secs(2);
/// The socket fails if sent data is not acknowledged for this time. Otherwise it would not be noticed that
/// the peer is unreachable.
const USER_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens connections to one server.
#[derive(Clone)]
pub struct Connector {
    client: Client,
    run: Arc<ServerRun>,
}

impl Connector {
    /// Prepares connections to a URL; does not connect yet.
    pub fn new(url: &str, run: Arc<ServerRun>) -> Result<Self, ScheduleError> {
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(10))
            .with_interval(USER_TIMEOUT);
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(keepalive);
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(USER_TIMEOUT);
        let info = url
            .into_connection_info()
            .map_err(unavailable)?
            .set_tcp_settings(tcp);
        Ok(Self {
            client: Client::open(info).map_err(unavailable)?,
            run,
        })
    }

    /// The number of the database that the URL names. All databases of a server share the channels, so the
    /// number is part of a channel's name.
    pub fn database(&self) -> i64 {
        self.client.get_connection_info().redis_settings().db()
    }

    /// A connection that is opened at its first use, and opened again after a failure. Each of its commands
    /// may take `timeout`.
    pub fn connect(&self, timeout: Duration) -> Connection {
        Connection {
            connector: self.clone(),
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(CONNECT_TIMEOUT))
                .set_response_timeout(Some(timeout)),
            current: Arc::default(),
            timeout: timeout + CALL_MARGIN,
        }
    }

    /// A connection for subscriptions.
    pub async fn listen(&self) -> Result<PubSub, ScheduleError> {
        match tokio::time::timeout(CALL_MARGIN, self.client.get_async_pubsub()).await {
            Ok(connected) => connected.map_err(unavailable),
            Err(_) => Err(timed_out()),
        }
    }
}

/// One multiplexed connection, opened at its first use and again after a failure. Clones share it.
#[derive(Clone)]
pub struct Connection {
    connector: Connector,
    config: AsyncConnectionConfig,
    current: Arc<RwLock<Arc<Opened>>>,
    timeout: Duration,
}

/// A connection that is open, or will be opened.
type Opened = OnceCell<MultiplexedConnection>;

impl Connection {
    fn current(&self) -> Arc<Opened> {
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
    async fn open(&self) -> Result<MultiplexedConnection, RedisError> {
        let Connector { client, run } = &self.connector;
        let opening = client.get_multiplexed_async_connection_with_config(&self.config);
        let mut connection = opening.await?;
        run.check(&mut connection).await?;
        Ok(connection)
    }

    /// Connects, unless the connection is open.
    pub async fn ready(&self) -> Result<(), ScheduleError> {
        self.run(redis::cmd("PING").arg("")).await.map(drop)
    }

    /// Runs one command.
    pub async fn run(&self, command: &Cmd) -> Result<Value, ScheduleError> {
        self.send(command, None).await?.map_err(unavailable)
    }

    /// Runs the script that `command` calls. If the server does not know the script, loads it first.
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
                self.run(&script.load()).await?;
                self.send(command, zero_on_repeat).await?
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
            match (self.send_once(command).await, zero_on_repeat) {
                (Err(error), None) if !error.is_timeout() => self.send_once(command).await,
                (Err(error), Some(place)) if !error.is_timeout() => {
                    self.send_once(&zeroed(command, place)).await
                }
                (sent, _) => sent,
            }
        };
        let Ok(sent) = tokio::time::timeout(self.timeout, sending).await else {
            self.replace(&self.current());
            return Err(timed_out());
        };
        // The client returns an error reply of the server as a value.
        let sent = sent.and_then(Value::extract_error);
        if let Err(error) = &sent
            && is_read_only(error)
        {
            self.replace(&self.current());
        }
        Ok(sent)
    }

    /// Sends a command. Every error here comes from the connection: it could not be opened, or it gave no
    /// complete answer. The library considers only some of these connections broken, and would return the same
    /// error for ever over the others. So the connection is replaced.
    async fn send_once(&self, command: &Cmd) -> Result<Value, RedisError> {
        let used = self.current();
        let sent = match used.get_or_try_init(|| self.open()).await {
            Ok(connection) => connection.clone().send_packed_command(command).await,
            Err(error) => Err(error),
        };
        if sent.is_err() {
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
