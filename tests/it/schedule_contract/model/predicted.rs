//! What a schedule holds by the contract: one list of entries, and one of reserved keys.
//!
//! Pure: it makes no calls. Where a call would change something, the method of its name says what is
//! to be answered, as far as the contract leaves no freedom.

use super::super::fixture::*;
use super::super::steps::{Ending, How, KEYS, SHORT_LEASE_MS};
use ringback::domain::key::Key;
use ringback::domain::lane_health::{LaneClass, LaneHealth, LaneReport};
use ringback::domain::lane_settings::{LaneSetting, LaneSettings};
use ringback::domain::lease::{Expiry, LeaseToken};
use ringback::domain::priority::Priority;
use ringback::domain::state::State;
use ringback::schedule::wake::NEVER_MS;
use ringback::schedule::{
    Entry, FoundEntry, HAND_LEASE_WAIT_MS, Lease, LeaseRequest, Limits, PROMPT_MS, Registered,
    Reservation, ScheduleCounts, Settled, Settlement,
};

pub const LANES: [&str; 3] = ["a", "b", "c"];

pub fn number_of(key: &Key) -> usize {
    key.id().parse().expect("a key's id is its number")
}

pub fn name(number: usize) -> String {
    format!("{number:02}")
}

pub fn lane(number: usize) -> usize {
    number % LANES.len()
}

/// What a lease was given for; changes by hand with the id of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    Attempt,
    Hand(u64),
    /// By hand, before there was an entry: its lane does not count it.
    Key(u64),
}

/// A lease that is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Out {
    pub expiry: Expiry,
    pub holder: Holder,
}

/// An entry and the lease on it.
#[derive(Debug)]
pub struct Kept {
    pub entry: Entry,
    pub lease: Option<Out>,
}

impl Kept {
    fn key(&self) -> &Key {
        &self.entry.notification.key
    }

    fn waits(&self) -> bool {
        self.entry.state == State::Scheduled && self.lease.is_none()
    }

    fn is_counted(&self) -> bool {
        let holder = self.lease.map(|out| out.holder);
        self.entry.state == State::Scheduled
            && matches!(holder, Some(Holder::Attempt | Holder::Hand(_)))
    }

    fn due_ms(&self) -> i64 {
        self.entry.progress.next_due_ms()
    }

    /// Ends its lease without a word of what became of it.
    fn expire(&mut self) {
        let lease = self.lease.take().expect("it is leased");
        if self.entry.state != State::Scheduled {
            return;
        }
        self.entry.verify = true;
        match lease.holder {
            Holder::Attempt => {
                self.entry.interrupted_ms = Some(lease.expiry.at_ms - SHORT_LEASE_MS);
            }
            Holder::Hand(_) | Holder::Key(_) => self.entry.raise_fence = true,
        }
    }
}

/// What asking for a lease by hand is to bring.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Leased,
    Reserved,
    InFlight,
    Changing,
    Expected,
    Missing,
}

/// See the module's documentation.
pub struct Predicted {
    pub limits: Limits,
    pub now_ms: i64,
    /// By key number.
    pub kept: Vec<Option<Kept>>,
    /// Keys that are leased though nothing is here of them.
    pub reserved: Vec<Option<Out>>,
    /// Whether what is put in next has a change refused first that may still be written.
    unknown_change: Vec<bool>,
    pub created: usize,
    pub ended: usize,
    /// How the lanes are doing.
    health: [LaneHealth; LANES.len()],
    settings: [LaneSettings; LANES.len()],
}

impl Predicted {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            now_ms: START_MS,
            kept: (0..KEYS).map(|_| None).collect(),
            reserved: vec![None; KEYS],
            unknown_change: vec![false; KEYS],
            created: 0,
            ended: 0,
            health: [LaneHealth::unknown(limits.lane_start); LANES.len()],
            settings: Default::default(),
        }
    }

    /// An entry of this key that is due in so many milliseconds.
    pub fn entry(&self, number: usize, in_ms: i64) -> Entry {
        let due_ms = self.now_ms - START_MS + in_ms;
        let priority = match number % 5 {
            0 => Priority::High,
            1 => Priority::Low,
            _ => Priority::Normal,
        };
        of_priority(entry(LANES[lane(number)], &name(number), due_ms), priority)
    }

    pub fn found(&self, number: usize) -> Option<FoundEntry> {
        self.kept[number].as_ref().map(|kept| FoundEntry {
            entry: kept.entry.clone(),
            in_flight: kept.lease.is_some(),
        })
    }

    pub fn register(&mut self, number: usize, mut entry: Entry) -> Registered {
        if let Some(found) = self.found(number) {
            return Registered::Existing(Box::new(found));
        }
        entry.verify |= self.now_ms > entry.notification.registered_ms + PROMPT_MS;
        self.put_in(number, entry);
        Registered::Created
    }

    /// How many are missing and how many are moved.
    pub fn restore(&mut self, number: usize, entry: Entry) -> (u64, u64) {
        match &mut self.kept[number] {
            None => {
                self.put_in(number, entry);
                (1, 0)
            }
            Some(kept) if kept.waits() && kept.entry.progress != entry.progress => {
                kept.entry = Entry {
                    verify: kept.entry.verify || entry.verify,
                    raise_fence: kept.entry.raise_fence,
                    interrupted_ms: kept.entry.interrupted_ms,
                    ..entry
                };
                (0, 1)
            }
            Some(_) => (0, 0),
        }
    }

    fn put_in(&mut self, number: usize, mut entry: Entry) {
        if std::mem::take(&mut self.unknown_change[number]) {
            entry = to_fence(entry);
        }
        let lease = self.reserved[number].take();
        entry.verify |= lease.is_some();
        self.kept[number] = Some(Kept { entry, lease });
        self.created += 1;
    }

    pub fn ask(&mut self, request: &LeaseRequest) -> Asked {
        let number = number_of(&request.entry.key);
        self.return_one(number);
        let lease = self.lease_on(number).map(|out| out.holder);
        match lease {
            Some(Holder::Attempt) => return Asked::InFlight,
            Some(Holder::Hand(id) | Holder::Key(id)) if id != request.id() => {
                return Asked::Changing;
            }
            Some(Holder::Hand(_) | Holder::Key(_)) | None => {}
        }
        match (&self.kept[number], request.known) {
            (Some(_), _) => Asked::Leased,
            (None, _) if lease.is_some() => Asked::Reserved,
            (None, None) => Asked::Missing,
            (None, Some(known)) if self.now_ms <= known.registered_ms + HAND_LEASE_WAIT_MS => {
                Asked::Expected
            }
            (None, Some(_)) => Asked::Reserved,
        }
    }

    /// Takes in a lease on an entry.
    pub fn lease(&mut self, number: usize, expiry: Expiry, holder: Holder) {
        let kept = self.kept[number].as_mut().expect("checked to be there");
        kept.lease = Some(Out { expiry, holder });
    }

    /// Takes in a lease on a key.
    pub fn reserve(&mut self, number: usize, expiry: Expiry, request: u64) {
        let holder = Holder::Key(request);
        self.unknown_change[number] = false;
        self.reserved[number] = Some(Out { expiry, holder });
    }

    pub fn settlement(&self, lease: &Lease, how: How) -> Settlement {
        let now_ms = self.now_ms - START_MS;
        match how {
            How::Again(in_ms) => again(lease, now_ms + in_ms),
            How::Requested => Settlement::Again(lease.entry.progress.retry(self.now_ms)),
            How::Release => Settlement::Release,
            How::Recheck => Settlement::Recheck,
            How::End(state) => end(lease, state, now_ms),
        }
    }

    pub fn settle(&mut self, lease: &Lease, how: How) -> Settled {
        if !self.in_force(lease) {
            return Settled::Lost;
        }
        if let Some(report) = lease.report {
            self.observe(lease, report);
        }
        let now_ms = self.now_ms - START_MS;
        let number = number_of(&lease.entry.notification.key);
        let kept = self.kept[number].as_mut().expect("it is leased");
        kept.lease = None;
        let was_scheduled = kept.entry.state == State::Scheduled;
        match how {
            How::Again(_) | How::Requested => {
                let progress = match how {
                    How::Again(in_ms) => next_step(lease, now_ms + in_ms),
                    _ => lease.entry.progress.retry(self.now_ms),
                };
                kept.entry = Entry::scheduled(kept.entry.notification.clone(), progress);
                self.ended -= usize::from(!was_scheduled);
            }
            How::Release => {}
            How::Recheck => {
                kept.entry.verify |= was_scheduled;
                kept.entry.raise_fence |= was_scheduled;
            }
            How::End(state) => {
                kept.entry = ended(lease, state, now_ms);
                self.ended += usize::from(was_scheduled);
                if self.limits.remember_ms.is_none() {
                    self.kept[number] = None;
                }
            }
        }
        Settled::Done
    }

    fn observe(&mut self, lease: &Lease, report: LaneReport) {
        let Limits {
            lane_start,
            lease_ms,
            ..
        } = self.limits;
        let lane = lane(number_of(&lease.entry.notification.key));
        let cap = self.cap(lane);
        let leased_ms = lease.expires_ms() - lease_ms;
        self.health[lane].observe(report, leased_ms, self.now_ms, lane_start, cap);
    }

    fn cap(&self, lane: usize) -> usize {
        let own = self.settings[lane].limits.concurrency;
        own.map_or(self.limits.lane_cap, |most| most.get() as usize)
    }

    /// Whether a lane may have one more lease.
    fn is_below_limit(&self, lane: usize) -> bool {
        self.leased(lane) < self.health[lane].limit(self.cap(lane))
    }

    pub fn configure(&mut self, lane: usize, setting: LaneSetting) {
        self.settings[lane].apply(setting);
        let arrival_us = &mut self.health[lane].arrival_us;
        if let Some(rate) = self.settings[lane].limits.rate {
            *arrival_us = rate.adopted(*arrival_us, self.now_ms);
        }
    }

    /// Takes in a lease for a call.
    pub fn begin_call(&mut self, lane: usize) {
        let arrival_us = &mut self.health[lane].arrival_us;
        if let Some(rate) = self.settings[lane].limits.rate {
            *arrival_us = rate.after_calls(*arrival_us, 1, self.now_ms);
        }
    }

    /// From when on the rate of a lane allows a call.
    fn next_call_ms(&self, lane: usize) -> i64 {
        let rate = self.settings[lane].limits.rate;
        rate.map_or(0, |rate| rate.next_call_ms(self.health[lane].arrival_us))
    }

    /// The class of a lane.
    pub fn class(&self, lane: usize) -> LaneClass {
        self.health[lane].class(self.leased(lane))
    }

    /// The end that a lease gets on being renewed.
    pub fn renew(&mut self, lease: &Lease) -> Expiry {
        let renewed = Expiry {
            at_ms: self.now_ms + SHORT_LEASE_MS,
            ..lease.expiry()
        };
        let number = number_of(&lease.entry.notification.key);
        self.lease(number, renewed, Holder::Attempt);
        renewed
    }

    pub fn reservation(&self, number: usize, how: Ending) -> Reservation {
        match how {
            Ending::Put(in_ms) => Reservation::Put(Box::new(self.entry(number, in_ms))),
            Ending::Forget => Reservation::Forget,
            Ending::Recheck => Reservation::Recheck,
        }
    }

    pub fn end_reservation(&mut self, token: &LeaseToken, how: Ending) -> Settled {
        if !self.reserves(token) {
            return Settled::Lost;
        }
        let number = number_of(token.key());
        let arrived = self.kept[number].take();
        self.reserved[number] = None;
        self.created -= usize::from(arrived.is_some());
        let entry = match how {
            Ending::Put(in_ms) => Some(self.entry(number, in_ms)),
            Ending::Forget => None,
            Ending::Recheck => arrived.map(|kept| to_fence(kept.entry)),
        };
        self.unknown_change[number] = matches!(how, Ending::Recheck) && entry.is_none();
        self.created += usize::from(entry.is_some());
        self.kept[number] = entry.map(|entry| Kept { entry, lease: None });
        Settled::Done
    }

    pub fn in_force(&self, lease: &Lease) -> bool {
        let number = number_of(&lease.entry.notification.key);
        let out = self.kept[number].as_ref().and_then(|kept| kept.lease);
        out.is_some_and(|out| out.expiry == lease.expiry())
    }

    pub fn is_attempt(&self, lease: &Lease) -> bool {
        let number = number_of(&lease.entry.notification.key);
        let out = self.lease_on(number);
        self.in_force(lease) && out.is_some_and(|out| out.holder == Holder::Attempt)
    }

    /// Whether a lease on a key is in force.
    pub fn reserves(&self, token: &LeaseToken) -> bool {
        let out = self.lease_on(number_of(token.key()));
        out.is_some_and(|out| out.expiry == token.expiry() && matches!(out.holder, Holder::Key(_)))
    }

    /// The lease that is out on an entry or a key.
    pub fn lease_on(&self, number: usize) -> Option<Out> {
        let kept = self.kept[number].as_ref();
        kept.and_then(|kept| kept.lease).or(self.reserved[number])
    }

    pub fn entries(&self) -> impl Iterator<Item = &Kept> {
        self.kept.iter().flatten()
    }

    fn of_lane(&self, wanted: usize) -> impl Iterator<Item = &Kept> {
        self.entries()
            .filter(move |kept| lane(number_of(kept.key())) == wanted)
    }

    /// How many leases a lane has out.
    pub fn leased(&self, lane: usize) -> usize {
        self.of_lane(lane).filter(|kept| kept.is_counted()).count()
    }

    /// How many entries a claim may take from a lane.
    pub fn available(&self, lane: usize) -> usize {
        let due = self
            .of_lane(lane)
            .filter(|kept| kept.waits() && kept.due_ms() <= self.now_ms);
        let (health, settings) = (&self.health[lane], &self.settings[lane]);
        if health.probe_at_ms > self.now_ms || settings.hold.is_some() {
            return 0;
        }
        let allowed = settings.limits.rate.map_or(usize::MAX, |rate| {
            rate.calls_allowed(health.arrival_us, self.now_ms)
        });
        let free = health
            .limit(self.cap(lane))
            .saturating_sub(self.leased(lane));
        due.count().min(free).min(allowed)
    }

    /// The entry that a lane gives next.
    pub fn head(&self, lane: usize) -> Option<usize> {
        self.of_lane(lane)
            .filter(|kept| kept.waits())
            .min_by_key(|kept| {
                let is_late = kept.due_ms() > self.now_ms;
                let priority = kept.entry.notification.priority;
                let is_requested = kept.entry.progress.retry_at_ms.is_some();
                (is_late, priority, !is_requested, kept.due_ms(), kept.key())
            })
            .map(|kept| number_of(kept.key()))
    }

    /// When there is next something to claim or to return.
    pub fn earliest_ms(&self) -> Option<i64> {
        let open = |kept: &&Kept| {
            let lane = lane(number_of(kept.key()));
            self.is_below_limit(lane) && self.settings[lane].hold.is_none()
        };
        let ready_ms = |kept: &Kept| {
            let lane = lane(number_of(kept.key()));
            let probe_at_ms = self.health[lane].probe_at_ms;
            kept.due_ms().max(probe_at_ms).max(self.next_call_ms(lane))
        };
        let due = self
            .entries()
            .filter(|kept| kept.waits())
            .filter(open)
            .map(ready_ms);
        let expires = (0..KEYS).filter_map(|number| self.lease_on(number));
        due.chain(expires.map(|out| out.expiry.at_ms)).min()
    }

    pub fn counts(&self) -> ScheduleCounts {
        let count = |matches: fn(&Kept) -> bool| {
            u64::try_from(self.entries().filter(|kept| matches(kept)).count()).expect("few")
        };
        let leases = (0..KEYS).filter_map(|number| self.lease_on(number));
        ScheduleCounts {
            // What has ended may be scheduled again by whoever has leased it.
            pending: count(|kept| kept.entry.state == State::Scheduled || kept.lease.is_some()),
            in_flight: u64::try_from(leases.count()).expect("few"),
            dead: count(|kept| kept.entry.state == State::Dead && kept.lease.is_none()),
        }
    }

    /// Returns what has expired.
    pub fn return_expired(&mut self) {
        for number in 0..KEYS {
            self.return_one(number);
        }
    }

    fn return_one(&mut self, number: usize) {
        let Some(out) = self.lease_on(number) else {
            return;
        };
        if out.expiry.at_ms > self.now_ms {
            return;
        }
        match &mut self.kept[number] {
            Some(kept) => kept.expire(),
            None => {
                self.reserved[number] = None;
                self.unknown_change[number] = true;
            }
        }
    }

    /// Forgets what has ended and whose time is over.
    pub fn forget(&mut self) {
        let Some(remember_ms) = self.limits.remember_ms else {
            return;
        };
        for kept in &mut self.kept {
            let over = kept.as_ref().is_some_and(|kept| {
                let ended_ms = kept.entry.ended_ms.unwrap_or(NEVER_MS - remember_ms);
                kept.lease.is_none()
                    && kept.entry.state != State::Dead
                    && ended_ms + remember_ms <= self.now_ms
            });
            if over {
                *kept = None;
            }
        }
    }
}
