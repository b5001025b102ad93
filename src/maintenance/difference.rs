//! Where the journal and the schedule disagree about a notification.
//!
//! The two are read at different instants, and notifications change meanwhile. So the journal is read,
//! then the schedule, then the journal again. If both readings of the journal are equal, the journal had
//! that state while the schedule was read, so the two did disagree at that instant. A registration or a
//! change by hand writes the journal first and the schedule shortly after. In between they disagree, and
//! that is no fault. The caller must leave out notifications that are that young, or compare again.
//!
//! A leased notification is not compared: the server that has the lease settles it to the state in the
//! journal.

use super::error::MaintenanceError;
use crate::domain::key::Key;
use crate::domain::lane::{KeyInLane, Lane};
use crate::domain::progress::Progress;
use crate::domain::state::State;
use crate::journal::{FoundStanding, JournalReads, Standing, UnreadableNotification};
use crate::schedule::window::Window;
use crate::schedule::{HeldProgress, Holding, Schedule};
use std::collections::BTreeSet;

/// By how much the due times in both may differ, in milliseconds: an attempt by hand is due "now" in
/// each of them.
const SAME_TIME_MS: i64 = 1_000;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceKind {
    /// Pending in the journal and due so soon that it was loaded, and no claim would find it in the schedule.
    Missing,
    /// Pending in both, but with other progress or due at another time.
    Elsewhere,
    /// Ended in the journal, and a claim would find it in the schedule.
    Ended,
    /// Set aside in the journal, and a claim would find it in the schedule.
    SetAside,
    /// The schedule holds it in another lane than the journal: a journal that was set back to an older copy
    /// had forgotten it, and its key was registered again for another destination.
    OtherLane,
    /// The schedule holds it, and the journal does not know it.
    Unknown,
}

/// A disagreement about one notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The notification.
    pub entry: KeyInLane,
    /// What is wrong.
    pub kind: DifferenceKind,
    /// Its state in the journal.
    pub journal: Option<Standing>,
    /// Its entry in the schedule.
    pub schedule: Option<Holding>,
}

/// Finds where the schedule disagrees with what has just been read in the journal, of which nothing is in the parts in
/// `left_out`.
///
/// # Errors
/// If a store fails.
pub async fn find(
    journal: &dyn JournalReads,
    schedule: &dyn Schedule,
    read: &[(KeyInLane, Option<Standing>)],
    left_out: &BTreeSet<usize>,
) -> Result<Vec<Difference>, MaintenanceError> {
    let held_until_ms = must_be_held_until(schedule, left_out).await?;
    find_until(journal, schedule, read, held_until_ms).await
}

/// As [`find`], with what [`must_be_held_until`] has returned after this was read in the journal.
///
/// # Errors
/// If a store fails.
pub async fn find_until(
    journal: &dyn JournalReads,
    schedule: &dyn Schedule,
    read: &[(KeyInLane, Option<Standing>)],
    held_until_ms: i64,
) -> Result<Vec<Difference>, MaintenanceError> {
    let entries: Vec<KeyInLane> = read.iter().map(|(entry, _)| entry.clone()).collect();
    let holdings = schedule.holds(&entries).await?;
    let mut differences: Vec<Difference> = read
        .iter()
        .zip(holdings)
        .filter_map(|((entry, recorded), holding)| {
            Some(Difference {
                entry: entry.clone(),
                kind: judge(&entry.lane, recorded.as_ref(), holding, held_until_ms)?,
                journal: recorded.clone(),
                schedule: holding,
            })
        })
        .collect();
    if differences.is_empty() {
        return Ok(differences);
    }
    let keys = differences.iter().map(|found| found.entry.key.clone());
    let keys: Vec<Key> = keys.collect();
    let mut again = journal.standings(&keys).await?.into_iter();
    differences.retain(|found| match again.next() {
        Some(FoundStanding::Found(standing)) => found.journal.as_ref() == Some(&standing),
        Some(FoundStanding::Missing) => found.journal.is_none(),
        Some(FoundStanding::Damaged(_)) | None => false,
    });
    Ok(differences)
}

/// What is pending and due by this instant must be in the schedule, but for the parts in `left_out`, in milliseconds since
/// 1970: what was loaded, and what is due. To be read before the schedule is looked at.
///
/// # Errors
/// If the schedule fails.
pub async fn must_be_held_until(
    schedule: &dyn Schedule,
    left_out: &BTreeSet<usize>,
) -> Result<i64, MaintenanceError> {
    let now_ms = schedule.clock().now_ms();
    let loaded_until_ms = schedule.loaded_until(left_out).await?;
    Ok(Window::held_until_ms(loaded_until_ms, now_ms))
}

/// What was found about some notifications.
#[derive(Debug, Clone, Default)]
pub struct FoundAmong {
    /// Where the schedule disagrees with the journal.
    pub differences: Vec<Difference>,
    /// Those that the journal cannot read. They are not compared: their next attempt sets them aside.
    pub unreadable: Vec<UnreadableNotification>,
}

/// Reads these in the journal, then finds where the schedule disagrees. None of them is in the parts in `left_out`.
///
/// # Errors
/// If a store fails.
pub async fn find_among(
    journal: &dyn JournalReads,
    schedule: &dyn Schedule,
    entries: &[KeyInLane],
    left_out: &BTreeSet<usize>,
) -> Result<FoundAmong, MaintenanceError> {
    let keys: Vec<Key> = entries.iter().map(|entry| entry.key.clone()).collect();
    let (mut read, mut unreadable) = (Vec::with_capacity(entries.len()), Vec::new());
    for (entry, found) in entries.iter().zip(journal.standings(&keys).await?) {
        match found {
            FoundStanding::Found(standing) => read.push((entry.clone(), Some(standing))),
            FoundStanding::Missing => read.push((entry.clone(), None)),
            FoundStanding::Damaged(problem) => unreadable.push(UnreadableNotification {
                name: entry.key.to_string(),
                problem,
            }),
        }
    }
    Ok(FoundAmong {
        differences: find(journal, schedule, &read, left_out).await?,
        unreadable,
    })
}

/// As [`find_among`], for keys whose lanes only the journal knows. What is in these parts of the schedule is left out.
///
/// # Errors
/// If a store fails.
pub async fn find_recorded(
    journal: &dyn JournalReads,
    schedule: &dyn Schedule,
    keys: &[Key],
    left_out: &BTreeSet<usize>,
) -> Result<Vec<Difference>, MaintenanceError> {
    let standings = journal.standings(keys).await?;
    let is_left_out = |lane: &Lane| left_out.contains(&schedule.part_of(lane));
    let read = |(key, found): (&Key, FoundStanding)| match found {
        FoundStanding::Found(standing) if is_left_out(&standing.lane) => None,
        FoundStanding::Found(standing) => {
            let (key, lane) = (key.clone(), standing.lane.clone());
            Some((KeyInLane { key, lane }, Some(standing)))
        }
        FoundStanding::Missing | FoundStanding::Damaged(_) => None,
    };
    let read: Vec<_> = keys.iter().zip(standings).filter_map(read).collect();
    find(journal, schedule, &read, left_out).await
}

/// The kind of difference; `None` if both agree. Assumes that both were read at the same instant. What is pending and due
/// after `held_until_ms` may wait in the journal alone.
fn judge(
    lane: &Lane,
    journal: Option<&Standing>,
    schedule: Option<Holding>,
    held_until_ms: i64,
) -> Option<DifferenceKind> {
    match (journal, schedule) {
        (None, None) => None,
        (_, Some(holding)) if holding.in_flight => None,
        (None, Some(_)) => Some(DifferenceKind::Unknown),
        (Some(recorded), holding) if recorded.lane != *lane => {
            holding.map(|_| DifferenceKind::OtherLane)
        }
        (Some(recorded), None) => (recorded.state == State::Scheduled
            && !recorded.set_aside
            && recorded.progress.next_due_ms() <= held_until_ms)
            .then_some(DifferenceKind::Missing),
        (Some(recorded), Some(holding)) => match recorded.state {
            State::Scheduled if recorded.set_aside => Some(DifferenceKind::SetAside),
            State::Scheduled => {
                (!agree(&recorded.progress, holding.progress)).then_some(DifferenceKind::Elsewhere)
            }
            State::Delivered | State::Dead | State::Cancelled => Some(DifferenceKind::Ended),
        },
    }
}

/// Whether the schedule has what is due then in the journal, as far as its place tells: it is bare and due at that time, or it is
/// leased.
pub fn is_at_place(holding: Option<Holding>, due_ms: i64) -> bool {
    holding.is_some_and(|holding| match holding.progress {
        _ if holding.in_flight => true,
        HeldProgress::Due(held_ms) => held_ms.abs_diff(due_ms) <= SAME_TIME_MS.unsigned_abs(),
        HeldProgress::Whole(_) => false,
    })
}

fn agree(journal: &Progress, schedule: HeldProgress) -> bool {
    let apart_ms = journal.next_due_ms().abs_diff(schedule.next_due_ms());
    let step = |progress: &Progress| (progress.series, progress.attempts, progress.first_due_ms);
    let same_step = match schedule {
        HeldProgress::Whole(progress) => step(journal) == step(&progress),
        HeldProgress::Due(_) => true,
    };
    same_step && apart_ms <= SAME_TIME_MS.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ladder::Ladder;

    fn progress() -> Progress {
        Progress::start(&Ladder::standard(), 100_000)
    }

    fn journal_entry(state: State) -> Option<Standing> {
        let progress = progress();
        Some(Standing {
            lane: Lane::from_name("https://shop.example"),
            state,
            progress,
            set_aside: false,
        })
    }

    fn set_aside() -> Option<Standing> {
        journal_entry(State::Scheduled).map(|recorded| Standing {
            set_aside: true,
            ..recorded
        })
    }

    fn holding(progress: Progress) -> Option<Holding> {
        Some(Holding {
            state: State::Scheduled,
            progress: HeldProgress::Whole(progress),
            in_flight: false,
        })
    }

    fn leased() -> Option<Holding> {
        holding(progress()).map(|holding| Holding {
            in_flight: true,
            ..holding
        })
    }

    #[test]
    fn what_both_say_is_judged() {
        fn check(
            journal: Option<Standing>,
            schedule: Option<Holding>,
            expected: Option<DifferenceKind>,
        ) {
            let lane = Lane::from_name("https://shop.example");
            let judged = judge(&lane, journal.as_ref(), schedule, i64::MAX);
            assert_eq!(judged, expected, "{journal:?} {schedule:?}");
        }
        let held = holding(progress());
        check(None, None, None);
        check(None, held, Some(DifferenceKind::Unknown));
        check(None, leased(), None);
        check(journal_entry(State::Scheduled), held, None);
        check(
            journal_entry(State::Scheduled),
            None,
            Some(DifferenceKind::Missing),
        );
        check(journal_entry(State::Scheduled), leased(), None);
        check(set_aside(), None, None);
        check(set_aside(), held, Some(DifferenceKind::SetAside));
        check(set_aside(), leased(), None);
        for state in [State::Delivered, State::Dead, State::Cancelled] {
            check(journal_entry(state), None, None);
            check(journal_entry(state), held, Some(DifferenceKind::Ended));
            check(journal_entry(state), leased(), None);
        }
    }

    #[test]
    fn what_is_held_in_another_lane_is_told_apart() {
        let other = Lane::from_name("https://other.example");
        for state in [State::Scheduled, State::Delivered] {
            let recorded = journal_entry(state);
            let check = |schedule, expected| {
                let judged = judge(&other, recorded.as_ref(), schedule, i64::MAX);
                assert_eq!(judged, expected);
            };
            check(None, None);
            check(leased(), None);
            check(holding(progress()), Some(DifferenceKind::OtherLane));
        }
    }

    #[test]
    fn what_is_due_after_all_that_was_loaded_is_not_missing() {
        let recorded = journal_entry(State::Scheduled).expect("an entry");
        let due_ms = recorded.progress.next_due_ms();
        let check = |held_until_ms, schedule, expected| {
            let judged = judge(&recorded.lane, Some(&recorded), schedule, held_until_ms);
            assert_eq!(judged, expected, "{held_until_ms}");
        };
        check(due_ms, None, Some(DifferenceKind::Missing));
        check(due_ms - 1, None, None);
        check(i64::MIN, None, None);
        // It may be there already.
        check(due_ms - 1, holding(progress()), None);
        let mut other = progress();
        other.attempts = 1;
        check(due_ms - 1, holding(other), Some(DifferenceKind::Elsewhere));
    }

    #[test]
    fn a_place_tells_of_what_is_bare_or_leased_alone() {
        let due_ms = progress().next_due_ms();
        let bare = |held_ms| {
            holding(progress()).map(|holding| Holding {
                progress: HeldProgress::Due(held_ms),
                ..holding
            })
        };
        assert!(is_at_place(bare(due_ms), due_ms));
        assert!(is_at_place(bare(due_ms - SAME_TIME_MS), due_ms));
        assert!(!is_at_place(bare(due_ms - SAME_TIME_MS - 1), due_ms));
        assert!(!is_at_place(bare(due_ms + SAME_TIME_MS + 1), due_ms));
        assert!(!is_at_place(holding(progress()), due_ms));
        assert!(is_at_place(leased(), due_ms));
        assert!(!is_at_place(None, due_ms));
    }

    #[test]
    fn a_step_apart_is_elsewhere_and_a_moment_apart_is_not() {
        fn check(change: fn(&mut Progress), expected: Option<DifferenceKind>) {
            let mut there = progress();
            change(&mut there);
            let recorded = journal_entry(State::Scheduled).expect("an entry");
            let found = judge(&recorded.lane, Some(&recorded), holding(there), i64::MAX);
            assert_eq!(found, expected, "{there:?}");
        }
        check(|there| there.attempts = 1, Some(DifferenceKind::Elsewhere));
        check(|there| there.series = 2, Some(DifferenceKind::Elsewhere));
        check(
            |there| there.first_due_ms += 1,
            Some(DifferenceKind::Elsewhere),
        );
        check(|there| there.due_ms += SAME_TIME_MS, None);
        check(
            |there| there.due_ms += SAME_TIME_MS + 1,
            Some(DifferenceKind::Elsewhere),
        );
        check(|there| there.retry_at_ms = Some(there.due_ms - 1_000), None);
        check(
            |there| there.retry_at_ms = Some(there.due_ms - 1_001),
            Some(DifferenceKind::Elsewhere),
        );
    }
}
