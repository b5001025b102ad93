//! A deliberately simple schedule that predicts what the real one does.
//!
//! It holds every entry in one list, looks through all of it for every answer and knows no order of
//! lanes. Where the contract leaves freedom (which of the due lanes is served) it checks the reply
//! against the rules; everything else it predicts exactly. After every step the counts, the leases
//! and the wake must agree, and at the end everything that was registered is accounted for.

mod predicted;

use super::fixture::*;
use super::lane_settings::{held, limited};
use super::steps::{
    Configured, Ending, How, KEYS, Knows, SHORT_LEASE_MS, SHORT_MEMORY_MS, Step, step,
};
use predicted::{Asked, Holder, LANES, Predicted, lane, name, number_of};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use ringback::domain::lane::KeyInLane;
use ringback::domain::lane_health::{LONGEST_PROBE_MS, LaneClass, LaneReport};
use ringback::domain::lane_settings::{LaneSetting, LaneSettings};
use ringback::domain::lease::{Expiry, LeaseToken};
use ringback::domain::state::State;
use ringback::schedule::wake::NEVER_MS;
use ringback::schedule::window::Window;
use ringback::schedule::{
    CHANGE_LEASE_MS, ClaimQuota, Entry, HAND_LEASE_WAIT_MS, Lease, LeaseRequest, LeasedOne, Limits,
    PER_VISIT, PROMPT_MS, SettingsSource,
};
use std::collections::BTreeSet;

const START: usize = 2;
const CAP: usize = 6;

/// Tries so many random sequences of calls; shrinks and shows the first one that goes wrong.
pub fn holds(open: impl AsyncFn(Limits) -> Fixture, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: cases.saturating_mul(8),
        ..Config::default()
    };
    let sequences = (any::<bool>(), vec(step(), 1..80));
    let result = TestRunner::new(config).run(&sequences, |(remembering, steps)| {
        runtime.block_on(async {
            let limits = Limits {
                lane_start: START,
                lane_cap: CAP,
                lease_ms: SHORT_LEASE_MS,
                remember_ms: remembering.then_some(SHORT_MEMORY_MS),
                settings_source: SettingsSource::Schedule,
                window: Window::WHOLE,
                early_ms: 0,
            };
            let mut model = Model::new(open(limits).await, limits);
            for step in steps {
                model.run(step).await?;
                model.check().await?;
            }
            model.drain().await
        })
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

type Checked = Result<(), TestCaseError>;

/// How a lane's wait for its turn goes.
#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    /// Since when it could have been served; `None` if it cannot be.
    since_ms: Option<i64>,
    /// The class of the lane in that time.
    class: Option<LaneClass>,
    /// Entries taken from each lane meanwhile.
    others: [usize; LANES.len()],
}

struct Model {
    fixture: Fixture,
    predicted: Predicted,
    leases: Vec<Lease>,
    /// Leases on keys alone.
    tokens: Vec<LeaseToken>,
    requests: Vec<LeaseRequest>,
    /// Every expiry that there was; a renewed lease has several.
    expiries: BTreeSet<(usize, Expiry)>,
    /// What the last claim said of the next.
    next_ms: i64,
    turns: [Turn; LANES.len()],
}

/// One of them, by a number that is drawn.
fn pick<T: Clone>(from: impl Iterator<Item = T>, picked: usize) -> Option<T> {
    let from: Vec<T> = from.collect();
    let picked = picked.checked_rem(from.len())?;
    from.get(picked).cloned()
}

impl Model {
    fn new(fixture: Fixture, limits: Limits) -> Self {
        Self {
            fixture,
            predicted: Predicted::new(limits),
            leases: Vec::new(),
            tokens: Vec::new(),
            requests: Vec::new(),
            expiries: BTreeSet::new(),
            next_ms: NEVER_MS,
            turns: Default::default(),
        }
    }

    fn now_ms(&self) -> i64 {
        self.predicted.now_ms
    }

    async fn run(&mut self, step: Step) -> Checked {
        match step {
            Step::Register(first, many, in_ms, late) => {
                for number in (first..KEYS).take(many) {
                    self.register(number, in_ms, late).await?;
                }
                Ok(())
            }
            Step::Turn(by_ms) => {
                self.predicted.now_ms += by_ms;
                self.fixture.clock.turn_to(self.now_ms());
                Ok(())
            }
            Step::Claim(quota) => self.claim(quota).await,
            Step::Settle(picked, how, result) => {
                let in_force = self.leases.iter().filter(|l| self.predicted.in_force(l));
                match pick(in_force, picked).cloned() {
                    Some(lease) => self.settle(lease, how, result).await,
                    None => Ok(()),
                }
            }
            Step::SettleAny(picked, how, result) => match pick(self.leases.iter(), picked).cloned()
            {
                Some(lease) => self.settle(lease, how, result).await,
                None => Ok(()),
            },
            Step::Renew(picked) => {
                let attempts = self.leases.iter().filter(|l| self.predicted.is_attempt(l));
                match pick(attempts, picked).cloned() {
                    Some(lease) => self.renew(lease).await,
                    None => Ok(()),
                }
            }
            Step::LeaseOne(number, knows) => {
                let request = self.request(number, knows);
                self.requests.push(request.clone());
                self.lease_one(request).await
            }
            Step::AskAgain(picked) => {
                let latest = self.requests.iter().rev().nth(picked);
                match latest.cloned() {
                    Some(request) => self.lease_one(request).await,
                    None => Ok(()),
                }
            }
            Step::EndReservation(picked, how) => {
                let in_force = self.tokens.iter().filter(|t| self.predicted.reserves(t));
                match pick(in_force, picked).cloned() {
                    Some(token) => self.end_reservation(token, how).await,
                    None => Ok(()),
                }
            }
            Step::EndAnyReservation(picked, how) => {
                match pick(self.tokens.iter(), picked).cloned() {
                    Some(token) => self.end_reservation(token, how).await,
                    None => Ok(()),
                }
            }
            Step::Restore(number, in_ms) => self.restore(number, in_ms).await,
            Step::Find(number) => self.find(number).await,
            Step::Dead(limit) => self.dead(limit).await,
            Step::Configure(lane, how) => {
                let setting = match how {
                    Configured::Held => held(),
                    Configured::Released => LaneSetting::Hold(None),
                    Configured::Limited(concurrency, rate) => limited(concurrency, rate),
                };
                self.configure(lane, setting).await;
                Ok(())
            }
        }
    }

    async fn configure(&mut self, lane: usize, setting: LaneSetting) {
        self.fixture.configure(LANES[lane], setting.clone()).await;
        self.predicted.configure(lane, setting);
        // Whether the lane keeps its turn is left open.
        self.turns[lane] = Turn::default();
    }

    async fn register(&mut self, number: usize, in_ms: i64, late: bool) -> Checked {
        let mut entry = self.predicted.entry(number, in_ms);
        if late {
            entry = accepted_at(entry, self.now_ms() - PROMPT_MS - 1);
        }
        let registered = self.fixture.register(entry.clone()).await;
        let expected = self.predicted.register(number, entry);
        prop_assert_eq!(registered, expected);
        Ok(())
    }

    async fn restore(&mut self, number: usize, in_ms: i64) -> Checked {
        // In the middle of a ladder, so that it differs from what a registration brings.
        let mut entry = self.predicted.entry(number, in_ms);
        entry.progress.attempts += 1;
        let restored = self.fixture.restore(std::slice::from_ref(&entry)).await;
        prop_assert_eq!(restored, self.predicted.restore(number, entry));
        // Whether its lane keeps its turn with another entry is left open.
        self.turns[lane(number)] = Turn::default();
        Ok(())
    }

    async fn claim(&mut self, mut quota: ClaimQuota) -> Checked {
        self.fixture.wake().reset();
        let claimed = self.fixture.schedule.claim(quota).await.expect("claimed");
        self.predicted.return_expired();
        self.predicted.forget();
        self.follow_turns();
        for lease in &claimed.leases {
            let number = number_of(&lease.entry.notification.key);
            let lane = lane(number);
            prop_assert_eq!(self.predicted.head(lane), Some(number), "longest due first");
            prop_assert!(self.predicted.available(lane) > 0, "due, and below the cap");
            self.check_class(lane, lease.class, quota)?;
            self.check_turn(lane, lease.class)?;
            quota.take(lease.class, 1);
            self.lease(number, lease, Holder::Attempt)?;
            self.predicted.begin_call(lane);
            self.follow_turns();
        }
        for class in LaneClass::ALL {
            let is_left = quota.for_visit(class) > 0 && self.is_available(class);
            prop_assert!(!is_left, "{class:?} lanes could be served: {quota:?}");
            let is_limited = quota.is_used_up(class) && self.is_available(class);
            prop_assert!(claimed.is_limited || !is_limited, "{class:?}: {quota:?}");
        }
        let next_ms = claimed.next_due_ms.unwrap_or(NEVER_MS);
        match self.predicted.earliest_ms() {
            None => prop_assert_eq!(next_ms, NEVER_MS),
            // The caller claims again when its quota has grown.
            Some(_) if claimed.is_limited => {}
            Some(earliest_ms) => prop_assert!(next_ms <= earliest_ms.max(self.now_ms())),
        }
        if quota.total > 0 {
            prop_assert!(next_ms > self.now_ms(), "or the next claim follows at once");
        }
        self.next_ms = if claimed.is_limited {
            self.now_ms()
        } else {
            next_ms
        };
        Ok(())
    }

    fn is_available(&self, class: LaneClass) -> bool {
        (0..LANES.len())
            .any(|lane| self.predicted.class(lane) == class && self.predicted.available(lane) > 0)
    }

    /// A lease to a lane of a class is within the quota, and no lane of a more urgent class could be served.
    fn check_class(&self, lane: usize, class: LaneClass, quota: ClaimQuota) -> Checked {
        let predicted = self.predicted.class(lane);
        // The first lease of a visit makes an idle lane busy.
        let same_visit = class == LaneClass::Idle && predicted == LaneClass::Busy;
        prop_assert!(
            class == predicted || same_visit,
            "{class:?}, not {predicted:?}"
        );
        prop_assert!(quota.for_visit(class) > 0, "{class:?}: {quota:?}");
        for other in LaneClass::ALL {
            let comes_first = other < class && quota.for_visit(other) > 0;
            prop_assert!(!comes_first || !self.is_available(other), "{other:?} first");
        }
        Ok(())
    }

    /// Between two turns of a lane no other of its class may have more than one. Who comes first of those
    /// that came within the same millisecond is left open.
    fn check_turn(&mut self, served: usize, class: LaneClass) -> Checked {
        let now_ms = self.now_ms();
        for (waiting, turn) in self.turns.iter_mut().enumerate() {
            let waits = turn.since_ms.is_some_and(|since_ms| since_ms < now_ms);
            if waiting != served && waits && turn.class == Some(class) {
                turn.others[served] += 1;
                prop_assert!(
                    turn.others[served] <= PER_VISIT,
                    "{} of {served} before {waiting} had its turn: {turn:?}",
                    turn.others[served]
                );
            }
        }
        self.turns[served] = Turn::default();
        Ok(())
    }

    /// A lane that cannot be served now waits for no turn; one that can does from now on.
    fn follow_turns(&mut self) {
        for lane in 0..LANES.len() {
            let class = self.predicted.class(lane);
            if self.predicted.available(lane) == 0 {
                self.turns[lane] = Turn::default();
            } else if self.turns[lane].class != Some(class) {
                self.turns[lane] = Turn {
                    since_ms: Some(self.now_ms()),
                    class: Some(class),
                    others: Default::default(),
                };
            }
        }
    }

    /// Takes in a lease, which must be a new one on the entry as it stands.
    fn lease(&mut self, number: usize, lease: &Lease, holder: Holder) -> Checked {
        let found = self.predicted.found(number);
        prop_assert_eq!(Some(&lease.entry), found.as_ref().map(|found| &found.entry));
        let lasts_ms = match holder {
            Holder::Attempt => SHORT_LEASE_MS,
            Holder::Hand(_) | Holder::Key(_) => CHANGE_LEASE_MS,
        };
        self.check_expiry(number, lease.expiry(), lasts_ms)?;
        self.predicted.lease(number, lease.expiry(), holder);
        self.leases.push(lease.clone());
        Ok(())
    }

    fn check_expiry(&mut self, number: usize, expiry: Expiry, lasts_ms: i64) -> Checked {
        prop_assert_eq!(expiry.at_ms, self.now_ms() + lasts_ms);
        prop_assert!(self.expiries.insert((number, expiry)), "{expiry} again");
        Ok(())
    }

    async fn settle(&mut self, lease: Lease, how: How, result: Option<LaneReport>) -> Checked {
        let result = result.filter(|_| self.predicted.is_attempt(&lease));
        let lease = lease.with_report(result);
        let settlement = self.predicted.settlement(&lease, how);
        let settled = self.fixture.settle(&lease, settlement).await;
        prop_assert_eq!(settled, self.predicted.settle(&lease, how));
        Ok(())
    }

    async fn renew(&mut self, lease: Lease) -> Checked {
        let renewed = self.fixture.schedule.renew(&lease).await.expect("answered");
        let expected = self.predicted.renew(&lease);
        prop_assert_eq!(renewed, Some(expected));
        let number = number_of(&lease.entry.notification.key);
        self.expiries.insert((number, expected));
        self.leases.push(with_expiry(&lease, expected));
        Ok(())
    }

    fn request(&self, number: usize, knows: Knows) -> LeaseRequest {
        let id = name(number);
        let mut request = match knows {
            Knows::Nothing => LeaseRequest::new(place(&id)),
            Knows::JustAccepted => accepted(&id, self.now_ms() - HAND_LEASE_WAIT_MS),
            Knows::LongAccepted => accepted(&id, self.now_ms() - HAND_LEASE_WAIT_MS - 1),
        };
        request.entry = place_in(LANES[lane(number)], &id);
        request
    }

    async fn lease_one(&mut self, request: LeaseRequest) -> Checked {
        let number = number_of(&request.entry.key);
        let one = self.fixture.ask(&request).await;
        let expected = self.predicted.ask(&request);
        match (one, expected) {
            (LeasedOne::Missing, Asked::Missing)
            | (LeasedOne::Expected, Asked::Expected)
            | (LeasedOne::Changing, Asked::Changing)
            | (LeasedOne::InFlight, Asked::InFlight) => Ok(()),
            (LeasedOne::Leased(lease), Asked::Leased) => {
                // Whether its lane keeps its turn without this entry is left open.
                self.turns[lane(number)] = Turn::default();
                self.lease(number, &lease, Holder::Hand(request.id()))
            }
            (LeasedOne::Reserved(token), Asked::Reserved) => {
                prop_assert_eq!(token.key(), &request.entry.key);
                self.check_expiry(number, token.expiry(), CHANGE_LEASE_MS)?;
                self.predicted.reserve(number, token.expiry(), request.id());
                self.tokens.push(token);
                Ok(())
            }
            (one, expected) => Err(TestCaseError::fail(format!(
                "{number}: {one:?}, expected {expected:?}"
            ))),
        }
    }

    async fn end_reservation(&mut self, token: LeaseToken, how: Ending) -> Checked {
        let reservation = self.predicted.reservation(number_of(token.key()), how);
        let settled = self.fixture.end_reservation(&token, reservation).await;
        prop_assert_eq!(settled, self.predicted.end_reservation(&token, how));
        Ok(())
    }

    async fn find(&mut self, number: usize) -> Checked {
        let found = self.fixture.find(&name(number)).await;
        prop_assert_eq!(found, self.predicted.found(number));
        Ok(())
    }

    async fn dead(&mut self, limit: usize) -> Checked {
        let mut shown: Vec<Entry> = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..KEYS + 1 {
            let page = self.fixture.schedule.dead(cursor.as_deref(), limit).await;
            let page = page.expect("a page");
            prop_assert!(page.entries.len() <= limit);
            shown.extend(page.entries);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        prop_assert_eq!(cursor, None);
        prop_assert!(shown.is_sorted_by_key(|entry| std::cmp::Reverse(entry.ended_ms)));
        let by_key = |entry: &Entry| entry.notification.key.clone();
        shown.sort_by_key(by_key);
        let mut dead: Vec<Entry> = self
            .predicted
            .entries()
            .filter(|kept| kept.lease.is_none())
            .map(|kept| kept.entry.clone())
            .filter(|entry| entry.state == State::Dead)
            .collect();
        dead.sort_by_key(by_key);
        prop_assert_eq!(shown, dead);
        Ok(())
    }

    /// What must agree after every step.
    async fn check(&mut self) -> Checked {
        self.follow_turns();
        prop_assert_eq!(self.fixture.counts().await, self.predicted.counts());
        let entries: Vec<KeyInLane> = (0..KEYS)
            .map(|number| place_in(LANES[lane(number)], &name(number)))
            .collect();
        let flags = self.fixture.schedule.in_flight(&entries).await;
        let leased: Vec<bool> = (0..KEYS)
            .map(|number| self.predicted.lease_on(number).is_some())
            .collect();
        prop_assert_eq!(flags.expect("answered"), leased);
        for (lane, name) in LANES.into_iter().enumerate() {
            let out = self.fixture.lane_in_flight(name).await;
            prop_assert_eq!(out, self.predicted.leased(lane));
        }
        // Conservation: what was registered is pending or has ended, once.
        let scheduled = |entry: &Entry| entry.state == State::Scheduled;
        let pending = self
            .predicted
            .entries()
            .filter(|kept| scheduled(&kept.entry));
        prop_assert_eq!(
            self.predicted.created,
            pending.count() + self.predicted.ended
        );
        // A dispatcher that sleeps by the last reply and the wake misses nothing.
        if let Some(earliest_ms) = self.predicted.earliest_ms() {
            let known_ms = self.next_ms.min(self.fixture.wake().at_ms());
            prop_assert!(
                known_ms <= earliest_ms.max(self.now_ms()),
                "asleep until {}, and there is something at {}",
                known_ms,
                earliest_ms
            );
        }
        Ok(())
    }

    /// Long after, everything that is pending comes up and is delivered.
    async fn drain(&mut self) -> Checked {
        for number in 0..KEYS {
            self.find(number).await?;
        }
        for lane in 0..LANES.len() {
            let settings = LaneSettings::default();
            self.configure(lane, LaneSetting::All(settings)).await;
        }
        self.run(Step::Turn(1_000_000)).await?;
        for _ in 0..KEYS {
            self.claim(ClaimQuota::of(7)).await?;
            self.run(Step::Turn(LONGEST_PROBE_MS)).await?;
            let in_force = self.leases.iter().filter(|l| self.predicted.in_force(l));
            let in_force: Vec<Lease> = in_force.cloned().collect();
            for lease in in_force {
                self.settle(lease, How::End(State::Delivered), None).await?;
            }
            self.check().await?;
        }
        prop_assert_eq!(self.fixture.counts().await.pending, 0);
        prop_assert_eq!(self.predicted.created, self.predicted.ended);
        Ok(())
    }
}
