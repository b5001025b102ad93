//! The HTTP/2 connections of one origin: which of them a new call may use, and when they are given up.

use super::connection::Http2Connection;
use crate::delivery::reuse::{REMEMBERED, Reuse};
use crate::domain::attempt_reason::AwaitedStep;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Maximum number of connections of one origin that get calls. Calls that need more wait for room.
pub const MOST_CONNECTIONS: usize = 8;

/// How long a connection with calls in flight is silent before new calls prefer another one.
const SILENT_BEFORE_OTHERS: Duration = Duration::from_secs(1);

/// The connections of one origin, and what is known of its receiver.
pub struct Http2Origin {
    /// How the receiver treats connections.
    pub reuse: Reuse,
    /// The connections that may get calls.
    pub connections: Vec<PooledHttp2>,
    /// Whether a call opens a connection that others may use.
    pub opening: bool,
    /// When the receiver last chose HTTP/1.1. Then calls do not wait for each other's connections.
    pub chose_http1: Option<Instant>,
    /// Tells waiting calls to look again.
    pub changes: watch::Sender<()>,
}

/// A connection, and its calls.
pub struct PooledHttp2 {
    /// The connection.
    pub connection: Arc<Http2Connection>,
    /// How many calls have a place on it.
    pub calls: usize,
    /// Since when there are no calls.
    pub idle_since: Instant,
    /// Whether it has had a call.
    pub is_used: bool,
}

impl Http2Origin {
    /// An origin of which nothing is known.
    pub fn unknown(now: Instant) -> Self {
        Self {
            reuse: Reuse::unknown(now),
            connections: Vec::new(),
            opening: false,
            chose_http1: None,
            changes: watch::Sender::new(()),
        }
    }

    /// A connection with room for a call. Of several, the one with the most calls, so that the others end; but one that is
    /// silent only if all are. A connection that has died keeps its calls, so it would be the one with the most.
    pub fn with_room(&mut self, avoided: Option<u64>, now: Instant) -> Option<&mut PooledHttp2> {
        let reuse = &self.reuse;
        let usable = self.connections.iter_mut().filter(|pooled| {
            Some(pooled.connection.id) != avoided
                && (pooled.calls > 0 || reuse.allows_without_trial(pooled.idle_since, now))
                && pooled.connection.takes_calls(now)
                && pooled.calls < pooled.connection.most_calls()
        });
        usable.max_by_key(|pooled| {
            let is_silent = pooled.connection.state.silent_for(now) >= SILENT_BEFORE_OTHERS;
            (!is_silent, pooled.calls)
        })
    }

    /// What a call that found no room waits for; `None` if it should open a connection.
    pub fn awaited(&self, now: Instant) -> Option<AwaitedStep> {
        if self.opening {
            return Some(AwaitedStep::OtherOpens);
        }
        let usable = self.connections.iter();
        let rooms = usable
            .filter(|pooled| pooled.connection.takes_calls(now))
            .map(|pooled| pooled.connection.most_calls());
        let (count, least) = rooms.fold((0, usize::MAX), |(count, least), most| {
            (count + 1, least.min(most))
        });
        (count >= MOST_CONNECTIONS || least == 0).then_some(AwaitedStep::FreePlace { least })
    }

    /// Whether the receiver chose HTTP/1.1 when a connection was last opened.
    pub fn chose_http1(&self, now: Instant) -> bool {
        self.chose_http1
            .is_some_and(|at| now.saturating_duration_since(at) < REMEMBERED)
    }

    /// Tells calls that wait to look again if there is nothing to wait for any more. Connections become too old or fall
    /// silent by the passing of time, and nothing else tells.
    pub fn tell_if_nothing_awaited(&self, now: Instant) {
        if self.changes.receiver_count() > 0 && self.awaited(now).is_none() {
            self.changes.send_replace(());
        }
    }

    /// Drops the connections that get no calls any more, and tells the calls that wait. Those with calls in flight live
    /// on until these have ended.
    pub fn drop_over(&mut self, now: Instant) {
        let before = self.connections.len();
        let reuse = &mut self.reuse;
        self.connections.retain(|pooled| {
            let connection = &pooled.connection;
            let is_over = connection.is_over(now);
            if is_over && pooled.calls == 0 && !connection.state.is_leaving() {
                let is_closed = connection.state.end().is_some();
                if is_closed && pooled.is_used {
                    reuse.seen_closed(pooled.idle_since, now);
                }
            }
            !is_over
        });
        if self.connections.len() < before {
            self.changes.send_replace(());
        }
    }

    /// Drops the connections that were without calls for too long.
    pub fn drop_expired(&mut self, now: Instant) {
        self.drop_over(now);
        let reuse = &self.reuse;
        self.connections
            .retain(|pooled| pooled.calls > 0 || !reuse.expired(pooled.idle_since, now));
    }

    /// Whether there is nothing to remember.
    pub fn is_forgotten(&self, now: Instant) -> bool {
        self.connections.is_empty()
            && !self.opening
            && self.changes.receiver_count() == 0
            && !self.chose_http1(now)
            && self.reuse.is_forgotten(now)
    }
}
