//! Servers under test: in this process, or as the real program.

use super::{
    LONGEST_WAIT, merchant::Merchant, postgres, proxy::Proxy, redis, redis_shared, short_pause,
    within,
};
use reqwest::{Client, Method, StatusCode};
use ringback::app::App;
use ringback::clock::{Clock, ManualClock};
use ringback::config::{JournalConfig, PostgresUrl, RedisUrl, ServeConfig};
use ringback::domain::signature::{SecretOrigin, SigningSecret};
use ringback::endpoints::Endpoints;
use ringback::endpoints::default_keys::DefaultKeyring;
use ringback::endpoints::server_secret::ServerSecret;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// The instant at which hand-turned clocks begin: 2026-11-20T08:30:00Z.
pub const BEGIN_MS: i64 = 1_795_163_400_000;

/// Which stores a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Memory and SQLite.
    Embedded,
    /// Redis and SQLite.
    Redis,
    /// Redis and PostgreSQL.
    Postgres,
    /// Redis alone.
    RedisOnly,
    /// The primary that sentinels name, and PostgreSQL.
    Sentinel,
    /// A cluster, over which the partitions are spread, and PostgreSQL.
    Cluster,
    /// A cluster alone.
    ClusterOnly,
}

/// Partitions of a schedule in a cluster: so many that each shard has some.
pub const CLUSTER_PARTITIONS: u16 = 8;

/// The secret of all test servers.
pub fn secret() -> SigningSecret {
    SigningSecret::from_random(&[42; 32])
}

/// No endpoints, and the secret of all test servers as the default key.
pub fn no_endpoints() -> Arc<Endpoints> {
    let own = ServerSecret {
        secret: secret(),
        origin: SecretOrigin::Given,
    };
    let default_keys = DefaultKeyring::of_server(own);
    Arc::new(Endpoints::default().with_default_keys(default_keys))
}

/// Puts a line that can be disturbed between a server and its Redis.
pub fn before_redis(config: &mut ServeConfig) -> Proxy {
    let url = config.schedule.redis.as_ref().expect("on Redis");
    let (line, url) = Proxy::before(url.expose());
    config.schedule.redis = Some(redis_url(&url));
    line
}

/// The configuration of a test server that keeps its files in `dir`.
pub fn config(dir: &Path, stores: Stores) -> ServeConfig {
    let mut config = ServeConfig::new(dir, secret());
    config.api.listen = "127.0.0.1:0".parse().expect("an address");
    config.delivery.allow_destinations = vec!["127.0.0.0/8".parse().expect("a network")];
    match stores {
        Stores::Embedded => {}
        Stores::Redis => config.schedule.redis = Some(redis_url(&redis::fresh_database())),
        Stores::Postgres => {
            config.schedule.redis = Some(redis_url(&redis::fresh_database()));
            config.journal = fresh_postgres();
        }
        Stores::RedisOnly => {
            config.schedule.redis = Some(redis_url(&redis::fresh_database()));
            config.journal = JournalConfig::None;
        }
        Stores::Sentinel => {
            let url = redis_shared::fresh_sentinel_database();
            config.schedule.redis = Some(redis_url(&url));
            config.journal = fresh_postgres();
        }
        Stores::Cluster | Stores::ClusterOnly => {
            config.schedule.redis = Some(redis_url(&redis_shared::fresh_cluster()));
            config.schedule.partitions = CLUSTER_PARTITIONS;
            config.journal = match stores {
                Stores::ClusterOnly => JournalConfig::None,
                _ => fresh_postgres(),
            };
        }
    }
    config
}

/// An empty journal in PostgreSQL.
pub fn fresh_postgres() -> JournalConfig {
    let url = PostgresUrl::parse(&postgres::fresh_database());
    JournalConfig::Postgres(url.expect("a PostgreSQL URL"))
}

/// A URL of Redis that is right.
pub fn redis_url(text: &str) -> RedisUrl {
    RedisUrl::parse(text).expect("a Redis URL")
}

/// A server in this process.
pub struct Server {
    app: App,
    config: ServeConfig,
    clock: Option<ManualClock>,
    api: Api,
    dir: Option<TempDir>,
}

impl Server {
    /// Starts one by the machine's clock.
    pub async fn start(stores: Stores) -> Self {
        Self::start_as(stores, |_| {}).await
    }

    /// Starts one by the machine's clock, with changes to its configuration.
    pub async fn start_as(stores: Stores, change: impl FnOnce(&mut ServeConfig)) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut config = config(dir.path(), stores);
        change(&mut config);
        Self::open(config, None, Some(dir)).await
    }

    /// Starts one by a clock that the test turns; it begins at [`BEGIN_MS`].
    pub async fn start_by_hand(stores: Stores) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let config = config(dir.path(), stores);
        Self::open(config, Some(ManualClock::at(BEGIN_MS)), Some(dir)).await
    }

    /// Starts one with this configuration.
    pub async fn open(
        config: ServeConfig,
        clock: Option<ManualClock>,
        dir: Option<TempDir>,
    ) -> Self {
        crate::support::install_tls();
        let app = match &clock {
            None => App::start(config.clone()).await,
            Some(clock) => {
                let clock: Arc<dyn Clock> = Arc::new(clock.clone());
                App::start_by(config.clone(), clock).await
            }
        };
        let app = app.expect("a server");
        let api = Api::at(format!("http://{}", app.address()));
        Self {
            app,
            config,
            clock,
            api,
            dir,
        }
    }

    /// Its configuration, for starting it again or beside it.
    pub fn config(&self) -> &ServeConfig {
        &self.config
    }

    /// The address of the listener of its metrics.
    pub fn metrics_address(&self) -> Option<std::net::SocketAddr> {
        self.app.metrics_address()
    }

    /// The clock that the test turns.
    pub fn clock(&self) -> &ManualClock {
        self.clock.as_ref().expect("started by hand")
    }

    /// Stops it and starts it again on what it left behind.
    pub async fn restart(self) -> Self {
        self.restart_as(|_| {}).await
    }

    /// Likewise, with changes to its configuration.
    pub async fn restart_as(self, change: impl FnOnce(&mut ServeConfig)) -> Self {
        let Self {
            app,
            mut config,
            clock,
            dir,
            ..
        } = self;
        within("the server to stop", app.stop()).await;
        change(&mut config);
        Self::open(config, clock, dir).await
    }

    /// Stops it.
    pub async fn stop(self) {
        self.stop_and_keep().await;
    }

    /// Stops it, and returns the directory of its files.
    pub async fn stop_and_keep(self) -> Option<TempDir> {
        within("the server to stop", self.app.stop()).await;
        self.dir
    }
}

impl std::ops::Deref for Server {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

/// A server's API.
#[derive(Clone)]
pub struct Api {
    client: Client,
    url: String,
    /// The API key that is sent.
    key: Option<String>,
}

impl Api {
    /// The API at this URL.
    pub fn at(url: String) -> Self {
        crate::support::install_tls();
        let client = Client::builder().no_proxy().build().expect("a client");
        Self {
            client,
            url,
            key: None,
        }
    }

    /// The same API, with this API key.
    pub fn with_key(&self, key: &str) -> Self {
        Self {
            key: Some(key.to_string()),
            ..self.clone()
        }
    }

    /// The API key that is sent.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// One call; status and JSON body (`null` if there is none).
    pub async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        self.call_as(None, method, path, body).await
    }

    /// One call on behalf of this actor.
    pub async fn call_as(
        &self,
        actor: Option<&str>,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(actor) = actor {
            request = request.header("ringback-actor", actor);
        }
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let answer = within("the API", request.send()).await.expect("an answer");
        let status = answer.status().as_u16();
        let bytes = within("the API", answer.bytes()).await.expect("a body");
        (
            status,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        )
    }

    /// Registers; the answer must be 201. As callers do, sends the same again after a 503: on a busy
    /// machine a store may take too long. The answer may be 200 then.
    pub async fn register(&self, registration: Value) -> Value {
        self.register_until(registration, false).await
    }

    /// Registers what may have been registered before: the answer may be 200 at once.
    pub async fn register_again(&self, registration: Value) -> Value {
        self.register_until(registration, true).await
    }

    async fn register_until(&self, registration: Value, mut again: bool) -> Value {
        let registering = async {
            loop {
                let asked = Some(registration.clone());
                let (status, view) = self.call(Method::POST, "/v1/notifications", asked).await;
                if status != StatusCode::SERVICE_UNAVAILABLE {
                    assert!(
                        status == StatusCode::CREATED || (again && status == StatusCode::OK),
                        "{status}: {view}"
                    );
                    return view;
                }
                again = true;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        within("a registration to be accepted", registering).await
    }

    /// Looks one up; it must be there.
    pub async fn get(&self, id: &str) -> Value {
        let (status, view) = self
            .call(Method::GET, &format!("/v1/notifications/t/{id}"), None)
            .await;
        assert_eq!(status, StatusCode::OK, "{view}");
        view
    }

    /// Looks one up again and again until it stands as wished. A store that is away is waited for.
    pub async fn until(&self, id: &str, wish: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/v1/notifications/t/{id}");
        let seen = Mutex::new(Value::Null);
        let asking = async {
            loop {
                let (status, view) = self.call(Method::GET, &path, None).await;
                assert!(matches!(status, 200 | 503), "{status}: {view}");
                if status == 200 && wish(&view) {
                    return view;
                }
                *seen.lock().expect("not poisoned") = view;
                // Asking without a pause would take the processors from those that are to do something.
                short_pause().await;
            }
        };
        let Ok(view) = tokio::time::timeout(LONGEST_WAIT, asking).await else {
            let seen = seen.lock().expect("not poisoned");
            panic!("{id} does not stand as wished after {LONGEST_WAIT:?}: {seen}");
        };
        view
    }

    /// Looks one up until it is in this state.
    pub async fn until_state(&self, id: &str, state: &str) -> Value {
        self.until(id, |view| view["state"] == state).await
    }

    /// Looks one up until so many attempts have ended and none is in flight.
    pub async fn until_attempts(&self, id: &str, attempts: u64) -> Value {
        self.until(id, |view| {
            let is_settled = view["state"] != "in_flight" && view["may_be_in_flight"].is_null();
            view["attempts_made"] == attempts && is_settled
        })
        .await
    }
}

/// A registration of topic `t` for a path at a merchant.
pub fn registration(id: &str, merchant: &Merchant) -> Value {
    json!({ "topic": "t", "id": id, "url": merchant.url("/notify"), "body": format!("id={id}") })
}

/// A registration with a ladder of these intervals.
pub fn with_ladder(id: &str, merchant: &Merchant, intervals: &[&str]) -> Value {
    let mut registration = registration(id, merchant);
    registration["ladder"] = json!({ "intervals": intervals });
    registration
}

/// A limit for attempts that a test lets run into it. Long enough to connect before, however slow the machine is.
pub const SHORT: Duration = Duration::from_secs(2);
