//! Group commit: many callers, one transaction.
//!
//! Registrations and recordings come one by one from hundreds of tasks; a commit costs a disk
//! flush. The recorder hands them to the journal in batches that grow with the load and adds no
//! wait of its own (see [`crate::batch`]).

use super::{Journal, JournalError, Recorded, Recording, RegisterResult, Registering};
use crate::batch::{BatchLimits, Batcher};
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;

/// Registrations that are written together, and recordings likewise.
const WRITES: BatchLimits = BatchLimits {
    requests: 256,
    bytes: 4 * 1024 * 1024,
    queue: 4_096,
};
/// Bodies that are read together.
const BODIES: BatchLimits = BatchLimits {
    requests: 256,
    bytes: 4 * 1024 * 1024,
    queue: 16_384,
};
/// Look-ups that are read together.
const LOOK_UPS: BatchLimits = BatchLimits {
    requests: 256,
    bytes: usize::MAX,
    queue: 16_384,
};

/// A journal with its writes grouped, and its look-ups of single notifications.
pub struct Recorder {
    journal: Arc<dyn Journal>,
    registrations: Batcher<Registering, Result<RegisterResult, JournalError>>,
    recordings: Batcher<Recording, Result<Recorded, JournalError>>,
    look_ups: Batcher<Key, Result<Option<Snapshot>, JournalError>>,
    bodies: Batcher<WantedBody, Result<Option<Bytes>, JournalError>>,
}

/// A body that is wanted.
struct WantedBody {
    key: Key,
    len: usize,
}

impl Recorder {
    /// Starts grouping the writes to a journal.
    #[must_use]
    pub fn start(journal: Arc<dyn Journal>) -> Self {
        let registrations = Batcher::start(WRITES, size_of_registering, {
            let journal = journal.clone();
            move |batch| execute(journal.clone(), batch, |to, all| to.register(all))
        });
        let recordings = Batcher::start(WRITES, size_of_recording, {
            let journal = journal.clone();
            move |batch| execute(journal.clone(), batch, |to, all| to.record(all))
        });
        let look_ups = Batcher::start(LOOK_UPS, |_| 0, {
            let journal = journal.clone();
            move |batch| execute(journal.clone(), batch, |to, all| to.snapshots(all))
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
            recordings,
            look_ups,
            bodies,
        }
    }

    /// The journal itself, for reading and for changes by hand.
    #[must_use]
    pub fn journal(&self) -> &dyn Journal {
        self.journal.as_ref()
    }

    /// Keeps one notification.
    ///
    /// # Errors
    /// Whatever the journal says of the batch it went in.
    pub async fn register(&self, registering: Registering) -> Result<RegisterResult, JournalError> {
        ask(&self.registrations, registering).await
    }

    /// Keeps one attempt and applies its decision.
    ///
    /// # Errors
    /// Whatever the journal says of the batch it went in.
    pub async fn record(&self, recording: Recording) -> Result<Recorded, JournalError> {
        ask(&self.recordings, recording).await
    }

    /// How one notification stands, without its attempts.
    ///
    /// # Errors
    /// Whatever the journal says of the batch it went in.
    pub async fn snapshot(&self, key: Key) -> Result<Option<Snapshot>, JournalError> {
        ask(&self.look_ups, key).await
    }

    /// The body of one notification, which has so many bytes; `None` if it is not here.
    ///
    /// # Errors
    /// Whatever the journal says of the batch it went in.
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

/// The method of the journal that a batch is handed to.
type BatchCall<One, Reply> =
    for<'a> fn(
        &'a dyn Journal,
        &'a [One],
    ) -> Pin<Box<dyn Future<Output = BatchReplies<Reply>> + Send + 'a>>;
type BatchReplies<Reply> = Result<Vec<Reply>, JournalError>;

/// Executes a batch, and its items one by one if the journal finds something corrupt in it.
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

/// Whether something in a batch cannot be read or kept. It is then executed again one by one, so
/// that it costs nobody else anything.
fn has_corrupt_item<Reply>(all: &Result<Vec<Reply>, JournalError>, many: usize) -> bool {
    many > 1 && matches!(all, Err(JournalError::Corrupt(_)))
}

/// One reply per request: its own, or the failure of the whole batch.
fn one_each<Reply>(
    all: Result<Vec<Reply>, JournalError>,
    many: usize,
) -> Vec<Result<Reply, JournalError>> {
    match all {
        Ok(replies) => replies.into_iter().map(Ok).collect(),
        Err(error) => (0..many).map(|_| Err(error.clone())).collect(),
    }
}
