//! Putting the parts together: in which order they start and stop.
//!
//! Start: claim the port, open the journal, open the schedule and tie it to the journal, dispatch,
//! answer requests. Whatever is wrong shows before the first request. A schedule in memory is loaded
//! from the journal before anything is dispatched; one in Redis is looked at, and if it has lost
//! something, loaded beside the traffic.
//!
//! Stop: answer no new requests and claim nothing more, let what is in flight end, settle it, close
//! the stores. All of that has one limit, whatever the stores do.

mod signals;
pub mod stores;

use crate::api::server;
use crate::api::{self, ApiSettings};
use crate::clock::{Clock, SystemClock};
use crate::config::{RetentionConfig, ServeConfig};
use crate::delivery::address_filter::AddressFilter;
use crate::delivery::dispatcher::{Dispatcher, Stop};
use crate::delivery::http_client::{HttpClient, HttpClientSettings};
use crate::health::Health;
use crate::journal::Journal;
use crate::journal::recorder::Recorder;
use crate::journal::watched::WatchedJournal;
use crate::maintenance::Maintenance;
use crate::maintenance::probe::{watch_journal, watch_schedule};
use crate::maintenance::prune::Retention;
use crate::maintenance::recovery::load::load;
use crate::schedule::memory::MemorySchedule;
use crate::schedule::redis::Time;
use crate::schedule::watched::WatchedSchedule;
use crate::schedule::{Schedule, ScheduleReads as _};
use crate::service::Service;
use crate::telemetry::metrics::Metrics;
use anyhow::{Context, bail};
use signals::Signals;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Open files asked for: more than the API's connections and the largest `concurrency` need.
const MOST_DESCRIPTORS: u64 = 65_536;
/// How long stopping may take beyond the time for the attempts in flight: recording and settling
/// them, and closing the stores.
const STOP_MARGIN: Duration = Duration::from_secs(5);
/// The bodies that are read for attempts take as much as this part of what the schedule may: beside it,
/// since they are in use and not waiting.
const BODIES_READ: usize = 4;
/// Maximum number of requests handled at once.
const MOST_REQUESTS: usize = 1_024;

/// A running server.
pub struct App {
    address: SocketAddr,
    service: Arc<Service>,
    journal: Option<Arc<dyn Journal>>,
    stop: CancellationToken,
    broken: CancellationToken,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
    stop_within: Duration,
}

impl App {
    /// Starts a server by the machine's clock.
    ///
    /// # Errors
    /// Says which part could not start, and why.
    pub async fn start(config: ServeConfig) -> anyhow::Result<Self> {
        Self::start_with(config, Arc::new(SystemClock), Time::Server).await
    }

    /// Starts a server that lives by a clock of the caller's, even where Redis has its own.
    ///
    /// # Errors
    /// As [`App::start`].
    pub async fn start_by(config: ServeConfig, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        Self::start_with(config, clock, Time::Clock).await
    }

    async fn start_with(
        config: ServeConfig,
        clock: Arc<dyn Clock>,
        time: Time,
    ) -> anyhow::Result<Self> {
        let listen = config.api.listen;
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr().context("cannot listen")?;
        let instance = instance_name();
        let journal = stores::open_journal(&config, &instance).await?;
        let schedule = open_schedule(&config, journal.as_ref(), clock.clone(), time).await?;
        let health = Health::new(journal.is_some());
        let metrics = Metrics::new();
        let journal = journal.map(|journal| -> Arc<dyn Journal> {
            Arc::new(WatchedJournal::new(journal, health.clone()))
        });
        let schedule: Arc<dyn Schedule> = Arc::new(WatchedSchedule::new(schedule, health.clone()));
        let maintenance =
            Maintenance::begin(journal.clone(), schedule.clone(), retention(&config)).await;
        let maintenance = maintenance.with_context(|| match &config.schedule.redis {
            Some(redis) => format!("--redis {redis}"),
            None => "the schedule in memory".to_string(),
        })?;
        let recorder = journal
            .clone()
            .map(|journal| Arc::new(Recorder::start(journal)));
        let client = HttpClient::new(HttpClientSettings {
            filter: AddressFilter {
                allowed: config.delivery.allow_destinations.clone(),
                allow_http: config.delivery.allow_http,
            },
            secret: config.delivery.signing_secret.clone(),
            timeout: config.delivery.timeout,
            user_agent: config.delivery.user_agent.clone(),
        });
        let stop = CancellationToken::new();
        let dispatcher = Dispatcher::new(
            Arc::new(client),
            schedule.clone(),
            recorder.clone(),
            clock,
            config.delivery.concurrency,
            health.clone(),
            metrics.clone(),
        )
        .with_body_memory(config.schedule.memory_bytes / BODIES_READ);
        let broken = CancellationToken::new();
        let watch = |part, work| {
            let watching = watched(part, work, stop.clone(), broken.clone());
            (part, tokio::spawn(watching))
        };
        let dispatching = dispatcher.run(Stop {
            drain: stop.clone(),
            drain_timeout: config.delivery.drain_timeout,
        });
        let mut tasks = vec![watch("dispatcher", tokio::spawn(dispatching))];
        for (duty, work) in maintenance.duties(&stop) {
            tasks.push(watch(duty, tokio::spawn(work)));
        }
        if let Some(journal) = &journal {
            let watching = watch_journal(health.clone(), journal.clone(), stop.clone());
            tasks.push(("journal's probe", tokio::spawn(watching)));
        }
        let watching = watch_schedule(health.clone(), schedule.clone(), stop.clone());
        tasks.push(("schedule's probe", tokio::spawn(watching)));
        let service = Service::new(recorder, schedule)
            .with_health(health)
            .with_metrics(metrics);
        let service = Arc::new(service);
        let settings = ApiSettings {
            largest_body_bytes: config.api.largest_body_bytes,
            api_key: config.api.key.as_ref().map(|key| key.expose().to_string()),
            most_requests: MOST_REQUESTS,
            ..ApiSettings::default()
        };
        if !address.ip().is_loopback() && settings.api_key.is_none() {
            tracing::warn!(%address, "the API is open to whoever reaches this address; set api-key");
        }
        let router = api::router(service.clone(), settings);
        let serving = server::serve(listener, router, stop.clone());
        tasks.push(watch("API", tokio::spawn(serving)));
        tracing::info!(%address, instance, "ready");
        Ok(Self {
            address,
            service,
            journal,
            stop,
            broken,
            tasks,
            stop_within: config.delivery.drain_timeout.saturating_add(STOP_MARGIN),
        })
    }

    /// Where the API listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The operations behind the API.
    #[must_use]
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Completes when a part has ended that should not have: the server is then of no use.
    pub async fn broken(&self) {
        self.broken.cancelled().await;
    }

    /// Stops as described above; returns when everything is settled, or when the time for that is up.
    /// What is left then is what is left by `kill -9`: no more, since every step can be the last one.
    pub async fn stop(self) {
        self.stop.cancel();
        let limit = self.stop_within;
        let mut part = "";
        if tokio::time::timeout(limit, self.wind_up(&mut part))
            .await
            .is_err()
        {
            tracing::warn!(part, "a part takes too long to stop; ending without it");
        }
        tracing::info!("stopped");
    }

    /// Waits for one part after the other, and says for which.
    async fn wind_up(self, part: &mut &'static str) {
        for (name, task) in self.tasks {
            *part = name;
            if let Err(error) = task.await {
                tracing::error!(%error, part, "ended in a panic");
            }
        }
        drop(self.service);
        if let Some(journal) = self.journal {
            *part = "journal";
            journal.close().await;
        }
    }
}

/// Runs a server until SIGTERM, SIGINT or SIGHUP; a second one of the first two ends the process at
/// once.
///
/// # Errors
/// If it cannot start.
pub async fn serve(config: ServeConfig) -> anyhow::Result<()> {
    // Attempts and callers take a descriptor each, and the usual soft limit is meant for less. Where
    // it cannot be raised, the limits of the settings may be too high; everything else still works.
    if let Err(error) = rlimit::increase_nofile_limit(MOST_DESCRIPTORS) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    let mut signals = Signals::listen()?;
    let app = tokio::select! {
        app = App::start(config) => app?,
        signal = signals.stop() => {
            tracing::info!(signal, "stopped while starting");
            return Ok(());
        }
    };
    let signal = tokio::select! {
        signal = signals.stop() => signal,
        () = app.broken() => bail!("a part of the server ended; see the log"),
    };
    tracing::info!(signal, "stopping; a second SIGTERM or SIGINT ends at once");
    tokio::select! {
        () = app.stop() => Ok(()),
        signal = signals.end_at_once() => bail!("ended at once by a second signal ({signal})"),
    }
}

/// Waits for a part of the server; one that ends without having been stopped breaks the server.
async fn watched(
    part: &'static str,
    work: JoinHandle<()>,
    stop: CancellationToken,
    broken: CancellationToken,
) {
    let ended = work.await;
    if let Err(error) = &ended {
        tracing::error!(%error, part, "ended in a panic; this is a bug");
    }
    if ended.is_err() || !stop.is_cancelled() {
        broken.cancel();
    }
}

async fn open_schedule(
    config: &ServeConfig,
    journal: Option<&Arc<dyn Journal>>,
    clock: Arc<dyn Clock>,
    time: Time,
) -> anyhow::Result<Arc<dyn Schedule>> {
    let asked = journal.map(AsRef::as_ref);
    let signing = Some(config.delivery.signing_secret.fingerprint());
    let config = &config.stores();
    if let Some(schedule) = stores::open_redis(config, asked, clock.clone(), time, signing)? {
        if journal.is_none() {
            tracing::info!(
                "no journal: notifications are kept in Redis only, as far as it persists them"
            );
            for warning in schedule.durability_warnings().await {
                tracing::warn!("{warning}");
            }
        }
        return Ok(schedule);
    }
    let limits = stores::limits(config, journal.is_some());
    let Some(journal) = journal else {
        return Ok(Arc::new(MemorySchedule::new(clock, limits)));
    };
    let schedule = MemorySchedule::over_journal(clock, limits, config.schedule.memory_bytes);
    let loaded = load(journal.clone(), &schedule).await?;
    let pending = loaded.read;
    tracing::info!(
        pending,
        "the schedule is in memory, loaded from the journal"
    );
    if let Some(memory) = schedule.memory()
        && memory.taken >= memory.limit
    {
        let (taken, limit) = (memory.taken, memory.limit);
        tracing::warn!(
            taken,
            limit,
            "what is pending takes more memory than schedule-memory allows; \
             new registrations are refused until enough of it is delivered"
        );
    }
    Ok(Arc::new(schedule))
}

fn retention(config: &ServeConfig) -> Retention {
    let RetentionConfig {
        payloads,
        records,
        dead,
    } = config.retention;
    let ms = |kept: Option<Duration>| kept.map(stores::millis);
    Retention {
        payloads_ms: ms(payloads),
        records_ms: ms(records),
        dead_ms: ms(dead),
    }
}

/// Names this process in the journal: host and process id.
#[must_use]
pub fn instance_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "host" } else { host };
    format!("{host}-{}", std::process::id())
}
