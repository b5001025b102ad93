//! What is done about a call that was refused or perhaps lost: where it is sent again, and for how long.

use super::Connection;
use redis::{Arg, Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// For how long calls that find no server or the wrong one are sent again, from the first such call on. Later, each fails at
/// once: a caller must not wait for a server that stays away.
const SEARCH: Duration = Duration::from_secs(2);
/// After this time without such a call, the next one begins a new search.
const SEARCH_OVER: Duration = Duration::from_secs(5);
/// First and longest wait before a call is sent again.
const SEARCH_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_SEARCH_PAUSE: Duration = Duration::from_millis(200);

/// When calls found no server, or the wrong one: first and last.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerSearch {
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
    /// Sends a command again that was refused or perhaps lost, if that can help.
    pub(super) async fn send_again(
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
        let client = cluster.located_at(address, &opened.host).await?.client;
        let connecting = client.get_multiplexed_async_connection_with_config(&self.config);
        let mut connection = connecting.await?;
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ASKING").add_command(command.clone());
        let replies = connection.send_packed_commands(&pipeline, 0, 2).await?;
        let reply = replies.into_iter().nth(1);
        reply.ok_or_else(|| (ErrorKind::Parse, "no reply after ASKING").into())
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
