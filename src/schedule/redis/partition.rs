//! One partition: keys under one hash tag, and the scripts that change them.
//!
//! Registrations and settlements are collected into batches (see [`crate::batch`]). Claims,
//! registrations, settlements and bulk calls have a connection each, so that none waits behind another;
//! single calls share one. Where all partitions are at one server, partitions share them too, if there are many
//! ([`PartitionConnections`]).

mod claim;
mod lease_one;

use super::connection::Connection;
use super::context::{Context, PartitionKeys};
use super::partition_connections::PartitionConnections;
use super::partition_wakes::PartitionWake;
use super::passed_turn::PassedTurn;
use super::recovery::write_counters::WriteCounter;
use super::reply::{Item, ScriptReply};
use super::script::Script;
use super::writes::{Settling, registrations, settlements};
use super::{NO_JOURNAL, Options};
use crate::batch::{BatchLost, Batcher};
use crate::clock::{Clock, OffsetClock};
use crate::domain::key::Key;
use crate::domain::lease::Expiry;
use crate::domain::redis_url::RedisHost;
use crate::schedule::envelope::{self, Decoded};
use crate::schedule::window::Window;
use crate::schedule::{Entry, FoundEntry, Lease, Registered, ScheduleError, Settled};
use bytes::Bytes;
use redis::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};
use tokio::sync::Mutex;

/// One partition of the schedule.
pub struct Partition {
    pub context: Arc<Context>,
    pub reads: Connection,
    /// For rare changes that may not be lost in a fail-over.
    pub changes: Connection,
    /// For the directory of keys, if there is one.
    pub directory: Connection,
    /// Whether this instance is loading it.
    pub loading: AtomicBool,
    /// The generation of the data in which the settings of lanes were seen to be confirmed; 0 if in none.
    pub settings_confirmed: AtomicI64,
    claims: Connection,
    claim: Script,
    answers: Script,
    /// The number of the last claim, and whether it was answered.
    last_claim: Mutex<(u64, bool)>,
    check: Script,
    renew: Script,
    lease_one: Script,
    /// For calls about many entries, so that no other call waits behind them.
    pub bulk: Connection,
    pub holds: Script,
    present: Script,
    pub scan: Script,
    pub pending: Script,
    pub restore: Script,
    pub reindex: Script,
    pub configure: Script,
    pub call_now: Script,
    pub lane_page: Script,
    order: Script,
    pub outages: Script,
    pub loaded_until: Script,
    pub leave_content: Script,
    registrations: Batcher<Entry, Result<Registered, ScheduleError>>,
    settlements: Arc<Batcher<Settling, Result<Settled, ScheduleError>>>,
}

impl Partition {
    /// Prepares one partition; connects at the first call. A registration that arrives more than
    /// `arrival_ms` after it was accepted is refused.
    pub fn open(
        number: usize,
        connections: PartitionConnections,
        options: &Options,
        clock: Arc<OffsetClock>,
        wake: PartitionWake,
        writes: WriteCounter,
        arrival_ms: Option<i64>,
    ) -> Self {
        let PartitionConnections {
            server,
            reads,
            changes,
            claims,
            bulk,
            registrations: registering,
            settlements: settling,
            directory,
        } = connections;
        let context = Arc::new(Context {
            keys: PartitionKeys::of(number, server.connector(), writes.instance()),
            limits: options.limits,
            clock,
            wake,
            writes,
            time: options.time,
            server,
            has_journal: options.owner != NO_JOURNAL && options.limits.remember_ms.is_none(),
            leaves_bodies: options.owner != NO_JOURNAL && options.limits.window != Window::WHOLE,
        });
        Self {
            reads,
            changes,
            directory,
            loading: AtomicBool::new(false),
            settings_confirmed: AtomicI64::new(0),
            claims,
            claim: Script::with_common(include_str!("lua/claim.lua")),
            answers: Script::new(include_str!("lua/answers.lua")),
            last_claim: Mutex::new((0, true)),
            check: Script::with_common(include_str!("lua/check.lua")),
            renew: Script::with_common(include_str!("lua/renew.lua")),
            lease_one: Script::with_common(include_str!("lua/lease_one.lua")),
            bulk,
            holds: Script::with_common(include_str!("lua/holds.lua")),
            present: Script::with_common(include_str!("lua/present.lua")),
            scan: Script::with_common(include_str!("lua/scan.lua")),
            pending: Script::with_common(include_str!("lua/pending.lua")),
            restore: Script::with_common(include_str!("lua/restore.lua")),
            reindex: Script::with_common(include_str!("recovery/reindex.lua")),
            lane_page: Script::with_common(include_str!("lua/lane_page.lua")),
            order: Script::with_common(include_str!("lua/order.lua")),
            outages: Script::with_common(include_str!("lua/outages.lua")),
            loaded_until: Script::with_common(include_str!("lua/loaded_until.lua")),
            leave_content: Script::with_common(include_str!("lua/leave_content.lua")),
            call_now: Script::with_common(include_str!("lua/call_now.lua")),
            configure: Script::with_common(concat!(
                include_str!("lua/settings.lua"),
                include_str!("lua/configure_lanes.lua")
            )),
            registrations: registrations(context.clone(), registering, arrival_ms),
            settlements: Arc::new(settlements(context.clone(), settling)),
            context,
        }
    }

    /// See [`crate::schedule::ScheduleLeases::register`].
    pub async fn register(&self, entry: Entry) -> Result<Registered, ScheduleError> {
        self.registrations
            .call(entry)
            .await
            .unwrap_or_else(|lost| Err(gone(lost)))
    }

    /// See [`crate::schedule::ScheduleLeases::settle`] and
    /// [`crate::schedule::ScheduleLeases::end_reservation`].
    pub async fn settle(&self, settling: Settling) -> Result<Settled, ScheduleError> {
        self.settlements
            .call(settling)
            .await
            .unwrap_or_else(|lost| Err(gone(lost)))
    }

    /// Makes the next entry of an order key due. If that fails, the next one is due later.
    pub async fn pass_turn(&self, passed: &PassedTurn) {
        let mut command = self.context.call(&self.order);
        command.arg(self.context.channel());
        passed.add_to(&mut command);
        match self.context.run(&self.bulk, &self.order, &command).await {
            Ok(_) => self.context.wake.bring_forward(self.context.clock.now_ms()),
            Err(error) => tracing::debug!(
                %error,
                "the next notification of an order could not be made due; it is claimed when the lease of the one before \
                 would have expired"
            ),
        }
    }

    /// See [`crate::schedule::ScheduleReads::check`].
    pub async fn check(&self) -> Result<(), ScheduleError> {
        let command = self.context.call(&self.check);
        let checked = self.context.run(&self.reads, &self.check, &command);
        checked.await.map(drop)
    }

    /// Asks over the connection of the claims whether a server answers that has the partition and accepts changes.
    pub async fn answers(&self) -> Result<(), ScheduleError> {
        let command = self.context.call(&self.answers);
        let answer = self.claims.run_script(&self.answers, &command);
        answer.await.map(drop)
    }

    /// Runs a script that looks into partitions, over the connection of the claims.
    pub async fn run_poll(
        &self,
        script: &Script,
        command: &redis::Cmd,
    ) -> Result<ScriptReply, ScheduleError> {
        self.claims.run_script(script, command).await
    }

    /// The server of the connection of the claims, if that is open.
    pub fn host(&self) -> Option<RedisHost> {
        self.claims.host()
    }

    /// See [`crate::schedule::ScheduleLeases::renew`].
    pub async fn renew(&self, lease: &Lease) -> Result<Option<Expiry>, ScheduleError> {
        let mut command = self.context.call(&self.renew);
        command
            .arg(self.context.limits.lease_ms)
            .arg(lease.entry.notification.key.as_str())
            .arg(lease.entry.notification.lane.as_str())
            .arg(lease.expiry().to_string());
        let mut reply = self.context.run(&self.reads, &self.renew, &command).await?;
        match reply.item()? {
            Item::Bytes(text) => Ok(Some(read_expiry(&text)?)),
            Item::Number(_) => Ok(None),
        }
    }

    /// See [`crate::schedule::ScheduleReads::find`].
    pub async fn find(&self, key: &Key) -> Result<Option<FoundEntry>, ScheduleError> {
        let command = redis::Cmd::hget(self.context.keys.jobs(), key.as_str());
        let bytes = match self.reads.run(&command).await? {
            Value::BulkString(bytes) => Bytes::from(bytes),
            _ => return Ok(None),
        };
        let Decoded::Whole(entry) = envelope::decode_any(key.as_str(), &bytes)? else {
            return Ok(None);
        };
        let in_flight = self.in_flight(&[key.as_str()]).await?;
        Ok(Some(FoundEntry {
            entry: *entry,
            in_flight: in_flight == [true],
        }))
    }

    /// Whether each key has an entry or a lease here.
    pub async fn present(
        &self,
        keys: impl ExactSizeIterator<Item = &Key>,
    ) -> Result<Vec<bool>, ScheduleError> {
        let many = keys.len();
        let mut command = self.context.call(&self.present);
        for key in keys {
            command.arg(key.as_str());
        }
        let mut reply = self
            .context
            .read(&self.bulk, &self.present, &command)
            .await?;
        (0..many).map(|_| Ok(reply.number()? == 1)).collect()
    }

    /// Whether each key is leased.
    pub async fn in_flight(&self, keys: &[&str]) -> Result<Vec<bool>, ScheduleError> {
        let mut command = redis::cmd("ZMSCORE");
        command.arg(self.context.keys.leases()).arg(keys);
        match self.reads.run(&command).await? {
            Value::Array(scores) => Ok(scores.iter().map(|score| *score != Value::Nil).collect()),
            _ => Err(ScheduleError::Corrupt(
                "the leases are not a sorted set".to_string(),
            )),
        }
    }
}

fn expiry(reply: &mut ScriptReply) -> Result<Expiry, ScheduleError> {
    read_expiry(&reply.bytes()?)
}

fn read_expiry(text: &[u8]) -> Result<Expiry, ScheduleError> {
    let expiry = std::str::from_utf8(text).ok().and_then(Expiry::from_text);
    expiry
        .ok_or_else(|| ScheduleError::Corrupt("the expiry of a lease is not a number".to_string()))
}

fn gone(lost: BatchLost) -> ScheduleError {
    ScheduleError::Unavailable(lost.to_string())
}
