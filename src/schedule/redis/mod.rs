//! The schedule in Redis or Valkey, shared by any number of instances.
//!
//! Owns the keys under `{rb:N}` and the scripts in `lua/`, one file per transition. Every change is
//! one script, so no other call sees it half done. A script uses the clock of Redis, so instances whose
//! clocks differ agree on what is due. Needs Redis 6.2 or Valkey and no CONFIG command. No other client may
//! change its keys.
//!
//! ```text
//!   jobs      HASH   key -> envelope (schedule::envelope)
//!   lane:...  ZSET   key -> due, one set per lane; small ones stay compact in memory
//!   lanes     ZSET   lane -> when it next has something to do, in microseconds
//!   leases    ZSET   key -> lease expiry in microseconds, which also identifies the lease
//!   leased:.. ZSET   the same, one set per lane: its size is the number of leases of the lane
//!   changing  HASH   key -> the request that leased it for a change by hand, or an unknown change
//!   dead      ZSET   key -> parked at   (only without a journal)
//!   ended     ZSET   key -> ended at    (only without a journal)
//!   epoch     STRING the owner of the data
//!   meta      HASH   instance -> how many changes it has made; since when the data is here, and its
//!                    owner, in case `epoch` is lost (all fields: recovery/inspect.lua)
//!   health    HASH   lane -> how its destination is doing
//!   settings  HASH   lane -> its settings, and up to which change of the journal they are here
//!   endpoints HASH   name -> an endpoint, with the limits of its lane   (only without a journal)
//!   endpoint_changes ZSET  name -> the number of its last change    (only without a journal)
//!   default_keys STRING  the default keys, in the first partition   (only without a journal)
//!   contents  LIST   since when it waits, and key, of what has its content for some minutes (contents.rs)
//!   directory HASH   key -> partition of its lane   (only without a journal, and several partitions)
//!   rebuild   STRING the instance that is loading this partition
//!   claim:... STRING what an instance's last claim gave, in case its reply is lost
//! ```
//! Instances wake each other through the channel `{rb:N}:wake:DATABASE`, and share many partitions out among themselves
//! (`shares`, `partition_wakes`).
//!
//! An entry is always in `jobs` and in exactly one of: its lane, `leases`, `dead`, `ended`. If a part of
//! this is lost, the scripts notice it, and it is repaired (lua/common.lua).
//!
//! The name of a lane decides its partition, which has all entries of the lane. So the cap of the lane is
//! exact. The journal knows the lane of every key. Without a journal, several partitions need a directory
//! (`directory`).

mod away;
mod bulk;
mod claimed_lane;
mod claiming;
mod connection;
mod connector;
mod contents;
mod context;
mod dead;
mod default_keys;
mod directory;
mod durability;
mod endpoints;
mod info;
mod lane_counts;
mod lane_pages;
mod lane_score;
mod lane_settings;
mod leases;
mod listen;
mod node_survey;
mod outages;
mod partition;
mod partition_connections;
mod partition_wakes;
mod passed_turn;
mod pending_count;
mod poll;
mod reads;
mod recovery;
mod reply;
mod restoring;
mod script;
mod script_text;
mod servers;
mod shares;
pub mod survey;
mod window;
mod writes;

use crate::clock::{Clock, OffsetClock};
use crate::domain::lane::Lane;
use crate::redis_tls::RedisTls;
use crate::schedule::skipped::SkippedLanes;
use crate::schedule::{Limits, ScheduleError};
use away::AwayPartitions;
pub use claiming::ClaimTimes;
use connector::Connector;
use directory::Directory;
use directory::compare::Comparing;
use listen::Listener;
use partition::Partition;
use partition_connections::PartitionConnections;
use partition_wakes::{PartitionWake, PartitionWakes};
use recovery::server_run::ServerRun;
use recovery::write_counters::{Loss, WriteCount, WriteCounter};
use script::Script;
use shares::ClaimingInstances;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

/// Whose clock decides what is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// The Redis server's.
    Server,
    /// The clock that was passed in, for tests.
    Clock,
}

/// How to open the schedule.
#[derive(Debug, Clone)]
pub struct Options {
    /// See [`crate::domain::redis_url`].
    pub url: String,
    /// The certificates for TLS.
    pub tls: RedisTls,
    /// Number of partitions, 1 or more. The same for every instance at work: it decides which partition has an entry. With a
    /// journal, a server that starts with another number while none is at work loads the schedule anew (recovery/resizing.rs).
    pub partitions: usize,
    /// The settings of the schedule.
    pub limits: Limits,
    /// Whose clock decides what is due.
    pub time: Time,
    /// The journal's id, or [`NO_JOURNAL`].
    pub owner: String,
    /// A fingerprint of the secret that this instance signs with, if it signs: all instances of a schedule
    /// must sign with the same secret.
    pub signing: Option<String>,
    /// How many replicas must have a registration, a settlement, and a change of an endpoint or of the default keys before it
    /// counts. With fewer, the call fails, though the change may be kept, as after a lost reply. 0: it waits for none.
    pub replicas: u16,
    /// How long a claim of several partitions may take.
    pub claim_times: ClaimTimes,
}

/// The owner of a schedule that has no journal.
pub const NO_JOURNAL: &str = "none";

/// The schedule in Redis.
pub struct RedisSchedule {
    partitions: Arc<[Partition]>,
    directory: Option<Arc<Directory>>,
    clock: Arc<OffsetClock>,
    wakes: Arc<PartitionWakes>,
    skipped: SkippedLanes,
    limits: Limits,
    owner: String,
    signing: Mutex<Option<String>>,
    /// Whether this is the schedule of a server, which puts notifications in.
    serves: AtomicBool,
    /// Whether it was inspected with success. From then on the horizons of other servers are not compared: these compare
    /// when they start.
    has_entered: AtomicBool,
    /// Whether there is a journal from which it can be loaded.
    has_journal: bool,
    /// Whether another server may take over without the last changes.
    may_fail_over: bool,
    /// Whether data without an owner is known to be this owner's.
    ownership_taken: AtomicBool,
    scripts: recovery::Scripts,
    endpoint_scripts: endpoints::EndpointScripts,
    default_key_scripts: default_keys::DefaultKeyScripts,
    loss: Arc<Loss>,
    /// The partitions that do not answer. `None` without a cluster: then all are at one server.
    away: Option<Arc<AwayPartitions>>,
    /// The write counts of an earlier instance, one for each partition.
    recalled: Mutex<Vec<WriteCount>>,
    poll_script: Script,
    claim_times: ClaimTimes,
    /// The instances that claim, with which this one shares the partitions out.
    instances: Arc<ClaimingInstances>,
    _listener: Listener,
    _comparing: Option<Comparing>,
}

impl RedisSchedule {
    /// Opens the schedule. The listener begins at once in the background, and with a directory its comparison
    /// too. All other connections are made at the first call, which must be
    /// [`crate::schedule::recoverable::Recoverable::inspect`].
    ///
    /// # Errors
    /// [`ScheduleError::Unavailable`] if the URL is not valid.
    pub fn open(options: &Options, clock: Arc<dyn Clock>) -> Result<Self, ScheduleError> {
        let clock = Arc::new(OffsetClock::new(clock));
        let loss = Arc::new(Loss::default());
        let connector = Connector::new(&options.url, &options.tls, options.replicas)?;
        let many = options.partitions.max(1);
        let wakes = Arc::new(PartitionWakes::of(many, clock.clone()));
        let instances = Arc::new(ClaimingInstances::default());
        let run = |metas: Vec<String>| {
            let (clock, time) = (clock.clone(), options.time);
            let now_ms = move || (time == Time::Clock).then(|| clock.now_ms());
            Arc::new(ServerRun::new(metas, now_ms, loss.clone()))
        };
        let connections = PartitionConnections::of_all(&connector, many, run);
        let instance = Uuid::now_v7().simple().to_string();
        let has_directory = directory::is_needed(options);
        let partitions = (connections.into_iter().enumerate())
            .map(|(number, connections)| {
                let writes = WriteCounter::new(&instance, loss.clone());
                Partition::open(
                    number,
                    connections,
                    options,
                    clock.clone(),
                    PartitionWake::of(wakes.clone(), number),
                    writes,
                    has_directory.then_some(directory::DIRECTORY_ARRIVAL_MS),
                )
            })
            .collect::<Arc<[_]>>();
        let directory = has_directory.then(|| Arc::new(Directory::open(&partitions)));
        let compare =
            |directory: &Arc<Directory>| Comparing::start(directory.clone(), partitions.clone());
        let may_fail_over = connector.may_fail_over();
        let away = connector
            .is_cluster()
            .then(|| AwayPartitions::of(&partitions, loss.clone(), wakes.clone()));
        let channels = partitions
            .iter()
            .map(|partition| partition.context.keys.channel().to_string())
            .collect();
        Ok(Self {
            _comparing: directory.as_ref().map(compare),
            _listener: Listener::start(connector, channels, wakes.clone(), instances.clone()),
            partitions,
            directory,
            clock,
            wakes,
            skipped: SkippedLanes::default(),
            limits: options.limits,
            owner: format!("{}/{many}", options.owner),
            signing: Mutex::new(options.signing.clone()),
            serves: AtomicBool::new(false),
            has_entered: AtomicBool::new(false),
            has_journal: options.owner != NO_JOURNAL,
            may_fail_over,
            ownership_taken: AtomicBool::new(false),
            scripts: recovery::Scripts::default(),
            endpoint_scripts: endpoints::EndpointScripts::default(),
            default_key_scripts: default_keys::DefaultKeyScripts::default(),
            loss,
            away,
            recalled: Mutex::default(),
            poll_script: poll::script(),
            claim_times: options.claim_times,
            instances,
        })
    }

    /// Tells the other servers the horizon of this one, with the first inspection. That is refused if the horizons do not go
    /// together.
    pub fn announce_horizon(&self) {
        self.serves.store(true, Ordering::Relaxed);
    }

    /// Compares the directory with the entries without pauses. Every server also does that slowly in the
    /// background. Without a directory it does nothing.
    ///
    /// # Errors
    /// As any call.
    pub async fn compare_directory(&self) -> Result<(), ScheduleError> {
        match &self.directory {
            Some(directory) => directory.compare(&self.partitions, Duration::ZERO).await,
            None => Ok(()),
        }
    }

    /// Which partition has a lane.
    fn number_of(&self, lane: &Lane) -> usize {
        slot(lane.as_str(), self.partitions.len())
    }

    /// Refuses what would be lost with a primary that may have been replaced: in the new one, what is changed in the old one
    /// is as before.
    fn confirm_server(&self) -> Result<(), ScheduleError> {
        let servers = self.partitions[0].context.server.servers();
        match servers.is_confirmed() {
            true => Ok(()),
            false => Err(ScheduleError::Unavailable(
                "most sentinels do not answer, so the primary may have been replaced".to_string(),
            )),
        }
    }

    fn partition(&self, lane: &Lane) -> &Partition {
        &self.partitions[self.number_of(lane)]
    }
}

/// Which partition a name belongs to: FNV-1a of 64 bits, whose halves are combined, since the lower bits
/// alone are poorly distributed. Must never change.
fn slot(name: &str, partitions: usize) -> usize {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let hash = hash ^ (hash >> 32);
    usize::try_from(hash % partitions as u64).expect("invariant: below the number of partitions")
}

/// For each partition, the indices of its lanes in `lanes`.
fn by_partition<'lane>(
    lanes: impl Iterator<Item = &'lane Lane>,
    partitions: usize,
) -> Vec<Vec<usize>> {
    let mut places = vec![Vec::new(); partitions];
    for (place, lane) in lanes.enumerate() {
        places[slot(lane.as_str(), partitions)].push(place);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_partition() {
        // These values must never change: with another result, no scheduled entry would be found.
        assert_eq!(slot("https://shop.example", 1), 0);
        assert_eq!(slot("https://shop.example", 16), 13);
        assert_eq!(slot("https://other.example", 16), 10);
    }
}
