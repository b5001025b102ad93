//! Writes what this server's attempts did in each minute to the journal, for plots over time.
//!
//! Nothing is added to the writes of an attempt: the counters are written by themselves, every `KEEP_EVERY` if they have
//! changed, and once a minute if not. A crash loses the counters of that time. An orderly stop writes them after its last
//! attempt ([`ActivityKeeper::keep_rest`]). What cannot be written now is written later, up to
//! [`MOST_MINUTES`](crate::telemetry::activity::MOST_MINUTES).

use crate::clock::Clock;
use crate::journal::{Journal, JournalError};
use crate::telemetry::activity::ActivityCounters;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the counters are written.
const KEEP_EVERY: Duration = Duration::from_secs(10);
/// How long a stop waits for the last counters to be written.
const LONGEST_LAST: Duration = Duration::from_secs(2);
/// Maximum number of minutes in one call. There are more than two only after the journal was out of reach.
const MOST_AT_ONCE: usize = 100;

/// Keeps the counters of one server.
pub struct ActivityKeeper {
    counters: Arc<ActivityCounters>,
    /// Without a journal, the counters stay in memory.
    journal: Option<Arc<dyn Journal>>,
    clock: Arc<dyn Clock>,
    server: String,
}

impl ActivityKeeper {
    /// Keeps these counters under the name of the server, which no other process has.
    #[must_use]
    pub fn new(
        counters: Arc<ActivityCounters>,
        journal: Option<Arc<dyn Journal>>,
        clock: Arc<dyn Clock>,
        server: String,
    ) -> Self {
        Self {
            counters,
            journal,
            clock,
            server,
        }
    }

    /// Keeps the counters until the server stops.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut is_said = false;
        loop {
            let now_ms = self.clock.now_ms();
            // A server that stops is not at work any more when it writes its last counters.
            self.counters.note_at_work(now_ms);
            let Some(kept) = stop.run_until_cancelled(self.keep(now_ms)).await else {
                return;
            };
            match kept {
                Ok(()) => is_said = false,
                // `health` logs outages.
                Err(error @ JournalError::Unavailable(_)) => {
                    tracing::debug!(%error, "the counters for the plots cannot be written now; trying again in a few seconds");
                }
                Err(error) if !is_said => {
                    is_said = true;
                    tracing::warn!(
                        %error,
                        "the journal refuses the counters for the plots of the page, so the plots miss what this server \
                         does; deliveries do not depend on it"
                    );
                }
                Err(_) => {}
            }
            let waiting = stop.run_until_cancelled(tokio::time::sleep(KEEP_EVERY));
            if waiting.await.is_none() {
                return;
            }
        }
    }

    /// Writes what the journal does not have yet.
    ///
    /// # Errors
    /// If the journal fails. The call can be repeated.
    pub async fn keep(&self, now_ms: i64) -> Result<(), JournalError> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        loop {
            let minutes = self.counters.not_kept(MOST_AT_ONCE);
            if minutes.is_empty() {
                return Ok(());
            }
            journal.keep_activity(&self.server, &minutes).await?;
            self.counters.note_kept(&minutes, now_ms);
            if minutes.len() < MOST_AT_ONCE {
                return Ok(());
            }
        }
    }

    /// Writes the last counters of a server that stops, if the journal takes them soon.
    pub async fn keep_rest(&self) {
        let keeping = self.keep(self.clock.now_ms());
        if let Ok(Ok(())) = tokio::time::timeout(LONGEST_LAST, keeping).await {
            return;
        }
        tracing::debug!(
            "the last counters for the plots were not written, because the journal does not take them"
        );
    }
}
