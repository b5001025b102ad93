//! The process of a server: it works until a signal stops it.

use super::App;
use super::signals::Signals;
use crate::config::ServeConfig;
use anyhow::bail;

/// The requested limit of open files. The connections of the API and the largest `concurrency` need fewer.
pub(super) const MOST_DESCRIPTORS: u64 = 65_536;

/// Runs a server until SIGTERM, SIGINT or SIGHUP. A second SIGTERM or SIGINT ends the process at once.
///
/// # Errors
/// If the server cannot start, if a required part of it ends, or if a second signal ends it.
pub async fn serve(config: ServeConfig) -> anyhow::Result<()> {
    // A core file would have the keys that are in memory. Lowering the limit needs no rights.
    if let Err(error) = rlimit::setrlimit(rlimit::Resource::CORE, 0, 0) {
        tracing::debug!(%error, "the limit of core files cannot be set to 0");
    }
    // Each attempt and each caller needs a file descriptor, and the usual soft limit is too low for many. If
    // the limit cannot be raised, the server works, but perhaps with fewer of them than the settings allow.
    if let Err(error) = rlimit::increase_nofile_limit(MOST_DESCRIPTORS) {
        tracing::warn!(
            %error,
            "the limit of open files cannot be raised; with many connections, attempts or requests may fail"
        );
    }
    let mut signals = Signals::listen()?;
    let app = tokio::select! {
        app = App::start(config) => app?,
        signal = signals.stop() => {
            tracing::info!(signal, "the server was stopped by a signal while it was starting");
            return Ok(());
        }
    };
    let signal = tokio::select! {
        signal = signals.stop() => signal,
        () = app.broken() => bail!("a part of the server has ended, so the server cannot work; see the log"),
    };
    tracing::info!(
        signal,
        "the server is stopping; a second SIGTERM or SIGINT ends it at once"
    );
    tokio::select! {
        () = app.stop() => Ok(()),
        signal = signals.end_at_once() => bail!("a second signal ({signal}) ended the server at once"),
    }
}
