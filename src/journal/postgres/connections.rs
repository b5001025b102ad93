//! The connections to the server, and what happens when they break.
//!
//! A call takes a connection for itself, and puts it back only if the call succeeds. If the call fails,
//! exceeds its time limit or is dropped by its caller, the connection is closed. So no idle connection is
//! inside a transaction or in the middle of a reply. Connections are not tested before use, since a test
//! would cost every call a round trip. If a call finds its connection broken, all idle connections are
//! closed, because they are probably broken too, and the call is made once more over a new connection.
//!
//! Every wait has a limit. A call that exceeds its limit counts as failed, but the server may still execute
//! it, until the server's own limits for statements and locks. So it is not known whether a call without a
//! reply was executed. Registering and recording can be repeated, with the same result: the contract of a
//! journal says so.

use super::error::PostgresFailure;
use super::session::{LONGEST_CONNECTING, connect};
use crate::journal::JournalError;
use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection as _, Executor as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Maximum number of connections that write at a time: one for a batch of registrations, one for a batch of
/// recordings, the others for changes by hand and maintenance.
const WRITERS: usize = 4;
/// Maximum number of connections that read at a time. Writes have connections of their own, so slow lists
/// do not delay the recording of attempts.
const READERS: usize = 4;
/// Maximum number of connections that read endpoints at a time. Attempts wait for these readings if they come late, so slow
/// lists do not delay them either.
const SETTINGS_READERS: usize = 2;
/// How long a call waits while all connections of its kind are in use.
const LONGEST_WAIT: Duration = Duration::from_secs(4);
/// How long a call that writes may take.
const LONGEST_WRITE: Duration = Duration::from_secs(4);
/// How long a call that only reads may take.
const LONGEST_READ: Duration = Duration::from_secs(8);
/// How long a call that reads endpoints may take. They are few, and others wait for it.
const LONGEST_SETTINGS_READ: Duration = Duration::from_secs(3);
/// A connection that was idle for this long is closed and not used again, because firewalls drop idle
/// connections without notice.
const LONGEST_IDLE: Duration = Duration::from_secs(60);
/// How long the server may use its plans of statements. It chose them by the sizes that the tables had then.
const LONGEST_PLANNED: Duration = Duration::from_secs(2);
/// Maximum number of tries of a call that is in conflict with other sessions.
const MOST_TRIES: usize = 5;

/// A call to the database, over one connection. After a failure it may be made again. A call that must not be
/// repeated marks its failure with [`PostgresFailure::in_doubt`]. One that removes something has [`Tries`].
#[async_trait]
pub(super) trait PostgresCall: Sync {
    /// The reply of the call.
    type Reply: Send;

    /// Makes the call.
    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure>;
}

/// The tries of a call that removes something. The first one may have been committed although its answer was lost. Then the
/// second one finds nothing to remove, and that is no reason to say that nothing was there.
#[derive(Debug, Default)]
pub(super) struct Tries {
    has_begun: AtomicBool,
}

impl Tries {
    /// Begins a try. Returns whether there was one before.
    pub(super) fn begin(&self) -> bool {
        self.has_begun.swap(true, Ordering::Relaxed)
    }
}

/// The connections of one journal.
pub(super) struct Connections {
    options: PgConnectOptions,
    idle: Mutex<IdleConnections>,
    writers: Semaphore,
    readers: Semaphore,
    settings_readers: Semaphore,
}

/// The connections that no call uses, and what is known of all connections.
#[derive(Default)]
struct IdleConnections {
    connections: Vec<PooledConnection>,
    /// How often connections were found broken. A connection that was taken before the last break is not put
    /// back.
    breaks: u64,
    last_write_failed: bool,
    closed: bool,
}

/// A connection, with the instants that decide whether it is used again and keeps its plans.
struct PooledConnection {
    connection: PgConnection,
    /// When the server last discarded the plans of this connection, or the connection was opened.
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
            settings_readers: Semaphore::new(SETTINGS_READERS),
        }
    }

    /// The options with which connections are opened.
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

    /// Makes a call that reads endpoints.
    pub(super) async fn read_settings<C: PostgresCall>(
        &self,
        call: &C,
    ) -> Result<C::Reply, JournalError> {
        self.run(call, &self.settings_readers, LONGEST_SETTINGS_READ)
            .await
    }

    /// Whether the last write failed, or a connection was found broken since then.
    pub(super) fn last_write_failed(&self) -> bool {
        self.lock().last_write_failed
    }

    /// Makes a call that only reads, with a time limit of its own.
    pub(super) async fn read_within<C: PostgresCall>(
        &self,
        call: &C,
        limit: Duration,
    ) -> Result<C::Reply, JournalError> {
        self.run(call, &self.readers, limit).await
    }

    /// Waits for the calls in flight, for at most `LONGEST_WRITE`, then closes all idle connections.
    pub(super) async fn close(&self) {
        self.lock().closed = true;
        let all = async {
            let writers = u32::try_from(WRITERS).unwrap_or(u32::MAX);
            let readers = u32::try_from(READERS).unwrap_or(u32::MAX);
            let held = self.writers.acquire_many(writers).await;
            let held = (held, self.readers.acquire_many(readers).await);
            let settings = u32::try_from(SETTINGS_READERS).unwrap_or(u32::MAX);
            let held = (held, self.settings_readers.acquire_many(settings).await);
            drop(held);
        };
        // After this limit, a call may still be running. Its connection is closed when the call ends, since
        // `closed` is set.
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
                    // A connection that does not answer is treated as broken. Others may be broken too.
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
            Err(_) => Err(unavailable(
                "earlier calls to the journal take too long".to_string(),
            )),
        }
    }

    /// Takes an idle connection, or opens a new one. Also returns the number of breaks so far, and whether
    /// the connection is new.
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

    /// Closes the idle connections. The connections that are in use now will not be put back. Does nothing if
    /// this break was reported before.
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
    unavailable("this server has closed the journal".to_string())
}
