//! How much of bodies the receiver of a connection takes at present (RFC 9113, section 6.9).
//!
//! The bodies of all calls on a connection share one window. A receiver that does not read one body, and gives nothing
//! back, thereby stops all others, although it answers pings.

use std::time::{Duration, Instant};

/// The window of every new connection, in bytes.
const FIRST_WINDOW: i64 = 65_535;
/// How long the window may be used up before new calls use other connections. While a receiver reads, it is used up for
/// no longer than its next word takes.
const USED_UP_BEFORE_DOUBT: Duration = Duration::from_secs(1);

/// The window of one connection.
#[derive(Debug)]
pub struct SendWindow {
    left: i64,
    /// Since when nothing is left.
    used_up: Option<Instant>,
    /// Whether a call has ended since whose body was not sent whole.
    left_unsent: bool,
}

impl SendWindow {
    /// That of a new connection.
    pub fn new() -> Self {
        Self {
            left: FIRST_WINDOW,
            used_up: None,
            left_unsent: false,
        }
    }

    /// Notes that so many bytes of bodies are being written.
    pub fn sent(&mut self, bytes: u32, now: Instant) {
        self.left -= i64::from(bytes);
        if self.left <= 0 && bytes > 0 {
            self.used_up.get_or_insert(now);
        }
    }

    /// Notes that the receiver takes so many bytes more. Returns whether it took nothing before.
    pub fn widened(&mut self, bytes: u32) -> bool {
        // A sum that is not allowed ends the connection.
        self.left = self.left.saturating_add(bytes.into());
        if self.left <= 0 {
            return false;
        }
        self.left_unsent = false;
        self.used_up.take().is_some()
    }

    /// Notes that a call has ended whose body was not sent whole.
    pub fn ended_unsent(&mut self) {
        self.left_unsent |= self.used_up.is_some();
    }

    /// Whether new calls should use other connections.
    pub fn is_stuck(&self, now: Instant) -> bool {
        self.used_up.is_some_and(|since| {
            self.left_unsent || now.saturating_duration_since(since) >= USED_UP_BEFORE_DOUBT
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_stays_used_up_is_stuck_until_it_is_widened() {
        let now = Instant::now();
        let mut window = SendWindow::new();
        window.sent(65_534, now);
        let later = now + Duration::from_secs(3_600);
        assert!(!window.is_stuck(later));
        assert!(!window.widened(0));
        window.sent(1, now);
        let millisecond = Duration::from_millis(1);
        let stuck = now + USED_UP_BEFORE_DOUBT;
        assert!(!window.is_stuck(stuck - millisecond));
        assert!(window.is_stuck(stuck));
        window.sent(0, stuck);
        assert!(window.widened(10));
        assert!(!window.widened(10));
        assert!(!window.is_stuck(later));
        window.sent(20, later);
        assert!(!window.is_stuck(later), "it counts from then on");
    }

    #[test]
    fn a_call_that_ends_unsent_shows_that_a_window_is_stuck() {
        let now = Instant::now();
        let mut window = SendWindow::new();
        // The window of its own stream was used up, and not that of the connection.
        window.sent(65_534, now);
        window.ended_unsent();
        window.sent(1, now);
        assert!(!window.is_stuck(now));
        window.ended_unsent();
        assert!(window.is_stuck(now));
        assert!(window.widened(1));
        window.sent(1, now);
        assert!(!window.is_stuck(now));
    }
}
