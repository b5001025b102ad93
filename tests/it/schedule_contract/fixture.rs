//! One schedule under test, and short words for what every test does with it.

use bytes::Bytes;
use ringback::clock::{Clock as _, ManualClock};
use ringback::domain::ack::AckRule;
use ringback::domain::destination::Destination;
use ringback::domain::headers::Headers;
use ringback::domain::key::Key;
use ringback::domain::ladder::Ladder;
use ringback::domain::lane::{KeyInLane, Lane};
use ringback::domain::lease::{Expiry, LeaseToken};
use ringback::domain::notification::{Notification, Registration, Start, Target};
use ringback::domain::priority::Priority;
use ringback::domain::progress::Progress;
use ringback::domain::state::{Cause, State};
use ringback::domain::webhook_id::WebhookId;
use ringback::schedule::wake::Wake;
use ringback::schedule::window::Window;
use ringback::schedule::{
    ClaimQuota, Claimed, Entry, FoundEntry, HAND_LEASE_WAIT_MS, Holding, KnownToJournal, Lease,
    LeaseRequest, LeasedOne, Limits, Registered, Reservation, Restored, Scanned, Schedule,
    ScheduleCounts, SettingsSource, Settled, Settlement,
};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the clock of a fixture stands at first.
pub const START_MS: i64 = 1_800_000_000_000;

/// How long the lease of an attempt lasts in [`LIMITS`].
pub const LEASE_MS: i64 = 20_000;

/// When the notifications of [`entry`] were accepted: so far ahead of every clock that none is
/// registered late.
pub const ACCEPTED_MS: i64 = START_MS + 1_000_000_000_000;

/// How long ended entries are remembered in [`REMEMBERING`].
pub const REMEMBER_MS: i64 = 600_000;

/// The settings of most tests: nothing ended is remembered, as with a journal.
pub const LIMITS: Limits = Limits {
    lane_start: 100,
    lane_cap: 100,
    lease_ms: LEASE_MS,
    remember_ms: None,
    settings_source: SettingsSource::Schedule,
    window: Window::WHOLE,
    early_ms: 0,
};

/// As without a journal.
pub const REMEMBERING: Limits = Limits {
    remember_ms: Some(REMEMBER_MS),
    ..LIMITS
};

/// The usual settings with another cap.
pub fn capped(lane_cap: usize) -> Limits {
    Limits {
        lane_start: lane_cap,
        lane_cap,
        ..LIMITS
    }
}

/// A fresh, empty schedule whose clock stands at [`START_MS`].
pub struct Fixture {
    /// The schedule.
    pub schedule: Arc<dyn Schedule>,
    /// The same schedule, as another instance of the server sees it.
    pub other: Arc<dyn Schedule>,
    /// The clock of both.
    pub clock: ManualClock,
    /// What has to live as long: a private server, say.
    #[expect(dead_code, reason = "it is held, not read")]
    pub keeps_alive: Box<dyn Any + Send>,
}

impl Fixture {
    /// Registers an entry that is due so many milliseconds after [`START_MS`].
    pub async fn put(&self, lane: &str, id: &str, due_ms: i64) -> Entry {
        let entry = entry(lane, id, due_ms);
        let registered = self.register(entry.clone()).await;
        assert_eq!(registered, Registered::Created, "{id}");
        entry
    }

    /// Registers `many` entries that are due at the same instant; ids `{lane}-0000` and so on.
    pub async fn put_many(&self, lane: &str, many: usize, due_ms: i64) {
        for number in 0..many {
            self.put(lane, &format!("{lane}-{number:04}"), due_ms).await;
        }
    }

    pub async fn register(&self, entry: Entry) -> Registered {
        self.schedule.register(entry).await.expect("registered")
    }

    pub async fn claim(&self, most: usize) -> Claimed {
        self.schedule
            .claim(ClaimQuota::of(most))
            .await
            .expect("claimed")
    }

    /// Claims, and gives the ids in order.
    pub async fn claim_ids(&self, most: usize) -> Vec<String> {
        ids(&self.claim(most).await.leases)
    }

    /// Claims so many leases, in as many calls as it takes.
    pub async fn claim_all(&self, many: usize) -> Vec<Lease> {
        let mut leases = Vec::new();
        while leases.len() < many {
            let claimed = self.claim(many - leases.len()).await;
            assert!(!claimed.leases.is_empty(), "{} of {many}", leases.len());
            leases.extend(claimed.leases);
        }
        leases
    }

    /// Claims exactly one lease.
    pub async fn claim_one(&self) -> Lease {
        let mut leases = self.claim(1).await.leases;
        leases.pop().expect("something is due")
    }

    pub async fn settle(&self, lease: &Lease, settlement: Settlement) -> Settled {
        self.schedule
            .settle(lease.clone(), settlement)
            .await
            .expect("answered")
    }

    /// Settles a lease that must be in force.
    pub async fn done(&self, lease: &Lease, settlement: Settlement) {
        assert_eq!(self.settle(lease, settlement).await, Settled::Done);
    }

    /// Asks for a lease by hand, in a new request.
    pub async fn lease_one(&self, id: &str) -> LeasedOne {
        let found = self.find(id).await;
        let place = found.map_or_else(|| place(id), |found| found.entry.notification.key_in_lane());
        self.ask(&LeaseRequest::new(place)).await
    }

    pub async fn ask(&self, request: &LeaseRequest) -> LeasedOne {
        self.schedule.lease_one(request).await.expect("answered")
    }

    /// Leases by hand what is free.
    pub async fn lease_by_hand(&self, id: &str) -> Lease {
        leased(self.lease_one(id).await)
    }

    /// Leases by hand a key of which nothing is here.
    pub async fn reserve(&self, id: &str) -> LeaseToken {
        reserved(self.ask(&known(id)).await)
    }

    pub async fn end_reservation(&self, lease: &LeaseToken, reservation: Reservation) -> Settled {
        self.schedule
            .end_reservation(lease.clone(), reservation)
            .await
            .expect("answered")
    }

    /// Asks for an attempt at once, as an operator does: leased by hand, and put back with that.
    pub async fn retry(&self, id: &str) {
        let lease = self.lease_by_hand(id).await;
        let progress = lease.entry.progress.retry(self.clock.now_ms());
        self.done(&lease, Settlement::Again(progress)).await;
    }

    /// Begins a dead one anew, due so many milliseconds after [`START_MS`].
    pub async fn replay(&self, id: &str, due_ms: i64) -> Entry {
        let lease = self.lease_by_hand(id).await;
        let notification = lease.entry.notification.clone();
        let progress = (lease.entry.progress).next_series(&notification.ladder, START_MS + due_ms);
        self.done(&lease, Settlement::Again(progress)).await;
        Entry::scheduled(notification, progress)
    }

    /// Gives a dead one up.
    pub async fn discard(&self, id: &str) -> Entry {
        let lease = self.lease_by_hand(id).await;
        let now_ms = self.clock.now_ms() - START_MS;
        let (settlement, discarded) = discarded(&lease, now_ms);
        self.done(&lease, settlement).await;
        discarded
    }

    /// Restores entries; says how many were missing, and how many moved.
    pub async fn restore(&self, entries: &[Entry]) -> (u64, u64) {
        let Restored { missing, moved } = self.schedule.restore(entries).await.expect("restored");
        (missing, moved)
    }

    pub async fn find(&self, id: &str) -> Option<FoundEntry> {
        self.schedule.find(&key(id)).await.expect("answered")
    }

    /// The entry of that id, which must be there.
    pub async fn entry(&self, id: &str) -> Entry {
        self.find(id).await.expect("it is there").entry
    }

    pub async fn counts(&self) -> ScheduleCounts {
        self.schedule.counts().await.expect("counted")
    }

    pub async fn lane_in_flight(&self, lane: &str) -> usize {
        self.schedule
            .lane_in_flight(&lane_of(lane))
            .await
            .expect("counted")
    }

    /// Everything, in pages of about `limit`.
    pub async fn scan(&self, limit: usize) -> BTreeMap<Key, Holding> {
        let (mut all, mut cursor) = (BTreeMap::new(), None);
        loop {
            let page = self.schedule.scan(cursor.as_deref(), limit).await;
            let Scanned { holdings, next } = page.expect("answered");
            all.extend(by_key(holdings));
            if next.is_none() {
                return all;
            }
            cursor = next;
        }
    }

    pub fn wake(&self) -> &Wake {
        self.schedule.wake()
    }

    /// Turns the clock to so many milliseconds after [`START_MS`].
    pub fn turn_to(&self, after_ms: i64) {
        self.clock.turn_to(START_MS + after_ms);
    }
}

/// The lease that asking for one brought.
pub fn leased(one: LeasedOne) -> Lease {
    match one {
        LeasedOne::Leased(lease) => *lease,
        other => panic!("{other:?}"),
    }
}

/// The lease on a key alone that asking for one brought.
pub fn reserved(one: LeasedOne) -> LeaseToken {
    match one {
        LeasedOne::Reserved(lease) => lease,
        other => panic!("{other:?}"),
    }
}

/// Asks for what the journal knows, pending and accepted long ago.
pub fn known(id: &str) -> LeaseRequest {
    accepted(id, START_MS - HAND_LEASE_WAIT_MS - 1)
}

/// Asks for what the journal knows to have been accepted then.
pub fn accepted(id: &str, registered_ms: i64) -> LeaseRequest {
    let mut request = LeaseRequest::new(place(id));
    request.known = Some(KnownToJournal {
        registered_ms,
        due_ms: Some(START_MS),
    });
    request
}

/// The same lease with another end.
pub fn with_expiry(lease: &Lease, expiry: Expiry) -> Lease {
    let mut lease = lease.clone();
    lease.renewed(expiry);
    lease
}

/// The ids of leases, in order.
pub fn ids(leases: &[Lease]) -> Vec<String> {
    leases.iter().map(id).collect()
}

/// The id of a lease's entry.
pub fn id(lease: &Lease) -> String {
    lease.entry.notification.key.id().to_string()
}

/// The key of an id.
pub fn key(id: &str) -> Key {
    Key::new("paid", id).expect("a key")
}

/// Where an entry of the lane `shop` is, which most tests put theirs in.
pub fn place(id: &str) -> KeyInLane {
    place_in("shop", id)
}

/// Where an entry of that lane is.
pub fn place_in(lane: &str, id: &str) -> KeyInLane {
    KeyInLane {
        key: key(id),
        lane: lane_of(lane),
    }
}

/// Which of so many partitions a lane is in, as the schedule does it (FNV-1a): no other rule would find what is there.
pub fn partition_of(lane: &Lane, partitions: usize) -> usize {
    let hash = (lane.as_str().bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let partition = (hash ^ (hash >> 32)) % partitions as u64;
    usize::try_from(partition).expect("below the number of partitions")
}

/// The lane that `entry` puts a notification in.
pub fn lane_of(lane: &str) -> Lane {
    Lane::from_name(&format!("https://{lane}.example"))
}

/// A pending entry that is due so many milliseconds after [`START_MS`].
pub fn entry(lane: &str, id: &str, due_ms: i64) -> Entry {
    Entry::scheduled(Arc::new(notification(lane, id)), due(due_ms))
}

/// The same entry, accepted at another instant.
pub fn accepted_at(entry: Entry, registered_ms: i64) -> Entry {
    let mut notification = Notification::clone(&entry.notification);
    notification.registered_ms = registered_ms;
    Entry {
        notification: Arc::new(notification),
        ..entry
    }
}

/// The same entry with another priority.
pub fn of_priority(entry: Entry, priority: Priority) -> Entry {
    let notification = Notification {
        priority,
        ..Notification::clone(&entry.notification)
    };
    Entry {
        notification: Arc::new(notification),
        ..entry
    }
}

/// The same entry, of which the journal has to be asked.
pub fn to_verify(entry: Entry) -> Entry {
    Entry {
        verify: true,
        ..entry
    }
}

/// The same entry, of which the journal has to be asked, and fenced.
pub fn to_fence(entry: Entry) -> Entry {
    Entry {
        verify: true,
        raise_fence: true,
        ..entry
    }
}

/// A notification with something in every field.
pub fn notification(lane: &str, id: &str) -> Notification {
    let mut headers = Headers::default();
    headers.insert("x-request-id", id).expect("a header");
    let registration = Registration {
        key: key(id),
        target: Target::Url(
            Destination::parse(&format!("https://{lane}.example/notify?a=%20b"))
                .expect("a destination"),
        ),
        body: Bytes::from(format!("out_trade_no={id}\0\u{e9}\n")),
        content_type: "application/x-www-form-urlencoded".into(),
        headers,
        start: Start::After(0),
        ladder: Some(Ladder::by_name("wechat").expect("a ladder")),
        ack: Some(AckRule::by_name("exact").expect("known")),
        priority: Priority::Normal,
        order: None,
    };
    let mut webhook_id = [0; 16];
    for (byte, letter) in webhook_id.iter_mut().zip(id.bytes().rev()) {
        *byte = letter;
    }
    registration
        .accept(WebhookId::from_bytes(webhook_id), ACCEPTED_MS, None)
        .0
}

/// The first series, due so many milliseconds after [`START_MS`].
pub fn due(due_ms: i64) -> Progress {
    let ladder = Ladder::by_name("wechat").expect("a ladder");
    Progress::start(&ladder, START_MS + due_ms)
}

/// Back to its lane after a failed attempt, due so many milliseconds after [`START_MS`].
pub fn again(lease: &Lease, due_ms: i64) -> Settlement {
    Settlement::Again(next_step(lease, due_ms))
}

/// The progress that [`again`] puts it back with.
pub fn next_step(lease: &Lease, due_ms: i64) -> Progress {
    let before = lease.entry.progress;
    Progress {
        step: before.step + 1,
        attempts: before.attempts + 1,
        due_ms: START_MS + due_ms,
        retry_at_ms: None,
        ..before
    }
}

/// Ended so many milliseconds after [`START_MS`].
pub fn end(lease: &Lease, state: State, ended_ms: i64) -> Settlement {
    let before = lease.entry.progress;
    let progress = Progress {
        step: before.step + 1,
        attempts: before.attempts + 1,
        ..before
    };
    let cause = (state == State::Dead).then_some(Cause::WindowClosed);
    Settlement::to(state, cause, progress, START_MS + ended_ms)
}

/// How an entry stands after [`end`] where it is remembered.
pub fn ended(lease: &Lease, state: State, ended_ms: i64) -> Entry {
    let Settlement::End {
        end,
        progress,
        ended_ms,
    } = end(lease, state, ended_ms)
    else {
        unreachable!("`end` ends");
    };
    let mut notification = Notification::clone(&lease.entry.notification);
    if end.state() != State::Dead {
        notification.body = Bytes::new().into();
    }
    Entry {
        state: end.state(),
        cause: end.cause(),
        ended_ms: Some(ended_ms),
        ..Entry::scheduled(Arc::new(notification), progress)
    }
}

/// How a dead one is given up so many milliseconds after [`START_MS`], and how it stands then.
pub fn discarded(lease: &Lease, now_ms: i64) -> (Settlement, Entry) {
    let (state, ended_ms) = (State::Cancelled, START_MS + now_ms);
    let progress = lease.entry.progress;
    let mut notification = Notification::clone(&lease.entry.notification);
    notification.body = Bytes::new().into();
    let entry = Entry {
        state,
        ended_ms: Some(ended_ms),
        ..Entry::scheduled(Arc::new(notification), progress)
    };
    let settlement = Settlement::to(state, None, progress, ended_ms);
    (settlement, entry)
}

/// What a scan brought, by key.
pub fn by_key(holdings: Vec<(KeyInLane, Holding)>) -> impl Iterator<Item = (Key, Holding)> {
    holdings
        .into_iter()
        .map(|(entry, holding)| (entry.key, holding))
}
