//! Keeps idle connections for the next call to the same origin.
//!
//! The rules in `delivery::reuse` say which connections may be used. This file holds the connections and
//! tells the rules whenever it finds one open or closed. Everything is bounded: the connections of one
//! origin, the connections of all origins, the number of remembered origins, and the time that a connection
//! is kept.

use super::reuse::{IDLE, Reuse, is_too_old};
use super::socket::Meter;
use crate::domain::call_trace::TlsVersion;
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Maximum number of idle connections of one origin.
const MOST_IDLE_PER_ORIGIN: usize = 64;
/// Maximum number of idle connections of all origins.
const MOST_IDLE: usize = 4_096;
/// Maximum number of remembered origins.
const MOST_ORIGINS: usize = 16_384;
/// How often idle connections that are too old are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// An open connection to a receiver. Dropping it closes it.
pub struct ReceiverConnection {
    /// Sends requests over this connection.
    pub sender: SendRequest<Full<Bytes>>,
    /// Counts the bytes that pass over its socket.
    pub meter: Arc<Meter>,
    /// When it was opened.
    pub opened: Instant,
    /// Whether an earlier call used this connection.
    pub kept: bool,
    /// The number of this connection in its pool.
    pub id: u64,
    /// The address of the receiver.
    pub address: Option<SocketAddr>,
    /// The version of TLS that it speaks, if it does.
    pub tls: Option<TlsVersion>,
    /// The error with which the connection ends, if it ends with one.
    pub broke: oneshot::Receiver<hyper::Error>,
}

/// The idle connections. Clones share the same connections.
#[derive(Clone, Default)]
pub struct Pool(Arc<Mutex<PoolState>>);

/// Reports to a pool that a connection has ended.
pub struct ConnectionWatcher {
    pool: Weak<Mutex<PoolState>>,
    origin: Box<str>,
    id: u64,
}

#[derive(Default)]
struct PoolState {
    origins: HashMap<Box<str>, OriginConnections>,
    idle: usize,
    opened: u64,
    sweeping: bool,
    /// When all origins were looked at for the last time.
    swept: Option<Instant>,
}

struct OriginConnections {
    reuse: Reuse,
    /// The connection that was used last is at the back.
    idle: VecDeque<IdleConnection>,
}

struct IdleConnection {
    connection: ReceiverConnection,
    since: Instant,
}

impl Pool {
    /// Takes a kept connection of this origin out of the pool, if the rules allow its use.
    pub fn take(&self, origin: &str, now: Instant) -> Option<ReceiverConnection> {
        let mut guard = self.lock();
        let shared = &mut *guard;
        let known = shared.origins.get_mut(origin)?;
        let before = known.idle.len();
        let taken = known.take(now);
        shared.idle -= before - known.idle.len();
        taken
    }

    /// Puts a connection into the pool, after its answer was read completely.
    pub fn put(&self, origin: &str, mut connection: ReceiverConnection, now: Instant) {
        let mut guard = self.lock();
        let shared = &mut *guard;
        let room = shared.idle < MOST_IDLE;
        let Some(known) = shared.known(origin, now) else {
            return;
        };
        if connection.sender.is_closed() {
            known.reuse.seen_closed(now, now);
            return;
        }
        known.reuse.forget(now);
        if is_too_old(connection.opened, now) {
            return;
        }
        if !room || !known.reuse.keeps() || known.idle.len() >= MOST_IDLE_PER_ORIGIN {
            return;
        }
        connection.kept = true;
        known.idle.push_back(IdleConnection {
            connection,
            since: now,
        });
        shared.idle += 1;
        if !shared.sweeping {
            shared.sweeping = true;
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
    }

    /// Notes that a kept connection was closed during a call, before an answer came. The idle connections
    /// of the origin are closed. Its calls get only new connections for
    /// [`REMEMBERED`](super::reuse::REMEMBERED).
    pub fn failed(&self, origin: &str, now: Instant) {
        let mut guard = self.lock();
        let shared = &mut *guard;
        if let Some(known) = shared.known(origin, now) {
            known.reuse.failed(now);
            let closed = std::mem::take(&mut known.idle);
            shared.idle -= closed.len();
        }
    }

    /// Gives a new connection its number, and returns the watcher that reports its end.
    pub fn watcher(&self, origin: &str) -> ConnectionWatcher {
        let mut shared = self.lock();
        shared.opened += 1;
        ConnectionWatcher {
            pool: Arc::downgrade(&self.0),
            origin: origin.into(),
            id: shared.opened,
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        lock(&self.0)
    }
}

impl ConnectionWatcher {
    /// The number of the connection.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Reports that the connection has ended. If it was idle in the pool, the receiver closed it.
    pub fn ended(self) {
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        let now = Instant::now();
        let mut shared = lock(&pool);
        let Some(known) = shared.origins.get_mut(&self.origin) else {
            return;
        };
        let place = known
            .idle
            .iter()
            .position(|idle| idle.connection.id == self.id);
        if let Some(idle) = place.and_then(|place| known.idle.remove(place)) {
            known.reuse.seen_closed(idle.since, now);
            shared.idle -= 1;
        }
    }
}

impl OriginConnections {
    fn unknown(now: Instant) -> Self {
        Self {
            reuse: Reuse::unknown(now),
            idle: VecDeque::new(),
        }
    }

    /// Of the connections that may be used, takes the one that was used last.
    fn take(&mut self, now: Instant) -> Option<ReceiverConnection> {
        self.look(now);
        for place in (0..self.idle.len()).rev() {
            let idle = &self.idle[place];
            if idle.connection.sender.is_closed() {
                self.reuse.seen_closed(idle.since, now);
                self.idle.remove(place);
            } else if is_too_old(idle.connection.opened, now) {
                self.idle.remove(place);
            } else if !self.reuse.allows(idle.since, now) {
                // The connections before this one are older, so they may not be used either.
                return None;
            } else if idle.connection.sender.is_ready() {
                return self.idle.remove(place).map(|idle| idle.connection);
            }
            // Otherwise the receiver answered before it had the whole request, and the connection is still
            // sending the rest.
        }
        None
    }

    /// Tells the rules whether the connection that has been idle longest is open. Drops it if it is closed,
    /// and goes on with the next.
    fn look(&mut self, now: Instant) {
        while let Some(oldest) = self.idle.front() {
            if !oldest.connection.sender.is_closed() {
                self.reuse.seen_open(oldest.since, now);
                return;
            }
            self.reuse.seen_closed(oldest.since, now);
            self.idle.pop_front();
        }
    }

    /// Drops the connections that have been idle too long.
    fn drop_expired(&mut self, now: Instant) {
        self.look(now);
        let reuse = &self.reuse;
        self.idle.retain(|idle| !reuse.expired(idle.since, now));
    }
}

impl PoolState {
    /// The entry of an origin. Creates it if there is none; `None` if there are too many origins already.
    fn known(&mut self, origin: &str, now: Instant) -> Option<&mut OriginConnections> {
        if !self.origins.contains_key(origin) {
            if self.origins.len() >= MOST_ORIGINS && may_sweep(self.swept, now) {
                self.sweep(now);
            }
            if self.origins.len() >= MOST_ORIGINS {
                return None;
            }
            self.origins
                .insert(origin.into(), OriginConnections::unknown(now));
        }
        self.origins.get_mut(origin)
    }

    fn sweep(&mut self, now: Instant) {
        self.swept = Some(now);
        self.origins.retain(|_, known| {
            known.drop_expired(now);
            !known.idle.is_empty() || !known.reuse.is_forgotten(now)
        });
        self.idle = self.origins.values().map(|known| known.idle.len()).sum();
    }
}

/// Whether all origins may be looked at again to make room for another one. If there are too many, every call to one that
/// is not remembered would do so, and each time it takes milliseconds in which all other calls wait.
pub fn may_sweep(swept: Option<Instant>, now: Instant) -> bool {
    swept.is_none_or(|at| now.saturating_duration_since(at) >= SWEEP_INTERVAL)
}

/// Closes connections that have been idle too long. Ends when no idle connection is left.
async fn sweep(pool: Weak<Mutex<PoolState>>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL.min(IDLE)).await;
        let Some(pool) = pool.upgrade() else {
            return;
        };
        let mut shared = lock(&pool);
        shared.sweep(Instant::now());
        if shared.idle == 0 {
            shared.sweeping = false;
            return;
        }
    }
}

/// Locks the pool. After a panic under the lock the pool is still used: at worst, a connection is lost or
/// a count is wrong until the next sweep.
fn lock(pool: &Mutex<PoolState>) -> MutexGuard<'_, PoolState> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
