//! A deliberately simple schedule that predicts what the real one does.
//!
//! It holds every entry in one list, looks through all of it for every answer and knows no order of
//! lanes. Where the contract leaves freedom (which of the due lanes is served) it checks the reply
//! against the rules; everything else it predicts exactly. After every step the counts, the leases
//! and the wake must agree, and at the end everything that was registered is accounted for.

use super::fixture::*;
use super::steps::{How, KEYS, SHORT_LEASE_MS, SHORT_MEMORY_MS, Step, step};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use ringback::domain::key::Key;
use ringback::domain::notification::Notification;
use ringback::domain::state::State;
use ringback::schedule::wake::NEVER_MS;
use ringback::schedule::{
    Entry, Found, Lease, Limits, PER_VISIT, Registered, ScheduleCounts, Settled, Settlement, Taken,
};
use std::sync::Arc;

const LANES: [&str; 3] = ["a", "b", "c"];
const CAP: usize = 6;
/// A fence may run ahead of the lease's time by this, where leases follow each other in no time.
const FENCE_SLACK_MS: i64 = 100;

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
                lane_cap: CAP,
                lease_ms: SHORT_LEASE_MS,
                remember_ms: remembering.then_some(SHORT_MEMORY_MS),
            };
            let mut model = Model::new(open(limits).await, limits);
            for step in steps {
                model.carry_out(step).await?;
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

/// An entry and the expiry of the lease on it.
struct Kept {
    entry: Entry,
    lease: Option<i64>,
}

impl Kept {
    fn key(&self) -> &Key {
        &self.entry.notification.key
    }

    fn waits(&self) -> bool {
        self.entry.state == State::Scheduled && self.lease.is_none()
    }

    fn due_ms(&self) -> i64 {
        self.entry.progress.next_due_ms()
    }
}

/// How a lane's wait for its turn goes.
#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    /// Since when it could have been served; `None` if it cannot be.
    since_ms: Option<i64>,
    /// Entries taken from each lane meanwhile.
    others: [usize; LANES.len()],
}

struct Model {
    fixture: Fixture,
    limits: Limits,
    now_ms: i64,
    /// By key number.
    kept: Vec<Option<Kept>>,
    leases: Vec<Lease>,
    /// What the last claim said of the next.
    next_ms: i64,
    turns: [Turn; LANES.len()],
    created: usize,
    ended: usize,
}

fn number_of(key: &Key) -> usize {
    key.id().parse().expect("a key's id is its number")
}

fn name(number: usize) -> String {
    format!("{number:02}")
}

fn lane(number: usize) -> usize {
    number % LANES.len()
}

impl Model {
    fn new(fixture: Fixture, limits: Limits) -> Self {
        Self {
            fixture,
            limits,
            now_ms: START_MS,
            kept: (0..KEYS).map(|_| None).collect(),
            leases: Vec::new(),
            next_ms: NEVER_MS,
            turns: Default::default(),
            created: 0,
            ended: 0,
        }
    }

    async fn carry_out(&mut self, step: Step) -> Checked {
        match step {
            Step::Register(first, many, in_ms) => {
                for number in (first..KEYS).take(many) {
                    self.register(number, in_ms).await?;
                }
                Ok(())
            }
            Step::Turn(by_ms) => {
                self.now_ms += by_ms;
                self.fixture.clock.turn_to(self.now_ms);
                Ok(())
            }
            Step::Claim(most) => self.claim(most).await,
            Step::Settle(picked, how) => {
                let in_force: Vec<&Lease> = self
                    .leases
                    .iter()
                    .filter(|lease| self.in_force(lease))
                    .collect();
                match in_force.is_empty() {
                    true => Ok(()),
                    false => {
                        let lease = in_force[picked % in_force.len()].clone();
                        self.settle(lease, how).await
                    }
                }
            }
            Step::SettleAny(picked, how) => match self.leases.is_empty() {
                true => Ok(()),
                false => {
                    let lease = self.leases[picked % self.leases.len()].clone();
                    self.settle(lease, how).await
                }
            },
            Step::Take(number) => self.take(number).await,
            Step::Advance(number) => self.advance(number).await,
            Step::Find(number) => self.find(number).await,
            Step::Revive(number, in_ms) => self.revive(number, in_ms).await,
            Step::Dead(limit) => self.dead(limit).await,
        }
    }

    async fn register(&mut self, number: usize, in_ms: i64) -> Checked {
        let due_ms = self.now_ms - START_MS + in_ms;
        let entry = entry(LANES[lane(number)], &name(number), due_ms);
        let registered = self.fixture.register(entry.clone()).await;
        let expected = match self.found(number) {
            Some(found) => Registered::Existing(Box::new(found)),
            None => Registered::Created,
        };
        prop_assert_eq!(registered, expected);
        if self.kept[number].is_none() {
            self.kept[number] = Some(Kept { entry, lease: None });
            self.created += 1;
        }
        Ok(())
    }

    async fn claim(&mut self, most: usize) -> Checked {
        self.fixture.wake().reset();
        let claimed = self.fixture.claim(most).await;
        self.return_expired();
        self.forget();
        self.follow_turns();
        let available: usize = (0..LANES.len()).map(|lane| self.available(lane)).sum();
        prop_assert_eq!(claimed.leases.len(), most.min(available), "of {}", most);
        for lease in &claimed.leases {
            let number = number_of(&lease.entry.notification.key);
            let lane = lane(number);
            prop_assert_eq!(self.head(lane), Some(number), "longest due first");
            prop_assert!(self.available(lane) > 0, "due, and below the cap");
            self.check_turn(lane)?;
            self.lease(number, lease)?;
            self.follow_turns();
        }
        let next_ms = claimed.next_due_ms.unwrap_or(NEVER_MS);
        match self.earliest_ms() {
            None => prop_assert_eq!(next_ms, NEVER_MS),
            Some(earliest_ms) => prop_assert!(next_ms <= earliest_ms.max(self.now_ms)),
        }
        if claimed.leases.len() < most {
            prop_assert!(next_ms > self.now_ms, "or the next claim follows at once");
        }
        self.next_ms = next_ms;
        Ok(())
    }

    /// Between two turns of a lane no other may have more than one. Who comes first of those that
    /// came within the same millisecond is left open.
    fn check_turn(&mut self, served: usize) -> Checked {
        for (waiting, turn) in self.turns.iter_mut().enumerate() {
            let waits = turn.since_ms.is_some_and(|since_ms| since_ms < self.now_ms);
            if waiting != served && waits {
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
            if self.available(lane) == 0 {
                self.turns[lane] = Turn::default();
            } else if self.turns[lane].since_ms.is_none() {
                self.turns[lane].since_ms = Some(self.now_ms);
            }
        }
    }

    fn lease(&mut self, number: usize, lease: &Lease) -> Checked {
        let kept = self.kept[number].as_mut().expect("checked to be there");
        prop_assert_eq!(&lease.entry, &kept.entry);
        let lasts_ms = lease.expires_ms - self.now_ms;
        prop_assert!((SHORT_LEASE_MS..SHORT_LEASE_MS + FENCE_SLACK_MS).contains(&lasts_ms));
        kept.lease = Some(lease.expires_ms);
        self.leases.push(lease.clone());
        Ok(())
    }

    async fn settle(&mut self, lease: Lease, how: How) -> Checked {
        let number = number_of(&lease.entry.notification.key);
        let now_ms = self.now_ms - START_MS;
        let settlement = match how {
            How::Again(in_ms) => again(&lease, now_ms + in_ms),
            How::Release => Settlement::Release,
            How::End(state) => end(&lease, state, now_ms),
        };
        let settled = self.fixture.settle(&lease, settlement).await;
        if !self.in_force(&lease) {
            prop_assert_eq!(settled, Settled::Lost);
            return Ok(());
        }
        prop_assert_eq!(settled, Settled::Done);
        let kept = self.kept[number].as_mut().expect("it is leased");
        kept.lease = None;
        match how {
            How::Again(in_ms) => {
                let progress = next_step(&lease, now_ms + in_ms);
                kept.entry = Entry::scheduled(kept.entry.notification.clone(), progress);
            }
            How::Release => {}
            How::End(state) => {
                kept.entry = ended(&lease, state, now_ms);
                self.ended += 1;
                if self.limits.remember_ms.is_none() {
                    self.kept[number] = None;
                }
            }
        }
        Ok(())
    }

    async fn take(&mut self, number: usize) -> Checked {
        let taken = self.fixture.take(&name(number)).await;
        match (&self.kept[number], taken) {
            (None, Taken::Missing) => Ok(()),
            (Some(kept), Taken::InFlight) if kept.lease.is_some() => Ok(()),
            (Some(kept), Taken::Ended(entry)) if kept.entry.state != State::Scheduled => {
                prop_assert_eq!(&comparable(*entry), &kept.entry);
                Ok(())
            }
            (Some(kept), Taken::Leased(lease)) if kept.waits() => {
                // Whether its lane keeps its turn without this entry is left open.
                self.turns[lane(number)] = Turn::default();
                self.lease(number, &lease)
            }
            (_, taken) => Err(TestCaseError::fail(format!("{number}: {taken:?}"))),
        }
    }

    async fn advance(&mut self, number: usize) -> Checked {
        let shown = self.fixture.advance(&name(number)).await;
        let now_ms = self.now_ms;
        if let Some(kept) = self.kept[number].as_mut().filter(|kept| kept.waits()) {
            kept.entry.progress = kept.entry.progress.retry(now_ms);
        }
        prop_assert_eq!(shown.map(comparable_found), self.found(number));
        Ok(())
    }

    async fn find(&mut self, number: usize) -> Checked {
        let found = self.fixture.find(&name(number)).await;
        prop_assert_eq!(found.map(comparable_found), self.found(number));
        Ok(())
    }

    async fn revive(&mut self, number: usize, in_ms: Option<i64>) -> Checked {
        let progress = self.kept[number].as_ref().zip(in_ms).map(|(kept, in_ms)| {
            let ladder = &kept.entry.notification.ladder;
            kept.entry.progress.replay(ladder, self.now_ms + in_ms)
        });
        let shown = self.fixture.revive(&name(number), progress).await;
        let before = self.found(number).map(|found| found.entry);
        prop_assert_eq!(shown.map(comparable), before);
        let now_ms = self.now_ms;
        let kept = self.kept[number]
            .as_mut()
            .filter(|kept| kept.entry.state == State::Dead);
        if let Some(kept) = kept {
            match progress {
                Some(progress) => {
                    kept.entry = Entry::scheduled(kept.entry.notification.clone(), progress);
                    self.ended -= 1;
                }
                None => {
                    let mut notification = Notification::clone(&kept.entry.notification);
                    notification.body = Bytes::new();
                    kept.entry.notification = Arc::new(notification);
                    kept.entry.state = State::Cancelled;
                    kept.entry.cause = None;
                    kept.entry.ended_ms = Some(now_ms);
                }
            }
        }
        Ok(())
    }

    async fn dead(&mut self, limit: usize) -> Checked {
        let mut shown: Vec<Entry> = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..KEYS + 1 {
            let page = self.fixture.schedule.dead(cursor.as_deref(), limit).await;
            let page = page.expect("a page");
            prop_assert!(page.entries.len() <= limit);
            shown.extend(page.entries.into_iter().map(comparable));
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
            .entries()
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
        let count = |matches: fn(&Kept) -> bool| {
            u64::try_from(self.entries().filter(|kept| matches(kept)).count()).expect("few")
        };
        let counts = ScheduleCounts {
            pending: count(|kept| kept.entry.state == State::Scheduled),
            in_flight: count(|kept| kept.lease.is_some()),
            dead: count(|kept| kept.entry.state == State::Dead),
        };
        prop_assert_eq!(self.fixture.counts().await, counts);
        let keys: Vec<Key> = (0..KEYS).map(|number| key(&name(number))).collect();
        let flags = self.fixture.schedule.in_flight(&keys).await;
        let leased: Vec<bool> = (0..KEYS)
            .map(|number| self.found(number).is_some_and(|found| found.in_flight))
            .collect();
        prop_assert_eq!(flags.expect("answered"), leased);
        for (lane, name) in LANES.into_iter().enumerate() {
            prop_assert_eq!(self.fixture.lane_in_flight(name).await, self.leased(lane));
        }
        // Conservation: what was registered is pending or has ended, once.
        let pending = usize::try_from(counts.pending).expect("few");
        prop_assert_eq!(self.created, pending + self.ended);
        // A dispatcher that sleeps by the last reply and the wake misses nothing.
        if let Some(earliest_ms) = self.earliest_ms() {
            let known_ms = self.next_ms.min(self.fixture.wake().at_ms());
            prop_assert!(
                known_ms <= earliest_ms.max(self.now_ms),
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
        self.carry_out(Step::Turn(1_000_000)).await?;
        for _ in 0..KEYS {
            self.claim(7).await?;
            let in_force: Vec<Lease> = self
                .leases
                .iter()
                .filter(|lease| self.in_force(lease))
                .cloned()
                .collect();
            for lease in in_force {
                self.settle(lease, How::End(State::Delivered)).await?;
            }
            self.check().await?;
        }
        prop_assert_eq!(self.fixture.counts().await.pending, 0);
        prop_assert_eq!(self.created, self.ended);
        Ok(())
    }

    fn entries(&self) -> impl Iterator<Item = &Kept> {
        self.kept.iter().flatten()
    }

    fn found(&self, number: usize) -> Option<Found> {
        self.kept[number].as_ref().map(|kept| Found {
            entry: kept.entry.clone(),
            in_flight: kept.lease.is_some(),
        })
    }

    fn in_force(&self, lease: &Lease) -> bool {
        let number = number_of(&lease.entry.notification.key);
        let kept = self.kept[number].as_ref();
        kept.is_some_and(|kept| kept.lease == Some(lease.expires_ms))
    }

    fn of_lane(&self, wanted: usize) -> impl Iterator<Item = &Kept> {
        self.entries()
            .filter(move |kept| lane(number_of(kept.key())) == wanted)
    }

    fn leased(&self, lane: usize) -> usize {
        let leased = self.of_lane(lane).filter(|kept| kept.lease.is_some());
        leased.count()
    }

    /// How many entries a claim may take from a lane.
    fn available(&self, lane: usize) -> usize {
        let due = self
            .of_lane(lane)
            .filter(|kept| kept.waits() && kept.due_ms() <= self.now_ms);
        due.count().min(CAP.saturating_sub(self.leased(lane)))
    }

    /// The entry that a lane gives next.
    fn head(&self, lane: usize) -> Option<usize> {
        self.of_lane(lane)
            .filter(|kept| kept.waits())
            .min_by_key(|kept| (kept.due_ms(), kept.key()))
            .map(|kept| number_of(kept.key()))
    }

    /// When there is next something to claim or to return.
    fn earliest_ms(&self) -> Option<i64> {
        let open = |kept: &&Kept| self.leased(lane(number_of(kept.key()))) < CAP;
        let due = self
            .entries()
            .filter(|kept| kept.waits())
            .filter(open)
            .map(Kept::due_ms);
        due.chain(self.entries().filter_map(|kept| kept.lease))
            .min()
    }

    fn return_expired(&mut self) {
        for kept in self.kept.iter_mut().flatten() {
            if kept
                .lease
                .is_some_and(|expires_ms| expires_ms <= self.now_ms)
            {
                kept.entry.interrupted_ms = kept
                    .lease
                    .take()
                    .map(|expires_ms| expires_ms - SHORT_LEASE_MS);
                kept.entry.verify = true;
            }
        }
    }

    fn forget(&mut self) {
        let Some(remember_ms) = self.limits.remember_ms else {
            return;
        };
        for kept in &mut self.kept {
            let over = kept.as_ref().is_some_and(|kept| {
                let ended_ms = kept.entry.ended_ms.unwrap_or(NEVER_MS - remember_ms);
                kept.entry.state != State::Dead && ended_ms + remember_ms <= self.now_ms
            });
            if over {
                *kept = None;
            }
        }
    }
}

/// What an ended entry says of its next attempt means nothing.
fn comparable(entry: Entry) -> Entry {
    match entry.state {
        State::Scheduled => entry,
        State::Delivered | State::Dead | State::Cancelled => Entry {
            verify: false,
            interrupted_ms: None,
            ..entry
        },
    }
}

fn comparable_found(found: Found) -> Found {
    Found {
        entry: comparable(found.entry),
        ..found
    }
}
