//! Limits how many of the long readings that callers ask for are made at a time: lists of notifications, also of those of a job,
//! the audit log, counting for a job, and finding and counting what waits in the journal for destinations.
//!
//! Such a reading may look at very many rows. All calls that read share a few connections to the journal, and those who wait
//! for one are served in turn: also the attempts, the loading of what is due soon, and the API keys. So lists may take half
//! of these connections at most, however many callers ask for one. What this server reads for itself asks for no permit here; nor
//! does what it reads once a second for all visitors of the overview. What it reads once a second for the visitors of a job does.
//!
//! API keys are served in turn. The callers of each key wait in a queue of its own first, and at most two of each queue wait for
//! a permit. So one key that asks for hundreds of lists delays another by two readings at most, and each further key by two more. A
//! reading may take longer than a caller waits, so two very long ones still make others give up.
//!
//! The limit is outside of what reports to [`crate::health`]: a caller who gets no permit says nothing about the journal.
//! Nobody may ask for a second permit while holding one, or two callers could wait for each other.

use super::ServiceError;
use crate::domain::api_key::ApiKeyName;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Maximum number of these readings at a time: half of the connections with which a journal reads.
const MOST_LISTS: usize = 2;
/// Number of queues of API keys. Two keys rarely share one; then they have their turns together.
const QUEUES: usize = 1_024;
/// How long a caller waits while others read: as long as for a connection to PostgreSQL.
const LONGEST_WAIT: Duration = Duration::from_secs(4);
/// How long a caller waits who can be answered without the reading.
const SHORT_WAIT: Duration = Duration::from_millis(500);

/// The permits for lists of one server.
#[derive(Debug)]
pub(super) struct ListLimit {
    permits: Semaphore,
    queues: Vec<Semaphore>,
    hasher: RandomState,
}

/// A permit to read a list. Given back when it is dropped.
#[derive(Debug)]
pub(super) struct ListPermit<'limit> {
    _permit: SemaphorePermit<'limit>,
    /// The place in the queue of the key, if it waited there. Given back after the permit.
    _place: Option<SemaphorePermit<'limit>>,
}

impl Default for ListLimit {
    fn default() -> Self {
        Self {
            permits: Semaphore::new(MOST_LISTS),
            queues: (0..QUEUES).map(|_| Semaphore::new(MOST_LISTS)).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl ListLimit {
    /// Waits for a permit, at most [`LONGEST_WAIT`]. The reading is made while the permit is held. `asked_by`: the API key of the
    /// caller; `None` for that of the settings, and where no key is needed.
    ///
    /// # Errors
    /// [`ServiceError::TooManyLists`] if it was not this caller's turn until then.
    pub(super) async fn permit(
        &self,
        asked_by: Option<&ApiKeyName>,
    ) -> Result<ListPermit<'_>, ServiceError> {
        let queue = &self.queues[self.queue_of(asked_by)];
        let waiting = timeout(LONGEST_WAIT, async {
            let place = queue.acquire().await?;
            let permit = self.permits.acquire().await?;
            Ok::<_, AcquireError>(ListPermit {
                _permit: permit,
                _place: Some(place),
            })
        });
        // The semaphores are never closed.
        let permit = waiting.await.ok().and_then(Result::ok);
        permit.ok_or(ServiceError::TooManyLists)
    }

    /// Waits for a permit for a short reading without which the caller can be answered, at most [`SHORT_WAIT`]. Nobody waits for
    /// long behind those who ask for it, so they wait in no other queue.
    ///
    /// # Errors
    /// [`ServiceError::TooManyLists`] if there was none until then.
    pub(super) async fn permit_soon(&self) -> Result<ListPermit<'_>, ServiceError> {
        let waiting = timeout(SHORT_WAIT, self.permits.acquire()).await;
        // The semaphore is never closed.
        let permit = waiting.ok().and_then(Result::ok);
        let permit = permit.ok_or(ServiceError::TooManyLists)?;
        Ok(ListPermit {
            _permit: permit,
            _place: None,
        })
    }

    /// The queue of an API key.
    fn queue_of(&self, asked_by: Option<&ApiKeyName>) -> usize {
        let hash = self.hasher.hash_one(asked_by);
        usize::try_from(hash % QUEUES as u64).expect("invariant: below QUEUES")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::task::JoinSet;
    use tokio::time::{Instant, sleep};

    /// How long a reading takes.
    const READING: Duration = Duration::from_secs(1);

    async fn read(limit: &ListLimit, asked_by: &ApiKeyName) -> Result<(), ServiceError> {
        let _permit = limit.permit(Some(asked_by)).await?;
        sleep(READING).await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_for_very_many_lists_waits_behind_itself() {
        let limit = Arc::new(ListLimit::default());
        let name = |text: &str| ApiKeyName::parse(text).expect("a name");
        let script = name("script");
        let of_script = limit.queue_of(Some(&script));
        let desk = (0..)
            .map(|number| name(&format!("desk-{number}")))
            .find(|desk| limit.queue_of(Some(desk)) != of_script)
            .expect("one with a queue of its own");
        let mut asked = JoinSet::new();
        for _ in 0..100 {
            let (limit, script) = (limit.clone(), script.clone());
            asked.spawn(async move { read(&limit, &script).await.is_ok() });
        }
        // Until all of them wait.
        sleep(Duration::from_millis(10)).await;
        let began = Instant::now();
        read(&limit, &desk).await.expect("its turn");
        assert!(began.elapsed() <= 2 * READING, "{:?}", began.elapsed());
        let read = asked.join_all().await;
        let many = read.into_iter().filter(|is_read| *is_read).count();
        assert!((5..20).contains(&many), "{many}");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_finds_two_lists_being_read_waits_and_gives_up() {
        let limit = ListLimit::default();
        let began = Instant::now();
        let first = limit.permit(None).await.expect("free");
        let second = limit.permit(None).await.expect("free");
        assert_eq!(began.elapsed(), Duration::ZERO);
        let third = limit.permit(None).await;
        assert!(matches!(third, Err(ServiceError::TooManyLists)));
        assert!(began.elapsed() >= LONGEST_WAIT);
        let soon = Instant::now();
        let fourth = limit.permit_soon().await;
        assert!(matches!(fourth, Err(ServiceError::TooManyLists)));
        assert!((SHORT_WAIT..LONGEST_WAIT).contains(&soon.elapsed()));
        drop(first);
        let again = Instant::now();
        let third = limit.permit(None).await.expect("given back");
        assert_eq!(again.elapsed(), Duration::ZERO);
        drop((second, third));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_gets_the_permit_of_a_list_that_ends() {
        let limit = ListLimit::default();
        let began = Instant::now();
        let _first = limit.permit(None).await.expect("free");
        let second = limit.permit(None).await.expect("free");
        let reading = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(second);
        };
        let (third, ()) = tokio::join!(limit.permit(None), reading);
        assert!(third.is_ok());
        assert!(began.elapsed() < LONGEST_WAIT);
    }
}
