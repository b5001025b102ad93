//! One partition: keys under one hash tag, and the scripts that keep them in order.
//!
//! Registrations and settlements are collected into batches by themselves (see [`crate::batch`]);
//! each kind of call has a connection of its own, so that none waits behind another.

use super::Options;
use super::connection::{BULK_TIMEOUT, COMMAND_TIMEOUT, Connection, Connector, Script};
use super::context::{Context, Keys};
use super::marks::Marks;
use super::reply::Item;
use super::writes::{registrations, settlements};
use crate::batch::{BatchLost, Batcher};
use crate::clock::{Clock, OffsetClock};
use crate::domain::key::Key;
use crate::domain::progress::Progress;
use crate::domain::state::State;
use crate::schedule::envelope::{self, BadEnvelope};
use crate::schedule::wake::Wake;
use crate::schedule::{
    Claimed, Entry, Found, Lease, Limits, PER_VISIT, Registered, ScheduleError, Settled,
    Settlement, Taken,
};
use bytes::Bytes;
use redis::Value;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Most leases in one claim: a script must not hold Redis up for much longer than a millisecond.
const MOST_CLAIMED: usize = 128;
/// Most bytes of envelopes in one claim.
const MOST_CLAIMED_BYTES: usize = 4 * 1024 * 1024;
/// Most expired leases returned, and most ended entries forgotten, in one claim.
const UPKEEP: usize = 256;

/// One partition of the schedule.
pub struct Partition {
    pub context: Arc<Context>,
    pub reads: Connection,
    claims: Connection,
    claim: Script,
    /// The number of the last claim, and whether it was answered.
    last_claim: Mutex<(u64, bool)>,
    check: Script,
    renew: Script,
    take: Script,
    advance: Script,
    revive: Script,
    /// For calls about many entries, so that none of the others waits behind them.
    pub bulk: Connection,
    pub holds: Script,
    pub scan: Script,
    pub restore: Script,
    registrations: Batcher<Entry, Result<Registered, ScheduleError>>,
    settlements: Batcher<(Lease, Settlement), Result<Settled, ScheduleError>>,
}

impl Partition {
    /// Prepares one partition; connects at the first call.
    pub fn open(
        number: usize,
        connector: &Connector,
        options: &Options,
        clock: Arc<OffsetClock>,
        wake: Arc<Wake>,
        marks: Marks,
    ) -> Result<Self, ScheduleError> {
        // The cap is counted per partition, since a lane's entries are spread over all of them.
        let lane_cap = options.limits.lane_cap.div_ceil(options.partitions).max(1);
        let context = Arc::new(Context {
            keys: Keys::of(number, connector.database(), marks.instance()),
            limits: Limits {
                lane_cap,
                ..options.limits
            },
            clock,
            wake,
            marks,
            time: options.time,
        });
        Ok(Self {
            reads: connector.connect(COMMAND_TIMEOUT)?,
            claims: connector.connect(COMMAND_TIMEOUT)?,
            claim: Script::with_prelude(include_str!("lua/claim.lua")),
            last_claim: Mutex::new((0, true)),
            check: Script::with_prelude(include_str!("lua/check.lua")),
            renew: Script::with_prelude(include_str!("lua/renew.lua")),
            take: Script::with_prelude(include_str!("lua/take.lua")),
            advance: Script::with_prelude(include_str!("lua/advance.lua")),
            revive: Script::with_prelude(include_str!("lua/revive.lua")),
            bulk: connector.connect(BULK_TIMEOUT)?,
            holds: Script::with_prelude(include_str!("lua/holds.lua")),
            scan: Script::with_prelude(include_str!("lua/scan.lua")),
            restore: Script::with_prelude(include_str!("lua/restore.lua")),
            registrations: registrations(context.clone(), connector.connect(COMMAND_TIMEOUT)?),
            settlements: settlements(context.clone(), connector.connect(COMMAND_TIMEOUT)?),
            context,
        })
    }

    /// See [`crate::schedule::Schedule::register`].
    pub async fn register(&self, entry: Entry) -> Result<Registered, ScheduleError> {
        self.registrations
            .call(entry)
            .await
            .unwrap_or_else(|lost| Err(gone(lost)))
    }

    /// See [`crate::schedule::Schedule::settle`].
    pub async fn settle(
        &self,
        lease: Lease,
        settlement: Settlement,
    ) -> Result<Settled, ScheduleError> {
        self.settlements
            .call((lease, settlement))
            .await
            .unwrap_or_else(|lost| Err(gone(lost)))
    }

    /// See [`crate::schedule::Schedule::claim`]; at most [`MOST_CLAIMED`] at a time.
    ///
    /// A claim that was not answered may have been carried out all the same, and its leases would
    /// be nobody's until they expire. So it is repeated under its number, and gives them again.
    pub async fn claim(&self, most: usize) -> Result<Claimed, ScheduleError> {
        let mut last = self.last_claim.lock().await;
        let number = match *last {
            (number, true) => number + 1,
            (number, false) => number,
        };
        *last = (number, false);
        let limits = &self.context.limits;
        let mut command = self.context.call(&self.claim);
        command
            .arg(most.min(MOST_CLAIMED))
            .arg(limits.lease_ms)
            .arg(PER_VISIT)
            .arg(
                limits
                    .remember_ms
                    .map(|ms| ms.to_string())
                    .unwrap_or_default(),
            )
            .arg(MOST_CLAIMED_BYTES)
            .arg(UPKEEP)
            .arg(self.context.keys.claim())
            .arg(number);
        let mut reply = self
            .context
            .run(&self.claims, &self.claim, &command)
            .await?;
        *last = (number, true);
        let next_due_ms = Some(reply.number()?).filter(|at_ms| *at_ms >= 0);
        let expires_ms = reply.number()?;
        let mut leases = Vec::new();
        while !reply.is_empty() {
            let key = reply.text()?;
            match envelope::decode(&key, &reply.bytes()?) {
                Ok(entry) => leases.push(Lease { entry, expires_ms }),
                // Left leased: it comes up again when the lease expires, and is logged again. To
                // drop it would lose it, to fail here would hold up all the others.
                Err(error) => tracing::error!(%error, "a notification cannot be read"),
            }
        }
        Ok(Claimed {
            leases,
            next_due_ms,
        })
    }

    /// See [`crate::schedule::Schedule::check`].
    pub async fn check(&self) -> Result<(), ScheduleError> {
        let command = self.context.call(&self.check);
        let checked = self.context.run(&self.reads, &self.check, &command);
        checked.await.map(drop)
    }

    /// See [`crate::schedule::Schedule::renew`].
    pub async fn renew(&self, lease: &Lease) -> Result<Option<i64>, ScheduleError> {
        let mut command = self.context.call(&self.renew);
        command
            .arg(self.context.limits.lease_ms)
            .arg(lease.entry.notification.key.as_str())
            .arg(lease.expires_ms);
        let mut reply = self.context.run(&self.reads, &self.renew, &command).await?;
        Ok(Some(reply.number()?).filter(|expires_ms| *expires_ms >= 0))
    }

    /// See [`crate::schedule::Schedule::take`].
    pub async fn take(&self, key: &Key) -> Result<Taken, ScheduleError> {
        let mut command = self.context.call(&self.take);
        command.arg(self.context.limits.lease_ms).arg(key.as_str());
        let mut reply = self.context.run(&self.reads, &self.take, &command).await?;
        match reply.number()? {
            1 => {
                let expires_ms = reply.number()?;
                let entry = decode(key, &reply.bytes()?)?;
                // Somebody has to be awake to return it if it is never settled.
                self.context.wake.bring_forward(expires_ms);
                Ok(Taken::Leased(Box::new(Lease { entry, expires_ms })))
            }
            2 => Ok(Taken::InFlight),
            3 => Ok(Taken::Ended(Box::new(decode(key, &reply.bytes()?)?))),
            _ => Ok(Taken::Missing),
        }
    }

    /// See [`crate::schedule::Schedule::advance`].
    pub async fn advance(&self, key: &Key) -> Result<Option<Found>, ScheduleError> {
        let mut command = self.context.call(&self.advance);
        command.arg(self.context.keys.channel()).arg(key.as_str());
        let mut reply = self
            .context
            .run(&self.reads, &self.advance, &command)
            .await?;
        let Item::Bytes(bytes) = reply.item()? else {
            return Ok(None);
        };
        let found = Found {
            entry: decode(key, &bytes)?,
            in_flight: reply.number()? == 1,
        };
        if found.entry.state == State::Scheduled && !found.in_flight {
            self.context
                .wake
                .bring_forward(found.entry.progress.next_due_ms());
        }
        Ok(Some(found))
    }

    /// See [`crate::schedule::Schedule::revive`].
    pub async fn revive(
        &self,
        key: &Key,
        progress: Option<Progress>,
    ) -> Result<Option<Entry>, ScheduleError> {
        let Some(Found { entry, .. }) = self.find(key).await? else {
            return Ok(None);
        };
        let mut command = self.context.call(&self.revive);
        command.arg(self.context.keys.channel()).arg(key.as_str());
        match progress {
            Some(progress) => {
                let again = Entry::scheduled(entry.notification, progress);
                command.arg("again").arg(progress.next_due_ms());
                command.arg(&envelope::encode_header(&again)[..]);
            }
            None => {
                let now_ms = self.context.clock.now_ms();
                let cancelled = Entry {
                    state: State::Cancelled,
                    cause: None,
                    ended_ms: Some(now_ms),
                    ..entry
                };
                command.arg("remember").arg(now_ms);
                command.arg(envelope::encode(&cancelled, false));
            }
        }
        let mut reply = self
            .context
            .run(&self.reads, &self.revive, &command)
            .await?;
        let Item::Bytes(bytes) = reply.item()? else {
            return Ok(None);
        };
        if let Some(progress) = progress {
            self.context.wake.bring_forward(progress.next_due_ms());
        }
        Ok(Some(decode(key, &bytes)?))
    }

    /// See [`crate::schedule::Schedule::find`].
    pub async fn find(&self, key: &Key) -> Result<Option<Found>, ScheduleError> {
        let command = redis::Cmd::hget(self.context.keys.jobs(), key.as_str());
        let bytes = match self.reads.run(&command).await? {
            Value::BulkString(bytes) => Bytes::from(bytes),
            _ => return Ok(None),
        };
        let in_flight = self.in_flight(&[key.as_str()]).await?;
        Ok(Some(Found {
            entry: decode(key, &bytes)?,
            in_flight: in_flight == [true],
        }))
    }

    /// Which of these have a lease out.
    pub async fn in_flight(&self, keys: &[&str]) -> Result<Vec<bool>, ScheduleError> {
        let mut command = redis::cmd("ZMSCORE");
        command.arg(self.context.keys.leases()).arg(keys);
        match self.reads.run(&command).await? {
            Value::Array(scores) => Ok(scores.iter().map(|score| *score != Value::Nil).collect()),
            _ => Err(ScheduleError::Corrupt(
                "the leases are no sorted set".to_string(),
            )),
        }
    }
}

pub fn decode(key: &Key, bytes: &Bytes) -> Result<Entry, ScheduleError> {
    envelope::decode(key.as_str(), bytes).map_err(corrupt)
}

fn corrupt(error: BadEnvelope) -> ScheduleError {
    ScheduleError::Corrupt(error.to_string())
}

fn gone(lost: BatchLost) -> ScheduleError {
    ScheduleError::Unavailable(lost.to_string())
}
