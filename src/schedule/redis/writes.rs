//! Registering and settling, many at a time.
//!
//! Calls are collected while the batch before is in flight (see [`crate::batch`]); one script then runs the
//! whole batch.

use super::connection::Connection;
use super::context::{ContentAgain, Context};
use super::lane_score::lane_score;
use super::reply::Item;
use super::script::Script;
use crate::batch::{BatchLimits, Batcher};
use crate::domain::lane_health::{CallOutcome, LaneReport};
use crate::domain::lease::{Expiry, LeaseToken};
use crate::domain::progress::Progress;
use crate::domain::state::{End, State};
use crate::schedule::envelope::{self, BodyWriting};
use crate::schedule::window::CONTENT_NEEDED_MS;
use crate::schedule::{
    CLAIMED_EARLY_MS, Entry, FoundEntry, Lease, PROMPT_MS, Registered, Reservation, ScheduleError,
    Settled, Settlement,
};
use redis::Cmd;
use std::sync::Arc;
use std::time::Duration;

const REGISTRATIONS: BatchLimits = BatchLimits {
    requests: 128,
    bytes: 4 * 1024 * 1024,
    queue: 4_096,
    spacing: Duration::ZERO,
};
const SETTLEMENTS: BatchLimits = BatchLimits {
    requests: 128,
    bytes: 4 * 1024 * 1024,
    queue: 16_384,
    spacing: Duration::ZERO,
};

/// A report to settle.lua is a number of milliseconds times this, plus the number of an outcome.
const OUTCOMES: i64 = 16_384;
/// The longest time that is reported, in milliseconds: with the outcome, still a number that Lua has exactly.
const LONGEST_REPORTED_MS: i64 = 1 << 31;

/// A settlement.
#[derive(Debug, Clone)]
pub enum Settling {
    /// A lease on an entry.
    Lease(Lease, Settlement),
    /// A lease on a key that had no entry.
    Reservation(LeaseToken, Reservation),
    /// Ends a lease on an entry that cannot be read. The entry is due again at that instant, in milliseconds
    /// since 1970. If its lane can be read, the entry does not count against the lane's cap until then.
    Defer(String, Expiry, i64),
}

impl Settling {
    /// About how many bytes it adds to the command.
    fn weigh(&self) -> usize {
        match self {
            Self::Reservation(_, Reservation::Put(entry)) => envelope::estimated_bytes(entry) + 512,
            Self::Lease(..)
            | Self::Reservation(
                _,
                Reservation::Forget
                | Reservation::Defer(_)
                | Reservation::End(_)
                | Reservation::Recheck,
            )
            | Self::Defer(..) => 512,
        }
    }
}

/// Collects registrations and runs them. A registration that arrives more than `arrival_ms` after it was
/// accepted is refused.
pub fn registrations(
    context: Arc<Context>,
    connection: Connection,
    arrival_ms: Option<i64>,
) -> Batcher<Entry, Result<Registered, ScheduleError>> {
    let script = Arc::new(Script::with_common(include_str!("lua/register.lua")));
    let weigh = |entry: &Entry| entry.notification.body.held_len() + 512;
    Batcher::start(REGISTRATIONS, weigh, move |batch| {
        let (context, connection, script) = (context.clone(), connection.clone(), script.clone());
        async move {
            let many = batch.len();
            register(&context, &connection, &script, arrival_ms, batch)
                .await
                .unwrap_or_else(|error| (0..many).map(|_| Err(error.clone())).collect())
        }
    })
}

/// How long before it is due a notification must be registered to be left to the journal some time, in milliseconds; `None` if
/// nothing is (`contents`).
fn registered_ahead_ms(context: &Context) -> Option<i64> {
    let kept_ms = context.limits.window.content_kept_ms();
    context.leaves_bodies.then_some(kept_ms + CONTENT_NEEDED_MS)
}

async fn register(
    context: &Context,
    connection: &Connection,
    script: &Script,
    arrival_ms: Option<i64>,
    batch: Vec<Entry>,
) -> Result<Vec<Result<Registered, ScheduleError>>, ScheduleError> {
    let mut command = context.call(script);
    command.arg(context.channel());
    // If the command is sent a second time because the first reply was lost, the entries may be in Redis
    // already, or may have been delivered and forgotten by now. So this argument is 0 then, and the journal is
    // asked before these entries are sent.
    let prompt = command.args_iter().count();
    command.arg(PROMPT_MS);
    command.arg(arrival_ms.map(|ms| ms.to_string()).unwrap_or_default());
    let ahead_ms = registered_ahead_ms(context);
    command.arg(ahead_ms.map(|ms| ms.to_string()).unwrap_or_default());
    let mut earliest_ms = i64::MAX;
    for entry in &batch {
        earliest_ms = earliest_ms.min(context.add_registered(&mut command, entry));
    }
    let mut reply = context
        .run_marking_repeat(connection, script, &command, prompt)
        .await?;
    context.wake.bring_forward(earliest_ms);
    let mut results = Vec::with_capacity(batch.len());
    for entry in &batch {
        results.push(match reply.item()? {
            Item::Number(0) => Ok(Registered::Created),
            Item::Number(_) => Err(ScheduleError::Unavailable(
                "the registration took too long to reach Redis".to_string(),
            )),
            Item::Bytes(bytes) => {
                let in_flight = reply.number()? == 1;
                envelope::decode(entry.notification.key.as_str(), &bytes)
                    .map(|entry| Registered::Existing(Box::new(FoundEntry { entry, in_flight })))
                    .map_err(ScheduleError::from)
            }
        });
    }
    Ok(results)
}

/// Collects settlements and runs them.
pub fn settlements(
    context: Arc<Context>,
    connection: Connection,
) -> Batcher<Settling, Result<Settled, ScheduleError>> {
    let script = Arc::new(Script::with_common(include_str!("lua/settle.lua")));
    Batcher::start(SETTLEMENTS, Settling::weigh, move |batch| {
        let (context, connection, script) = (context.clone(), connection.clone(), script.clone());
        async move {
            let many = batch.len();
            settle(&context, &connection, &script, batch)
                .await
                .unwrap_or_else(|error| (0..many).map(|_| Err(error.clone())).collect())
        }
    })
}

async fn settle(
    context: &Context,
    connection: &Connection,
    script: &Script,
    batch: Vec<Settling>,
) -> Result<Vec<Result<Settled, ScheduleError>>, ScheduleError> {
    let mut verdicts = settle_once(context, connection, script, &batch).await?;
    // Redis has lost these entries, but the leases contain them. They are put in again as they are settled.
    let places = (0..batch.len()).filter(|place| verdicts[*place] == SettleReply::EntryMissing);
    let places: Vec<usize> = places.collect();
    if !places.is_empty() {
        let again = places.iter().map(|place| put_instead(&batch[*place]));
        let again: Vec<Settling> = again.collect();
        let settled = settle_once(context, connection, script, &again).await?;
        for (place, verdict) in places.into_iter().zip(settled) {
            verdicts[place] = verdict;
        }
    }
    let settled = verdicts.into_iter().map(|verdict| match verdict {
        SettleReply::Done => Ok(Settled::Done),
        SettleReply::Lost | SettleReply::EntryMissing => Ok(Settled::Lost),
    });
    Ok(settled.collect())
}

/// The script's answer for one settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettleReply {
    Done,
    Lost,
    EntryMissing,
}

async fn settle_once(
    context: &Context,
    connection: &Connection,
    script: &Script,
    batch: &[Settling],
) -> Result<Vec<SettleReply>, ScheduleError> {
    let mut command = context.call(script);
    command.arg(context.channel()).arg(context.limits.lease_ms);
    for settling in batch {
        match settling {
            Settling::Lease(lease, settlement) => {
                command
                    .arg(lease.entry.notification.key.as_str())
                    .arg(lease.entry.notification.lane.as_str())
                    .arg(lease.expiry().to_string());
                push_verb(&mut command, context, &lease.entry, settlement);
                let outcome = lease.outcome.map_or(0, CallOutcome::to_number);
                let outcome = i64::from(outcome);
                match lease.report {
                    Some(LaneReport::Answered(took_ms)) => {
                        let took_ms = took_ms.clamp(0, LONGEST_REPORTED_MS);
                        command.arg(took_ms * OUTCOMES + outcome)
                    }
                    Some(LaneReport::Unanswered) => command.arg(-(OUTCOMES + outcome)),
                    Some(LaneReport::CallNow) => command.arg("now"),
                    None if outcome > 0 => command.arg(format!("={outcome}")),
                    None => command.arg(""),
                };
            }
            Settling::Reservation(lease, reservation) => {
                // What is forgotten may have been a bare entry, which counts in its lane. Of the others, the script reads
                // the lane in what is there.
                let lane = match reservation {
                    Reservation::Forget | Reservation::End(_) => lease.entry().lane.as_str(),
                    Reservation::Put(_) | Reservation::Defer(_) | Reservation::Recheck => "",
                };
                let expiry = lease.expiry().to_string();
                command.arg(lease.key().as_str()).arg(lane).arg(expiry);
                match reservation {
                    Reservation::Put(entry) => {
                        command.arg("put").arg(entry.progress.next_due_ms());
                        command.arg(context.encode(entry))
                    }
                    Reservation::Forget | Reservation::End(_) => {
                        command.arg("forget").arg(0).arg("")
                    }
                    Reservation::Defer(at_ms) => command.arg("defer").arg(*at_ms).arg(""),
                    Reservation::Recheck => command.arg("recheck").arg(0).arg(""),
                };
                command.arg("");
            }
            Settling::Defer(key, expiry, at_ms) => {
                command.arg(key).arg("").arg(expiry.to_string());
                command.arg("defer").arg(at_ms).arg("").arg("");
            }
        }
    }
    let mut reply = context.run(connection, script, &command).await?;
    let next_ms = reply.number()?;
    if next_ms >= 0 {
        context.wake.bring_forward(next_ms);
    }
    let mut verdicts = Vec::with_capacity(batch.len());
    for _ in batch {
        verdicts.push(match reply.number()? {
            1 => SettleReply::Done,
            2 => SettleReply::EntryMissing,
            _ => SettleReply::Lost,
        });
    }
    Ok(verdicts)
}

/// The same settlement with the whole entry, for an entry that Redis has lost.
fn put_instead(settling: &Settling) -> Settling {
    let Settling::Lease(lease, settlement) = settling else {
        return settling.clone();
    };
    let before = &lease.entry;
    let entry = match settlement {
        Settlement::Again(progress) => Entry::scheduled(before.notification.clone(), *progress),
        Settlement::End {
            end,
            progress,
            ended_ms,
        } => ended(before, *end, *progress, *ended_ms),
        Settlement::Release
        | Settlement::Recheck
        | Settlement::Defer(_)
        | Settlement::DeferWithout(..) => Entry {
            verify: true,
            raise_fence: true,
            ..before.clone()
        },
    };
    Settling::Reservation(lease.token(), Reservation::Put(Box::new(entry)))
}

/// Adds verb, instant and bytes of one settlement, as `settle.lua` takes them.
fn push_verb(command: &mut Cmd, context: &Context, before: &Entry, settlement: &Settlement) {
    let remembers = context.limits.remember_ms.is_some();
    match settlement {
        Settlement::Release => {
            command.arg("release").arg(0).arg("");
        }
        Settlement::Recheck => {
            command.arg("recheck").arg(0).arg("");
        }
        Settlement::Defer(at_ms) => {
            command.arg("defer").arg(*at_ms).arg("");
        }
        Settlement::DeferWithout(lacked, at_ms) => {
            command.arg("defer").arg(*at_ms);
            command.arg(&[envelope::lacked_code(*lacked)][..]);
        }
        Settlement::Again(progress) => {
            let again = Entry::scheduled(before.notification.clone(), *progress);
            push_again(command, context, again);
        }
        Settlement::End { .. } if !remembers => {
            command.arg("forget").arg(0).arg("");
        }
        Settlement::End {
            end,
            progress,
            ended_ms,
        } => {
            let ended = ended(before, *end, *progress, *ended_ms);
            if end.state() == State::Dead {
                command
                    .arg("park")
                    .arg(*ended_ms)
                    .arg(&envelope::encode_header(&ended)[..]);
            } else {
                command
                    .arg("remember")
                    .arg(*ended_ms)
                    .arg(envelope::encode(&ended, BodyWriting::Nothing));
            }
        }
    }
}

/// Adds verb, instant and bytes for an entry that waits for another attempt. Where its content stays, only the header moves.
fn push_again(command: &mut Cmd, context: &Context, again: Entry) {
    let score = lane_score(&again.notification, &again.progress);
    // Of the other ones, the journal is asked before they are sent.
    let asked_score = score - CLAIMED_EARLY_MS;
    let verb = match context.content_again(&again) {
        ContentAgain::Left => {
            command.arg("bare").arg(asked_score).arg("");
            return;
        }
        ContentAgain::Written => {
            command.arg("again").arg(score - context.limits.early_ms);
            match context.leaves_bodies && !context.is_new(&again) {
                true => command.arg(context.encode(&again)),
                false => command.arg(&envelope::encode_header(&again)[..]),
            };
            return;
        }
        ContentAgain::Kept => "again",
        ContentAgain::KeptForNow => "keep",
    };
    let verify = true;
    let header = envelope::encode_header(&Entry { verify, ..again });
    command.arg(verb).arg(asked_score).arg(&header[..]);
}

/// An entry that has ended.
fn ended(before: &Entry, end: End, progress: Progress, ended_ms: i64) -> Entry {
    Entry {
        state: end.state(),
        cause: end.cause(),
        ended_ms: Some(ended_ms),
        ..Entry::scheduled(before.notification.clone(), progress)
    }
}
