//! What has to be true once both operations have ended.

use super::merchant::Call;
use super::operations::{Answer, Before, Operation};
use super::run::{Answered, Outcome};
use super::world::{JUDGE, LONGEST_CALL, World, key, look};
use ringback::domain::attempt::Outcome as Ending;
use ringback::domain::lane::KeyInLane;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::State;
use std::fmt::Write as _;

/// How often the one who looks afterwards lets time pass.
const ROUNDS: usize = 24;
/// For how long at first, in milliseconds. Later for longer.
const ROUND_MS: i64 = 2_000;

/// What was done to one notification, and what was answered.
pub struct Told {
    /// How it stood before.
    pub before: Before,
    /// What was done, and what was answered; `None` if the server died.
    pub answers: Vec<(Operation, Option<Answered>)>,
}

/// Lets time pass until all have ended, in the journal and in the schedule. The error is what stands still.
pub async fn until_ended(world: &World, ids: &[&str]) -> Result<(), String> {
    let judge = world.server(JUDGE, None);
    let mut left = String::new();
    for round in 0..ROUNDS {
        look(&judge.schedule, Some(&judge.journal)).await;
        let _ = judge.load().await;
        while judge.attempt().await.is_ok_and(|many| many > 0) {}
        left.clear();
        for id in ids {
            let key = key(id);
            let stands = judge.journal.find(&key).await.expect("read");
            let (state, held) = match stands {
                Some(stands) => {
                    let state = Some(stands.state);
                    let lane = stands.lane;
                    let holds = judge.schedule.holds(&[KeyInLane { key, lane }]).await;
                    let held = holds.expect("found")[0];
                    (state, held.map(|held| format!("{held:?}")))
                }
                None => {
                    let found = judge.schedule.find(&key).await.expect("found");
                    (None, found.map(|found| format!("{found:?}")))
                }
            };
            if state == Some(State::Scheduled) || held.is_some() {
                let _ = write!(left, "{id} stands still: {state:?}, {held:?} ");
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        if round % 4 == 3 {
            for id in ids {
                judge.reconcile(&key(id)).await;
            }
        }
        world.clock.advance(ROUND_MS << (round / 4).min(3));
    }
    Err(left)
}

/// Says what is not as it should be with a notification that has ended.
pub async fn check(world: &World, told: &Told, id: &str, outcome: &Outcome) -> Vec<String> {
    let died = &outcome.died;
    let may_be_dead = |call: &Call| died.contains(&call.server);
    let without_lease = |number| {
        let of_this = outcome.without_lease.get(id);
        outcome.about_to_call + of_this.and_then(|many| many.get(&number)).unwrap_or(&0)
    };
    let longest_ms = i64::try_from(LONGEST_CALL.as_millis()).expect("small");
    let account = &world.merchant.account;
    let is_over = |call: &Call, at| account.ms_at(at) >= call.at_ms + longest_ms;
    let did = |operation| told.answers.iter().any(|(done, _)| *done == operation);
    let mut wrong = Vec::new();
    let found = world.journals[JUDGE].find(&key(id)).await;
    let stands = found.expect("read");
    let calls = world.merchant.account.calls(id);
    let Some(stands) = stands else {
        let accepted = told.answers.iter();
        let mut accepted = accepted.filter_map(|(_, answered)| answered.as_ref());
        if accepted.any(|(answer, _)| matches!(answer, Answer::Registered)) || !calls.is_empty() {
            wrong.push("it is lost".to_string());
        }
        return wrong;
    };
    // What was answered is what the merchant saw.
    for (operation, answer) in &told.answers {
        let Some((Answer::Changed(shown), at)) = answer else {
            continue;
        };
        let after = calls.iter().filter(|call| call.at > *at).count();
        if operation.needs_no_call_in_flight() {
            // An attempt in flight cannot be called back; unless its lease had run out, which is noted. If Redis forgot
            // that lease, nothing is noted, but the change waits until the call must be over.
            let during = calls.iter().find(|call| {
                call.at < *at && call.answered_at.is_none_or(|answered| answered > *at)
            });
            if let Some(call) = during
                && !may_be_dead(call)
                && interrupted(&stands, call.attempt) == 0
                && !(without_lease(call.attempt) > 0 && is_over(call, *at))
            {
                wrong.push(format!("{operation:?} was answered during {call:?}"));
            }
        }
        match operation {
            Operation::Cancel | Operation::Discard => {
                if after > 0 {
                    wrong.push(format!("{operation:?} was answered, then it was called"));
                }
                if stands.state != State::Cancelled {
                    wrong.push(format!(
                        "{operation:?} was answered, and it is {}",
                        stands.state
                    ));
                }
            }
            Operation::Replay | Operation::Resend => {
                if stands.progress.series != 2 || !calls.iter().any(|call| call.attempt >= 2) {
                    // Unless it was called off right away.
                    if stands.state != State::Cancelled {
                        wrong.push(format!("{operation:?} was answered, and {calls:?}"));
                    }
                }
            }
            Operation::Reschedule => wrong.extend(check_moved(
                told,
                shown,
                &stands,
                calls.iter().filter(|call| call.at > *at),
            )),
            Operation::Retry => {
                let called = !calls.is_empty() || shown.in_flight;
                if !called && stands.state != State::Cancelled {
                    wrong.push("a retry was answered, and it was never called".to_string());
                }
            }
            Operation::Register
            | Operation::RegisterAgain
            | Operation::Attempt
            | Operation::Reconcile
            | Operation::Load => {}
        }
    }
    if matches!(told.before, Before::Postponed | Before::Advanced)
        && !did(Operation::Retry)
        && !did(Operation::Reschedule)
    {
        let moved_ms = stands.progress.first_due_ms;
        if let Some(call) = calls.iter().find(|call| call.at_ms < moved_ms) {
            wrong.push(format!("it stood at {moved_ms}, and {call:?}"));
        }
    }
    // The history tells what happened.
    let acknowledged = calls.iter().any(|call| call.acknowledged);
    if stands.state == State::Delivered && !acknowledged {
        wrong.push("it is delivered, and nobody acknowledged it".to_string());
    }
    if stands.state == State::Dead && acknowledged {
        wrong.push("it is dead, and was acknowledged".to_string());
    }
    for call in &calls {
        let noted = stands
            .attempts
            .iter()
            .any(|attempt| attempt.number == call.attempt);
        if !noted && !may_be_dead(call) {
            wrong.push(format!("a call is in no history: {call:?}"));
        }
    }
    for number in 1..=stands.progress.attempts.max(3) {
        let made = calls.iter().filter(|call| call.attempt == number).count();
        // A call whose lease ran out while the merchant took its time is made again, and noted. So is one
        // whose lease Redis forgot.
        let (interrupted, without_lease) = (interrupted(&stands, number), without_lease(number));
        if made > 1 + interrupted + without_lease {
            wrong.push(format!(
                "attempt {number} was made {made} times, {interrupted} noted as interrupted, {without_lease} when Redis \
                 forgot its lease: {calls:?}"
            ));
        }
    }
    for attempt in &stands.attempts {
        if attempt.started_ms < attempt.due_ms && attempt.answer.outcome != Ending::Interrupted {
            wrong.push(format!("an attempt began before it was due: {attempt:?}"));
        }
    }
    wrong
}

/// Checks a move that was answered: from then on nothing is called before the new instant, unless something
/// else asked for a call or moved it again.
fn check_moved<'calls>(
    told: &Told,
    shown: &Snapshot,
    stands: &Snapshot,
    mut after: impl Iterator<Item = &'calls Call>,
) -> Option<String> {
    let first_due_ms = shown.progress.first_due_ms;
    let done = |operation| (told.answers.iter()).filter(move |(done, _)| *done == operation);
    if done(Operation::Retry).count() > 0 || done(Operation::Reschedule).count() > 1 {
        return None;
    }
    if let Some(call) = after.find(|call| call.at_ms < first_due_ms) {
        return Some(format!("moved to {first_due_ms}, then called: {call:?}"));
    }
    let same_series = stands.progress.series == shown.progress.series;
    (same_series && stands.progress.first_due_ms != first_due_ms)
        .then(|| format!("moved to {first_due_ms}, and is at {:?}", stands.progress))
}

/// How often an attempt is noted as interrupted.
fn interrupted(stands: &Snapshot, number: u32) -> usize {
    let of_this = stands.attempts.iter().filter(|attempt| {
        attempt.number == number && attempt.answer.outcome == Ending::Interrupted
    });
    of_this.count()
}
