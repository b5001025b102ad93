//! Puts the parts of a server together, and starts and stops them in order.
//!
//! Start: listen on the port, open the journal, open the schedule of this journal, start the dispatcher,
//! answer requests. If a part cannot start, the process ends before the first request. A schedule in
//! memory is loaded from the journal before the dispatcher starts. A schedule in Redis is inspected; if it
//! has lost data, it is loaded while the server already works.
//!
//! Stop: accept no new requests, claim nothing more, wait for the attempts in flight, settle their leases,
//! close the stores, send the last traces. One time limit applies to the whole stop, even if the stores do not answer.

mod access;
mod alerts;
pub mod default_keys;
mod direct_calls;
pub mod doctor;
mod master_key;
pub mod master_key_change;
mod metrics_listener;
mod parts;
mod process;
mod signals;
pub mod stores;
mod tasks;

pub use process::serve;

use crate::alerts::AlertParts;
use crate::api::{self, server};
use crate::clock::{Clock, SystemClock};
use crate::config::{ServeConfig, is_exposed};
use crate::delivery::dispatcher::Stop;
use crate::endpoints::Endpoints;
use crate::endpoints::store::EndpointStore;
use crate::journal::Journal;
use crate::journal::recorder::Recorder;
use crate::keyring::Keyring;
use crate::maintenance::activity::ActivityKeeper;
use crate::maintenance::probe::{watch_journal, watch_schedule};
use crate::page;
use crate::schedule::redis::Time;
use crate::service::Service;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::exporter::TraceExporter;
use anyhow::Context;
use direct_calls::DirectCalls;
use metrics_listener::MetricsListener;
use parts::{api_settings, begin_maintenance, dispatcher, http_client};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use stores::ServerStores;
use tasks::Tasks;
use tokio::net::TcpListener;
use uuid::Uuid;

/// How long a stop may take in addition to the drain time-out: for recording and settling the attempts in
/// flight, and for closing the stores.
const STOP_MARGIN: Duration = Duration::from_secs(5);

/// A running server.
pub struct App {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    service: Arc<Service>,
    journal: Option<Arc<dyn Journal>>,
    activity: Arc<ActivityKeeper>,
    tasks: Tasks,
    traces: Option<TraceExporter>,
    stop_within: Duration,
}

impl App {
    /// Starts a server that uses the clock of this machine.
    ///
    /// # Errors
    /// Names the part that could not start, and the cause.
    pub async fn start(config: ServeConfig) -> anyhow::Result<Self> {
        Self::start_with(config, Arc::new(SystemClock), Time::Server).await
    }

    /// Starts a server that uses the given clock, even for a schedule in Redis, which normally uses the
    /// clock of Redis.
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
        let metrics_listener = MetricsListener::open(&config).await?;
        warn_of_exposed(&config);
        access::warn_of_weak_key(&config);
        let instance = instance_name();
        let journal = stores::open_journal(&config, &instance).await?;
        access::check_exposure(&config, journal.as_deref(), address).await?;
        let (asked, now_ms) = (journal.as_deref(), clock.now_ms());
        let keyring = open_keyring(&config, asked).await?;
        let default_keys = default_keys::open(&config, journal.as_ref(), &keyring, now_ms).await?;
        let (signing, by) = (default_keys.signs_with(), (clock.clone(), time));
        let stores = ServerStores::open(&config, journal, signing, by).await?;
        let opening =
            default_keys::open_in_schedule(default_keys, &config, &stores, &keyring, now_ms);
        let default_keys = opening.await?;
        let metrics = Metrics::new();
        let maintenance = begin_maintenance(&config, &stores, metrics.clone()).await?;
        let journal = stores.journal.clone();
        let recorder = (journal.clone()).map(|journal| Arc::new(Recorder::start(journal)));
        let starting = TraceExporter::start(&config.traces, &instance, metrics.spans().clone());
        let (tracer, traces) = starting.context("traces cannot be exported")?;
        let endpoint_store = EndpointStore::of(journal, stores.schedule.clone());
        let shared = config
            .schedule
            .redis
            .is_some()
            .then(|| stores.schedule.clock());
        let endpoints = Endpoints::open(endpoint_store, shared)
            .await
            .context("the endpoints cannot be read")?;
        let access = access::open(&config, stores.journal.clone(), address).await?;
        let asked = stores.journal.as_deref();
        default_keys::complete(&default_keys, asked, &keyring, now_ms).await?;
        let endpoints = endpoints.with_keyring(keyring);
        let endpoints = Arc::new(endpoints.with_default_keys(default_keys));
        let client = Arc::new(http_client(&config));
        let direct = DirectCalls::new(client.clone(), endpoints.clone(), clock.clone());
        let direct = Arc::new(direct);
        let parts = (client, endpoints.clone(), clock.clone(), metrics.clone());
        let dispatcher = dispatcher(&config, &stores, recorder.clone(), parts);
        let dispatcher = dispatcher.with_tracer(tracer.clone());
        let service = Service::new(recorder, stores.schedule.clone())
            .with_access(access.clone())
            .with_endpoints(endpoints.clone(), direct.clone())
            .with_health(stores.health.clone())
            .with_metrics(metrics.clone());
        let service = Arc::new(service);
        let activity = Arc::new(ActivityKeeper::new(
            metrics.activity().clone(),
            stores.journal.clone(),
            stores.schedule.clock(),
            process_name(&instance),
        ));

        let mut tasks = Tasks::new();
        let dispatching = dispatcher.run(Stop {
            drain: tasks.stop_token(),
            drain_timeout: config.delivery.drain_timeout,
        });
        tasks.run_required("dispatcher", dispatching);
        for (duty, work) in maintenance.duties(&tasks.stop_token()) {
            tasks.run_required(duty, work);
        }
        run_probes(&mut tasks, &stores);
        tasks.run("counters", activity.clone().run(tasks.stop_token()));
        tasks.run("jobs", service.clone().run_jobs(tasks.stop_token()));
        let after_outages = service.clone().run_after_outages(tasks.stop_token());
        tasks.run("jobs after outages", after_outages);
        let parts = AlertParts {
            service: service.clone(),
            endpoints: endpoints.clone(),
            schedule: stores.schedule.clone(),
            journal: stores.journal.clone(),
            caller: direct,
            metrics,
        };
        alerts::run(&config, instance.clone(), parts, &mut tasks);
        let reading = endpoints.run(move || clock.now_ms(), tasks.stop_token());
        tasks.run("reading of endpoints", reading);
        let needs_api_key = access.needs_key();
        tasks.run("reading of API keys", access.run(tasks.stop_token()));
        let router = api::router(service.clone(), api_settings(&config, tracer));
        let router = router.merge(page::router(
            service.clone(),
            config.delivery.timeout,
            tasks.stop_token(),
        ));
        let serving = server::serve(listener, router, tasks.stop_token());
        tasks.run_required("API", serving);
        let metrics_address = metrics_listener.as_ref().map(MetricsListener::address);
        if let Some(listener) = metrics_listener {
            listener.run(service.clone(), &config, &mut tasks);
        }
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            %address,
            instance,
            // Neither shows a password.
            journal = %config.journal,
            schedule = config.schedule.redis.as_ref().map_or("memory".to_string(), ToString::to_string),
            needs_api_key,
            "the server has started and is ready for requests"
        );
        Ok(Self {
            address,
            metrics_address,
            service,
            journal: stores.journal,
            activity,
            tasks,
            traces,
            stop_within: config.delivery.drain_timeout.saturating_add(STOP_MARGIN),
        })
    }

    /// The address of the API.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the listener that serves the metrics alone, if there is one.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// The operations that the API offers.
    #[must_use]
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Completes when a required part has ended although it was not stopped. The server cannot work then.
    pub async fn broken(&self) {
        self.tasks.broken().await;
    }

    /// Stops the server. Returns when everything is settled, or when the time limit has passed. Work that
    /// is unfinished then is left as by `kill -9`, so no accepted notification is lost.
    pub async fn stop(self) {
        self.tasks.stop();
        let limit = self.stop_within;
        let mut part = "";
        let ended = tokio::time::timeout(limit, self.end(&mut part)).await;
        match ended {
            Ok(()) => tracing::info!("the server has stopped"),
            Err(_) => tracing::warn!(
                part,
                "the server part `{part}` takes too long to stop; the process ends without waiting for it, and \
                 what is unfinished is left as after a crash"
            ),
        }
    }

    /// Waits for the tasks, then closes the journal. Sets `part` to the name of the part that it waits for.
    async fn end(self, part: &mut &'static str) {
        self.tasks.wait(part).await;
        // The last attempts have ended now.
        *part = "counters";
        self.activity.keep_rest().await;
        drop(self.activity);
        drop(self.service);
        if let Some(journal) = self.journal {
            *part = "journal";
            journal.close().await;
        }
        // Last, because traces matter less than all else.
        if let Some(traces) = self.traces {
            *part = "traces";
            traces.stop().await;
        }
    }
}

/// Warns of files with secrets that other users of this machine can read. It is no error, because some platforms mount
/// secrets with rights that cannot be changed.
fn warn_of_exposed(config: &ServeConfig) {
    for path in config.secret_files.iter().filter(|path| is_exposed(path)) {
        tracing::warn!(
            path = %path.display(),
            "other users of this machine can read or write this file, which has a secret of the server; change its \
             mode to 0600, and the secret too if others may have read it"
        );
    }
}

/// Finds the master key. If the server may not start with it, closes the journal.
async fn open_keyring(
    config: &ServeConfig,
    journal: Option<&dyn Journal>,
) -> anyhow::Result<Keyring> {
    let keyring = master_key::keyring(config, journal).await;
    if keyring.is_err()
        && let Some(journal) = journal
    {
        journal.close().await;
    }
    keyring
}

/// Starts the tasks that check a store while calls to it fail.
fn run_probes(tasks: &mut Tasks, stores: &ServerStores) {
    if let Some(journal) = stores.journal.clone() {
        let probe = watch_journal(stores.health.clone(), journal, tasks.stop_token());
        tasks.run("journal's probe", probe);
    }
    let schedule = stores.schedule.clone();
    let probe = watch_schedule(stores.health.clone(), schedule, tasks.stop_token());
    tasks.run("schedule's probe", probe);
}

/// A name that no other process has, nor the one before, for the counters of this one. The names of instances repeat: in
/// a container, the id of the process is always the same.
fn process_name(instance: &str) -> String {
    format!("{instance}/{}", Uuid::now_v7().simple())
}

/// The name of this process in the journal: the host name and the process id.
#[must_use]
pub fn instance_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "host" } else { host };
    format!("{host}-{}", std::process::id())
}
