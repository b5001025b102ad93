//! How much memory the entries of a schedule in memory take, and the bound on it.
//!
//! An entry takes its room before anything of it is written down ([`Schedule::admit`]), so whoever
//! is refused finds nothing half done. What the journal holds is put in whether there is room or not:
//! without bodies it takes little, and to leave it out would be to lose it.
//!
//! Sizes are estimates: what is in an entry, and what was measured for the maps and the allocator
//! beside it.
//!
//! [`Schedule::admit`]: super::Schedule::admit

use crate::domain::notification::Notification;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thiserror::Error;

/// What an entry takes beside its texts and its body, in bytes: its fixed parts, its places in four
/// maps and what the allocator adds. Measured with a million entries.
const ENTRY_BYTES: usize = 700;
/// What the texts of an entry take, as is common: key, URL, lane and content type, in bytes.
const COMMON_TEXT_BYTES: usize = 128;
/// What a header takes beside its name and value, in bytes.
const HEADER_BYTES: usize = 48;

/// There is no room for another entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "too much is pending: the schedule takes all of the {limit} bytes of memory that \
     `schedule-memory` allows"
)]
pub struct Full {
    /// The setting, in bytes.
    pub limit: usize,
}

/// How much memory the entries take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// The entries with the bodies held, and the room promised to registrations, in bytes.
    pub taken: usize,
    /// Of these, the bodies.
    pub bodies: usize,
    /// The most that registrations may take, in bytes.
    pub limit: usize,
}

/// Room for an entry that is being registered. Dropped when the entry is in, or will not come.
#[derive(Debug)]
#[must_use]
pub struct Room {
    taken: Option<(Arc<Ledger>, usize)>,
}

impl Room {
    /// Room where nothing is counted.
    pub fn boundless() -> Self {
        Self { taken: None }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some((ledger, bytes)) = self.taken.take() {
            ledger.taken.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// The count of what is taken.
#[derive(Debug)]
pub(super) struct Ledger {
    limit: usize,
    taken: AtomicUsize,
    bodies: AtomicUsize,
}

impl Ledger {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            taken: AtomicUsize::new(0),
            bodies: AtomicUsize::new(0),
        })
    }

    /// Whether there is room for another entry of the common size.
    pub(super) fn check(&self) -> Result<(), Full> {
        let taken = self.taken.load(Ordering::Relaxed);
        if taken.saturating_add(ENTRY_BYTES + COMMON_TEXT_BYTES) <= self.limit {
            Ok(())
        } else {
            Err(Full { limit: self.limit })
        }
    }

    /// Takes room for a notification without its body, if there is any.
    pub(super) fn admit(self: &Arc<Self>, notification: &Notification) -> Result<Room, Full> {
        let bytes = frame_bytes(notification);
        let take = |taken: usize| {
            taken
                .checked_add(bytes)
                .filter(|taken| *taken <= self.limit)
        };
        match (self.taken).fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(Room {
                taken: Some((self.clone(), bytes)),
            }),
            Err(_) => Err(Full { limit: self.limit }),
        }
    }

    /// Whether a body of so many bytes may be held that is needed soon. Bodies take half of the limit at
    /// most: what is accepted while many wait needs the rest.
    pub(super) fn has_room_for_body(&self, bytes: usize) -> bool {
        self.has_room_within(self.limit / 2, bytes)
    }

    /// Whether a body of so many bytes may be held that waits: only while bodies take no more than an
    /// eighth of the limit.
    pub(super) fn has_room_for_waiting_body(&self, bytes: usize) -> bool {
        self.has_room_within(self.limit / 8, bytes)
    }

    fn has_room_within(&self, share: usize, bytes: usize) -> bool {
        let body_room = share.saturating_sub(self.bodies.load(Ordering::Relaxed));
        let room = (self.limit).saturating_sub(self.taken.load(Ordering::Relaxed));
        bytes <= body_room.min(room)
    }

    /// An entry is in.
    pub(super) fn add(&self, notification: &Notification) {
        let body = notification.body.held_len();
        let bytes = frame_bytes(notification) + body;
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        self.bodies.fetch_add(body, Ordering::Relaxed);
    }

    /// An entry is gone.
    pub(super) fn remove(&self, notification: &Notification) {
        let body = notification.body.held_len();
        let bytes = frame_bytes(notification) + body;
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        self.bodies.fetch_sub(body, Ordering::Relaxed);
    }

    pub(super) fn memory(&self) -> MemoryUse {
        MemoryUse {
            taken: self.taken.load(Ordering::Relaxed),
            bodies: self.bodies.load(Ordering::Relaxed),
            limit: self.limit,
        }
    }
}

/// What an entry takes without its body.
fn frame_bytes(notification: &Notification) -> usize {
    let Notification {
        key,
        destination,
        lane,
        content_type,
        headers,
        ladder,
        ..
    } = notification;
    ENTRY_BYTES
        + key.as_str().len()
        + destination.as_str().len()
        + lane.as_str().len()
        + content_type.len()
        + ladder.own_bytes()
        + headers.bytes()
        + HEADER_BYTES * headers.pairs().len()
}
