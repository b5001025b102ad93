//! Registering and settling, many at a time.
//!
//! Calls are collected by themselves while the one before is under way (see [`crate::batch`]); one
//! script then carries out the whole batch.

use super::connection::{Connection, Script};
use super::context::{Context, add_entries};
use super::partition::decode;
use super::reply::Item;
use crate::batch::{BatchLimits, Batcher};
use crate::clock::Clock as _;
use crate::domain::state::State;
use crate::schedule::envelope;
use crate::schedule::{Entry, Found, Lease, Registered, ScheduleError, Settled, Settlement};
use redis::Cmd;
use std::sync::Arc;

const REGISTRATIONS: BatchLimits = BatchLimits {
    requests: 128,
    bytes: 4 * 1024 * 1024,
    queue: 4_096,
};
const SETTLEMENTS: BatchLimits = BatchLimits {
    requests: 128,
    bytes: 4 * 1024 * 1024,
    queue: 16_384,
};
/// A registration that takes longer on its way than this may be older than what came of it: the
/// caller may have sent it again to another instance, which delivered it. In milliseconds.
const LATE_MS: i64 = 1_000;

/// Collects registrations and carries them out.
pub fn registrations(
    context: Arc<Context>,
    connection: Connection,
) -> Batcher<Entry, Result<Registered, ScheduleError>> {
    let script = Arc::new(Script::with_prelude(include_str!("lua/register.lua")));
    let weigh = |entry: &Entry| entry.notification.body.len() + 512;
    Batcher::start(REGISTRATIONS, weigh, move |batch| {
        let (context, connection, script) = (context.clone(), connection.clone(), script.clone());
        async move {
            let many = batch.len();
            register(&context, &connection, &script, batch)
                .await
                .unwrap_or_else(|error| (0..many).map(|_| Err(error.clone())).collect())
        }
    })
}

async fn register(
    context: &Context,
    connection: &Connection,
    script: &Script,
    batch: Vec<Entry>,
) -> Result<Vec<Result<Registered, ScheduleError>>, ScheduleError> {
    let mut command = context.call(script);
    command.arg(context.keys.channel());
    // Sent a second time because the first reply was lost, it is late however soon that is: what the
    // first one put here may have been sent and forgotten by then.
    let certain_until = command.args_iter().count();
    command.arg(context.clock.now_ms().saturating_add(LATE_MS));
    let earliest_ms = add_entries(&mut command, &batch);
    let mut reply = context
        .run_telling(connection, script, &command, certain_until)
        .await?;
    context.wake.bring_forward(earliest_ms);
    let mut results = Vec::with_capacity(batch.len());
    for entry in &batch {
        results.push(match reply.item()? {
            Item::Number(_) => Ok(Registered::Created),
            Item::Bytes(bytes) => {
                let in_flight = reply.number()? == 1;
                decode(&entry.notification.key, &bytes)
                    .map(|entry| Registered::Existing(Box::new(Found { entry, in_flight })))
            }
        });
    }
    Ok(results)
}

/// Collects settlements and carries them out.
pub fn settlements(
    context: Arc<Context>,
    connection: Connection,
) -> Batcher<(Lease, Settlement), Result<Settled, ScheduleError>> {
    let script = Arc::new(Script::with_prelude(include_str!("lua/settle.lua")));
    Batcher::start(
        SETTLEMENTS,
        |_| 512,
        move |batch| {
            let (context, connection, script) =
                (context.clone(), connection.clone(), script.clone());
            async move {
                let many = batch.len();
                settle(&context, &connection, &script, batch)
                    .await
                    .unwrap_or_else(|error| (0..many).map(|_| Err(error.clone())).collect())
            }
        },
    )
}

async fn settle(
    context: &Context,
    connection: &Connection,
    script: &Script,
    batch: Vec<(Lease, Settlement)>,
) -> Result<Vec<Result<Settled, ScheduleError>>, ScheduleError> {
    let mut command = context.call(script);
    command.arg(context.keys.channel());
    for (lease, settlement) in &batch {
        command
            .arg(lease.entry.notification.key.as_str())
            .arg(lease.entry.notification.lane.as_str())
            .arg(lease.expires_ms);
        push_verb(
            &mut command,
            context.limits.remember_ms.is_some(),
            &lease.entry,
            settlement,
        );
    }
    let mut reply = context.run(connection, script, &command).await?;
    let next_ms = reply.number()?;
    if next_ms >= 0 {
        context.wake.bring_forward(next_ms);
    }
    let mut results = Vec::with_capacity(batch.len());
    for _ in &batch {
        let done = reply.number()? == 1;
        results.push(Ok(if done { Settled::Done } else { Settled::Lost }));
    }
    Ok(results)
}

/// Adds verb, instant and bytes of one settlement, as `settle.lua` takes them.
fn push_verb(command: &mut Cmd, remembers: bool, before: &Entry, settlement: &Settlement) {
    match settlement {
        Settlement::Release => {
            command.arg("release").arg(0).arg("");
        }
        Settlement::Recheck => {
            command.arg("recheck").arg(0).arg("");
        }
        Settlement::Again(progress) => {
            let again = Entry::scheduled(before.notification.clone(), *progress);
            command.arg("again").arg(progress.next_due_ms());
            command.arg(&envelope::encode_header(&again)[..]);
        }
        Settlement::End { .. } if !remembers => {
            command.arg("forget").arg(0).arg("");
        }
        Settlement::End {
            state,
            cause,
            progress,
            ended_ms,
        } => {
            let ended = Entry {
                state: *state,
                cause: *cause,
                ended_ms: Some(*ended_ms),
                ..Entry::scheduled(before.notification.clone(), *progress)
            };
            if *state == State::Dead {
                command
                    .arg("park")
                    .arg(*ended_ms)
                    .arg(&envelope::encode_header(&ended)[..]);
            } else {
                command
                    .arg("remember")
                    .arg(*ended_ms)
                    .arg(envelope::encode(&ended, false));
            }
        }
    }
}
