//! Measures the phases of one call while it is made.
//!
//! A call may be broken off at any time by its time limit. So the measurements are kept outside of it.

use crate::domain::attempt_reason::AwaitedStep;
use crate::domain::call_trace::{CallTrace, Phase, TlsVersion};
use crate::domain::retry_after::RetryAfter;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The measurements of one call.
#[derive(Debug, Default)]
pub struct CallRecorder(Mutex<Measured>);

#[derive(Debug, Default)]
struct Measured {
    trace: CallTrace,
    address: Option<SocketAddr>,
    /// The phase that the call is in, and since when.
    phase: Option<(Phase, Instant)>,
    /// What the call waits for, if that is not the phase.
    awaited: Option<AwaitedStep>,
    /// Whether the call waits for the proxy itself, and not for the receiver behind it.
    awaits_proxy: bool,
    /// Whether the look-up of its name has no thread yet, because others have them.
    awaits_thread: bool,
}

impl CallRecorder {
    /// Notes that a phase begins, and the one before it ends.
    pub fn begin(&self, phase: Phase) {
        let mut measured = self.lock();
        measured.end();
        measured.awaited = None;
        measured.phase = Some((phase, Instant::now()));
    }

    /// Notes that the last phase has ended.
    pub fn end(&self) {
        self.lock().end();
    }

    /// Notes which connection the call uses.
    pub fn uses(&self, address: Option<SocketAddr>, tls: Option<TlsVersion>, is_kept: bool) {
        let mut measured = self.lock();
        measured.address = address;
        measured.trace.tls = tls;
        measured.trace.is_kept = is_kept;
        measured.trace.is_http2 = false;
    }

    /// Notes that the connection speaks HTTP/2.
    pub fn speaks_http2(&self) {
        self.lock().trace.is_http2 = true;
    }

    /// Notes what the call waits for until its next phase begins.
    pub fn awaits(&self, what: AwaitedStep) {
        self.lock().awaited = Some(what);
    }

    /// Notes what the receiver asked for with `Retry-After`.
    pub fn asks(&self, asked: Option<RetryAfter>) {
        self.lock().trace.retry_after = asked;
    }

    /// Notes whether the call waits for the proxy itself from now on.
    pub fn awaits_proxy(&self, awaits: bool) {
        self.lock().awaits_proxy = awaits;
    }

    /// Whether the call waits for the proxy itself.
    pub fn is_awaiting_proxy(&self) -> bool {
        self.lock().awaits_proxy
    }

    /// Notes whether the look-up of the name waits for a thread from now on.
    pub fn awaits_thread(&self, awaits: bool) {
        self.lock().awaits_thread = awaits;
    }

    /// Whether the look-up of the name waits for a thread.
    pub fn is_awaiting_thread(&self) -> bool {
        self.lock().awaits_thread
    }

    /// What the call waits for. `None` before the first phase.
    pub fn awaited(&self) -> Option<AwaitedStep> {
        let measured = self.lock();
        let of_phase = measured.phase.map(|(phase, _)| AwaitedStep::from(phase));
        measured.awaited.clone().or(of_phase)
    }

    /// What was measured, up to now.
    pub fn into_trace(self) -> CallTrace {
        let mut measured = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        measured.end();
        let address = measured.address.map(|address| address.to_string().into());
        measured.trace.address = address;
        measured.trace
    }

    fn lock(&self) -> MutexGuard<'_, Measured> {
        // No step in here can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Measured {
    fn end(&mut self) {
        if let Some((phase, since)) = self.phase.take() {
            let took_us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
            let before_us = self.trace.phase_us(phase).unwrap_or(0);
            // A call that moves to a new connection passes through some phases twice.
            self.trace
                .set_phase_us(phase, before_us.saturating_add(took_us));
        }
    }
}
