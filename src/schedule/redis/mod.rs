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
//!                    whose it is, in case `epoch` is lost (all of it: recovery/inspect.lua)
//!   rebuild   STRING which instance is loading it, while it does
//!   claim:... STRING what an instance's last claim gave, in case its reply is lost
//! ```
//! Instances wake each other through the channel `{rb:N}:wake:DATABASE`.
//!
//! An entry is always in `jobs` and in exactly one of: its lane, `leases`, `dead`, `ended`. Whatever of
//! this is lost alone is found out by the scripts, and put right (lua/common.lua).
//!
//! A lane lies whole in one partition, which its name decides, so its cap is exact. The journal knows the
//! lane of every key. Without one, several partitions need a directory (`directory`).

mod bulk;
mod connection;
mod context;
mod dead;
mod directory;
mod durability;
mod leases;
mod listen;
mod partition;
mod reads;
mod recovery;
mod reply;
mod script;
mod writes;

use crate::clock::{Clock, OffsetClock};
use crate::domain::lane::Lane;
use crate::schedule::wake::Wake;
use crate::schedule::{Limits, ScheduleError};
use connection::Connector;
use directory::{Comparing, Directory};
use listen::Listener;
use partition::Partition;
use recovery::server_run::ServerRun;
use recovery::write_counters::{Loss, WriteCount, WriteCounter};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

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
    partitions: Arc<[Partition]>,
    directory: Option<Arc<Directory>>,
    clock: Arc<OffsetClock>,
    wake: Arc<Wake>,
    limits: Limits,
    owner: String,
    signing: Option<String>,
    /// Whether there is a journal that it can be loaded from.
    has_journal: bool,
    /// Whether what is here is known to be of this owner, though nothing there says so.
    ownership_taken: AtomicBool,
    run: Arc<ServerRun>,
    scripts: recovery::Scripts,
    loss: Arc<Loss>,
    /// What an earlier instance knew of each partition.
    recalled: Mutex<Vec<WriteCount>>,
    /// Where the next claim begins, so that no partition is always the last.
    turn: AtomicUsize,
    _listener: Listener,
    _comparing: Option<Comparing>,
}

impl RedisSchedule {
    /// Prepares the schedule; connects at the first call. [`crate::schedule::recoverable::Recoverable::inspect`] comes next.
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
        let has_directory = directory::is_needed(options);
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
                    has_directory.then_some(directory::ARRIVAL_MS),
                )
            })
            .collect::<Arc<[_]>>();
        let directory = has_directory.then(|| Arc::new(Directory::open(&connector, &partitions)));
        let compare =
            |directory: &Arc<Directory>| Comparing::start(directory.clone(), partitions.clone());
        let channels = partitions
            .iter()
            .map(|partition| partition.context.keys.channel().to_string())
            .collect();
        Ok(Self {
            _comparing: directory.as_ref().map(compare),
            _listener: Listener::start(connector, channels, wake.clone()),
            partitions,
            directory,
            clock,
            wake,
            limits: options.limits,
            owner: format!("{}/{}", options.owner, options.partitions.max(1)),
            signing: options.signing.clone(),
            has_journal: options.owner != NO_JOURNAL,
            ownership_taken: AtomicBool::new(false),
            run,
            scripts: recovery::Scripts::default(),
            loss,
            recalled: Mutex::default(),
            turn: AtomicUsize::new(0),
        })
    }

    /// Compares the directory with the entries at once, as every server does slowly all the time. Without
    /// a directory it does nothing.
    ///
    /// # Errors
    /// As any call.
    pub async fn compare_directory(&self) -> Result<(), ScheduleError> {
        match &self.directory {
            Some(directory) => directory.compare(&self.partitions, Duration::ZERO).await,
            None => Ok(()),
        }
    }

    /// In which partition a lane lies.
    fn number_of(&self, lane: &Lane) -> usize {
        slot(lane.as_str(), self.partitions.len())
    }

    fn partition(&self, lane: &Lane) -> &Partition {
        &self.partitions[self.number_of(lane)]
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

/// Which partition a name belongs to: FNV-1a of 64 bits, whose halves are combined, since the lower bits
/// alone depend on little. Must never change.
fn slot(name: &str, partitions: usize) -> usize {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let hash = hash ^ (hash >> 32);
    usize::try_from(hash % partitions as u64).expect("invariant: below the number of partitions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_partition() {
        // Written down once: another result would orphan everything that is scheduled.
        assert_eq!(slot("https://shop.example", 1), 0);
        assert_eq!(slot("https://shop.example", 16), 13);
        assert_eq!(slot("https://other.example", 16), 10);
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
