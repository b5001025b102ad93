//! Limits how many of the long readings that callers ask for are made at a time: lists of notifications, also of those of a job,
//! the audit log, counting for a job, and finding and counting what waits in the journal for destinations.
//!
//! Such a reading may look at very many rows. All calls that read share a few connections to the journal, and those who wait
//! for one are served in turn: also the attempts, the loading of what is due soon, and the API keys. So lists may take half
//! of these connections at most, however many callers ask for one. What this server reads for itself asks for no permit here; nor
//! does what it reads once a second for all visitors of the overview.
//!
//! The limit is outside of what reports to [`crate::health`]: a caller who gets no permit says nothing about the journal.
//! Nobody may ask for a second permit while holding one, or two callers could wait for each other.

use super::ServiceError;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Maximum number of these readings at a time: half of the connections with which a journal reads.
const MOST_LISTS: usize = 2;
/// How long a caller waits while others read: as long as for a connection to PostgreSQL.
const LONGEST_WAIT: Duration = Duration::from_secs(4);
/// How long a caller waits who can be answered without the reading.
const SHORT_WAIT: Duration = Duration::from_millis(500);

/// The permits for lists of one server.
#[derive(Debug)]
pub(super) struct ListLimit {
    permits: Semaphore,
}

impl Default for ListLimit {
    fn default() -> Self {
        Self {
            permits: Semaphore::new(MOST_LISTS),
        }
    }
}

impl ListLimit {
    /// Waits for a permit, at most [`LONGEST_WAIT`]. The reading is made while the permit is held.
    ///
    /// # Errors
    /// [`ServiceError::TooManyLists`] if none was given back until then.
    pub(super) async fn permit(&self) -> Result<SemaphorePermit<'_>, ServiceError> {
        self.permit_within(LONGEST_WAIT).await
    }

    /// As [`ListLimit::permit`], for a caller who can be answered without the reading: waits for [`SHORT_WAIT`] at most.
    ///
    /// # Errors
    /// As [`ListLimit::permit`].
    pub(super) async fn permit_soon(&self) -> Result<SemaphorePermit<'_>, ServiceError> {
        self.permit_within(SHORT_WAIT).await
    }

    async fn permit_within(
        &self,
        longest_wait: Duration,
    ) -> Result<SemaphorePermit<'_>, ServiceError> {
        let waiting = timeout(longest_wait, self.permits.acquire()).await;
        // The semaphore is never closed.
        let permit = waiting.ok().and_then(Result::ok);
        permit.ok_or(ServiceError::TooManyLists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn whoever_finds_two_lists_being_read_waits_and_gives_up() {
        let limit = ListLimit::default();
        let began = Instant::now();
        let first = limit.permit().await.expect("free");
        let second = limit.permit().await.expect("free");
        assert_eq!(began.elapsed(), Duration::ZERO);
        let third = limit.permit().await;
        assert!(matches!(third, Err(ServiceError::TooManyLists)));
        assert!(began.elapsed() >= LONGEST_WAIT);
        let soon = Instant::now();
        let fourth = limit.permit_soon().await;
        assert!(matches!(fourth, Err(ServiceError::TooManyLists)));
        assert!((SHORT_WAIT..LONGEST_WAIT).contains(&soon.elapsed()));
        drop(first);
        let again = Instant::now();
        let third = limit.permit().await.expect("given back");
        assert_eq!(again.elapsed(), Duration::ZERO);
        drop((second, third));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_gets_the_permit_of_a_list_that_ends() {
        let limit = ListLimit::default();
        let began = Instant::now();
        let _first = limit.permit().await.expect("free");
        let second = limit.permit().await.expect("free");
        let reading = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(second);
        };
        let (third, ()) = tokio::join!(limit.permit(), reading);
        assert!(third.is_ok());
        assert!(began.elapsed() < LONGEST_WAIT);
    }
}
