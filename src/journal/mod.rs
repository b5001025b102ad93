//! What happened: the record of every notification.
//!
//! Owns the only SQL of the program. Keeps every accepted notification with its body, every attempt
//! with what came back, and every transition with its time, its actor and the instance that made
//! it. A write that was answered is on disk. Knows nothing of leases and of HTTP. Each database has a
//! folder with its SQL; what is no SQL is decided for both beside them: what rows stand for, which index
//! serves a list, what recordings and changes make of a notification and of its history.
//!
//! The journal is written before the schedule, so it is never behind: whatever the schedule loses
//! can be read back here. One suite in `tests/` puts the contract to every implementation:
//!
//! * A key is registered once; a second registration shows the first and changes nothing.
//! * Ended states change only by [`Change`]; a recording that comes too late changes no state, but
//!   its attempt is kept, since support staff must see what was sent.
//! * An attempt is kept once, also if it is recorded again because the first reply was lost: one of
//!   the same series, number, start and outcome is the same attempt.
//! * A batch is answered once all of it is kept. If the call fails, part of it may have been kept; to
//!   repeat it is safe, and finds that part here.
//! * A notification whose outcome the journal refuses to record is set aside: it stays pending and is
//!   not among those that a schedule is loaded with. That is kept apart from the notification, so that
//!   it can be written where the notification cannot. Any [`Change`] of it releases it in the same
//!   transaction, and writes into its history that it was set aside.

pub mod decorator;
mod effect;
mod history;
mod list;
pub mod postgres;
pub mod recorder;
mod recordings;
mod rehearsal;
mod rows;
pub mod sqlite;
pub mod watched;

use crate::domain::attempt::Attempt;
use crate::domain::change::Change;
use crate::domain::decision::Decision;
use crate::domain::key::Key;
use crate::domain::lease::LeaseToken;
use crate::domain::notification::Notification;
use crate::domain::progress::Progress;
use crate::domain::snapshot::{SetAside, Snapshot};
use crate::domain::state::{Cause, State};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use thiserror::Error;

/// Most attempts of one notification that are read at a time. A ladder may make thousands.
pub const MOST_ATTEMPTS_SHOWN: usize = 500;
/// Most lines of one notification's history that are read at a time. It may be replayed for ever.
pub const MOST_TRANSITIONS_SHOWN: usize = 500;

/// Who asked for a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(pub Arc<str>);

impl Actor {
    /// The dispatcher itself.
    #[must_use]
    pub fn dispatcher() -> Self {
        Self("dispatcher".into())
    }

    /// Whatever keeps the journal and the schedule in step.
    #[must_use]
    pub fn maintenance() -> Self {
        Self("maintenance".into())
    }

    /// Whether it stands for the server itself; nobody else may call themselves that.
    #[must_use]
    pub fn is_the_server(&self) -> bool {
        [Self::dispatcher(), Self::maintenance()].contains(self)
    }
}

/// A notification to be kept.
#[derive(Debug, Clone)]
pub struct Registering {
    /// The notification, with its body.
    pub notification: Arc<Notification>,
    /// The start of its first series; further only if the journal had forgotten it.
    pub progress: Progress,
    /// Who registered it.
    pub actor: Actor,
}

/// What a registration found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegisterResult {
    /// It is new, and kept.
    Created,
    /// One of that key is here already; without its attempts.
    Existing(Box<Snapshot>),
}

/// An attempt that has ended, and what follows from it.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Whose attempt it is.
    pub key: Key,
    /// The attempt.
    pub attempt: Attempt,
    /// How far the notification had come before. The state changes only if it still stands there;
    /// a delivery counts as long as the notification is scheduled in the same series.
    pub before: Progress,
    /// What follows. For an interrupted attempt: the same as before, and no state changes.
    pub decision: Decision,
    /// When the attempt ended, in milliseconds since 1970.
    pub at_ms: i64,
}

/// What a recording did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// The attempt is kept and the decision applied.
    Applied,
    /// The attempt is kept; the notification stands elsewhere than `before` said, namely here
    /// (without its attempts).
    Stale(Box<Snapshot>),
    /// No such notification.
    Missing,
}

/// A change by hand, to be applied and written down.
#[derive(Debug, Clone)]
pub struct Changing {
    /// The lease on what is changed: nobody attempts or changes it meanwhile.
    pub lease: LeaseToken,
    /// [`Snapshot::fence`] as it was read before that lease was asked for. Read under the lease, it might
    /// be one that was raised since the lease was lost.
    pub fence: u64,
    /// What to do.
    pub change: Change,
    /// Who asked.
    pub actor: Actor,
    /// Why, in the words of who asked; may be empty.
    pub reason: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// What a change found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeResult {
    /// It was applied; this is how the notification stands now (without its attempts).
    Done(Box<Snapshot>),
    /// Its state does not allow it; nothing changed (without its attempts).
    Refused(Box<Snapshot>),
    /// Its fence is another than the change was decided on, so the lease was lost meanwhile and
    /// somebody else has the notification; nothing changed (without its attempts).
    Fenced(Box<Snapshot>),
    /// No such notification.
    Missing,
}

/// One line of a notification's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// `registered`, `delivered`, `parked`, `cancelled`, `discarded`, `replayed`, `retried`,
    /// `restored` or `set_aside`.
    pub kind: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Who asked for it.
    pub actor: String,
    /// The instance that applied it.
    pub instance: String,
    /// Its cause or reason; may be empty.
    pub detail: String,
}

/// A line to be added to a notification's history without any change.
#[derive(Debug, Clone)]
pub struct Noting {
    /// Whose history.
    pub key: Key,
    /// What happened, such as `restored`.
    pub kind: &'static str,
    /// Who did it.
    pub actor: Actor,
    /// Why; may be empty.
    pub detail: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// A notification to be set aside, since its outcome cannot be recorded.
#[derive(Debug, Clone)]
pub struct SettingAside {
    /// Which.
    pub key: Key,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why it cannot be recorded.
    pub reason: String,
}

/// The notifications that are pending and set aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllSetAside {
    /// How many.
    pub total: u64,
    /// The first of them, oldest first.
    pub named: Vec<(Key, SetAside)>,
}

/// The schedule is being rebuilt from the journal.
#[derive(Debug, Clone)]
pub struct Rebuild {
    /// When it began, in milliseconds since 1970.
    pub at_ms: i64,
    /// Who asked for it, or noticed that it was needed.
    pub actor: Actor,
    /// Why.
    pub reason: String,
}

/// What may be forgotten. All instants are milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prune {
    /// The bodies and headers of what was delivered or cancelled before.
    pub payloads_before_ms: i64,
    /// All of what was delivered or cancelled before: the notification with its history.
    pub records_before_ms: i64,
    /// All of the dead letters parked before; `None` keeps them for ever.
    pub dead_before_ms: Option<i64>,
}

/// What was forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Bodies with their headers.
    pub payloads: u64,
    /// Whole notifications, dead letters included.
    pub records: u64,
    /// Whether there may be more to forget: not all that is old enough was looked at.
    pub more: bool,
}

/// Which notifications to list. What is `None` does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this topic.
    pub topic: Option<String>,
    /// In this state.
    pub state: Option<State>,
    /// In this lane.
    pub lane: Option<String>,
    /// Dead for this cause.
    pub cause: Option<Cause>,
    /// Not before this instant: registered, or ended if sorted by that.
    pub from_ms: Option<i64>,
    /// Before this instant.
    pub to_ms: Option<i64>,
}

/// By which instant a list is sorted, newest first, and its times filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// When it was registered.
    Registered,
    /// When it ended.
    Ended,
}

/// A place in a list: the sorting instant and the row number of the last item before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The sorting instant, in milliseconds since 1970.
    pub at_ms: i64,
    /// The row number.
    pub row: i64,
}

/// A page of a list, without attempts.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The notifications.
    pub items: Vec<Snapshot>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

/// Whether pending notifications are read with their bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bodies {
    /// They are.
    Read,
    /// It is only read how long they are.
    Left,
}

/// The body of a notification that is to be kept. Only what was just accepted, or what a shared
/// schedule held, is registered, and both have it.
fn body_of(notification: &Notification) -> &Bytes {
    let body = notification.body.here();
    body.expect("invariant: what is registered has its body at hand")
}

/// A bound of rows as SQL takes it.
fn limit_of(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// A pending notification as the schedule needs it.
#[derive(Debug, Clone)]
pub struct Pending {
    /// The notification; with its body, unless that was not asked for.
    pub notification: Arc<Notification>,
    /// How far it has come.
    pub progress: Progress,
}

/// How many notifications are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalCounts {
    /// All that were ever registered and not pruned.
    pub registered: u64,
    /// Pending.
    pub scheduled: u64,
    /// Acknowledged.
    pub delivered: u64,
    /// Parked.
    pub dead: u64,
    /// Called off or discarded.
    pub cancelled: u64,
}

/// What was found by reading every notification, all as of one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    /// What the counters say.
    pub counters: JournalCounts,
    /// What there is.
    pub rows: JournalCounts,
    /// What is wrong; the first of it.
    pub faults: Vec<(Key, Fault)>,
    /// How much is wrong.
    pub faulty: u64,
}

/// What may be wrong with a notification in the journal itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is pending, and its body is gone.
    NoBody,
    /// It is delivered, and no attempt of it was acknowledged.
    NoAcknowledgement,
}

/// Why the journal could not do what was asked. Nothing of the call was kept, or it is not known.
#[derive(Debug, Clone, Error)]
pub enum JournalError {
    /// It cannot be reached, is too slow, full or refuses; worth trying again.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
    /// It holds something that this version cannot read, or it refuses what is to be written of this
    /// notification and would refuse it again.
    #[error("the journal holds something unreadable: {0}")]
    Corrupt(String),
    /// It is in use by another server, or cannot be opened at all.
    #[error("{0}")]
    Refused(String),
}

/// See the module's documentation for the contract.
#[async_trait]
pub trait Journal: Send + Sync + 'static {
    /// The name of this journal, made when it was created; the schedule's epoch refers to it.
    fn id(&self) -> &str;

    /// Keeps a batch of notifications. A key that occurs twice in it is created once.
    async fn register(&self, batch: &[Registering]) -> Result<Vec<RegisterResult>, JournalError>;

    /// Keeps a batch of attempts and applies their decisions.
    async fn record(&self, batch: &[Recording]) -> Result<Vec<Recorded>, JournalError>;

    /// Shuts out whoever leased this notification before: changes that they decided on are refused
    /// from now on. Says how it stands (without its attempts). Whoever leases a notification whose
    /// earlier lease has expired calls this before doing anything else.
    async fn fence(&self, key: &Key) -> Result<Option<Snapshot>, JournalError>;

    /// Applies a change by hand, if the fence is the one it was decided on.
    async fn change(&self, changing: Changing) -> Result<ChangeResult, JournalError>;

    /// Sets a notification aside, unless it is already. Touches nothing else of it.
    async fn set_aside(&self, setting: &SettingAside) -> Result<(), JournalError>;

    /// The notifications that are pending and set aside; at most `limit` of them by name.
    async fn all_set_aside(&self, limit: usize) -> Result<AllSetAside, JournalError>;

    /// One notification with its attempts: the last [`MOST_ATTEMPTS_SHOWN`], oldest first.
    async fn find(&self, key: &Key) -> Result<Option<Snapshot>, JournalError>;

    /// How these stand, in order and without attempts; `None` for each that is not here.
    async fn snapshots(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError>;

    /// The transitions of one notification: the last [`MOST_TRANSITIONS_SHOWN`], oldest first. A
    /// rebuild shows as `restored` in the history of all that were pending when it began.
    async fn transitions(&self, key: &Key) -> Result<Vec<Transition>, JournalError>;

    /// One notification as the schedule needs it, if it is pending and not set aside.
    async fn pending(&self, key: &Key) -> Result<Option<Pending>, JournalError>;

    /// Pending notifications that are not set aside, soonest due first, `limit` at most, after `cursor`
    /// (whose instant is the due time). Gives the cursor of the last one that was looked at. Fewer come
    /// where bodies are large, or none where all are set aside: only a page without a cursor is the end.
    async fn pending_page(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError>;

    /// The same without their bodies, for a schedule that reads them when they are due. A page has as
    /// many as there are, however large the bodies.
    async fn pending_page_without_bodies(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError>;

    /// The bodies of these, in order; `None` for each that is not here. The caller bounds how much
    /// they come to.
    async fn bodies(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, JournalError>;

    /// A page of a list. One that was hard to gather may come short or empty, but with a cursor.
    async fn list(
        &self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, JournalError>;

    /// What was changed by hand from `from_ms` on and before `until_ms`, oldest change first,
    /// `limit` at most, after `cursor`. One that was changed twice comes twice. Only a page without
    /// a cursor is the end.
    async fn changes(
        &self,
        from_ms: i64,
        until_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Cursor>), JournalError>;

    /// Adds lines to histories; skips those of keys that are not here.
    async fn note(&self, notes: &[Noting]) -> Result<(), JournalError>;

    /// Writes down that the schedule is being rebuilt.
    async fn rebuilding(&self, rebuild: &Rebuild) -> Result<(), JournalError>;

    /// Forgets what is oldest: at most `limit` bodies and `limit` whole notifications.
    async fn prune(&self, prune: &Prune, limit: usize) -> Result<Pruned, JournalError>;

    /// Takes a duty that one instance at a time runs, or keeps it, for `ttl_ms` from now;
    /// `false` if another instance has it.
    async fn duty(&self, name: &str, ttl_ms: i64) -> Result<bool, JournalError>;

    /// What was last remembered under a name.
    async fn recall(&self, name: &str) -> Result<Option<String>, JournalError>;

    /// Keeps a small value under a name: where maintenance has got to.
    async fn remember(&self, name: &str, value: &str) -> Result<(), JournalError>;

    /// How many notifications are in which state.
    async fn counts(&self) -> Result<JournalCounts, JournalError>;

    /// Reads and counts every notification, and names at most `limit` that something is wrong with.
    /// Takes seconds for millions of them.
    async fn examine(&self, limit: usize) -> Result<Examined, JournalError>;

    /// Whether notifications can be registered and attempts recorded: by doing both, and keeping
    /// neither.
    async fn check(&self) -> Result<(), JournalError>;

    /// Waits for what is in flight and closes it.
    async fn close(&self);
}
