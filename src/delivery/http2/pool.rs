//! The open HTTP/2 connections of every receiver, and how many calls each has in flight.
//!
//! An origin, here and in `origin`, is what one endpoint calls at one scheme, host and port: `Http2Route::shared_as`.
//!
//! A call gets a place on a connection that has room for it. If none has, it opens one, and calls that come meanwhile
//! wait for that one. Everything is bounded: the calls of one connection, the connections of one origin, the
//! connections that are kept without calls, the number of remembered origins, and the time that a connection is kept.

use super::connection::Http2Connection;
use super::origin::{Http2Origin, PooledHttp2};
use crate::delivery::pool::may_sweep;
use crate::delivery::reuse::IDLE;
use crate::domain::attempt_reason::AwaitedStep;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// No connection is kept without calls while there are more connections than this.
const MOST_KEPT: usize = 4_096;
/// Maximum number of remembered origins.
const MOST_ORIGINS: usize = 16_384;
/// How often connections that were without calls for too long are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The open connections. Clones share the same connections.
#[derive(Clone, Default)]
pub struct Http2Pool(Arc<Mutex<Http2Origins>>);

#[derive(Default)]
struct Http2Origins {
    by_name: HashMap<Box<str>, Http2Origin>,
    connections: usize,
    opened: u64,
    sweeping: bool,
    /// When all origins were looked at for the last time.
    swept: Option<Instant>,
}

/// What a call that needs a connection finds.
pub enum PlaceSearch {
    /// Send its request.
    Send(CallPlace),
    /// Open a connection.
    Open(Opening),
    /// Wait for room, or for a connection that another call opens. Then look again.
    Wait(WaitingCall),
}

/// Waits until it is worth looking again.
pub struct WaitingCall {
    changes: watch::Receiver<()>,
    /// What is awaited.
    pub awaited: AwaitedStep,
}

/// A place on a connection for one call, until it is dropped.
pub struct CallPlace {
    /// The connection.
    pub connection: Arc<Http2Connection>,
    /// Whether an earlier call opened the connection.
    pub kept: bool,
    /// Whether other calls may use the connection at the same time. If not, it is closed after this call.
    shared: Option<(Http2Pool, Box<str>)>,
    /// The number of the call on its connection, once it has begun.
    number: Option<u64>,
    is_finished: bool,
}

/// The right to open a connection, until it is dropped.
pub struct Opening {
    pool: Http2Pool,
    origin: Box<str>,
    /// The number of the connection in the pool.
    pub id: u64,
    is_shared: bool,
}

/// What the call that opened a connection gets.
pub enum OpenedPlace {
    /// A place on it.
    Place(CallPlace),
    /// The receiver allows no calls on it at present. It is in the pool, and calls wait for it.
    Full,
    /// The receiver allows no calls on it, and it was not to be shared. It is closed.
    NoCalls,
}

impl Http2Pool {
    /// Looks for a place for a call to this origin, on another connection than `avoided`.
    pub fn look(&self, origin: &str, avoided: Option<u64>, now: Instant) -> PlaceSearch {
        let mut origins = self.lock();
        origins.opened += 1;
        let opening = |id, is_shared| {
            let (pool, origin) = (self.clone(), origin.into());
            PlaceSearch::Open(Opening {
                pool,
                origin,
                id,
                is_shared,
            })
        };
        let id = origins.opened;
        let Some(known) = origins.known(origin, now) else {
            return opening(id, false);
        };
        let before = known.connections.len();
        known.reuse.forget(now);
        known.drop_over(now);
        let dropped = before - known.connections.len();
        let step = if !known.reuse.keeps() {
            opening(id, false)
        } else if let Some(pooled) = known.with_room(avoided, now) {
            pooled.calls += 1;
            let place = CallPlace {
                connection: pooled.connection.clone(),
                kept: pooled.is_used,
                shared: Some((self.clone(), origin.into())),
                number: None,
                is_finished: false,
            };
            pooled.is_used = true;
            PlaceSearch::Send(place)
        } else if known.chose_http1(now) {
            opening(id, false)
        } else if let Some(awaited) = known.awaited(now) {
            PlaceSearch::Wait(WaitingCall {
                changes: known.changes.subscribe(),
                awaited,
            })
        } else {
            known.opening = true;
            opening(id, true)
        };
        origins.connections -= dropped;
        step
    }

    /// Notes that the receiver closed a connection with several calls, without saying which of them it had read. Its calls
    /// do not share connections for [`REMEMBERED`](crate::delivery::reuse::REMEMBERED).
    pub fn failed(&self, origin: &str, now: Instant) {
        let mut origins = self.lock();
        if let Some(known) = origins.known(origin, now) {
            known.reuse.failed(now);
        }
    }

    /// Notes that calls which wait should look again, because a connection has changed or ended.
    fn changed(&self, origin: &str, now: Instant) {
        let mut origins = self.lock();
        let Some(known) = origins.by_name.get_mut(origin) else {
            return;
        };
        let before = known.connections.len();
        known.drop_over(now);
        known.changes.send_replace(());
        let dropped = before - known.connections.len();
        origins.connections -= dropped;
    }

    /// Gives back the place of a call.
    fn release(&self, origin: &str, id: u64, now: Instant) {
        let mut origins = self.lock();
        let is_full = origins.connections > MOST_KEPT;
        let Some(known) = origins.by_name.get_mut(origin) else {
            return;
        };
        let of_call = |pooled: &PooledHttp2| pooled.connection.id == id;
        let Some(place) = known.connections.iter().position(of_call) else {
            known.changes.send_replace(());
            return;
        };
        let pooled = &mut known.connections[place];
        pooled.calls -= 1;
        let mut dropped = None;
        if pooled.calls == 0 {
            pooled.idle_since = now;
            if is_full || pooled.connection.is_over(now) || !known.reuse.keeps() {
                dropped = Some(known.connections.swap_remove(place));
            }
        }
        known.changes.send_replace(());
        if dropped.is_some() {
            origins.connections -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Http2Origins> {
        lock(&self.0)
    }
}

impl Http2Origins {
    /// The entry of an origin. Creates it if there is none; `None` if there are too many origins already.
    fn known(&mut self, origin: &str, now: Instant) -> Option<&mut Http2Origin> {
        if !self.by_name.contains_key(origin) {
            if self.by_name.len() >= MOST_ORIGINS && may_sweep(self.swept, now) {
                self.sweep(now);
            }
            if self.by_name.len() >= MOST_ORIGINS {
                return None;
            }
            let unknown = Http2Origin::unknown(now);
            self.by_name.insert(origin.into(), unknown);
        }
        self.by_name.get_mut(origin)
    }

    fn sweep(&mut self, now: Instant) {
        self.swept = Some(now);
        self.by_name.retain(|_, known| {
            known.drop_expired(now);
            known.tell_if_nothing_awaited(now);
            !known.is_forgotten(now)
        });
        let each = self.by_name.values();
        self.connections = each.map(|known| known.connections.len()).sum();
    }

    fn begin_sweeping(&mut self, origins: &Arc<Mutex<Self>>) {
        if !self.sweeping && self.connections > 0 {
            self.sweeping = true;
            tokio::spawn(sweep(Arc::downgrade(origins)));
        }
    }
}

/// Closes connections that were without calls for too long. Ends when there are no connections.
async fn sweep(origins: Weak<Mutex<Http2Origins>>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL.min(IDLE)).await;
        let Some(origins) = origins.upgrade() else {
            return;
        };
        let mut origins = lock(&origins);
        origins.sweep(Instant::now());
        if origins.connections == 0 {
            origins.sweeping = false;
            return;
        }
    }
}

/// Locks the pool. After a panic under the lock the pool is still used: at worst, a connection is lost or
/// a count is wrong until the next sweep.
fn lock(origins: &Mutex<Http2Origins>) -> MutexGuard<'_, Http2Origins> {
    origins.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WaitingCall {
    /// Waits.
    pub async fn wait(mut self) {
        // Fails only if the origin was forgotten, and then it is worth looking again too.
        let _ = self.changes.changed().await;
    }
}

impl Opening {
    /// What the connection calls when it has changed.
    pub fn on_change(&self) -> impl Fn() + Send + Sync + 'static {
        let (pool, origin) = (Arc::downgrade(&self.pool.0), self.origin.clone());
        move || {
            if let Some(pool) = pool.upgrade() {
                Http2Pool(pool).changed(&origin, Instant::now());
            }
        }
    }

    /// Puts the opened connection into the pool, with a place for the call that opened it.
    pub fn opened(self, connection: Http2Connection, now: Instant) -> OpenedPlace {
        let connection = Arc::new(connection);
        let has_room = connection.most_calls() > 0;
        let mut place = CallPlace {
            connection: connection.clone(),
            kept: false,
            shared: None,
            number: None,
            is_finished: false,
        };
        let mut is_pooled = false;
        let mut origins = self.pool.lock();
        if let Some(known) = origins.known(&self.origin, now) {
            // A receiver that chose HTTP/1.1 before has learned HTTP/2.
            let chose_http1 = known.chose_http1.take().is_some();
            is_pooled = self.is_shared || (chose_http1 && known.reuse.keeps());
            if is_pooled {
                known.connections.push(PooledHttp2 {
                    connection,
                    calls: usize::from(has_room),
                    idle_since: now,
                    is_used: has_room,
                });
                origins.connections += 1;
                origins.begin_sweeping(&self.pool.0);
                place.shared = has_room.then(|| (self.pool.clone(), self.origin.clone()));
            }
        }
        drop(origins);
        match (has_room, is_pooled) {
            (true, _) => OpenedPlace::Place(place),
            (false, true) => OpenedPlace::Full,
            (false, false) => OpenedPlace::NoCalls,
        }
    }

    /// Notes that the receiver chose HTTP/1.1.
    pub fn chose_http1(self, now: Instant) {
        let mut origins = self.pool.lock();
        if let Some(known) = origins.known(&self.origin, now) {
            known.chose_http1 = Some(now);
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if !self.is_shared {
            return;
        }
        let mut origins = self.pool.lock();
        if let Some(known) = origins.by_name.get_mut(&self.origin) {
            known.opening = false;
            known.changes.send_replace(());
        }
    }
}

impl CallPlace {
    /// Notes that the call begins, whose lease expires at `until`.
    pub fn begin(&mut self, until: Instant, now: Instant) {
        self.number = Some(self.connection.state.begin_call(until, now));
    }

    /// Notes that the call has ended by itself, and not because its time ran out.
    pub fn finish(&mut self) {
        self.is_finished = true;
    }

    /// Notes that the receiver closed the connection without saying which calls it had read. Returns whether other calls
    /// may have used it.
    pub fn closed_without_goaway(&self, now: Instant) -> bool {
        let Some((pool, origin)) = &self.shared else {
            return false;
        };
        // All its calls end together, so the others may have ended a moment ago.
        let was_shared = self.kept || self.connection.state.has_had_several_calls();
        if was_shared {
            pool.failed(origin, now);
        }
        was_shared
    }
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let state = &self.connection.state;
            state.end_call(number, !self.is_finished);
        }
        if let Some((pool, origin)) = &self.shared {
            pool.release(origin, self.connection.id, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
