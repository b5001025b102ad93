//! How many changes of this instance were answered in a partition.
//!
//! Redis counts the changes of each instance. If it has counted fewer than were answered, it has been
//! flushed, replaced or set back to an older copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::watch;

/// Whether calls are refused because data was lost; one for all partitions.
#[derive(Debug)]
pub struct Loss(watch::Sender<bool>);

impl Default for Loss {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Loss {
    /// Notes that calls are refused, or that they are executed again.
    pub fn set(&self, lost: bool) {
        self.0.send_if_modified(|current| {
            let changed = *current != lost;
            *current = lost;
            changed
        });
    }

    /// Completes when the value is `lost`.
    pub async fn until(&self, lost: bool) {
        // Fails only if the sender was dropped, and `self` has it.
        let _ = self
            .0
            .subscribe()
            .wait_for(|current| *current == lost)
            .await;
    }
}

/// The write count of one instance in one partition.
#[derive(Debug)]
pub struct WriteCounter {
    instance: String,
    generation: AtomicI64,
    seen: AtomicI64,
    loss: Arc<Loss>,
}

/// How many changes one instance made in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteCount {
    /// The generation of the data: since when it has been there.
    pub generation: i64,
    /// The name of the instance.
    pub instance: String,
    /// How many of its changes were answered.
    pub seen: i64,
}

impl WriteCounter {
    /// The counter of a new instance. `instance` must be a name that no other has. The counter starts as if one
    /// change had been answered, so all changes are refused until the instance has inspected the partition.
    pub fn new(instance: &str, loss: Arc<Loss>) -> Self {
        Self {
            instance: instance.to_string(),
            generation: AtomicI64::new(0),
            seen: AtomicI64::new(1),
            loss,
        }
    }

    /// The name under which Redis counts the changes.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// How many changes were answered.
    pub fn seen(&self) -> i64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Notes the write count in the reply of a change.
    pub fn observe(&self, count: i64) {
        self.seen.fetch_max(count, Ordering::AcqRel);
    }

    /// Notes the generation and the write count in the reply of an inspection.
    pub fn enter(&self, generation: i64, count: i64) {
        self.generation.store(generation, Ordering::Release);
        self.observe(count);
    }

    /// Notes that a call was refused, or found something missing.
    pub fn report_loss(&self) {
        self.loss.set(true);
    }

    /// What this instance knows.
    pub fn count(&self) -> WriteCount {
        WriteCount {
            generation: self.generation.load(Ordering::Acquire),
            instance: self.instance.clone(),
            seen: self.seen(),
        }
    }
}

impl WriteCount {
    /// Whether this instance has ever been entered in Redis (its generation is above 0).
    pub fn knows(&self) -> bool {
        self.generation > 0
    }
}

/// The write counts of all partitions as a text, in order.
pub fn to_text(counts: &[WriteCount]) -> String {
    let one = |count: &WriteCount| {
        let WriteCount {
            generation,
            instance,
            seen,
        } = count;
        format!("{generation}:{instance}:{seen}")
    };
    counts.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Reads what [`to_text`] wrote; `None` if it is something else.
pub fn from_text(text: &str) -> Option<Vec<WriteCount>> {
    let one = |text: &str| {
        let mut parts = text.split(':');
        let count = WriteCount {
            generation: parts.next()?.parse().ok()?,
            instance: parts.next()?.to_string(),
            seen: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(count)
    };
    text.split(',').map(one).collect()
}
