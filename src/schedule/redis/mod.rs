//! The schedule in Redis or Valkey, shared by any number of instances.
//!
//! Owns the keys under `{rb:N}` and the scripts in `lua/`, one file per transition. Every change is
//! one script, so nobody sees it half done, and runs in Redis's own time, so that instances whose
//! clocks differ agree on what is due. Needs Redis 6.2 or Valkey, nothing of CONFIG, and no other
//! client in its keys.
//!
//! ```text
//!   jobs      HASH   key -> envelope (schedule::envelope)
//!   lane:...  ZSET   key -> due, one set per lane; small ones stay compact in memory
//!   lanes     ZSET   lane -> when it next has something to do, in microseconds
//!   leases    ZSET   key -> lease expiry in microseconds, which also tells a lease from every other
//!   leased:.. ZSET   the same, one set per lane: how many leases it has out
//!   changing  HASH   key -> the request that leased it for a change by hand
//!   dead      ZSET   key -> parked at   (only without a journal)
//!   ended     ZSET   key -> ended at    (only without a journal)
//!   epoch     STRING whose data this is
//!   meta      HASH   instance -> how many changes it has made; since when the data is here, and
//!                    whose it is, in case `epoch` is lost (all of it: recovery/begin.lua)
//!   rebuild   STRING which instance is loading it, while it does
//!   claim:... STRING what an instance's last claim gave, in case its reply is lost
//! ```
//! Instances wake each other through the channel `{rb:N}:wake:DATABASE`.
//!
//! An entry is always in `jobs` and in exactly one of: its lane, `leases`, `dead`, `ended`. Whatever of
//! this is lost alone is found out by the scripts, and put right (lua/common.lua).
//!
//! A notification's key decides its partition, so that it can be found by its name alone. The lane
//! cap is counted per partition and therefore divided by their number.

mod bulk;
mod connection;
mod context;
mod dead;
mod durability;
mod listen;
mod partition;
mod recovery;
mod reply;
mod script;
mod writes;

use crate::clock::{Clock, OffsetClock};
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::lease::{Expiry, LeaseToken};
use crate::schedule::wake::Wake;
use crate::schedule::{
    Claimed, DeadPage, Entry, Found, Holding, Lease, LeaseRequest, LeasedOne, Limits, Recoverable,
    Registered, Reservation, Restored, Scanned, Schedule, ScheduleCounts, ScheduleError, Settled,
    Settlement,
};
use async_trait::async_trait;
use connection::Connector;
use listen::Listener;
use partition::Partition;
use recovery::server_run::ServerRun;
use recovery::write_counters::{Loss, WriteCount, WriteCounter};
use redis::Value;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use uuid::Uuid;
use writes::Settling;

/// Whose clock decides what is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// The Redis server's.
    Server,
    /// The one that was handed in, for tests that turn it by hand.
    Clock,
}

/// How to open the schedule.
#[derive(Debug, Clone)]
pub struct Options {
    /// `redis://` or `rediss://`.
    pub url: String,
    /// Into how many partitions the keys are split, 1 or more. The same for every instance, for
    /// ever: it decides where an entry lies.
    pub partitions: usize,
    /// The settings.
    pub limits: Limits,
    /// Whose clock decides.
    pub time: Time,
    /// The journal's id, or [`NO_JOURNAL`].
    pub owner: String,
    /// A fingerprint of the secret that this instance signs with, if it signs: all that share a
    /// schedule have to sign alike.
    pub signing: Option<String>,
}

/// The owner of a schedule that has no journal.
pub const NO_JOURNAL: &str = "none";

/// The schedule in Redis.
pub struct RedisSchedule {
    partitions: Vec<Partition>,
    clock: Arc<OffsetClock>,
    wake: Arc<Wake>,
    limits: Limits,
    owner: String,
    signing: Option<String>,
    /// Whether there is a journal that it can be loaded from.
    has_journal: bool,
    /// Whether what is here is known to be of this owner, though nothing there says so.
    adopted: AtomicBool,
    run: Arc<ServerRun>,
    scripts: recovery::Scripts,
    loss: Arc<Loss>,
    /// What an earlier instance knew of each partition.
    recalled: Mutex<Vec<WriteCount>>,
    /// Where the next claim begins, so that no partition is always the last.
    turn: AtomicUsize,
    _listener: Listener,
}

impl RedisSchedule {
    /// Prepares the schedule; connects at the first call. [`Recoverable::look`] comes next.
    ///
    /// # Errors
    /// [`ScheduleError::Unavailable`] if the URL is none.
    pub fn open(options: &Options, clock: Arc<dyn Clock>) -> Result<Self, ScheduleError> {
        let clock = Arc::new(OffsetClock::new(clock));
        let wake = Arc::new(Wake::default());
        let loss = Arc::new(Loss::default());
        let meta = (0..options.partitions.max(1))
            .map(context::meta_key)
            .collect();
        let now_ms = {
            let (clock, time) = (clock.clone(), options.time);
            move || (time == Time::Clock).then(|| clock.now_ms())
        };
        let run = Arc::new(ServerRun::new(meta, now_ms, loss.clone()));
        let connector = Connector::new(&options.url, run.clone())?;
        let instance = Uuid::now_v7().simple().to_string();
        let partitions = (0..options.partitions.max(1))
            .map(|number| {
                let writes = WriteCounter::new(&instance, loss.clone());
                Partition::open(
                    number,
                    &connector,
                    options,
                    clock.clone(),
                    wake.clone(),
                    writes,
                )
            })
            .collect::<Vec<_>>();
        let channels = partitions
            .iter()
            .map(|partition| partition.context.keys.channel().to_string())
            .collect();
        Ok(Self {
            _listener: Listener::start(connector, channels, wake.clone()),
            partitions,
            clock,
            wake,
            limits: options.limits,
            owner: format!("{}/{}", options.owner, options.partitions.max(1)),
            signing: options.signing.clone(),
            has_journal: options.owner != NO_JOURNAL,
            adopted: AtomicBool::new(false),
            run,
            scripts: recovery::Scripts::default(),
            loss,
            recalled: Mutex::default(),
            turn: AtomicUsize::new(0),
        })
    }

    fn partition(&self, key: &Key) -> &Partition {
        &self.partitions[slot(key.as_str(), self.partitions.len())]
    }
}

fn foreign(found: &str, owner: &str) -> String {
    let split = |owner: &str| match owner.rsplit_once('/') {
        Some((journal, partitions)) => (journal.to_string(), partitions.to_string()),
        None => (owner.to_string(), "?".to_string()),
    };
    let ((journal, partitions), (own, own_partitions)) = (split(found), split(owner));
    if journal == own {
        return format!(
            "this Redis schedule has {partitions} partitions, but this server was started with \
             --partitions {own_partitions}; start it with --partitions {partitions}, like the other \
             servers"
        );
    }
    let name = |journal: &str| match journal {
        NO_JOURNAL => "no journal".to_string(),
        journal => format!("journal {journal}"),
    };
    format!(
        "this Redis schedule belongs to {}, but this server has {}; give each its own Redis \
         database, or start with the journal it belongs to",
        name(&journal),
        name(&own)
    )
}

/// Which partition a key lies in: FNV-1a, 64 bits. Must never change.
fn slot(key: &str, partitions: usize) -> usize {
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    usize::try_from(hash % partitions as u64).expect("invariant: below the number of partitions")
}

#[async_trait]
impl Schedule for RedisSchedule {
    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn wake(&self) -> &Wake {
        &self.wake
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    async fn register(&self, entry: Entry) -> Result<Registered, ScheduleError> {
        self.partition(&entry.notification.key)
            .register(entry)
            .await
    }

    async fn claim(&self, most: usize) -> Result<Claimed, ScheduleError> {
        let mut claimed = Claimed::default();
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for offset in 0..self.partitions.len() {
            let partition = &self.partitions[(first + offset) % self.partitions.len()];
            let more = match partition.claim(most - claimed.leases.len()).await {
                Ok(more) => more,
                Err(error) if claimed.leases.is_empty() => return Err(error),
                // What was claimed must be worked on; the next claim meets the error again.
                Err(error) => {
                    tracing::debug!(%error, "a partition cannot be claimed from");
                    claimed.next_due_ms = Some(self.clock.now_ms());
                    return Ok(claimed);
                }
            };
            claimed.leases.extend(more.leases);
            claimed.next_due_ms = [claimed.next_due_ms, more.next_due_ms]
                .into_iter()
                .flatten()
                .min();
        }
        Ok(claimed)
    }

    async fn settle(&self, lease: Lease, settlement: Settlement) -> Result<Settled, ScheduleError> {
        self.partition(&lease.entry.notification.key)
            .settle(Settling::Lease(lease, settlement))
            .await
    }

    async fn renew(&self, lease: &Lease) -> Result<Option<Expiry>, ScheduleError> {
        self.partition(&lease.entry.notification.key)
            .renew(lease)
            .await
    }

    async fn lease_one(&self, request: &LeaseRequest) -> Result<LeasedOne, ScheduleError> {
        self.partition(&request.key).lease_one(request).await
    }

    async fn end_reservation(
        &self,
        lease: LeaseToken,
        reservation: Reservation,
    ) -> Result<Settled, ScheduleError> {
        self.partition(lease.key())
            .settle(Settling::Reservation(lease, reservation))
            .await
    }

    async fn find(&self, key: &Key) -> Result<Option<Found>, ScheduleError> {
        self.partition(key).find(key).await
    }

    async fn in_flight(&self, keys: &[Key]) -> Result<Vec<bool>, ScheduleError> {
        let mut flags = vec![false; keys.len()];
        for (number, partition) in self.partitions.iter().enumerate() {
            let here: Vec<usize> = (0..keys.len())
                .filter(|index| slot(keys[*index].as_str(), self.partitions.len()) == number)
                .collect();
            if here.is_empty() {
                continue;
            }
            let names: Vec<&str> = here.iter().map(|index| keys[*index].as_str()).collect();
            for (index, flag) in here.iter().zip(partition.in_flight(&names).await?) {
                flags[*index] = flag;
            }
        }
        Ok(flags)
    }

    async fn holds(&self, keys: &[Key]) -> Result<Vec<Option<Holding>>, ScheduleError> {
        bulk::holds(&self.partitions, keys).await
    }

    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, ScheduleError> {
        bulk::scan(&self.partitions, cursor, limit).await
    }

    async fn restore(&self, entries: &[Entry]) -> Result<Restored, ScheduleError> {
        bulk::restore(&self.partitions, entries).await
    }

    fn recoverable(&self) -> Option<&dyn Recoverable> {
        Some(self)
    }

    async fn dead(&self, cursor: Option<&str>, limit: usize) -> Result<DeadPage, ScheduleError> {
        dead::page(&self.partitions, cursor, limit).await
    }

    async fn counts(&self) -> Result<ScheduleCounts, ScheduleError> {
        let mut counts = ScheduleCounts::default();
        for partition in &self.partitions {
            let keys = &partition.context.keys;
            let size = async |command: &str, key: &str| match partition
                .reads
                .run(redis::cmd(command).arg(key))
                .await?
            {
                Value::Int(size) => Ok(u64::try_from(size).unwrap_or(0)),
                _ => Err(ScheduleError::Corrupt(format!("{key} has another type"))),
            };
            let dead = size("ZCARD", keys.dead()).await?;
            let ended = size("ZCARD", keys.ended()).await?;
            counts.dead += dead;
            counts.in_flight += size("ZCARD", keys.leases()).await?;
            counts.pending += size("HLEN", keys.jobs())
                .await?
                .saturating_sub(dead + ended);
        }
        Ok(counts)
    }

    async fn check(&self) -> Result<(), ScheduleError> {
        for partition in &self.partitions {
            partition.check().await?;
        }
        Ok(())
    }

    async fn lane_in_flight(&self, lane: &Lane) -> Result<usize, ScheduleError> {
        let mut out = 0;
        for partition in &self.partitions {
            let leased = partition.context.keys.leased(lane);
            match partition
                .reads
                .run(redis::cmd("ZCARD").arg(&leased))
                .await?
            {
                Value::Int(many) => out += usize::try_from(many).unwrap_or(0),
                _ => return Err(ScheduleError::Corrupt(format!("{leased} has another type"))),
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stays_in_its_partition() {
        // Written down once: another result would orphan everything that is scheduled.
        assert_eq!(slot("payment.succeeded/order-1", 1), 0);
        assert_eq!(slot("payment.succeeded/order-1", 16), 15);
        assert_eq!(slot("payment.succeeded/order-2", 16), 2);
    }

    #[test]
    fn a_foreign_schedule_is_named() {
        let text = foreign("none/1", "0199/4");
        assert!(text.contains("belongs to no journal, but"), "{text}");
        assert!(text.contains("this server has journal 0199"), "{text}");
        let text = foreign("0199/1", "0199/4");
        assert!(text.contains("--partitions 1"), "{text}");
        assert!(!text.contains("journal"), "{text}");
    }
}
