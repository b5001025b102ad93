//! Proving that nothing was lost. Makes two comparisons. In the journal, the number of registered
//! notifications must be the sum of those that are delivered, dead, cancelled and pending. And the pending
//! notifications of the journal must be the entries of the schedule, which is checked in both directions. Also
//! names the notifications that are set aside, which are not sent, because the journal cannot read them or
//! record their outcome, and those pending that the journal cannot read.
//!
//! Only reads, so it can run beside active servers. Their traffic is not reported as a difference: each
//! difference is compared again after [`MOMENT`], and counts only if it is still of the same kind.

use super::difference::{Difference, find_among};
use super::error::MaintenanceError;
use super::scan::{Pick, ScanPosition, compare};
use crate::domain::key::Key;
use crate::domain::lane::KeyInLane;
use crate::domain::state::State;
use crate::journal::{
    AllSetAside, Examined, Filter, Journal, JournalCounts, JournalMaintenance, Order,
    UnreadableNotification,
};
use crate::schedule::Schedule;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// How long a difference must last to count. Longer than the two writes of one request take while the
/// stores are healthy.
pub const MOMENT: Duration = Duration::from_secs(2);
/// Maximum number of differences that are named.
pub const MOST_NAMED: usize = 100;
/// After this many differences, the comparison stops.
const MOST_COUNTED: usize = 100_000;
/// Notifications compared in one step.
const PAGE: usize = 1_000;
/// Maximum number of differences that wait to be compared again.
const MOST_SUSPECTED: usize = 20_000;

/// The totals of the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalTotals {
    /// Its counters.
    pub counters: JournalCounts,
    /// The result of reading every notification, if that was requested.
    pub examined: Option<Examined>,
    /// The pending notifications that are set aside: they are not sent.
    pub set_aside: AllSetAside,
}

impl JournalTotals {
    /// Reads the totals; with `deep`, also every notification.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn read(
        journal: &dyn JournalMaintenance,
        deep: bool,
    ) -> Result<Self, MaintenanceError> {
        let set_aside = journal.all_set_aside(MOST_NAMED).await?;
        if !deep {
            return Ok(Self {
                counters: journal.counts().await?,
                examined: None,
                set_aside,
            });
        }
        let examined = journal.examine(MOST_NAMED).await?;
        Ok(Self {
            counters: examined.counters,
            examined: Some(examined),
            set_aside,
        })
    }

    /// Whether every registered notification is accounted for, and none is set aside.
    #[must_use]
    pub fn are_right(&self) -> bool {
        let examined = (self.examined.as_ref())
            .is_none_or(|examined| examined.rows == examined.counters && examined.faulty == 0);
        balanced(&self.counters) && examined && self.set_aside.total == 0
    }
}

/// Whether registered = delivered + dead + cancelled + pending.
#[must_use]
pub fn balanced(counts: &JournalCounts) -> bool {
    let JournalCounts {
        registered,
        scheduled,
        delivered,
        dead,
        cancelled,
    } = *counts;
    registered == delivered + dead + cancelled + scheduled
}

/// How far a comparison has come.
#[derive(Debug, Clone, Default)]
pub struct Compared {
    /// Pending notifications of the journal that were looked for in the schedule.
    pub journal: u64,
    /// Pending notifications of the journal that are due so late that they may wait there alone.
    pub later: u64,
    /// Entries of the schedule that were looked up in the journal.
    pub schedule: u64,
    /// Number of differences.
    pub different: usize,
    /// The first of them.
    pub differences: Vec<Difference>,
    /// Notifications that the journal cannot read, so they were not compared and will not be sent: their names, with
    /// what is wrong.
    pub unreadable: BTreeMap<String, String>,
    /// Whether there were so many differences, or so many that cannot be read, that the rest was not compared.
    pub cut_short: bool,
}

impl Compared {
    /// Whether nothing was found that keeps a notification from being sent.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.different == 0 && self.unreadable.is_empty()
    }

    fn keep_unreadable(&mut self, found: Vec<UnreadableNotification>) {
        let found = found.into_iter().map(|it| (it.name, it.problem));
        self.unreadable.extend(found);
    }

    fn is_full(&self) -> bool {
        self.unreadable.len() >= MOST_COUNTED
    }
}

/// Reads the pending notifications of a journal whose schedule cannot be read by this process, and keeps those that the
/// journal cannot read.
///
/// # Errors
/// If the journal fails.
pub async fn read_pending(journal: &dyn Journal) -> Result<Compared, MaintenanceError> {
    let filter = Filter {
        state: Some(State::Scheduled),
        ..Filter::default()
    };
    let mut read = Compared::default();
    let mut cursor = None;
    loop {
        let page = journal
            .list(&filter, Order::Registered, cursor, PAGE)
            .await?;
        read.keep_unreadable(page.unreadable);
        cursor = page.next;
        read.cut_short = read.is_full();
        if cursor.is_none() || read.cut_short {
            return Ok(read);
        }
    }
}

/// Compares both stores, a step at a time.
pub struct Comparison<'stores> {
    journal: &'stores dyn Journal,
    schedule: &'stores dyn Schedule,
    moment: Duration,
    place: ScanPosition,
    suspects: VecDeque<Suspects>,
    suspected: usize,
    known: HashSet<Key>,
    compared: Compared,
}

struct Suspects {
    found: Instant,
    differences: Vec<Difference>,
}

impl<'stores> Comparison<'stores> {
    /// Begins to compare. A difference must last for this `moment` to count.
    #[must_use]
    pub fn new(
        journal: &'stores dyn Journal,
        schedule: &'stores dyn Schedule,
        moment: Duration,
    ) -> Self {
        Self {
            journal,
            schedule,
            moment,
            place: ScanPosition::START,
            suspects: VecDeque::new(),
            suspected: 0,
            known: HashSet::new(),
            compared: Compared::default(),
        }
    }

    /// How far it has come.
    #[must_use]
    pub fn compared(&self) -> &Compared {
        &self.compared
    }

    /// Compares one page, and compares again what differed `moment` ago. `false` at the end.
    ///
    /// # Errors
    /// If a store fails.
    pub async fn step(&mut self) -> Result<bool, MaintenanceError> {
        let (journal, schedule) = (self.journal, self.schedule);
        let page = compare(journal, schedule, &self.place, &Pick::default(), PAGE).await?;
        self.compared.journal += page.pending;
        self.compared.later += page.later;
        self.compared.schedule += page.held;
        self.compared.keep_unreadable(page.unreadable);
        self.place = page.next;
        self.suspect(page.differences);
        let done = self.place == ScanPosition::End;
        while let Some(oldest) = self.suspects.front() {
            let age = oldest.found.elapsed();
            if age < self.moment {
                if !done && self.suspected < MOST_SUSPECTED {
                    break;
                }
                tokio::time::sleep(self.moment - age).await;
            }
            self.compare_again().await?;
        }
        if self.known.len() >= MOST_COUNTED || self.compared.is_full() {
            self.compared.cut_short = true;
            return Ok(false);
        }
        Ok(!done)
    }

    fn suspect(&mut self, mut differences: Vec<Difference>) {
        // The other direction may have found the same difference.
        differences.retain(|difference| !self.known.contains(&difference.entry.key));
        if differences.is_empty() {
            return;
        }
        self.suspected += differences.len();
        self.suspects.push_back(Suspects {
            found: Instant::now(),
            differences,
        });
    }

    /// Compares the oldest suspects again.
    async fn compare_again(&mut self) -> Result<(), MaintenanceError> {
        let Some(Suspects { differences, .. }) = self.suspects.pop_front() else {
            return Ok(());
        };
        self.suspected -= differences.len();
        let before: HashMap<&Key, _> = (differences.iter())
            .map(|difference| (&difference.entry.key, difference.kind))
            .collect();
        let entries = differences
            .iter()
            .map(|difference| difference.entry.clone());
        let entries: Vec<KeyInLane> = entries.collect();
        let found = find_among(self.journal, self.schedule, &entries, &BTreeSet::new()).await?;
        self.compared.keep_unreadable(found.unreadable);
        for difference in found.differences {
            let key = &difference.entry.key;
            let lasts = before.get(key) == Some(&difference.kind);
            if !lasts || !self.known.insert(key.clone()) {
                continue;
            }
            self.compared.different += 1;
            if self.compared.differences.len() < MOST_NAMED {
                self.compared.differences.push(difference);
            }
        }
        Ok(())
    }
}
