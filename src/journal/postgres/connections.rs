//! The connections to the server, and what happens when they break.
//!
//! A call takes a connection for itself, and only a call that was carried to its end puts it back.
//! One that failed, ran into a limit or was dropped by its caller closes it, so no connection here is
//! ever inside a transaction or in the middle of an answer. There is no test before use, which would
//! cost every call a round trip: a call that finds its connection broken closes the idle ones, which
//! broke with it, and is made once more over a new one.
//!
//! Every wait has a limit. When one is over, the call counts as failed; the server may still execute
//! it, until its own limits for statements and locks. So a call without a reply may have been executed or
//! not. It can be repeated, with the same result in the end: that is what the contract of a journal says of
//! registering and recording.

use super::error::PostgresFailure;
use super::session::{LONGEST_CONNECTING, connect};
use crate::journal::JournalError;
use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection as _, Executor as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Maximum number of connections that write at a time: a group of registrations, a group of recordings, and what
/// is done by hand.
const WRITERS: usize = 4;
/// Maximum number of connections that read at a time. Apart from those that write, so that slow lists keep no delivery from being
/// recorded.
const READERS: usize = 4;
/// How long a call waits for others that are before it.
const LONGEST_WAIT: Duration = Duration::from_secs(4);
/// How long a call that writes may take, and one that reads.
const LONGEST_WRITE: Duration = Duration::from_secs(4);
const LONGEST_READ: Duration = Duration::from_secs(8);
/// A connection that was idle for longer is not used again: firewalls forget them without a word.
const LONGEST_IDLE: Duration = Duration::from_secs(60);
/// How old the server's plans of statements may grow: they follow from how large the tables were.
const LONGEST_PLANNED: Duration = Duration::from_secs(2);
/// How often a call is made at most, because of conflicts.
const MOST_TRIES: usize = 5;

/// What a call does over its connection. It may be made more than once, unless it says by
/// [`PostgresFailure::in_doubt`] that it must not.
#[async_trait]
pub(super) trait PostgresCall: Sync {
    /// What the call answers.
    type Reply: Send;

    /// Makes the call.
    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure>;
}

/// The connections of one journal.
pub(super) struct Connections {
    options: PgConnectOptions,
    idle: Mutex<IdleConnections>,
    writers: Semaphore,
    readers: Semaphore,
}

/// The connections that no call uses, and what was found out about connections.
#[derive(Default)]
struct IdleConnections {
    connections: Vec<PooledConnection>,
    /// How often connections were found broken: those that were opened before are not kept.
    breaks: u64,
    last_write_failed: bool,
    closed: bool,
}

/// A connection with the ages that decide whether it is used as it is.
struct PooledConnection {
    connection: PgConnection,
    /// Since when the server keeps the plans of its statements.
    planned: Instant,
    idle_since: Instant,
}

impl Connections {
    pub(super) fn new(options: PgConnectOptions) -> Self {
        Self {
            options,
            idle: Mutex::default(),
            writers: Semaphore::new(WRITERS),
            readers: Semaphore::new(READERS),
        }
    }

    /// How the server is reached.
    pub(super) fn options(&self) -> &PgConnectOptions {
        &self.options
    }

    /// Makes a call that writes.
    pub(super) async fn write<C: PostgresCall>(&self, call: &C) -> Result<C::Reply, JournalError> {
        let reply = self.run(call, &self.writers, LONGEST_WRITE).await;
        self.lock().last_write_failed = reply.is_err();
        reply
    }

    /// Makes a call that only reads.
    pub(super) async fn read<C: PostgresCall>(&self, call: &C) -> Result<C::Reply, JournalError> {
        self.run(call, &self.readers, LONGEST_READ).await
    }

    /// Whether the last write failed.
    pub(super) fn last_write_failed(&self) -> bool {
        self.lock().last_write_failed
    }

    /// Makes a call that only reads, within a limit of its own.
    pub(super) async fn read_within<C: PostgresCall>(
        &self,
        call: &C,
        limit: Duration,
    ) -> Result<C::Reply, JournalError> {
        self.run(call, &self.readers, limit).await
    }

    /// Waits for the calls in flight and closes all connections.
    pub(super) async fn close(&self) {
        self.lock().closed = true;
        let all = async {
            let writers = u32::try_from(WRITERS).unwrap_or(u32::MAX);
            let readers = u32::try_from(READERS).unwrap_or(u32::MAX);
            let held = self.writers.acquire_many(writers).await;
            let held = (held, self.readers.acquire_many(readers).await);
            drop(held);
        };
        // Whoever is still busy afterwards finds its connection closed by dropping it.
        let _ = timeout(LONGEST_WRITE, all).await;
        let idle = std::mem::take(&mut self.lock().connections);
        for pooled in idle {
            let _ = timeout(LONGEST_CONNECTING, pooled.connection.close()).await;
        }
    }

    async fn run<C: PostgresCall>(
        &self,
        call: &C,
        permits: &Semaphore,
        limit: Duration,
    ) -> Result<C::Reply, JournalError> {
        let _permit = self.permit(permits).await?;
        let mut lost_before = false;
        let mut tries = 1;
        loop {
            let (mut pooled, breaks, is_new) = self.take_connection().await?;
            let failure = match timeout(limit, pooled.run(call)).await {
                Ok(Ok(reply)) => {
                    self.put_back(pooled, breaks);
                    return Ok(reply);
                }
                Ok(Err(failure)) => failure,
                Err(_) => {
                    // A connection that does not answer is as good as broken, and so may be others.
                    self.mark_broken(breaks);
                    return Err(unavailable(format!("no answer within {limit:?}")));
                }
            };
            match failure {
                PostgresFailure::Lost(cause) => {
                    self.mark_broken(breaks);
                    if lost_before || is_new {
                        return Err(unavailable(cause));
                    }
                    lost_before = true;
                }
                PostgresFailure::Conflict(cause) => {
                    if tries == MOST_TRIES {
                        return Err(unavailable(cause));
                    }
                }
                PostgresFailure::Final(error) => return Err(error),
            }
            tries += 1;
        }
    }

    async fn permit<'permits>(
        &self,
        permits: &'permits Semaphore,
    ) -> Result<SemaphorePermit<'permits>, JournalError> {
        match timeout(LONGEST_WAIT, permits.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(closed()),
            Err(_) => Err(unavailable("earlier calls take too long".to_string())),
        }
    }

    /// An idle connection, else a new one; whether it is new.
    async fn take_connection(&self) -> Result<(PooledConnection, u64, bool), JournalError> {
        let (taken, breaks) = {
            let mut idle = self.lock();
            if idle.closed {
                return Err(closed());
            }
            idle.connections
                .retain(|pooled| pooled.idle_since.elapsed() < LONGEST_IDLE);
            (idle.connections.pop(), idle.breaks)
        };
        match taken {
            Some(pooled) => Ok((pooled, breaks, false)),
            None => {
                let pooled = PooledConnection {
                    connection: connect(&self.options).await?,
                    planned: Instant::now(),
                    idle_since: Instant::now(),
                };
                Ok((pooled, breaks, true))
            }
        }
    }

    fn put_back(&self, mut pooled: PooledConnection, breaks: u64) {
        pooled.idle_since = Instant::now();
        let mut idle = self.lock();
        if !idle.closed && idle.breaks == breaks {
            idle.connections.push(pooled);
        }
    }

    /// Forgets the idle connections; and of those in use, all that were taken until now.
    fn mark_broken(&self, breaks: u64) {
        let mut idle = self.lock();
        if idle.breaks == breaks {
            idle.breaks += 1;
            idle.connections.clear();
            idle.last_write_failed = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, IdleConnections> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PooledConnection {
    async fn run<C: PostgresCall>(&mut self, call: &C) -> Result<C::Reply, PostgresFailure> {
        if self.planned.elapsed() > LONGEST_PLANNED {
            self.connection.execute("DISCARD PLANS").await?;
            self.planned = Instant::now();
        }
        call.run(&mut self.connection).await
    }
}

fn unavailable(cause: String) -> JournalError {
    JournalError::Unavailable(cause)
}

fn closed() -> JournalError {
    unavailable("it is closed".to_string())
}
