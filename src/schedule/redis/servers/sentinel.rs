//! The primary that Sentinel names.
//!
//! A task for each sentinel of the URL asks it twice a second, and at once when it publishes a fail-over or when calls fail.
//! So a sentinel that does not answer delays nothing. Of the answers, the one with the highest configuration epoch counts:
//! an election raises the epoch, so a sentinel that was away and names an earlier primary is not believed. A server that is
//! named must also say itself that it is a primary (`ROLE`, asked by the connection): Sentinel may name one that was just
//! restarted as a replica. The last answer of a sentinel that fails counts for [`view::REMEMBERED`] beside others.
//!
//! While no sentinel answers, the primary that is known is kept. If most of those in the URL have not answered for
//! [`DOUBTED_AFTER`], it may have been replaced meanwhile, and other servers use another. What was cancelled through them is
//! due here still, so the journal is asked before each call. And what is cancelled here is due there, so that is refused
//! ([`Sentinels::is_confirmed`]).
//!
//! The URL should name all sentinels. User and password of the URL are for sentinels too; one that has no password is asked
//! without.

mod view;

use super::{LocatedServer, NodeSettings};
use crate::domain::redis_url::RedisHost;
use crate::schedule::redis::info::text;
use futures_util::StreamExt as _;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, Value};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use view::{DOUBTED_AFTER, NamedPrimary, SentinelView};

/// How often a sentinel is asked.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Shortest time between two questions.
const ASK_PAUSE: Duration = Duration::from_millis(50);
/// How long a sentinel may take to be connected, and to answer.
const TIMEOUT: Duration = Duration::from_secs(1);
/// What sentinels publish when the primary changes: at its election, and when all replicas follow it.
const CHANNELS: [&str; 2] = ["+promoted-slave", "+switch-master"];

/// The sentinels that watch one primary.
pub struct Sentinels {
    shared: Arc<SentinelShared>,
    /// They end when this is dropped.
    _tasks: JoinSet<()>,
}

struct SentinelShared {
    settings: NodeSettings,
    name: String,
    view: watch::Sender<SentinelView>,
    version: AtomicUsize,
    /// Notified when calls fail.
    suspected: Notify,
    /// The last result of [`Sentinels::is_confirmed`].
    was_confirmed: AtomicBool,
}

impl Sentinels {
    /// Begins to ask the sentinels.
    pub fn start(settings: NodeSettings, hosts: Vec<RedisHost>, name: String) -> Self {
        let shared = Arc::new(SentinelShared {
            settings,
            name,
            view: watch::Sender::new(SentinelView::of(hosts.clone())),
            version: AtomicUsize::new(0),
            suspected: Notify::new(),
            was_confirmed: AtomicBool::new(true),
        });
        let mut tasks = JoinSet::new();
        for (number, host) in hosts.into_iter().enumerate() {
            let shared = shared.clone();
            tasks.spawn(async move { shared.follow_for_ever(number, &host).await });
        }
        Self {
            shared,
            _tasks: tasks,
        }
    }

    /// See [`super::Servers::version`].
    pub fn version(&self) -> usize {
        self.shared.version.load(Ordering::Acquire)
    }

    /// See [`super::Servers::is_at`].
    pub fn is_at(&self, host: &RedisHost) -> bool {
        matches!(&self.shared.view.borrow().chosen, Some(Ok(chosen)) if chosen == host)
    }

    /// See [`super::Servers::is_confirmed`].
    pub fn is_confirmed(&self) -> bool {
        let is_confirmed = self.shared.view.borrow().is_confirmed();
        let was_confirmed = self
            .shared
            .was_confirmed
            .swap(is_confirmed, Ordering::AcqRel);
        match (was_confirmed, is_confirmed) {
            (true, false) => tracing::warn!(
                "most sentinels of the schedule have not answered for {} s, so its primary may have been replaced; until they \
                 answer again, the journal, if there is one, is asked before each call, and changes of notifications by \
                 hand are refused",
                DOUBTED_AFTER.as_secs()
            ),
            (false, true) => tracing::info!("most sentinels of the schedule answer again"),
            (true, true) | (false, false) => {}
        }
        is_confirmed
    }

    /// See [`super::Servers::suspect`].
    pub fn suspect(&self) {
        self.shared.suspected.notify_waiters();
    }

    /// See [`super::Servers::locate`].
    pub async fn locate(&self) -> Result<LocatedServer, RedisError> {
        self.shared.settings.read_certificates().await;
        let mut view = self.shared.view.subscribe();
        let version = self.version();
        // Fails only if the sender was dropped, and `self` has it.
        let view = view.wait_for(|view| view.chosen.is_some()).await;
        let chosen = view.ok().and_then(|view| view.chosen.clone());
        match chosen {
            Some(Ok(host)) => Ok(LocatedServer {
                client: self.shared.settings.client(&host)?,
                host,
                version,
            }),
            Some(Err(why)) => Err(RedisError::from((
                ErrorKind::MasterNameNotFoundBySentinel,
                "Sentinel names no primary",
                why,
            ))),
            None => Err(RedisError::from((
                ErrorKind::Client,
                "the sentinels are no longer asked",
            ))),
        }
    }
}

impl SentinelShared {
    async fn follow_for_ever(&self, number: usize, host: &RedisHost) {
        loop {
            let Err(error) = self.follow(number, host).await;
            self.note(number, Err(error));
            tokio::select! {
                () = tokio::time::sleep(ASK_EVERY) => {}
                () = self.suspected.notified() => tokio::time::sleep(ASK_PAUSE).await,
            }
        }
    }

    /// Asks one sentinel until it fails.
    async fn follow(
        &self,
        number: usize,
        host: &RedisHost,
    ) -> Result<std::convert::Infallible, String> {
        let (mut asking, mut listening) = within(self.connect(host)).await?;
        let mut published = listening.on_message();
        loop {
            let named = within(self.ask(&mut asking)).await?;
            self.note(number, Ok(named));
            tokio::select! {
                message = published.next() => {
                    message.ok_or("the connection was closed")?;
                }
                () = tokio::time::sleep(ASK_EVERY) => {}
                () = self.suspected.notified() => {}
            }
            tokio::time::sleep(ASK_PAUSE).await;
        }
    }

    /// Connects for questions and for what is published. If the sentinel refuses the password, connects without.
    async fn connect(
        &self,
        host: &RedisHost,
    ) -> Result<(MultiplexedConnection, PubSub), RedisError> {
        self.settings.read_certificates().await;
        let settings = self.settings.of_sentinel();
        let connected = connect_with(&settings, host).await;
        match (connected, settings.without_password()) {
            (Err(error), Some(without)) if error.kind() == ErrorKind::AuthenticationFailed => {
                // If a password is needed, its refusal is the cause to tell.
                connect_with(&without, host).await.map_err(|_| error)
            }
            (connected, _) => connected,
        }
    }

    async fn ask(&self, asking: &mut MultiplexedConnection) -> Result<NamedPrimary, RedisError> {
        // The epoch is read before the address. If an election comes in between, the new address has the old epoch, until
        // the next question.
        let questions = ["MASTER", "GET-MASTER-ADDR-BY-NAME"].map(|question| {
            let mut command = redis::cmd("SENTINEL");
            command.arg(question).arg(&self.name);
            command
        });
        let fields = asking.send_packed_command(&questions[0]).await?;
        let address = asking.send_packed_command(&questions[1]).await?;
        let unknown = || {
            RedisError::from((
                ErrorKind::MasterNameNotFoundBySentinel,
                "this sentinel does not know the name in --redis",
            ))
        };
        let address = match address.extract_error()? {
            Value::Array(address) => address,
            Value::Nil => return Err(unknown()),
            _ => {
                return Err((
                    ErrorKind::Parse,
                    "the answer of the sentinel cannot be read",
                )
                    .into());
            }
        };
        let parts: Vec<String> = address.iter().filter_map(text).collect();
        let [host, port] = &parts[..] else {
            return Err(unknown());
        };
        let port = port.parse();
        let port = port.map_err(|_| RedisError::from((ErrorKind::Parse, "not a port")))?;
        let host = host.clone();
        Ok(NamedPrimary {
            // A sentinel may refuse the question for the fields to this user.
            epoch: epoch_of(&fields).unwrap_or(0),
            host: RedisHost { host, port },
        })
    }

    /// Notes an answer, or a failure.
    fn note(&self, number: usize, answer: Result<NamedPrimary, String>) {
        self.view.send_modify(|view| {
            let seen = &mut view.sentinels[number];
            seen.status = Some(match answer {
                Ok(named) => {
                    seen.answer = Some((named, Instant::now()));
                    Ok(())
                }
                Err(why) => Err(why),
            });
            let before = view.chosen.take();
            view.chosen = view.choose(&self.name);
            match (&before, &view.chosen) {
                (Some(Ok(before)), Some(Ok(chosen))) if before == chosen => {}
                (Some(Ok(before)), Some(Ok(chosen))) => {
                    tracing::info!(%before, %chosen, "Sentinel names another primary of the schedule");
                    self.version.fetch_add(1, Ordering::Release);
                }
                (_, Some(Ok(_))) => {
                    self.version.fetch_add(1, Ordering::Release);
                }
                // A primary that was known is kept while no sentinel answers.
                (Some(Ok(_)), _) => view.chosen = before,
                (_, _) => {}
            }
        });
    }
}

async fn connect_with(
    settings: &NodeSettings,
    host: &RedisHost,
) -> Result<(MultiplexedConnection, PubSub), RedisError> {
    let client = settings.client(host)?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(TIMEOUT))
        .set_response_timeout(Some(TIMEOUT));
    let asking = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    let mut listening = client.get_async_pubsub().await?;
    // Before the first question, so that no election in between is missed.
    listening.subscribe(&CHANNELS).await?;
    Ok((asking, listening))
}

async fn within<T>(work: impl Future<Output = Result<T, RedisError>>) -> Result<T, String> {
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_string()),
    }
}

/// The configuration epoch in the reply to `SENTINEL MASTER`.
fn epoch_of(reply: &Value) -> Option<u64> {
    let Value::Array(fields) = reply else {
        return None;
    };
    let pairs = fields.chunks_exact(2);
    let epoch = pairs
        .filter(|pair| text(&pair[0]).as_deref() == Some("config-epoch"))
        .find_map(|pair| text(&pair[1]));
    epoch?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_is_read() {
        let reply = b"*4\r\n$4\r\nname\r\n$4\r\nmain\r\n$12\r\nconfig-epoch\r\n$1\r\n7\r\n";
        let reply = redis::parse_redis_value(reply).expect("a reply");
        assert_eq!(epoch_of(&reply), Some(7));
        assert_eq!(epoch_of(&Value::Nil), None);
    }
}
