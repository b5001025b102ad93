//! What has to be true of both notifications once both servers have ended.

use super::cases::Which::{self, Higher, Lower};
use super::{Done, OrderRun};
use crate::interleaving::account::{Told, check, until_ended};
use crate::interleaving::merchant::Call;
use crate::interleaving::operations::{Answer, Before, Operation};
use crate::interleaving::run::Outcome;
use crate::interleaving::world::{JUDGE, LONGEST_CALL, key};
use ringback::domain::order::OrderMode;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::{Cause, State};

/// Everything that is known of one of them in the end.
struct Ended {
    calls: Vec<Call>,
    /// How it stands in the journal; `None` if the journal does not have it.
    stands: Option<Snapshot>,
    done: Vec<Done>,
}

/// Lets time pass until both have ended, and says what is not as it should be.
pub async fn settle_accounts(run: &OrderRun<'_>, done: &[Done], outcome: &Outcome) -> Vec<String> {
    let ids = run.ids();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    if let Err(stands_still) = until_ended(run.world, &ids).await {
        return vec![stands_still];
    }
    let mut wrong = Vec::new();
    let mut both = Vec::new();
    for which in Which::BOTH {
        let id = run.id(which);
        let done: Vec<Done> = (done.iter().filter(|done| done.which == which).cloned()).collect();
        let answers = done.iter();
        let told = Told {
            before: run.case.before_of(which),
            answers: answers
                .map(|done| (done.operation, done.answered.clone()))
                .collect(),
        };
        wrong.extend(check(run.world, &told, &id, outcome).await);
        let found = run.world.journals[JUDGE].find(&key(&id)).await;
        both.push(Ended {
            calls: run.world.merchant.account.calls(&id),
            stands: found.expect("read"),
            done,
        });
    }
    let [lower, higher] = [&both[0], &both[1]];
    wrong.extend(side_by_side(lower, higher));
    match run.case.mode {
        OrderMode::Latest => wrong.extend(check_latest(run, lower, higher)),
        OrderMode::Strict => wrong.extend(check_strict(run, lower, higher)),
    }
    wrong
}

/// Two attempts at the same time. A call ends within its time limit; in these runs only the clock of the stores moves,
/// so one that is held for longer is over by that clock.
fn side_by_side(lower: &Ended, higher: &Ended) -> Option<String> {
    let longest_ms = i64::try_from(LONGEST_CALL.as_millis()).expect("small");
    let overlap = |first: &Call, second: &Call| {
        let is_open = first
            .answered_at
            .is_none_or(|answered| answered > second.at);
        first.at < second.at && is_open && second.at_ms < first.at_ms + longest_ms
    };
    for one in &lower.calls {
        for other in &higher.calls {
            if overlap(one, other) || overlap(other, one) {
                return Some(format!("side by side: {one:?} and {other:?}"));
            }
        }
    }
    None
}

/// A higher number that was sent, or whose registration was answered before the lower one was registered, is never
/// followed by the lower one.
fn check_latest(run: &OrderRun<'_>, lower: &Ended, higher: &Ended) -> Vec<String> {
    let mut wrong = Vec::new();
    if let (Some(last), Some(first)) = (lower.calls.last(), higher.calls.first())
        && last.at > first.at
    {
        wrong.push(format!("{last:?} came after the higher {first:?}"));
    }
    let is_late = run.case.before_of(Higher) != Before::Unknown;
    if let Some(stands) = lower.stands.as_ref().filter(|_| is_late)
        && (!lower.calls.is_empty() || stands.cause != Some(Cause::Superseded))
    {
        wrong.push(format!("registered too late, and it is {stands:?}"));
    }
    wrong.extend(not_delivered(run, Higher, higher));
    wrong
}

/// From the instant at which the lower number is known to be pending until it has ended, the higher one is not sent. An
/// attempt of it that was claimed before that instant is made.
fn check_strict(run: &OrderRun<'_>, lower: &Ended, higher: &Ended) -> Vec<String> {
    let mut wrong = Vec::new();
    let waits_from = [
        Operation::Register,
        Operation::RegisterAgain,
        Operation::Replay,
    ];
    let waits_from = [waits_from.as_slice(), &[Operation::Resend]].concat();
    let answered = lower
        .done
        .iter()
        .filter(|done| waits_from.contains(&done.operation));
    let pending_since = answered.filter_map(|done| match &done.answered {
        Some((Answer::Registered | Answer::Changed(_), at)) => Some((*at, 1)),
        _ => None,
    });
    let was_pending = match run.case.before_of(Lower) {
        Before::Due | Before::Later | Before::Unscheduled | Before::Replayed => Some((0, 0)),
        _ => None,
    };
    let cancelled = lower.done.iter().find(|done| {
        let is_done = matches!(&done.answered, Some((Answer::Changed(_), _)));
        done.operation == Operation::Cancel && is_done
    });
    for (since, allowed) in pending_since.chain(was_pending) {
        let last = lower
            .calls
            .last()
            .map(|call| call.at)
            .filter(|at| *at > since);
        let Some(until) = cancelled.map(|done| done.began).max(last) else {
            continue;
        };
        let during = higher
            .calls
            .iter()
            .filter(|call| call.at > since && call.at < until);
        let during: Vec<&Call> = during.collect();
        if during.len() > allowed {
            wrong.push(format!(
                "{during:?} before the lower one has ended: {:?}",
                lower.calls
            ));
        }
    }
    wrong.extend(not_delivered(run, Lower, lower));
    wrong.extend(not_delivered(run, Higher, higher));
    wrong
}

/// What nobody called off is delivered, if the merchant acknowledges one of its attempts.
fn not_delivered(run: &OrderRun<'_>, which: Which, ended: &Ended) -> Option<String> {
    let stands = ended.stands.as_ref()?;
    let is_called_off = ended
        .done
        .iter()
        .any(|done| matches!(done.operation, Operation::Cancel | Operation::Discard));
    let registration = run.registration(which);
    let series_ends_at = stands.progress.attempts;
    let is_good = registration.good <= series_ends_at;
    let is_delivered = stands.state == State::Delivered;
    (!is_called_off && is_good && !is_delivered)
        .then(|| format!("number {} is not delivered: {stands:?}", which.number()))
}
