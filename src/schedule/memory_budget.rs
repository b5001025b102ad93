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

use crate::domain::ack::AckRule;
use crate::domain::destination::Destination;
use crate::domain::lane::Lane;
use crate::domain::notification::Notification;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// What an entry takes beside its texts and its body, in bytes: its fixed parts, its records in four
/// maps, and what the allocator adds. Measured with a million entries.
const ENTRY_OVERHEAD_BYTES: usize = 700;
/// What the texts of a typical entry take, in bytes: key, URL, lane and content type.
const TYPICAL_TEXT_BYTES: usize = 128;
/// What an HTTP header of a notification takes beside its name and value, in bytes.
const HTTP_HEADER_OVERHEAD_BYTES: usize = 48;

/// Entries take all the memory that they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MemoryLimitReached {
    /// All entries together. Contains the setting, in bytes.
    #[error(
        "too much is pending: the schedule takes all of the {0} bytes of memory that `schedule-memory` allows"
    )]
    OfAll(usize),
    /// Those of one lane. Contains the setting, in bytes.
    #[error(
        "too much is pending for this destination: it has more than a sixteenth of the {0} bytes of memory that \
         `schedule-memory` allows, and half of them are taken; other destinations go on"
    )]
    OfLane(usize),
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
    reserved: Option<(Arc<MemoryBudget>, Lane, usize)>,
}

impl MemoryReservation {
    /// A reservation where memory is not counted.
    pub fn unlimited() -> Self {
        Self { reserved: None }
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        if let Some((budget, lane, bytes)) = self.reserved.take() {
            budget.taken.fetch_sub(bytes, Ordering::Relaxed);
            budget.lanes().remove(&lane, bytes);
        }
    }
}

/// Counts the memory that is taken.
///
/// A destination that is away, or held, may have notifications registered for a day and more, which stay. So that it does not
/// take the memory of all others, a lane that has more than a sixteenth of the limit gets no more once half of the limit is
/// taken. Entries of registrations alone are refused.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    limit: usize,
    taken: AtomicUsize,
    bodies: AtomicUsize,
    lanes: Mutex<LaneBytes>,
}

/// What the entries of each lane take without their bodies, in bytes.
#[derive(Debug, Default)]
struct LaneBytes(HashMap<Lane, usize>);

impl LaneBytes {
    fn add(&mut self, lane: &Lane, bytes: usize) {
        match self.0.get_mut(lane) {
            Some(taken) => *taken += bytes,
            None => drop(self.0.insert(lane.clone(), bytes)),
        }
    }

    fn remove(&mut self, lane: &Lane, bytes: usize) {
        if let Some(taken) = self.0.get_mut(lane) {
            *taken = taken.saturating_sub(bytes);
            if *taken == 0 {
                self.0.remove(lane);
            }
        }
    }

    fn of(&self, lane: &Lane) -> usize {
        self.0.get(lane).copied().unwrap_or_default()
    }
}

impl MemoryBudget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            taken: AtomicUsize::new(0),
            bodies: AtomicUsize::new(0),
            lanes: Mutex::default(),
        })
    }

    fn lanes(&self) -> MutexGuard<'_, LaneBytes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another entry of the typical size fits.
    pub(super) fn check(&self) -> Result<(), MemoryLimitReached> {
        let taken = self.taken.load(Ordering::Relaxed);
        if taken.saturating_add(ENTRY_OVERHEAD_BYTES + TYPICAL_TEXT_BYTES) <= self.limit {
            Ok(())
        } else {
            Err(MemoryLimitReached::OfAll(self.limit))
        }
    }

    /// Reserves memory for a notification without its body, if it fits.
    pub(super) fn reserve(
        self: &Arc<Self>,
        notification: &Notification,
    ) -> Result<MemoryReservation, MemoryLimitReached> {
        let bytes = bytes_without_body(notification);
        let lane = &notification.lane;
        let mut lanes = self.lanes();
        let would_take = self.taken.load(Ordering::Relaxed).saturating_add(bytes);
        if would_take > self.limit / 2 && lanes.of(lane).saturating_add(bytes) > self.limit / 16 {
            return Err(MemoryLimitReached::OfLane(self.limit));
        }
        let add = |taken: usize| {
            taken
                .checked_add(bytes)
                .filter(|taken| *taken <= self.limit)
        };
        match (self.taken).fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => {
                lanes.add(lane, bytes);
                Ok(MemoryReservation {
                    reserved: Some((self.clone(), lane.clone(), bytes)),
                })
            }
            Err(_) => Err(MemoryLimitReached::OfAll(self.limit)),
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
        let (body, bytes) = (
            notification.body.held_len(),
            bytes_without_body(notification),
        );
        self.taken.fetch_add(bytes + body, Ordering::Relaxed);
        self.bodies.fetch_add(body, Ordering::Relaxed);
        self.lanes().add(&notification.lane, bytes);
    }

    /// Stops counting an entry that was removed.
    pub(super) fn remove(&self, notification: &Notification) {
        let (body, bytes) = (
            notification.body.held_len(),
            bytes_without_body(notification),
        );
        self.taken.fetch_sub(bytes + body, Ordering::Relaxed);
        self.bodies.fetch_sub(body, Ordering::Relaxed);
        self.lanes().remove(&notification.lane, bytes);
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
        ack,
        ..
    } = notification;
    ENTRY_OVERHEAD_BYTES
        + key.as_str().len()
        + Destination::to_stored(destination.as_ref()).len()
        + lane.as_str().len()
        + content_type.len()
        + ladder.own_bytes()
        + ack.as_ref().map_or(0, AckRule::own_bytes)
        + headers.bytes()
        + HTTP_HEADER_OVERHEAD_BYTES * headers.pairs().len()
}
