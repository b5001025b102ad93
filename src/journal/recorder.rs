//! Group commit: many callers share one transaction.
//!
//! Registrations and recordings come one by one from hundreds of tasks, and each commit costs a disk flush.
//! The recorder passes them to the journal in batches, which are larger under load ([`crate::batch`]). Look-ups of notifications
//! and bodies are grouped in the same way, and so is raising fences.

use super::{Journal, JournalError, Pending, Recorded, Recording, RegisterResult, Registering};
use crate::batch::{BatchLimits, Batcher};
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The limits of a batch of registrations.
const WRITES: BatchLimits = BatchLimits {
    requests: 256,
    bytes: 4 * 1024 * 1024,
    queue: 4_096,
    spacing: Duration::ZERO,
};
/// Shortest time from the beginning of a batch to that of the next, where no caller of the API waits: attempts are recorded when
/// they are over, and what is claimed is usually read some milliseconds before it is due. What is overdue begins up to 4 ms later by
/// that, and a lane gets a place back as much later. Of several servers, each has its own batches.
const SPACING: Duration = Duration::from_millis(3);
/// The limits of a batch of recordings.
const RECORDINGS: BatchLimits = BatchLimits {
    spacing: SPACING,
    ..WRITES
};
/// The limits of a batch of registrations with a place in an order. PostgreSQL executes several statements for each, so
/// other registrations do not wait for them, and none of them waits for many.
const ORDERED: BatchLimits = BatchLimits {
    requests: 32,
    ..WRITES
};
/// The limits of a batch of bodies that are read together.
const BODIES: BatchLimits = BatchLimits {
    requests: 256,
    bytes: 4 * 1024 * 1024,
    queue: 16_384,
    spacing: Duration::ZERO,
};
/// The limits of a batch of fences that are raised together. After Redis has lost its data, that is done before each
/// attempt.
const FENCES: BatchLimits = BatchLimits {
    bytes: usize::MAX,
    spacing: SPACING,
    ..WRITES
};
/// The limits of a batch of look-ups.
const LOOK_UPS: BatchLimits = BatchLimits {
    requests: 256,
    bytes: usize::MAX,
    queue: 16_384,
    spacing: Duration::ZERO,
};
/// The limits of a batch of notifications that are read because they were claimed.
const CLAIMED: BatchLimits = BatchLimits {
    spacing: SPACING,
    ..LOOK_UPS
};

/// A journal whose writes and look-ups of single notifications are grouped into batches.
///
/// If a batch fails, each of its requests gets the same error. [`JournalError::Corrupt`] is an exception:
/// then each request of the batch is executed alone and gets its own result. A request that waits too long
/// for its batch fails with [`JournalError::Unavailable`].
pub struct Recorder {
    journal: Arc<dyn Journal>,
    registrations: Batcher<Registering, Result<RegisterResult, JournalError>>,
    ordered: Batcher<Registering, Result<RegisterResult, JournalError>>,
    recordings: Batcher<Recording, Result<Recorded, JournalError>>,
    look_ups: Batcher<Key, Result<Option<Snapshot>, JournalError>>,
    fences: Batcher<Key, Result<Option<Snapshot>, JournalError>>,
    pendings: Batcher<Key, Result<Option<Pending>, JournalError>>,
    fence_pendings: Batcher<Key, Result<Option<Pending>, JournalError>>,
    bodies: Batcher<WantedBody, Result<Option<Bytes>, JournalError>>,
}

/// A request for a body; `len` is its length in bytes.
struct WantedBody {
    key: Key,
    len: usize,
}

impl Recorder {
    /// Starts grouping the calls to a journal.
    #[must_use]
    pub fn start(journal: Arc<dyn Journal>) -> Self {
        let start_registrations = |limits| {
            let journal = journal.clone();
            Batcher::start(limits, size_of_registering, move |batch| {
                execute(journal.clone(), batch, |to, all| to.register(all))
            })
        };
        let (registrations, ordered) = (start_registrations(WRITES), start_registrations(ORDERED));
        let recordings = Batcher::start(RECORDINGS, size_of_recording, {
            let journal = journal.clone();
            move |batch| execute(journal.clone(), batch, |to, all| to.record(all))
        });
        let look_ups = Batcher::start(LOOK_UPS, |_| 0, {
            let journal = journal.clone();
            move |batch| execute(journal.clone(), batch, |to, all| to.snapshots(all))
        });
        let fences = Batcher::start(FENCES, |_| 0, {
            let journal = journal.clone();
            move |batch| execute(journal.clone(), batch, |to, all| to.fence(all))
        });
        let pendings = Batcher::start(CLAIMED, |_| 0, {
            let journal = journal.clone();
            move |batch| {
                execute(journal.clone(), batch, |to, all| {
                    to.pendings_with_bodies(all)
                })
            }
        });
        let fence_pendings = Batcher::start(FENCES, |_| 0, {
            let journal = journal.clone();
            move |batch| execute(journal.clone(), batch, |to, all| to.fence_pendings(all))
        });
        let bodies = Batcher::start(BODIES, |wanted: &WantedBody| wanted.len, {
            let journal = journal.clone();
            move |batch: Vec<WantedBody>| {
                let keys = batch.into_iter().map(|wanted| wanted.key).collect();
                execute(journal.clone(), keys, |to, all| to.bodies(all))
            }
        });
        Self {
            journal,
            registrations,
            ordered,
            recordings,
            look_ups,
            fences,
            pendings,
            fence_pendings,
            bodies,
        }
    }

    /// The journal itself, for calls that are not grouped, such as lists and changes by hand.
    #[must_use]
    pub fn journal(&self) -> &dyn Journal {
        self.journal.as_ref()
    }

    /// Registers one notification.
    ///
    /// # Errors
    /// The error of the journal.
    pub async fn register(&self, registering: Registering) -> Result<RegisterResult, JournalError> {
        let batcher = match registering.notification.order {
            None => &self.registrations,
            Some(_) => &self.ordered,
        };
        ask(batcher, registering).await
    }

    /// Records one attempt and applies its decision.
    ///
    /// # Errors
    /// The error of the journal.
    pub async fn record(&self, recording: Recording) -> Result<Recorded, JournalError> {
        ask(&self.recordings, recording).await
    }

    /// One notification, without its attempts. `None` if the journal does not have it.
    ///
    /// # Errors
    /// The error of the journal.
    pub async fn snapshot(&self, key: Key) -> Result<Option<Snapshot>, JournalError> {
        ask(&self.look_ups, key).await
    }

    /// Raises the fence of one notification if it is pending: see [`super::JournalWrites::fence`].
    ///
    /// # Errors
    /// The error of the journal.
    pub async fn fence(&self, key: Key) -> Result<Option<Snapshot>, JournalError> {
        ask(&self.fences, key).await
    }

    /// One notification with everything that a schedule needs, and its body if that is short. `None` if it is not pending, or is
    /// set aside.
    ///
    /// # Errors
    /// The error of the journal.
    pub async fn pending(&self, key: Key) -> Result<Option<Pending>, JournalError> {
        ask(&self.pendings, key).await
    }

    /// Raises the fence of one notification if it is pending, and gives the notification as [`Self::pending`] does.
    ///
    /// # Errors
    /// The error of the journal.
    pub async fn fence_pending(&self, key: Key) -> Result<Option<Pending>, JournalError> {
        ask(&self.fence_pendings, key).await
    }

    /// The body of one notification, whose length is `len`. `None` if the journal does not have it.
    ///
    /// # Errors
    /// The error of the journal.
    pub async fn body(&self, key: Key, len: usize) -> Result<Option<Bytes>, JournalError> {
        ask(&self.bodies, WantedBody { key, len }).await
    }
}

async fn ask<One: Send + 'static, Reply: Send + 'static>(
    batcher: &Batcher<One, Result<Reply, JournalError>>,
    one: One,
) -> Result<Reply, JournalError> {
    let answered = batcher.call(one).await;
    answered.unwrap_or_else(|lost| Err(JournalError::Unavailable(lost.to_string())))
}

fn size_of_registering(registering: &Registering) -> usize {
    registering.notification.body.held_len() + 512
}

fn size_of_recording(recording: &Recording) -> usize {
    recording.attempt.answer.body.len() + 512
}

/// The method of the journal that executes a batch.
type BatchCall<One, Reply> =
    for<'a> fn(
        &'a dyn Journal,
        &'a [One],
    ) -> Pin<Box<dyn Future<Output = BatchReplies<Reply>> + Send + 'a>>;
type BatchReplies<Reply> = Result<Vec<Reply>, JournalError>;

/// Executes a batch. If the journal answers [`JournalError::Corrupt`], executes the requests one by one.
async fn execute<One, Reply>(
    journal: Arc<dyn Journal>,
    batch: Vec<One>,
    call: BatchCall<One, Reply>,
) -> Vec<Result<Reply, JournalError>> {
    let all = call(&*journal, &batch).await;
    if !has_corrupt_item(&all, batch.len()) {
        return one_each(all, batch.len());
    }
    let mut replies = Vec::with_capacity(batch.len());
    for one in batch.chunks(1) {
        replies.extend(one_each(call(&*journal, one).await, 1));
    }
    replies
}

/// Whether one of several requests cannot be read or stored. Then the requests are executed one by one, so
/// that the others do not fail with it.
fn has_corrupt_item<Reply>(all: &Result<Vec<Reply>, JournalError>, many: usize) -> bool {
    many > 1 && matches!(all, Err(JournalError::Corrupt(_)))
}

/// Gives each request its reply: its own, or the error of the whole batch.
fn one_each<Reply>(
    all: Result<Vec<Reply>, JournalError>,
    many: usize,
) -> Vec<Result<Reply, JournalError>> {
    match all {
        Ok(replies) => replies.into_iter().map(Ok).collect(),
        Err(error) => (0..many).map(|_| Err(error.clone())).collect(),
    }
}
