//! What a server does to a notification while another one is half-way through something else.

use super::world::{LOADABLE_MS, Most, Server, World, key};
use ringback::domain::change::Change;
use ringback::domain::notification::Start;
use ringback::domain::order::OrderMode;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::State;
use ringback::journal::{Actor, ChangeResult, Changing};
use ringback::schedule::{CHANGE_LEASE_MS, KnownToJournal, LeaseRequest, LeasedOne};
use ringback::service::{RegisterReply, ServiceError};

/// One thing that a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Register,
    /// Registers, with the reply of one store lost, and registers again.
    RegisterAgain,
    /// Claims what is due, attempts it and settles.
    Attempt,
    Cancel,
    Retry,
    Replay,
    Resend,
    /// Moves it to half a minute from then.
    Reschedule,
    Discard,
    /// Compares both stores and brings the schedule to where the journal stands.
    Reconcile,
    /// Brings what is due soon from the journal into the schedule.
    Load,
}

impl Operation {
    pub const ALL: &[Self] = &[
        Self::Register,
        Self::RegisterAgain,
        Self::Attempt,
        Self::Cancel,
        Self::Retry,
        Self::Replay,
        Self::Resend,
        Self::Reschedule,
        Self::Discard,
        Self::Reconcile,
    ];

    /// Where a part of what is pending waits in the journal alone.
    pub const ALL_WITH_WINDOW: &[Self] = &[
        Self::Register,
        Self::Attempt,
        Self::Cancel,
        Self::Retry,
        Self::Replay,
        Self::Reschedule,
        Self::Reconcile,
        Self::Load,
    ];

    /// Whether it is done to what is pending.
    fn is_for_pending(self) -> bool {
        !matches!(self, Self::Replay | Self::Resend | Self::Discard)
    }

    /// Whether it is refused while a call is in flight.
    pub fn needs_no_call_in_flight(self) -> bool {
        matches!(self, Self::Cancel | Self::Discard | Self::Reschedule)
    }

    fn registers(self) -> bool {
        matches!(self, Self::Register | Self::RegisterAgain)
    }
}

/// How the notification stands before both begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Nobody knows it.
    Unknown,
    /// It is due.
    Due,
    /// It is due in half a minute, or later ([`World::later_ms`]).
    Later,
    /// Its only attempt has failed.
    Dead,
    /// It is due, and only the journal knows: whoever registered it died.
    Unscheduled,
    /// Its only attempt has failed, and whoever replayed it died before the schedule knew.
    Replayed,
    /// It is delivered.
    Delivered,
    /// It was delivered, and whoever had it sent again died before the schedule knew.
    Resent,
    /// It was due a moment after the lease of a change ends, and whoever moved it to a minute from now died before
    /// the schedule knew.
    Postponed,
    /// Likewise, and it is due at once.
    Advanced,
    /// It was left to the journal, and is due so soon that it may be loaded now.
    Loadable,
}

impl Before {
    /// From which it makes sense to do these two.
    pub fn of(pair: [Operation; 2]) -> &'static [Self] {
        if pair.contains(&Operation::Load) && pair.iter().all(|one| one.is_for_pending()) {
            &[Self::Loadable, Self::Later, Self::Due, Self::Unscheduled]
        } else if pair.contains(&Operation::Resend) {
            &[Self::Delivered, Self::Resent]
        } else if pair.iter().any(|one| one.registers()) {
            &[Self::Unknown, Self::Unscheduled]
        } else if pair.contains(&Operation::Reschedule)
            && pair.iter().all(|one| one.is_for_pending())
        {
            &[
                Self::Due,
                Self::Later,
                Self::Unscheduled,
                Self::Postponed,
                Self::Advanced,
            ]
        } else if pair
            .iter()
            .any(|one| matches!(one, Operation::Replay | Operation::Discard))
        {
            &[Self::Dead, Self::Replayed]
        } else {
            &[Self::Due, Self::Later, Self::Unscheduled]
        }
    }
}

/// When a notification is due that a dead server has moved: when the lease of the move has ended, so that the
/// schedule may have it due at the old instant.
const SOON_MS: i64 = CHANGE_LEASE_MS + 1_000;
/// By how much a notification is moved, from when it is asked for.
const MOVED_MS: i64 = 30_000;

/// What an operation was answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// It was registered, or was registered before.
    Registered,
    /// It was changed, or stood so already; and this is how it stands.
    Changed(Box<Snapshot>),
    /// The state forbids it, or an attempt is in flight.
    Refused(#[expect(dead_code, reason = "shown when something is wrong")] State),
    /// Try again.
    Failed(#[expect(dead_code, reason = "shown when something is wrong")] String),
    /// There is nothing to answer.
    Nothing,
}

impl World {
    /// Brings a notification to where a run begins.
    pub async fn prepare(
        &self,
        id: &str,
        before: Before,
        judge: &Server,
        registration: Registered,
    ) {
        let actor = Actor::named("test");
        let register = async |delay_ms| {
            let asked = self.registration(id, registration, delay_ms);
            let registered = judge.service.register(asked, actor.clone()).await;
            registered.expect("registered");
        };
        match before {
            Before::Unknown => {}
            Before::Due => register(0).await,
            Before::Later => register(self.later_ms()).await,
            Before::Loadable => {
                self.outlast_the_last_loss();
                // Whatever was loaded before is noted, and this is due after it.
                judge.load().await.expect("loaded");
                register(30_000).await;
                self.clock.advance(LOADABLE_MS);
            }
            Before::Unscheduled => self.only_in_journal(id, registration, judge).await,
            Before::Dead | Before::Delivered => {
                register(0).await;
                judge.attempt().await.expect("attempted");
            }
            Before::Replayed => {
                register(0).await;
                judge.attempt().await.expect("attempted");
                self.change_in_journal(id, judge, Change::Replay).await;
            }
            Before::Resent => {
                register(0).await;
                judge.attempt().await.expect("attempted");
                self.change_in_journal(id, judge, Change::Resend).await;
            }
            Before::Postponed => {
                self.outlast_the_last_loss();
                register(SOON_MS).await;
                let moved = Change::Reschedule(Start::After(60_000));
                self.change_in_journal(id, judge, moved).await;
            }
            Before::Advanced => {
                self.outlast_the_last_loss();
                register(SOON_MS).await;
                let moved = Change::Reschedule(Start::After(0));
                self.change_in_journal(id, judge, moved).await;
            }
        }
    }

    async fn only_in_journal(&self, id: &str, registration: Registered, judge: &Server) {
        use ringback::domain::webhook_id::WebhookId;
        use ringback::journal::Registering;
        let webhook_id = WebhookId::new(uuid::Uuid::now_v7());
        let asked = self.registration(id, registration, 0);
        let (notification, progress) = asked.accept(webhook_id, self.now_ms(), None);
        let registering = Registering {
            notification: notification.into(),
            progress,
            actor: Actor::named("dead"),
        };
        judge.journal.register(&[registering]).await.expect("kept");
    }

    /// Makes a change under a lease that nobody settles: its server has died.
    async fn change_in_journal(&self, id: &str, judge: &Server, change: Change) {
        let found = judge.journal.find(&key(id)).await.expect("read");
        let found = found.expect("there");
        let mut request = LeaseRequest::new(found.key_in_lane());
        request.known = Some(KnownToJournal {
            registered_ms: 0,
            due_ms: found.next_due_ms(),
        });
        let lease = match judge.schedule.lease_one(&request).await.expect("answered") {
            LeasedOne::Leased(lease) => lease.token(),
            LeasedOne::Reserved(token) => token,
            other => panic!("{other:?}"),
        };
        let changing = Changing {
            lease,
            fence: found.fence,
            change,
            series_priority: None,
            actor: Actor::named("dead"),
            reason: String::new(),
            at_ms: self.now_ms(),
        };
        let changed = judge.journal.change(changing).await.expect("kept");
        assert!(matches!(changed, ChangeResult::Done(_)), "{changed:?}");
    }
}

/// Which registration a run is about.
#[derive(Debug, Clone, Copy)]
pub struct Registered {
    /// The attempt that is acknowledged.
    pub good: u32,
    /// How many attempts a series has.
    pub most: Most,
    /// Its place in an order.
    pub order: Option<Numbered>,
}

/// A place in the order of the notifications of one run.
#[derive(Debug, Clone, Copy)]
pub struct Numbered {
    pub number: i64,
    pub mode: OrderMode,
}

/// Does one thing.
pub async fn perform(
    world: &World,
    server: &Server,
    operation: Operation,
    id: &str,
    registration: Registered,
) -> Answer {
    let key = key(id);
    let actor = Actor::named("test");
    let register = async || {
        let asked = world.registration(id, registration, 0);
        server.service.register(asked, actor.clone()).await
    };
    let registered = |result: Result<RegisterReply, ServiceError>| match result {
        Ok(RegisterReply::Created(_) | RegisterReply::Existing(_)) => Answer::Registered,
        Err(ServiceError::Cancelled(snapshot)) => Answer::Refused(snapshot.state),
        Err(error) => Answer::Failed(error.to_string()),
    };
    let changed = |result: Result<Snapshot, ServiceError>| match result {
        Ok(snapshot) => Answer::Changed(Box::new(snapshot)),
        Err(ServiceError::Refused { snapshot, .. }) => Answer::Refused(snapshot.state),
        Err(error) => Answer::Failed(error.to_string()),
    };
    match operation {
        Operation::Register => registered(register().await),
        Operation::RegisterAgain => match register().await {
            Err(error) if !matches!(error, ServiceError::Cancelled(_)) => {
                registered(register().await)
            }
            first => registered(first),
        },
        Operation::Attempt => match server.attempt().await {
            Ok(_) => Answer::Nothing,
            Err(error) => Answer::Failed(error.to_string()),
        },
        Operation::Cancel => changed(server.service.cancel(&key, actor).await),
        Operation::Retry => changed(server.service.retry(&key, actor).await),
        Operation::Replay => changed(server.service.replay(&key, actor, "").await),
        Operation::Resend => changed(server.service.resend(&key, actor, "").await),
        Operation::Reschedule => {
            let start = Start::After(MOVED_MS);
            changed(server.service.reschedule(&key, start, actor).await)
        }
        Operation::Discard => changed(server.service.discard(&key, actor).await),
        Operation::Reconcile => {
            server.reconcile(&key).await;
            Answer::Nothing
        }
        Operation::Load => match server.load().await {
            Ok(()) => Answer::Nothing,
            Err(error) => Answer::Failed(error.to_string()),
        },
    }
}
