//! While a part of a cluster is away, maintenance goes on with the others, and later with that part.

use super::finding::{PARTITIONS, entry_in, open_with_limits, whole};
use crate::schedule_contract::fixture::{LIMITS, START_MS, accepted_at};
use crate::support::redis::connect;
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_node::until;
use crate::support::within;
use futures_util::future::BoxFuture;
use ringback::clock::{Clock as _, ManualClock};
use ringback::domain::lane::KeyInLane;
use ringback::journal::decorator::{JournalCall, JournalDecorator};
use ringback::journal::sqlite::SqliteJournal;
use ringback::journal::{Actor, Journal, JournalError, JournalWrites as _, Registering};
use ringback::maintenance::reconcile::Reconciler;
use ringback::maintenance::recovery::Recovery;
use ringback::maintenance::window::WindowLoader;
use ringback::schedule::redis::RedisSchedule;
use ringback::schedule::window::Window;
use ringback::schedule::{
    ClaimQuota, Limits, ScheduleError, ScheduleLeases as _, ScheduleMaintenance as _,
    ScheduleReads as _,
};
use ringback::telemetry::metrics::Metrics;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const HORIZON_MS: i64 = 3_600_000;
const WINDOWED: Limits = Limits {
    window: Window::of(Duration::from_millis(HORIZON_MS.unsigned_abs())),
    ..LIMITS
};

/// A journal, and its schedule in a cluster of which a node hangs and goes on.
struct Scene {
    cluster: RedisCluster,
    clock: ManualClock,
    schedule: Arc<RedisSchedule>,
    journal: Arc<SqliteJournal>,
    /// The node, one of its parts, and a part of another node.
    node: usize,
    away: usize,
    other: usize,
    _dir: TempDir,
}

impl Scene {
    async fn start() -> Self {
        let cluster = RedisCluster::start_patient().await;
        let clock = ManualClock::at(START_MS);
        let schedule = open_with_limits(cluster.url(), WINDOWED, clock.clone());
        whole(&schedule).await;
        let dir = tempfile::tempdir().expect("a directory");
        let journal = SqliteJournal::open(&dir.path().join("journal.db"), "instance-1").await;
        let node = *cluster.primaries().await.first().expect("one");
        let own = cluster.partitions_of(node, PARTITIONS).await;
        let other = (0..PARTITIONS).find(|other| !own.contains(other));
        Self {
            cluster,
            clock,
            schedule: Arc::new(schedule),
            journal: Arc::new(journal.expect("it opens")),
            node,
            away: own[0],
            other: other.expect("each node has some"),
            _dir: dir,
        }
    }

    /// Registers in the journal alone a notification of each of the two parts; the first is of the node that hangs.
    async fn journal_two(&self, due_ms: i64) -> [KeyInLane; 2] {
        let mut entries = Vec::new();
        for partition in [self.away, self.other] {
            let entry = entry_in(partition, PARTITIONS, "1");
            let mut entry = accepted_at(entry, START_MS);
            entry.progress.due_ms = due_ms;
            let registering = Registering {
                notification: entry.notification.clone(),
                progress: entry.progress,
                actor: Actor::named("anna"),
            };
            let kept = self.journal.register(&[registering]).await;
            kept.expect("kept");
            entries.push(entry.notification.key_in_lane());
        }
        entries.try_into().expect("two")
    }

    async fn is_held(&self, entry: &KeyInLane) -> bool {
        let held = self.schedule.holds(std::slice::from_ref(entry)).await;
        held.expect("answered")[0].is_some()
    }

    async fn hang(&self) {
        self.cluster.hang(self.node).await;
        until("the node to be missed", async || {
            let _ = self.schedule.claim(ClaimQuota::of(1)).await;
            let out_of_reach = self.schedule.out_of_reach();
            out_of_reach.contains(&self.away).then_some(())
        })
        .await;
    }

    /// Empties the node, and notices that.
    async fn lose(&self) {
        self.cluster.flush_node(self.node).await;
        until("the loss to be noticed", async || {
            let put = self.schedule.register(entry_in(self.away, PARTITIONS, "2"));
            matches!(put.await, Err(ScheduleError::Rebuilding)).then_some(())
        })
        .await;
    }

    async fn resume(&self) {
        self.cluster.resume(self.node);
        until("the node to be back", async || {
            self.schedule.out_of_reach().is_empty().then_some(())
        })
        .await;
    }
}

/// Both are due after all that is loaded first, and that is so little that it is not noted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_soon_is_loaded_into_the_parts_that_are_in_reach() {
    let scene = Scene::start().await;
    let [away, other] = scene.journal_two(START_MS + HORIZON_MS / 2 + 1_000).await;
    let mut loader = WindowLoader::new(scene.journal.clone(), scene.schedule.clone());
    let mut load = async || {
        let loaded = loader.pass(scene.clock.now_ms()).await.expect("loaded");
        loaded.missing
    };
    assert_eq!(load().await, 0);
    scene.clock.advance(2_000);
    scene.hang().await;
    assert_eq!(load().await, 1);
    assert!(scene.is_held(&other).await);
    scene.resume().await;
    assert_eq!(load().await, 1);
    assert!(scene.is_held(&away).await);
    assert_eq!(load().await, 0);
}

/// As after a server that died between the two stores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_half_done_is_repaired_in_the_parts_that_are_in_reach() {
    let scene = Scene::start().await;
    let mut reconciler = Reconciler::new(scene.journal.clone(), scene.schedule.clone());
    let mut reconcile = async || {
        let repaired = reconciler.pass(scene.clock.now_ms()).await;
        repaired.expect("repaired").restored
    };
    assert_eq!(reconcile().await, 0);
    let [away, other] = scene.journal_two(START_MS).await;
    scene.clock.advance(60_000);
    scene.hang().await;
    assert_eq!(reconcile().await, 1);
    assert!(scene.is_held(&other).await);
    // However long that part is away.
    scene.clock.advance(600_000);
    assert_eq!(reconcile().await, 0);
    scene.resume().await;
    assert_eq!(reconcile().await, 1);
    assert!(scene.is_held(&away).await);
    scene.clock.advance(600_000);
    assert_eq!(reconcile().await, 0);
}

/// A journal in which something happens before the first page is read.
struct BeforePage {
    journal: Arc<SqliteJournal>,
    happens: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl JournalDecorator for BeforePage {
    fn inner(&self) -> &dyn Journal {
        self.journal.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        if matches!(call, JournalCall::PlacesPage | JournalCall::PendingPage) {
            let happens = self.happens.lock().expect("no panic").take();
            if let Some(happens) = happens {
                happens.await;
            }
        }
        calling.await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_others_are_whole_when_a_part_that_is_loaded_is_gone() {
    let scene = Arc::new(Scene::start().await);
    let [away, _] = scene.journal_two(START_MS).await;
    let journal = Arc::new(BeforePage {
        journal: scene.journal.clone(),
        happens: Mutex::default(),
    });
    let recovery = Recovery::new(
        Some(journal.clone()),
        scene.schedule.clone(),
        Metrics::new(),
    );
    scene.lose().await;
    let mut whole = recovery.whole();
    let (there, hung) = (scene.clone(), Arc::new(Notify::new()));
    let hanging = hung.clone();
    *journal.happens.lock().expect("no panic") = Some(Box::pin(async move {
        there.hang().await;
        hanging.notify_one();
    }));
    let stop = CancellationToken::new();
    let recovering = tokio::spawn(recovery.run(stop.clone()));
    within("the node to hang", hung.notified()).await;
    let others = whole.wait_for(|whole| *whole);
    within("the others to be whole", others)
        .await
        .expect("it runs");
    scene.resume().await;
    until("what it had to be loaded", async || {
        scene.is_held(&away).await.then_some(())
    })
    .await;
    stop.cancel();
    recovering.await.expect("no panic");
}

/// A full server refuses all changes but those that make it less full: claims and what follows them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_on_a_full_server_that_was_away_is_claimed_from_again() {
    let scene = Scene::start().await;
    let entry = entry_in(scene.away, PARTITIONS, "1");
    scene.schedule.register(entry).await.expect("registered");
    scene.cluster.fill(scene.node).await;
    scene.hang().await;
    scene.resume().await;
    until("it to be claimed", async || {
        let claimed = scene.schedule.claim(ClaimQuota::of(1)).await.ok()?;
        (claimed.leases.len() == 1).then_some(())
    })
    .await;
}

/// How many scripts a node has refused.
async fn refused(url: &str) -> u64 {
    let mut asked = redis::cmd("INFO");
    asked.arg("commandstats");
    let info: String = (asked.query_async(&mut connect(url).await).await).expect("answered");
    let field = |line: &str| {
        let (_, refused) = line.split_once("rejected_calls=")?;
        refused.split(',').next()?.trim().parse::<u64>().ok()
    };
    let lines = info
        .lines()
        .filter(|line| line.starts_with("cmdstat_evalsha:"));
    lines.filter_map(field).sum()
}

/// Until the end, both nodes refuse its scripts, though each answers a command about one key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_whose_slot_is_half_moved_is_away() {
    let scene = Scene::start().await;
    let (cluster, url) = (&scene.cluster, scene.cluster.node_url(scene.node));
    let slot = cluster.slot_of(scene.away).await;
    let primaries = cluster.primaries().await;
    let to = primaries.iter().find(|node| **node != scene.node);
    let moving = cluster.begin_move(slot, *to.expect("three")).await;
    assert_eq!(moving.migrate(1).await, 1);
    let out_of_reach = || scene.schedule.out_of_reach().contains(&scene.away);
    until("the part to be missed", async || {
        let _ = scene.schedule.claim(ClaimQuota::of(1)).await;
        out_of_reach().then_some(())
    })
    .await;
    let before = refused(&url).await;
    until("it to be asked several times", async || {
        (refused(&url).await >= before + 3).then_some(())
    })
    .await;
    assert!(out_of_reach());
    moving.finish().await;
    until("the part to be back", async || {
        (!out_of_reach()).then_some(())
    })
    .await;
}
