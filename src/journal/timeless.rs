//! For tests: a journal whose calls take no time of a paused clock.
//!
//! The paused clock of tokio goes on by itself whenever no task can run, also while a call waits for a thread or a socket of
//! its database. So the timeouts of a call would pass although it has taken no time.

use super::decorator::{JournalCall, JournalDecorator};
use super::{Journal, JournalError};
use std::sync::{Arc, mpsc};

/// A journal during whose calls the paused clock stands still.
pub struct TimelessJournal(Arc<dyn Journal>);

impl TimelessJournal {
    /// Makes the calls to this journal.
    pub fn over(journal: Arc<dyn Journal>) -> Self {
        Self(journal)
    }
}

impl JournalDecorator for TimelessJournal {
    fn inner(&self) -> &dyn Journal {
        self.0.as_ref()
    }

    async fn around<T: Send>(
        &self,
        _: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        // The clock stands still while a blocking task runs. This one ends when `calls` is dropped.
        let (calls, ended) = mpsc::channel::<()>();
        let running = tokio::task::spawn_blocking(move || ended.recv());
        let result = calling.await;
        drop(calls);
        let _ = running.await;
        result
    }
}
