//! Primaries that die, hang or hand over under load, behind sentinels and in a cluster, and slots that move.
//!
//! The same account as after other kills: nothing that was accepted is lost, and nothing is called after its end was
//! answered. The short form is part of `make test`; `make kill` runs the long form, with the settings of `kill`.

use super::account::Account;
use super::callers::Callers;
use super::kill::Size;
use super::receiver::Receiver;
use super::stage::{CLUSTER_PARTITIONS, SeveralRedis, Stage, Stores};
use crate::support::chance::Chance;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// The short form: each trouble once.
const NOTIFICATIONS: u32 = 600;
/// How long things run between two troubles.
const BETWEEN_MS: std::ops::Range<u64> = 50..400;
/// How long a primary goes on that its replicas do not hear.
const ALONE_MS: std::ops::Range<u64> = 20..200;
/// Keys that are moved at a time, at most.
const MOST_KEYS: u64 = 3;
/// Beyond this the load counts as stuck.
const LONGEST_LOAD: Duration = Duration::from_secs(3_600);

/// What happens to a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// It dies, and comes back as a replica.
    Dies,
    /// It dies with writes that no replica has.
    TakesWritesAlong,
    /// Likewise, and one of the servers dies with it, before a replica can take over.
    TakesServerAlong,
    /// It answers nobody, is replaced, and goes on as if nothing had been.
    Hangs,
    /// A replica takes over while it is well.
    HandsOver,
    /// One of its slots is moved to another primary, a few keys at a time.
    LosesSlot,
}

impl Trouble {
    fn all(several: &SeveralRedis) -> Vec<Self> {
        let mut all = vec![
            Self::Dies,
            Self::TakesWritesAlong,
            Self::TakesServerAlong,
            Self::Hangs,
            Self::HandsOver,
        ];
        if matches!(several, SeveralRedis::Cluster(_)) {
            all.push(Self::LosesSlot);
        }
        all
    }

    fn name(self) -> &'static str {
        match self {
            Self::Dies => "dies",
            Self::TakesWritesAlong => "takes writes along",
            Self::TakesServerAlong => "takes a server along",
            Self::Hangs => "hangs, and comes back",
            Self::HandsOver => "hands over",
            Self::LosesSlot => "has a slot moved away",
        }
    }

    async fn happen(self, stage: &mut Stage, receiver: &Receiver, chance: &mut Chance) {
        match stage.several() {
            SeveralRedis::Sentinels(_) => self.behind(stage, receiver, chance).await,
            SeveralRedis::Cluster(_) => self.within(stage, receiver, chance).await,
        }
    }

    /// Kills a server if that is a part of it, and says which.
    async fn kill_server(self, stage: &mut Stage, chance: &mut Chance) -> Option<usize> {
        if self != Self::TakesServerAlong {
            return None;
        }
        let servers = u64::try_from(stage.servers()).expect("few");
        let which = usize::try_from(chance.below(servers)).expect("few");
        stage.kill_server(which).await;
        Some(which)
    }

    async fn behind(self, stage: &mut Stage, receiver: &Receiver, chance: &mut Chance) {
        let sentinels = stage.sentinels();
        let primary = sentinels.primary().await;
        match self {
            Self::Dies => {
                sentinels.kill(primary);
                sentinels.until_replaced(primary).await;
                sentinels.start_again(primary).await;
            }
            Self::TakesWritesAlong | Self::TakesServerAlong => {
                let replicas = sentinels.cut_replication().await;
                tokio::time::sleep(chance.millis(ALONE_MS)).await;
                sentinels.kill(primary);
                let killed = self.kill_server(stage, chance).await;
                let sentinels = stage.sentinels();
                for replica in replicas {
                    sentinels.resume(replica);
                }
                sentinels.fail_over().await;
                if let Some(which) = killed {
                    stage.start_server(which, receiver).await;
                }
                stage.sentinels().start_again(primary).await;
            }
            Self::Hangs => {
                sentinels.hang(primary).await;
                sentinels.until_replaced(primary).await;
                sentinels.resume(primary);
            }
            Self::HandsOver => {
                sentinels.fail_over().await;
            }
            Self::LosesSlot => unreachable!("sentinels know no slots"),
        }
        stage.sentinels().until_whole().await;
    }

    async fn within(self, stage: &mut Stage, receiver: &Receiver, chance: &mut Chance) {
        let partition = chance.below(CLUSTER_PARTITIONS as u64);
        let partition = usize::try_from(partition).expect("few");
        let cluster = stage.cluster();
        let slot = cluster.slot_of(partition).await;
        let primary = cluster.primary_of(slot).await;
        match self {
            Self::Dies => {
                cluster.kill_primary_of(slot).await;
                cluster.start_again(primary).await;
            }
            Self::TakesWritesAlong | Self::TakesServerAlong => {
                let replicas = cluster.cut_replication(primary).await;
                tokio::time::sleep(chance.millis(ALONE_MS)).await;
                cluster.kill(primary);
                let killed = self.kill_server(stage, chance).await;
                let cluster = stage.cluster();
                for replica in replicas {
                    cluster.resume(replica);
                }
                cluster.until_primary_is_other(slot, primary).await;
                if let Some(which) = killed {
                    stage.start_server(which, receiver).await;
                }
                stage.cluster().start_again(primary).await;
            }
            Self::Hangs => {
                cluster.hang(primary).await;
                cluster.until_primary_is_other(slot, primary).await;
                cluster.resume(primary);
            }
            Self::HandsOver => {
                cluster.hand_over(slot).await;
            }
            Self::LosesSlot => {
                let others = cluster.primaries().await;
                let others: Vec<usize> = (others.into_iter())
                    .filter(|other| *other != primary)
                    .collect();
                let moving = cluster.begin_move(slot, *chance.pick(&others)).await;
                while moving.remaining().await > 0 {
                    let most = usize::try_from(chance.below(MOST_KEYS)).expect("few") + 1;
                    moving.migrate(most).await;
                    tokio::time::sleep(chance.millis(1..20)).await;
                }
                moving.finish().await;
            }
        }
        stage.cluster().until_whole().await;
    }
}

async fn run(stores: Stores) {
    let mut size = Size::of_environment();
    let name = stores.name();
    let receiver = Receiver::start(size.seed).await;
    let mut stage = Stage::start(stores, &receiver).await;
    let troubles = Trouble::all(stage.several());
    if !size.is_long {
        size.notifications = NOTIFICATIONS;
        size.kills = u32::try_from(troubles.len()).expect("few");
    }
    println!("{name}: {size:?}");
    let started = Instant::now();
    let origins = receiver.origins();
    let callers = Callers::new(size.seed, size.notifications, origins, stage.urls());
    if size.is_long {
        callers.run_is_long();
    }
    let load = tokio::spawn(callers.clone().run());

    let mut chance = Chance::of_one(size.seed, 1 << 41);
    let mut happened: BTreeMap<Trouble, u32> = BTreeMap::new();
    let share = size.notifications / (size.kills + 1);
    for number in 0..size.kills {
        let trouble = match troubles.get(number as usize) {
            // Each once, whatever is decided afterwards.
            Some(trouble) => *trouble,
            None => *chance.pick(&troubles),
        };
        callers.allow(share / 2);
        tokio::time::sleep(chance.millis(BETWEEN_MS)).await;
        // The other half meets the trouble itself.
        callers.allow(share - share / 2);
        let began = Instant::now();
        trouble.happen(&mut stage, &receiver, &mut chance).await;
        stage.note_take_over(began, Instant::now());
        *happened.entry(trouble).or_default() += 1;
    }
    callers.allow(size.notifications - share * size.kills);
    let ended = tokio::time::timeout(LONGEST_LOAD, load).await;
    ended.expect("the callers are stuck").expect("no panic");

    let account = Account::settle(&mut stage, &callers, &receiver).await;
    let mut report = format!("{name}, seed {}\n", size.seed);
    for (trouble, many) in &happened {
        writeln!(report, "a primary {:<25} {many}", trouble.name()).expect("text");
    }
    write!(report, "{}", account.counts).expect("text");
    let took = started.elapsed();
    writeln!(report, "time taken                          {took:.1?}").expect("text");
    write!(report, "{}", account.audited).expect("text");
    println!("{report}");
    for line in &account.complaints {
        println!("{line}");
    }
    if size.is_long {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kill-{name}.txt"));
        std::fs::write(&path, &report).expect("written");
        println!("written to {}", path.display());
    }
    account.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels() {
    run(Stores::SentinelsAndPostgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster() {
    run(Stores::ClusterAndPostgres).await;
}
