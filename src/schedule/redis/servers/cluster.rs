//! The nodes of a cluster, and which of them has which slot.
//!
//! One map for all connections. A redirection (`MOVED`) changes one slot of it. When calls fail, the map is read again before
//! the next connection is opened: from all known nodes at once, each limited in time, and at most every [`READ_PAUSE`]. Of
//! the answers, that of the node counts that has the highest configuration epoch, because a node that was cut off from the
//! others still has the map of before.

use super::slots::{SlotMap, parse_redirect};
use super::{LocatedServer, NodeSettings};
use crate::domain::redis_url::RedisHost;
use crate::schedule::redis::info::{field, text};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, ServerErrorKind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Shortest time between two readings of the map.
const READ_PAUSE: Duration = Duration::from_millis(200);
/// How long a node may take to give its map.
const READ_TIMEOUT: Duration = Duration::from_millis(700);
/// Maximum number of nodes that are asked for their map.
const MOST_ASKED: usize = 32;

/// The nodes of a cluster.
pub struct Cluster {
    settings: NodeSettings,
    /// The nodes of the URL.
    seeds: Vec<RedisHost>,
    map: RwLock<SlotMap>,
    version: AtomicUsize,
    /// Whether calls have failed since the map was read.
    suspected: AtomicBool,
    /// When the map was last read, and why that failed. Locked meanwhile.
    read: Mutex<Option<(Instant, Option<RedisError>)>>,
}

/// What a node says of its cluster.
struct NodeView {
    /// Whether the node can serve calls.
    is_ok: bool,
    epoch: u64,
    map: SlotMap,
}

impl Cluster {
    pub fn new(settings: NodeSettings, seeds: Vec<RedisHost>) -> Self {
        Self {
            settings,
            seeds,
            map: RwLock::default(),
            version: AtomicUsize::new(0),
            suspected: AtomicBool::new(true),
            read: Mutex::new(None),
        }
    }

    /// See [`super::Servers::version`].
    pub fn version(&self) -> usize {
        self.version.load(Ordering::Acquire)
    }

    /// See [`super::Servers::is_at`].
    pub fn is_at(&self, slot: u16, host: &RedisHost) -> bool {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.primary(slot) == Some(host)
    }

    /// See [`super::Servers::suspect`].
    pub fn suspect(&self) {
        self.suspected.store(true, Ordering::Release);
    }

    /// See [`super::Servers::locate`].
    pub async fn locate(&self, slot: u16) -> Result<LocatedServer, RedisError> {
        self.settings.read_certificates().await;
        let refreshed = self.refresh().await;
        if let Some((host, version)) = self.primary_of(slot) {
            return self.located(host, version);
        }
        refreshed?;
        // Another connection may be reading the first map at this moment.
        let read = self.read.lock().await;
        let failure = read.as_ref().and_then(|(_, failure)| failure.clone());
        drop(read);
        let none_has_it = || {
            RedisError::from((
                ErrorKind::Server(ServerErrorKind::ClusterDown),
                "no node of the cluster has the slot of this partition",
            ))
        };
        match self.primary_of(slot) {
            Some((host, version)) => self.located(host, version),
            None => Err(failure.unwrap_or_else(none_has_it)),
        }
    }

    /// The node that has this slot, and the version of the map that says so or of an earlier one.
    fn primary_of(&self, slot: u16) -> Option<(RedisHost, usize)> {
        let version = self.version();
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        Some((map.primary(slot)?.clone(), version))
    }

    /// See [`super::Servers::locate_any`].
    pub async fn locate_any(&self, number: usize) -> Result<LocatedServer, RedisError> {
        self.settings.read_certificates().await;
        // Without a new map, those of before may still answer.
        let _ = self.refresh().await;
        // The nodes of the URL are among them, so there is one.
        let nodes = self.nodes();
        let host = &nodes[number % nodes.len()];
        self.located(host.clone(), self.version())
    }

    /// A node to which a call is redirected by `ASK`.
    pub async fn located_at(
        &self,
        address: &str,
        asked: &RedisHost,
    ) -> Result<LocatedServer, RedisError> {
        let unreadable = || RedisError::from((ErrorKind::Parse, "the redirection has no address"));
        let host = parse_redirect(address, asked).ok_or_else(unreadable)?;
        self.settings.read_certificates().await;
        self.located(host, self.version())
    }

    /// Notes that a slot has moved: the node `asked` redirects its calls to this address (`MOVED`).
    pub fn moved(&self, slot: u16, address: &str, asked: &RedisHost) {
        let Some(host) = parse_redirect(address, asked) else {
            return;
        };
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if map.primary(slot) != Some(&host) {
            map.move_slot(slot, host);
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    fn located(&self, host: RedisHost, version: usize) -> Result<LocatedServer, RedisError> {
        Ok(LocatedServer {
            client: self.settings.client(&host)?,
            host,
            version,
        })
    }

    /// Every node that is known, those of the map first.
    fn nodes(&self) -> Vec<RedisHost> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let mut nodes = map.nodes().to_vec();
        drop(map);
        for seed in &self.seeds {
            if !nodes.contains(seed) {
                nodes.push(seed.clone());
            }
        }
        nodes
    }

    /// Reads the map again if calls have failed.
    async fn refresh(&self) -> Result<(), RedisError> {
        if !self.suspected.load(Ordering::Acquire) {
            return Ok(());
        }
        // Other connections that are opened now wait for the same map.
        let mut read = self.read.lock().await;
        if let Some((at, failure)) = &*read
            && at.elapsed() < READ_PAUSE
        {
            return failure.clone().map_or(Ok(()), Err);
        }
        // Failures while it is read are failures after it was read.
        self.suspected.store(false, Ordering::Release);
        let view = self.ask_nodes().await;
        let failure = match view {
            Ok(view) => {
                let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
                if *map != view.map {
                    *map = view.map;
                    self.version.fetch_add(1, Ordering::Release);
                }
                None
            }
            Err(error) => {
                self.suspect();
                Some(error)
            }
        };
        *read = Some((Instant::now(), failure.clone()));
        failure.map_or(Ok(()), Err)
    }

    /// Asks all known nodes at once. Returns the best answer as soon as most have answered, or all have answered or failed.
    async fn ask_nodes(&self) -> Result<NodeView, RedisError> {
        let mut nodes = self.nodes();
        nodes.truncate(MOST_ASKED);
        let most = nodes.len() / 2 + 1;
        let mut asked: FuturesUnordered<_> = nodes.iter().map(|node| self.ask(node)).collect();
        let (mut views, mut failed) = (Vec::new(), None);
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(view) => views.push(view),
                Err(error) => failed = Some(error),
            }
            if views.len() >= most {
                break;
            }
        }
        let rank = |view: &NodeView| (view.is_ok, view.epoch, view.map.covered());
        let best = views.into_iter().max_by_key(rank);
        best.ok_or_else(|| {
            failed.unwrap_or_else(|| (ErrorKind::Client, "the cluster has no nodes").into())
        })
    }

    async fn ask(&self, node: &RedisHost) -> Result<NodeView, RedisError> {
        let asking = async {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(READ_TIMEOUT))
                .set_response_timeout(Some(READ_TIMEOUT));
            let client = self.settings.client(node)?;
            let mut connection = client
                .get_multiplexed_async_connection_with_config(&config)
                .await?;
            let ask = |what: &str| redis::cmd("CLUSTER").arg(what).take();
            let slots = connection.send_packed_command(&ask("SLOTS")).await?;
            let slots = slots.extract_error()?;
            // Where this is refused to the user, the answers cannot be told apart.
            let info = connection.send_packed_command(&ask("INFO")).await?;
            let info = text(&info).unwrap_or_default();
            let map = SlotMap::parse(&slots, node);
            Ok(NodeView {
                is_ok: field(&info, "cluster_state").is_none_or(|state| state == "ok"),
                epoch: field(&info, "cluster_current_epoch")
                    .and_then(|epoch| epoch.parse().ok())
                    .unwrap_or(0),
                map: map.ok_or((
                    ErrorKind::Parse,
                    "the answer to CLUSTER SLOTS cannot be read",
                ))?,
            })
        };
        let asked: Result<NodeView, RedisError> = tokio::time::timeout(READ_TIMEOUT, asking)
            .await
            .unwrap_or_else(|_| Err((ErrorKind::Io, "no answer in time").into()));
        asked.map_err(|error| named(node, &error))
    }
}

/// The error with the address of the node.
fn named(node: &RedisHost, error: &RedisError) -> RedisError {
    let hint = match error.detail() {
        Some(detail) if detail.contains("cluster support disabled") => {
            "; this server is no node of a cluster, so use redis:// for it"
        }
        _ => "",
    };
    let text = format!("{node}: {error}{hint}");
    (
        ErrorKind::Client,
        "no node of the cluster can be asked",
        text,
    )
        .into()
}
