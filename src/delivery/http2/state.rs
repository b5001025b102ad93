//! What is known about an open HTTP/2 connection: shared by the stream that observes its frames, the task that runs
//! it, and the calls that use it.

use super::connection_end::ConnectionEnd;
use super::frames::{Found, kind};
use super::send_window::SendWindow;
use crate::delivery::failure::{broken_connection, is_closed_by_receiver};
use crate::delivery::socket::Meter;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How many frames a connection may get beside those that carry a body, before and between calls.
const MOST_OTHER_FRAMES: u32 = 256;
/// How many more for each call: settings, pings, window updates, headers, interim answers. An answer needs about 40.
const MOST_OTHER_FRAMES_OF_CALL: u32 = 256;
/// A receiver may say after so many bytes of a body that it takes more, once for the stream and once for the connection.
/// Common servers do so after 4 KiB and more, and after each frame.
const BYTES_FOR_UPDATES: u32 = 1_024;
/// How long a connection with calls in flight is silent before the receiver is asked whether it is still there.
pub const SILENT_BEFORE_PING: Duration = Duration::from_secs(3);
/// How long a connection with calls in flight is silent before new calls use other connections.
const SILENT_BEFORE_DOUBT: Duration = Duration::from_secs(5);

/// See the documentation of the module.
pub struct ConnectionState {
    meter: Arc<Meter>,
    /// Tells the task of the connection that the receiver is to be asked whether it is still there.
    pub ask: Notify,
    observed: Mutex<ObservedConnection>,
}

struct ObservedConnection {
    /// Whether the settings of the receiver have come. They are the first thing that it says.
    has_settings: bool,
    /// The last stream that the receiver processes, if it has said that it leaves (GOAWAY).
    last_stream: Option<u32>,
    /// The error with which it leaves; 0 if there is none.
    leaves_with: u32,
    /// The last stream whose request was begun to be written.
    written: u32,
    last_read: Instant,
    /// Whether a call ran out of time, and the receiver has answered nothing since.
    is_doubtful: bool,
    /// How much of bodies it takes.
    window: SendWindow,
    other_frames_left: u32,
    /// How many window updates may come beside these, for what was sent of bodies.
    updates_left: u32,
    /// The calls in flight, each with the instant at which its lease expires.
    calls: Vec<(u64, Instant)>,
    /// When the first of the calls in flight began.
    busy_since: Instant,
    next_call: u64,
    end: Option<ConnectionEnd>,
    /// Whether it ended because the receiver closed or reset it.
    is_closed: bool,
    /// Whether it leads to a server that does not serve the origin.
    is_misdirected: bool,
    /// Whether calls that wait for this connection should look again.
    is_changed: bool,
}

impl ConnectionState {
    /// A connection that was just opened.
    pub fn new(meter: Arc<Meter>, now: Instant) -> Self {
        // From here on, the frames bound what a connection without calls may read; the socket counts what calls read.
        meter.share(0, false, None);
        Self {
            meter,
            ask: Notify::new(),
            observed: Mutex::new(ObservedConnection {
                has_settings: false,
                last_stream: None,
                leaves_with: 0,
                written: 0,
                last_read: now,
                is_doubtful: false,
                window: SendWindow::new(),
                other_frames_left: MOST_OTHER_FRAMES,
                updates_left: 0,
                calls: Vec::new(),
                busy_since: now,
                next_call: 0,
                end: None,
                is_closed: false,
                is_misdirected: false,
                is_changed: false,
            }),
        }
    }

    /// Notes what has come.
    ///
    /// # Errors
    /// The receiver does not speak HTTP/2, or sends too much. Then the connection must be closed.
    pub fn came(&self, found: Found, now: Instant) -> Result<(), ConnectionEnd> {
        let mut observed = self.lock();
        let checked = observed.came(found, now);
        if let Err(end) = &checked {
            observed.ended(end.clone());
        }
        checked
    }

    /// Notes that the request of this stream is being written.
    pub fn wrote(&self, stream: u32) {
        let mut observed = self.lock();
        observed.written = observed.written.max(stream);
    }

    /// Notes that so many bytes of a body are being written.
    pub fn wrote_body(&self, bytes: u32, now: Instant) {
        let mut observed = self.lock();
        observed.window.sent(bytes, now);
        let updates = 2 * bytes.div_ceil(BYTES_FOR_UPDATES);
        observed.updates_left = observed.updates_left.saturating_add(updates);
    }

    /// Notes that a call has ended whose body was not sent whole.
    pub fn ended_unsent(&self) {
        self.lock().window.ended_unsent();
    }

    /// Notes that reading or writing failed.
    pub fn broke(&self, error: &io::Error) {
        let (outcome, reason) = broken_connection(error);
        let mut observed = self.lock();
        observed.is_closed |= observed.end.is_none() && is_closed_by_receiver(error);
        observed.ended(ConnectionEnd { outcome, reason });
    }

    /// Notes that the receiver has closed the connection.
    pub fn closed(&self) {
        let mut observed = self.lock();
        let end = match (observed.has_settings, observed.leaves_with) {
            (true, 0) => ConnectionEnd::closed(),
            (true, code) => ConnectionEnd::left_with(code.into()),
            (false, _) => ConnectionEnd::silent(),
        };
        observed.is_closed |= observed.end.is_none();
        observed.ended(end);
    }

    /// Notes that the connection has ended. What was noted before stays.
    pub fn ended(&self, end: ConnectionEnd) {
        self.lock().ended(end);
    }

    /// Why the connection has ended; `None` if it is open.
    pub fn end(&self) -> Option<ConnectionEnd> {
        self.lock().end.clone()
    }

    /// Whether the settings of the receiver have come.
    pub fn has_settings(&self) -> bool {
        self.lock().has_settings
    }

    /// Whether the receiver has said that it leaves.
    pub fn is_leaving(&self) -> bool {
        self.lock().last_stream.is_some()
    }

    /// Notes that the receiver does not serve the origin over this connection (421; RFC 9110, section 15.5.20).
    pub fn misdirected(&self) {
        self.lock().is_misdirected = true;
    }

    /// Whether the receiver does not serve the origin over this connection.
    pub fn is_misdirected(&self) -> bool {
        self.lock().is_misdirected
    }

    /// Whether the receiver has closed or reset the connection without saying that it leaves.
    pub fn is_closed_without_goaway(&self) -> bool {
        let observed = self.lock();
        observed.is_closed && observed.last_stream.is_none()
    }

    /// Whether nothing of the request of a stream was written.
    pub fn is_unwritten(&self, stream: u32) -> bool {
        stream > self.lock().written
    }

    /// Whether the receiver cannot have processed the request of a stream that has failed: it was not written, or the
    /// receiver says so (RFC 9113, section 6.8).
    pub fn is_unprocessed(&self, stream: u32) -> bool {
        let observed = self.lock();
        stream > observed.written || observed.last_stream.is_some_and(|last| stream > last)
    }

    /// Whether new calls may use the connection, as far as the receiver is concerned.
    pub fn takes_calls(&self, now: Instant) -> bool {
        let observed = self.lock();
        observed.end.is_none()
            && observed.has_settings
            && observed.last_stream.is_none()
            && !observed.is_misdirected
            && !observed.is_doubtful
            && !observed.window.is_stuck(now)
            && observed.silent_for(now) < SILENT_BEFORE_DOUBT
    }

    /// For how long calls in flight have waited without anything coming from the receiver. Zero if there are none.
    pub fn silent_for(&self, now: Instant) -> Duration {
        self.lock().silent_for(now)
    }

    /// Notes that a call begins, whose lease expires at `until`. Returns its number.
    pub fn begin_call(&self, until: Instant, now: Instant) -> u64 {
        let mut observed = self.lock();
        if observed.calls.is_empty() {
            observed.busy_since = now;
            // What a receiver says right after the connection was opened does not mean that it closes it.
            if observed.next_call > 0 {
                self.meter.check_before_write();
            }
        }
        observed.next_call += 1;
        let number = observed.next_call;
        observed.calls.push((number, until));
        observed.other_frames_left += MOST_OTHER_FRAMES_OF_CALL;
        observed.bound_other_frames();
        self.meter
            .share(observed.calls.len(), true, observed.until());
        number
    }

    /// Notes that a call has ended. If it ran out of time, the connection is in doubt until the receiver answers a call or
    /// a ping. What it sends by itself does not show that it still reads.
    pub fn end_call(&self, number: u64, is_in_doubt: bool) {
        let mut observed = self.lock();
        observed.calls.retain(|(known, _)| *known != number);
        observed.bound_other_frames();
        self.meter
            .share(observed.calls.len(), false, observed.until());
        if is_in_doubt {
            observed.is_doubtful = true;
            self.ask.notify_one();
        }
    }

    /// Whether more than one call has begun, whether it is still in flight or not.
    pub fn has_had_several_calls(&self) -> bool {
        self.lock().next_call > 1
    }

    /// Whether waiting calls should look again. Asked once for each change.
    pub fn take_change(&self) -> bool {
        std::mem::take(&mut self.lock().is_changed)
    }

    fn lock(&self) -> MutexGuard<'_, ObservedConnection> {
        // No step in here can panic half-way.
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObservedConnection {
    fn came(&mut self, found: Found, now: Instant) -> Result<(), ConnectionEnd> {
        self.last_read = now;
        let frame = match found {
            Found::GoAway { last_stream, code } => {
                // A receiver that leaves may say so twice. It must not take back what it said.
                let before = self.last_stream.unwrap_or(u32::MAX);
                self.last_stream = Some(last_stream.min(before));
                self.leaves_with = code;
                self.is_changed = true;
                return Ok(());
            }
            Found::Widened(bytes) => {
                self.is_changed |= self.window.widened(bytes);
                return Ok(());
            }
            Found::Frame(frame) => frame,
        };
        if self.is_doubtful && frame.answers() {
            self.is_doubtful = false;
            self.is_changed = true;
        }
        if !self.has_settings {
            if !frame.is_settings() {
                return Err(if frame.is_http1() {
                    ConnectionEnd::http1()
                } else {
                    ConnectionEnd::not_http2()
                });
            }
            self.has_settings = true;
        }
        // Settings may change how many calls the connection may have.
        self.is_changed |= frame.is_settings();
        if frame.kind == kind::WINDOW_UPDATE && self.updates_left > 0 {
            self.updates_left -= 1;
        } else if frame.kind != kind::DATA || frame.length == 0 {
            let left = self.other_frames_left.checked_sub(1);
            self.other_frames_left = left.ok_or_else(ConnectionEnd::too_many_frames)?;
        }
        Ok(())
    }

    fn ended(&mut self, end: ConnectionEnd) {
        self.end.get_or_insert(end);
        self.is_changed = true;
    }

    fn silent_for(&self, now: Instant) -> Duration {
        if self.calls.is_empty() {
            return Duration::ZERO;
        }
        now.saturating_duration_since(self.last_read.max(self.busy_since))
    }

    /// When the first lease expires.
    fn until(&self) -> Option<Instant> {
        self.calls.iter().map(|(_, until)| *until).min()
    }

    /// Takes away what calls that have ended did not use.
    fn bound_other_frames(&mut self) {
        // As many calls as a connection has.
        let calls = self.calls.len() as u32;
        let most = MOST_OTHER_FRAMES + MOST_OTHER_FRAMES_OF_CALL * calls;
        self.other_frames_left = self.other_frames_left.min(most);
    }
}

#[cfg(test)]
mod tests;
