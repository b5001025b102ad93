//! Idle connections, kept for the next call to the same origin.
//!
//! `delivery::reuse` has the rules for which of them may be used; this file holds them, and reports to the
//! rules when one is seen open or closed. Everything is bounded: the connections of an origin, those of all
//! together, the origins that something is remembered of, and the time that a connection is kept.

use super::reuse::{IDLE, Reuse};
use super::socket::Meter;
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Idle connections kept for one origin.
const MOST_IDLE_PER_ORIGIN: usize = 64;
/// Idle connections kept in all.
const MOST_IDLE: usize = 4_096;
/// Origins that something is remembered of.
const MOST_ORIGINS: usize = 16_384;
/// How often idle connections that are too old are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// An open connection to a receiver. Dropping it closes it.
pub struct ReceiverConnection {
    /// Where requests are handed in.
    pub sender: SendRequest<Full<Bytes>>,
    /// What passes over its socket.
    pub meter: Arc<Meter>,
    /// Whether it was used before.
    pub kept: bool,
    /// Its number among all.
    pub id: u64,
}

/// The idle connections. Clones share them.
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
}

struct OriginConnections {
    reuse: Reuse,
    /// The one that was used last is at the back.
    idle: VecDeque<IdleConnection>,
}

struct IdleConnection {
    connection: ReceiverConnection,
    since: Instant,
}

impl Pool {
    /// A connection to use again, if there is one that may be.
    pub fn take(&self, origin: &str, now: Instant) -> Option<ReceiverConnection> {
        let mut guard = self.lock();
        let shared = &mut *guard;
        let known = shared.origins.get_mut(origin)?;
        let before = known.idle.len();
        let taken = known.take(now);
        shared.idle -= before - known.idle.len();
        taken
    }

    /// Keeps a connection whose answer was read to its end.
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

    /// A kept connection was closed under a call, unanswered: the origin gets new ones for a while.
    pub fn failed(&self, origin: &str, now: Instant) {
        let mut guard = self.lock();
        let shared = &mut *guard;
        if let Some(known) = shared.known(origin, now) {
            known.reuse.failed(now);
            let closed = std::mem::take(&mut known.idle);
            shared.idle -= closed.len();
        }
    }

    /// Numbers a connection that is being opened, and returns the watcher that reports its end.
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
    /// The connection's number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The connection has ended. If it was idle, the receiver closed it.
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

    /// The connection that was used last, if it may be used.
    fn take(&mut self, now: Instant) -> Option<ReceiverConnection> {
        self.look(now);
        for place in (0..self.idle.len()).rev() {
            let idle = &self.idle[place];
            if idle.connection.sender.is_closed() {
                self.reuse.seen_closed(idle.since, now);
                self.idle.remove(place);
            } else if !self.reuse.allows(idle.since, now) {
                // Those before it are older.
                return None;
            } else if idle.connection.sender.is_ready() {
                return self.idle.remove(place).map(|idle| idle.connection);
            }
            // Else it was answered early and is still sending its request.
        }
        None
    }

    /// Learns from the connection that has been idle the longest.
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

    /// Drops the connections that are too old.
    fn drop_expired(&mut self, now: Instant) {
        self.look(now);
        let reuse = &self.reuse;
        self.idle.retain(|idle| !reuse.expired(idle.since, now));
    }
}

impl PoolState {
    /// What is known of an origin; `None` if there are too many to remember one more.
    fn known(&mut self, origin: &str, now: Instant) -> Option<&mut OriginConnections> {
        if !self.origins.contains_key(origin) {
            if self.origins.len() >= MOST_ORIGINS {
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
        self.origins.retain(|_, known| {
            known.drop_expired(now);
            !known.idle.is_empty() || !known.reuse.is_forgotten(now)
        });
        self.idle = self.origins.values().map(|known| known.idle.len()).sum();
    }
}

/// Closes connections that are idle for too long, as long as there are any.
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

/// A panic while it was held leaves nothing half done that matters: connections are only kept.
fn lock(pool: &Mutex<PoolState>) -> MutexGuard<'_, PoolState> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::reuse::{REMEMBERED, TRIAL};
    use crate::delivery::socket::Socket;
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::net::{TcpListener, TcpStream};

    const ORIGIN: &str = "https://shop.example";

    /// A connection that waits for a request, and the receiver's end of it.
    async fn connect(pool: &Pool) -> (ReceiverConnection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let stream = TcpStream::connect(address).await.expect("connects");
        let (receiver, _) = listener.accept().await.expect("accepts");
        let (socket, meter) = Socket::new(stream);
        let handshake = http1::handshake(TokioIo::new(socket)).await;
        let (mut sender, connection) = handshake.expect("no bytes are exchanged");
        let watcher = pool.watcher(ORIGIN);
        let id = watcher.id();
        tokio::spawn(async move {
            let _ = connection.await;
            watcher.ended();
        });
        sender.ready().await.expect("open");
        let connection = ReceiverConnection {
            sender,
            meter,
            kept: false,
            id,
        };
        (connection, receiver)
    }

    /// A pool that knows the origin to keep its connections open, and the present instant.
    async fn trusting() -> (Pool, Instant) {
        let pool = Pool::default();
        let now = Instant::now();
        let (first, _receiver) = connect(&pool).await;
        pool.put(ORIGIN, first, now);
        let later = now + TRIAL;
        assert!(pool.take(ORIGIN, later).is_some());
        (pool, later)
    }

    #[tokio::test]
    async fn the_connection_that_was_used_last_is_taken_first() {
        let (pool, now) = trusting().await;
        let (first, _receiver) = connect(&pool).await;
        let (second, _receiver_too) = connect(&pool).await;
        let ids = [first.id, second.id];
        pool.put(ORIGIN, first, now);
        pool.put(ORIGIN, second, now);
        assert!(pool.take("https://other.example", now).is_none());
        let taken = pool.take(ORIGIN, now).expect("kept");
        assert_eq!((taken.id, taken.kept), (ids[1], true));
        assert_eq!(pool.take(ORIGIN, now).map(|taken| taken.id), Some(ids[0]));
        assert!(pool.take(ORIGIN, now).is_none());
    }

    #[tokio::test]
    async fn an_origin_keeps_so_many_connections_and_no_more() {
        let (pool, now) = trusting().await;
        let mut receivers = Vec::new();
        for _ in 0..=MOST_IDLE_PER_ORIGIN {
            let (connection, receiver) = connect(&pool).await;
            pool.put(ORIGIN, connection, now);
            receivers.push(receiver);
        }
        assert_eq!(pool.lock().idle, MOST_IDLE_PER_ORIGIN);
        let taken = std::iter::from_fn(|| pool.take(ORIGIN, now)).count();
        assert_eq!(taken, MOST_IDLE_PER_ORIGIN);
        assert_eq!(pool.lock().idle, 0);
    }

    #[tokio::test]
    async fn what_is_idle_for_too_long_is_closed_and_forgotten_in_the_end() {
        let (pool, now) = trusting().await;
        let (connection, _receiver) = connect(&pool).await;
        pool.put(ORIGIN, connection, now);
        pool.lock().sweep(now + IDLE - Duration::from_millis(1));
        assert_eq!(pool.lock().idle, 1);
        pool.lock().sweep(now + IDLE);
        assert_eq!(pool.lock().idle, 0);
        assert_eq!(pool.lock().origins.len(), 1);
        pool.lock().sweep(now + REMEMBERED);
        assert_eq!(pool.lock().origins.len(), 0);
    }

    #[tokio::test]
    async fn a_connection_that_the_receiver_closes_is_noticed() {
        let (pool, now) = trusting().await;
        let (connection, receiver) = connect(&pool).await;
        pool.put(ORIGIN, connection, now);
        drop(receiver);
        while pool.lock().idle > 0 {
            tokio::task::yield_now().await;
        }
        // The trial has begun again.
        let (connection, _receiver) = connect(&pool).await;
        pool.put(ORIGIN, connection, now);
        assert!(pool.take(ORIGIN, now).is_none());
    }

    #[tokio::test]
    async fn after_a_failure_nothing_is_kept() {
        let (pool, now) = trusting().await;
        let (connection, _receiver) = connect(&pool).await;
        pool.put(ORIGIN, connection, now);
        pool.failed(ORIGIN, now);
        let (connection, _receiver) = connect(&pool).await;
        pool.put(ORIGIN, connection, now);
        assert!(pool.take(ORIGIN, now).is_none());
        assert_eq!(pool.lock().idle, 0);
    }
}
