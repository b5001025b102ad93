//! The signals that stop a server: SIGTERM, SIGINT and SIGHUP, which comes when a terminal closes.

use anyhow::Context as _;
use std::fs;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop the server.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` where the process was started to outlive its terminal, as by `nohup`.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Begins to listen; from now on none of them ends the process by itself.
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

    /// Waits for one that asks to stop.
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

    /// Waits for one that asks to end at once. SIGHUP does not: a shell and the system may each send
    /// one when a terminal closes, and a service manager one right behind SIGTERM.
    pub(super) async fn end_at_once(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Whether SIGHUP was ignored before we listen, by what the system reports of the process (proc(5)).
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
