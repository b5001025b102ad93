//! How much memory the entries of a schedule in memory take, and the bound on it.
//!
//! Memory for an entry is reserved before its registration is written into the journal
//! ([`ScheduleLeases::reserve_memory`]). So a registration that is refused has written nothing. A notification
//! that is already in the journal (at a start, or found missing) is put into the schedule even beyond the
//! bound. Without its body it takes little memory, and without an entry it would not be sent.
//!
//! Sizes are estimates: the content of an entry, and the measured overhead of the maps and the allocator.
//!
//! [`ScheduleLeases::reserve_memory`]: super::ScheduleLeases::reserve_memory

use crate::domain::destination::Destination;
use crate::domain::notification::Notification;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thiserror::Error;

/// What an entry takes beside its texts and its body, in bytes: its fixed parts, its records in four
/// maps, and what the allocator adds. Measured with a million entries.
const ENTRY_OVERHEAD_BYTES: usize = 700;
/// What the texts of a typical entry take, in bytes: key, URL, lane and content type.
const TYPICAL_TEXT_BYTES: usize = 128;
/// What an HTTP header of a notification takes beside its name and value, in bytes.
const HTTP_HEADER_OVERHEAD_BYTES: usize = 48;

/// The entries take all the memory that they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "too much is pending: the schedule takes all of the {limit} bytes of memory that \
     `schedule-memory` allows"
)]
pub struct MemoryLimitReached {
    /// The setting, in bytes.
    pub limit: usize,
}

/// How much memory the entries take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// The entries, the bodies that are in memory, and what is reserved for registrations, in bytes.
    pub taken: usize,
    /// The part of `taken` that the bodies take, in bytes.
    pub bodies: usize,
    /// Maximum for registrations, in bytes.
    pub limit: usize,
}

/// Memory reserved for an entry that is being registered. Dropped when the entry is in the schedule, or
/// will not come.
#[derive(Debug)]
#[must_use]
pub struct MemoryReservation {
    reserved: Option<(Arc<MemoryBudget>, usize)>,
}

impl MemoryReservation {
    /// A reservation where memory is not counted.
    pub fn unlimited() -> Self {
        Self { reserved: None }
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        if let Some((budget, bytes)) = self.reserved.take() {
            budget.taken.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Counts the memory that is taken.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    limit: usize,
    taken: AtomicUsize,
    bodies: AtomicUsize,
}

impl MemoryBudget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            taken: AtomicUsize::new(0),
            bodies: AtomicUsize::new(0),
        })
    }

    /// Whether another entry of the typical size fits.
    pub(super) fn check(&self) -> Result<(), MemoryLimitReached> {
        let taken = self.taken.load(Ordering::Relaxed);
        if taken.saturating_add(ENTRY_OVERHEAD_BYTES + TYPICAL_TEXT_BYTES) <= self.limit {
            Ok(())
        } else {
            Err(MemoryLimitReached { limit: self.limit })
        }
    }

    /// Reserves memory for a notification without its body, if it fits.
    pub(super) fn reserve(
        self: &Arc<Self>,
        notification: &Notification,
    ) -> Result<MemoryReservation, MemoryLimitReached> {
        let bytes = bytes_without_body(notification);
        let add = |taken: usize| {
            taken
                .checked_add(bytes)
                .filter(|taken| *taken <= self.limit)
        };
        match (self.taken).fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(MemoryReservation {
                reserved: Some((self.clone(), bytes)),
            }),
            Err(_) => Err(MemoryLimitReached { limit: self.limit }),
        }
    }

    /// Whether a body of this many bytes, which is needed soon, may be kept in memory. Bodies take at most
    /// half of the limit: the rest is for entries that are accepted while many wait.
    pub(super) fn can_hold_body(&self, bytes: usize) -> bool {
        self.fits_within(self.limit / 2, bytes)
    }

    /// Whether a body of this many bytes, which is not needed soon, may be kept in memory: only while bodies
    /// take at most an eighth of the limit.
    pub(super) fn can_hold_waiting_body(&self, bytes: usize) -> bool {
        self.fits_within(self.limit / 8, bytes)
    }

    fn fits_within(&self, share: usize, bytes: usize) -> bool {
        let free_share = share.saturating_sub(self.bodies.load(Ordering::Relaxed));
        let free = (self.limit).saturating_sub(self.taken.load(Ordering::Relaxed));
        bytes <= free_share.min(free)
    }

    /// Counts an entry that was added.
    pub(super) fn add(&self, notification: &Notification) {
        let body = notification.body.held_len();
        let bytes = bytes_without_body(notification) + body;
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        self.bodies.fetch_add(body, Ordering::Relaxed);
    }

    /// Stops counting an entry that was removed.
    pub(super) fn remove(&self, notification: &Notification) {
        let body = notification.body.held_len();
        let bytes = bytes_without_body(notification) + body;
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
fn bytes_without_body(notification: &Notification) -> usize {
    let Notification {
        key,
        destination,
        lane,
        content_type,
        headers,
        ladder,
        ..
    } = notification;
    ENTRY_OVERHEAD_BYTES
        + key.as_str().len()
        + Destination::to_stored(destination.as_ref()).len()
        + lane.as_str().len()
        + content_type.len()
        + ladder.own_bytes()
        + headers.bytes()
        + HTTP_HEADER_OVERHEAD_BYTES * headers.pairs().len()
}
