//! The signals that stop a server: SIGTERM, SIGINT, and SIGHUP, which is sent when a terminal closes.

use anyhow::Context as _;
use std::fs;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop the server.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if the process was started to continue after its terminal closes, for example by `nohup`.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Begins to listen. From now on, these signals no longer end the process directly.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let listen = |kind, name| signal(kind).with_context(|| format!("cannot listen for {name}"));
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hang_up = if is_hang_up_ignored(&status) {
            None
        } else {
            Some(listen(SignalKind::hangup(), "SIGHUP")?)
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate(), "SIGTERM")?,
            interrupt: listen(SignalKind::interrupt(), "SIGINT")?,
            hang_up,
        })
    }

    /// Waits for a signal that requests a stop, and returns its name.
    pub(super) async fn stop(&mut self) -> &'static str {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = hang_up => "SIGHUP",
        }
    }

    /// Waits for a second signal, which ends the process at once, and returns its name. SIGHUP does not
    /// count: when a terminal closes, the shell and the system may each send one, and a service manager may
    /// send one right after SIGTERM.
    pub(super) async fn end_at_once(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Whether the process was started with SIGHUP ignored. `status` is the text of `/proc/self/status`, see
/// proc(5).
fn is_hang_up_ignored(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u128::from_str_radix(mask.trim(), 16).ok());
    let hang_up = SignalKind::hangup().as_raw_value();
    mask.is_some_and(|mask| mask >> (hang_up - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_ignored_is_found_in_the_mask() {
        fn check(status: &str, expected: bool) {
            assert_eq!(is_hang_up_ignored(status), expected, "{status:?}");
        }
        check(
            "SigBlk:\t0000000000000001\nSigIgn:\t0000000000000001\n",
            true,
        );
        check(
            "SigIgn:\t0000000000001001\nSigCgt:\t0000000000000000\n",
            true,
        );
        check(
            "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n",
            false,
        );
        check("SigIgn:\tx\n", false);
        check("", false);
    }
}
