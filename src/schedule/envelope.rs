//! The format of an entry in Redis: a fixed header that scripts can read and replace, then the rest.
//!
//! ```text
//!  offset  size
//!       0     1  format version: 1, or 2 if it has another than the usual priority or an order, or 3 if its body is in
//!                the journal alone, or 4 if everything else is there too. A server that does not know the version leaves
//!                the entry alone
//!       1     1  state: 0 scheduled, 1 delivered, 2 dead, 3 cancelled
//!       2     1  cause: 0 none, 1 ladder_exhausted, 2 window_closed, 3 refused, 4 blocked, 5 superseded;
//!                of a pending one, what the server lacked that put it off: 64 its proxy, 65 capacity
//!       3     1  flags: 1 verify, 2 clamped, 4 interrupted, 8 raise_fence, 16 was_put_off, 32 order,
//!                64 high priority, 128 low priority
//!       4     4  series
//!       8     4  step
//!      12     4  attempts
//!      16     8  first_due_ms
//!      24     8  deadline_ms
//!      32     8  due_ms
//!      40     8  retry_at_ms, 0 for none
//!      48     8  ended_ms; with the flag `interrupted`: when the expired lease was given
//!      56     2  length of the lane's name, then the name
//!       ..     2  with the flag `order`: length of the order key, then the key
//!       ..     8  likewise: the order number
//!       ..     1  likewise: what the numbers mean: 0 latest, 1 strict
//!       ..    ..  the fields that never change, as postcard (`envelope::fixed`); in versions 1 and 2, the body follows
//! ```
//! Numbers are big-endian. The scripts in `redis/lua` know the offsets of state, flags, due_ms,
//! retry_at_ms, ended_ms and the lane (one higher there, since Lua counts from 1), and rewrite the header
//! alone, so that it moves 56 bytes and not the body.
//!
//! With a journal, what waits for a later attempt of its series has version 3: it may wait for an hour, and the body is in
//! the journal. The attempt reads it there (`delivery::bodies`).
//!
//! What was loaded from the journal has no envelope while it waits: it is in its lane alone. Scripts give it one of version
//! 4 when it is leased, or needs flags. Only flags, `due_ms`, `ended_ms` and the lane in it mean something; the attempt
//! reads the rest in the journal (`delivery::bare`).

mod codes;
mod fixed;

pub use codes::lacked_code;

use super::{BareEntry, Entry, HeldProgress, ScheduleError};
use crate::domain::destination::Destination;
use crate::domain::key::Key;
use crate::domain::lane::{KeyInLane, Lane};
use crate::domain::notification::Notification;
use crate::domain::order::{OrderMode, OrderPlace};
use crate::domain::priority::Priority;
use crate::domain::progress::Progress;
use crate::domain::state::State;
use bytes::Bytes;
use codes::{cause_code, decode_cause, decode_lacked, decode_state, state_code};
use std::sync::Arc;
use thiserror::Error;

/// Bytes of the part that scripts replace.
pub const HEADER_BYTES: usize = 56;

const VERSION: u8 = 1;
const VERSION_WITH_PRECEDENCE: u8 = 2;
const VERSION_WITHOUT_BODY: u8 = 3;
/// Must equal BARE in common.lua.
const VERSION_OF_BARE: u8 = 4;
const VERIFY: u8 = 1;
const CLAMPED: u8 = 2;
const INTERRUPTED: u8 = 4;
const FENCE: u8 = 8;
const PUT_OFF: u8 = 16;
const ORDERED: u8 = 32;
const HIGH: u8 = 64;
const LOW: u8 = 128;

/// Which part of a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyWriting {
    /// All of it; its length if it is in the journal alone.
    Whole,
    /// Its length: the journal has it.
    LengthOnly,
    /// Nothing: the entry is only remembered.
    Nothing,
}

/// Why an envelope cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the envelope of `{key}` cannot be read: {what}")]
pub struct BadEnvelope {
    key: String,
    what: &'static str,
}

impl From<BadEnvelope> for ScheduleError {
    fn from(error: BadEnvelope) -> Self {
        Self::Corrupt(error.to_string())
    }
}

/// Writes an entry.
#[must_use]
pub fn encode(entry: &Entry, body: BodyWriting) -> Vec<u8> {
    let notification = &entry.notification;
    let lane = notification.lane.as_str().as_bytes();
    let lane_len = u16::try_from(lane.len()).expect("invariant: a lane is shorter than its URL");
    let mut header = encode_header(entry);
    let body_bytes = match fixed::written_body(notification, body) {
        Some(bytes) => bytes.len(),
        None => {
            header[0] = VERSION_WITHOUT_BODY;
            0
        }
    };
    let mut bytes = Vec::with_capacity(estimated_bytes_without_body(notification) + body_bytes);
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&lane_len.to_be_bytes());
    bytes.extend_from_slice(lane);
    if let Some(order) = &notification.order {
        let key = order.key().as_bytes();
        let key_len = u16::try_from(key.len()).expect("invariant: an order key is short");
        bytes.extend_from_slice(&key_len.to_be_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(&order.number().to_be_bytes());
        bytes.push(match order.mode() {
            OrderMode::Latest => 0,
            OrderMode::Strict => 1,
        });
    }
    fixed::write(notification, body, bytes)
}

/// About how many bytes an entry takes, its body included.
#[must_use]
pub fn estimated_bytes(entry: &Entry) -> usize {
    estimated_bytes_without_body(&entry.notification) + entry.notification.body.held_len()
}

fn estimated_bytes_without_body(notification: &Notification) -> usize {
    let lane = notification.lane.as_str().len();
    let url = Destination::to_stored(notification.destination.as_ref()).len();
    HEADER_BYTES + lane + url + notification.headers.bytes() + 192
}

/// Writes the header alone, for an entry whose body is with it.
#[must_use]
pub fn encode_header(entry: &Entry) -> [u8; HEADER_BYTES] {
    let progress = &entry.progress;
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    let mut header = [0; HEADER_BYTES];
    let precedence = precedence_flags(&entry.notification);
    header[0] = match precedence {
        0 => VERSION,
        _ => VERSION_WITH_PRECEDENCE,
    };
    header[1] = state_code(entry.state);
    header[2] = match entry.lacked {
        Some(lacked) => lacked_code(lacked),
        None => cause_code(entry.cause),
    };
    header[3] = flag(entry.verify, VERIFY)
        | flag(progress.clamped, CLAMPED)
        | flag(entry.interrupted_ms.is_some(), INTERRUPTED)
        | flag(entry.raise_fence, FENCE)
        | flag(entry.was_put_off, PUT_OFF)
        | precedence;
    header[4..8].copy_from_slice(&progress.series.to_be_bytes());
    header[8..12].copy_from_slice(&progress.step.to_be_bytes());
    header[12..16].copy_from_slice(&progress.attempts.to_be_bytes());
    header[16..24].copy_from_slice(&progress.first_due_ms.to_be_bytes());
    header[24..32].copy_from_slice(&progress.deadline_ms.to_be_bytes());
    header[32..40].copy_from_slice(&progress.due_ms.to_be_bytes());
    header[40..48].copy_from_slice(&progress.retry_at_ms.unwrap_or(0).to_be_bytes());
    let at_ms = entry.interrupted_ms.or(entry.ended_ms).unwrap_or(0);
    header[48..56].copy_from_slice(&at_ms.to_be_bytes());
    header
}

/// An entry that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// One with its content.
    Whole(Box<Entry>),
    /// One of which the journal has the content.
    Bare(BareEntry),
}

/// Reads an entry that may be bare.
///
/// # Errors
/// As [`decode`].
pub fn decode_any(key: &str, bytes: &Bytes) -> Result<Decoded, BadEnvelope> {
    if bytes.first() != Some(&VERSION_OF_BARE) {
        return Ok(Decoded::Whole(Box::new(decode(key, bytes)?)));
    }
    let bare = decode_bare(key, bytes).map_err(|what| BadEnvelope {
        key: key.to_string(),
        what,
    });
    bare.map(Decoded::Bare)
}

fn decode_bare(key: &str, bytes: &[u8]) -> Result<BareEntry, &'static str> {
    let key = Key::parse(key).map_err(|_| "its key")?;
    let (header, rest) = bytes
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or("too short")?;
    let (lane, _) = decode_lane(rest)?;
    let lane = Lane::from_name(lane);
    let flags = header[3];
    Ok(BareEntry {
        entry: KeyInLane { key, lane },
        due_ms: instant(&header[32..40]),
        interrupted_ms: (flags & INTERRUPTED != 0).then(|| instant(&header[48..56])),
        raise_fence: flags & FENCE != 0,
        was_put_off: flags & PUT_OFF != 0,
        lacked: decode_lacked(header[2]),
    })
}

fn decode_lane(bytes: &[u8]) -> Result<(&str, &[u8]), &'static str> {
    let (lane_len, rest) = bytes.split_first_chunk::<2>().ok_or("too short")?;
    let lane_len = usize::from(u16::from_be_bytes(*lane_len));
    let (lane, rest) = rest.split_at_checked(lane_len).ok_or("its lane")?;
    let lane = std::str::from_utf8(lane).map_err(|_| "its lane")?;
    Ok((lane, rest))
}

/// Reads an entry with its content; its body is a slice of `bytes`, not a copy.
///
/// # Errors
/// [`BadEnvelope`] says which part cannot be read.
pub fn decode(key: &str, bytes: &Bytes) -> Result<Entry, BadEnvelope> {
    decode_parts(key, bytes).map_err(|what| BadEnvelope {
        key: key.to_string(),
        what,
    })
}

fn decode_parts(key: &str, bytes: &Bytes) -> Result<Entry, &'static str> {
    let key = Key::parse(key).map_err(|_| "its key")?;
    let (header, rest) = bytes
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or("too short")?;
    let (state, progress) = decode_header_parts(header)?;
    let lacked = decode_lacked(header[2]);
    let cause = match lacked {
        Some(_) => None,
        None => decode_cause(header[2]).ok_or("its cause")?,
    };
    let flags = header[3];
    let interrupted = flags & INTERRUPTED != 0;
    let at_ms = Some(instant(&header[48..56])).filter(|at_ms| *at_ms != 0);
    let (lane, rest) = decode_lane(rest)?;
    let (order, rest) = decode_order(flags, rest)?;
    let fixed = fixed::read(header[0], lane, rest, bytes)?;
    let notification = Notification {
        key,
        webhook_id: fixed.webhook_id,
        destination: fixed.destination,
        lane: Lane::from_name(lane),
        body: fixed.body,
        content_type: fixed.content_type,
        headers: fixed.headers,
        ladder: fixed.ladder,
        ack: fixed.ack,
        priority: match flags & (HIGH | LOW) {
            0 => Priority::Normal,
            HIGH => Priority::High,
            LOW => Priority::Low,
            _ => return Err("its priority"),
        },
        order,
        registered_ms: fixed.registered_ms,
        fingerprint: fixed.fingerprint,
    };
    Ok(Entry {
        notification: Arc::new(notification),
        progress,
        state,
        cause,
        ended_ms: at_ms.filter(|_| !interrupted),
        verify: flags & VERIFY != 0,
        interrupted_ms: at_ms.filter(|_| interrupted),
        raise_fence: flags & FENCE != 0,
        was_put_off: flags & PUT_OFF != 0,
        lacked,
    })
}

/// Reads the header alone.
///
/// # Errors
/// As [`decode`].
pub fn decode_header(key: &str, bytes: &[u8]) -> Result<(State, HeldProgress), BadEnvelope> {
    let read = |header: &[u8; HEADER_BYTES]| match header[0] {
        VERSION_OF_BARE => Ok((
            State::Scheduled,
            HeldProgress::Due(instant(&header[32..40])),
        )),
        _ => decode_header_parts(header)
            .map(|(state, progress)| (state, HeldProgress::Whole(progress))),
    };
    let header = bytes.first_chunk::<HEADER_BYTES>().ok_or("too short");
    header.and_then(read).map_err(|what| BadEnvelope {
        key: key.to_string(),
        what,
    })
}

fn decode_header_parts(header: &[u8; HEADER_BYTES]) -> Result<(State, Progress), &'static str> {
    if !matches!(
        header[0],
        VERSION | VERSION_WITH_PRECEDENCE | VERSION_WITHOUT_BODY
    ) {
        return Err("written in another format version");
    }
    let state = decode_state(header[1]).ok_or("its state")?;
    let progress = Progress {
        series: number(&header[4..8]),
        step: number(&header[8..12]),
        attempts: number(&header[12..16]),
        first_due_ms: instant(&header[16..24]),
        deadline_ms: instant(&header[24..32]),
        due_ms: instant(&header[32..40]),
        retry_at_ms: Some(instant(&header[40..48])).filter(|at_ms| *at_ms != 0),
        clamped: header[3] & CLAMPED != 0,
    };
    Ok((state, progress))
}

/// The flags that say before which others an entry is sent. They never change.
fn precedence_flags(notification: &Notification) -> u8 {
    let priority = match notification.priority {
        Priority::High => HIGH,
        Priority::Normal => 0,
        Priority::Low => LOW,
    };
    match notification.order {
        None => priority,
        Some(_) => priority | ORDERED,
    }
}

/// Reads the place in an order, if the flags say that there is one.
fn decode_order(flags: u8, bytes: &[u8]) -> Result<(Option<Box<OrderPlace>>, &[u8]), &'static str> {
    if flags & ORDERED == 0 {
        return Ok((None, bytes));
    }
    let (key_len, rest) = bytes.split_first_chunk::<2>().ok_or("too short")?;
    let key_len = usize::from(u16::from_be_bytes(*key_len));
    let (key, rest) = rest.split_at_checked(key_len).ok_or("its order")?;
    let (number, rest) = rest.split_first_chunk::<8>().ok_or("its order")?;
    let key = std::str::from_utf8(key).map_err(|_| "its order")?;
    let (mode, rest) = rest.split_first().ok_or("its order")?;
    let mode = match mode {
        0 => OrderMode::Latest,
        1 => OrderMode::Strict,
        _ => return Err("its order"),
    };
    let order = OrderPlace::new(key, i64::from_be_bytes(*number), mode);
    Ok((Some(Box::new(order.map_err(|_| "its order")?)), rest))
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn instant(bytes: &[u8]) -> i64 {
    bytes
        .iter()
        .fold(0, |instant, byte| instant << 8 | i64::from(*byte))
}

#[cfg(test)]
mod tests;
