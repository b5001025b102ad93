//! A schedule that fails as it is told to, and what callers see of it.

use super::{NOTIFICATIONS, NOW_MS, Server, memory, order};
use reqwest::Method;
use ringback::api::ApiSettings;
use ringback::clock::ManualClock;
use ringback::domain::key::Key;
use ringback::domain::lane::{KeyInLane, Lane};
use ringback::health::{Health, Store};
use ringback::schedule::decorator::{ScheduleCall, ScheduleDecorator};
use ringback::schedule::memory::MemorySchedule;
use ringback::schedule::watched::WatchedSchedule;
use ringback::schedule::{Schedule, ScheduleError};
use ringback::schedule::{ScheduleMaintenance as _, ScheduleReads as _};
use ringback::service::Service;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// How it behaves when it is asked for something.
pub enum Fault {
    /// Out of reach.
    Unavailable,
    /// Unreadable.
    Corrupt,
    /// A bug.
    Panic,
    /// Takes a permit of `go` after adding one to `entered`, then works, then adds one to `left`.
    Held {
        entered: Semaphore,
        go: Semaphore,
        left: Semaphore,
    },
}

impl Fault {
    pub fn held() -> Self {
        Self::Held {
            entered: Semaphore::new(0),
            go: Semaphore::new(0),
            left: Semaphore::new(0),
        }
    }
}

/// A schedule in memory behind a fault.
pub struct Faulty {
    pub fault: Fault,
    inner: MemorySchedule,
}

impl Faulty {
    pub fn new(fault: Fault) -> Arc<Self> {
        Arc::new(Self {
            fault,
            inner: memory(&ManualClock::at(NOW_MS)),
        })
    }

    pub async fn serve(self: &Arc<Self>, settings: ApiSettings) -> Server {
        Server::start(Service::new(None, self.clone()), settings).await
    }

    async fn meet(&self) -> Result<(), ScheduleError> {
        match &self.fault {
            Fault::Unavailable => Err(ScheduleError::Unavailable("10.0.0.7 is down".into())),
            Fault::Corrupt => Err(ScheduleError::Corrupt("a broken envelope".into())),
            Fault::Panic => panic!("a bug, as the test wants it"),
            Fault::Held { entered, go, .. } => {
                entered.add_permits(1);
                go.acquire().await.expect("open").forget();
                Ok(())
            }
        }
    }

    fn leave(&self) {
        if let Fault::Held { left, .. } = &self.fault {
            left.add_permits(1);
        }
    }
}

impl ScheduleDecorator for Faulty {
    fn inner(&self) -> &dyn Schedule {
        &self.inner
    }

    async fn around<T: Send>(
        &self,
        call: ScheduleCall,
        calling: impl Future<Output = Result<T, ScheduleError>> + Send,
    ) -> Result<T, ScheduleError> {
        self.meet().await?;
        let result = calling.await;
        if call == ScheduleCall::Register {
            self.leave();
        }
        result
    }
}

#[tokio::test]
async fn a_store_out_of_reach_is_503_everywhere_and_never_a_success() {
    let server = Faulty::new(Fault::Unavailable)
        .serve(ApiSettings::default())
        .await;
    let one = "/v1/notifications/t/1";
    let dead = "/v1/dead-letters/t/1";
    for reply in [
        server.register(&order("1")).await,
        server.get(one).await,
        server.delete(one).await,
        server.post(&format!("{one}/retry")).await,
        server.get("/v1/dead-letters").await,
        server.post(&format!("{dead}/replay")).await,
        server.delete(dead).await,
        server.get("/readyz").await,
    ] {
        reply.is_problem(503, "unavailable");
        assert_eq!(reply.header("retry-after"), Some("1"));
        let text = reply.body.to_string();
        assert!(text.contains("the schedule"), "{text}");
        assert!(!text.contains("10.0.0.7"), "{text}");
    }
    server.get("/healthz").await.is(200);
    let batch = json!({"notifications": [order("1"), {}]});
    let path = "/v1/notifications/batch";
    let results = server.post_json(path, &batch).await.is(200);
    assert_eq!(results["results"][0]["status"], 503);
    assert_eq!(results["results"][1]["status"], 422);
}

#[tokio::test]
async fn what_a_store_cannot_read_is_a_mistake_of_ours() {
    let server = Faulty::new(Fault::Corrupt)
        .serve(ApiSettings::default())
        .await;
    let reply = server.register(&order("1")).await;
    reply.is_problem(500, "internal");
    assert_eq!(reply.header("retry-after"), None);
    server.get("/readyz").await.is_problem(503, "unavailable");
}

#[tokio::test]
async fn a_panic_costs_one_request_only() {
    let server = Faulty::new(Fault::Panic)
        .serve(ApiSettings {
            most_requests: 1,
            ..ApiSettings::default()
        })
        .await;
    for _ in 0..2 {
        let reply = server.post_json(NOTIFICATIONS, &order("1")).await;
        reply.is_problem(500, "internal");
    }
    let batch = json!({"notifications": [order("1"), {}]});
    let path = "/v1/notifications/batch";
    let results = server.post_json(path, &batch).await.is(200);
    assert_eq!(results["results"][0]["status"], 500);
    assert_eq!(results["results"][1]["status"], 422);
}

#[tokio::test]
async fn a_store_that_does_not_answer_holds_no_monitoring_up() {
    let server = Faulty::new(Fault::held())
        .serve(ApiSettings::default())
        .await;
    let begun = std::time::Instant::now();
    let readings = (0..20).map(|_| async {
        let reply = server.request(Method::GET, "/metrics").send().await;
        reply.expect("an answer").text().await.expect("a text")
    });
    for text in futures_util::future::join_all(readings).await {
        assert!(text.contains("ringback_attempts_total{"), "{text}");
        assert!(!text.contains("ringback_schedule_entries{"), "{text}");
    }
    // Twenty times the longest wait for a store would be half a minute.
    assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
}

/// Reconciling looks every few seconds at what is new, and mostly nothing is. A Redis that was gone was
/// called `refusing` because of that, since looking for nothing had succeeded.
#[tokio::test]
async fn a_call_about_nothing_says_nothing_of_the_store() {
    let health = Health::new(false);
    let watched = WatchedSchedule::new(Faulty::new(Fault::Unavailable), health.clone());
    let key = KeyInLane {
        key: Key::new("t", "1").expect("a key"),
        lane: Lane::from_name("https://shop.example"),
    };
    let _ = watched.holds(&[]).await;
    let _ = watched.in_flight(&[]).await;
    let _ = watched.restore(&[]).await;
    assert_eq!(health.failed_calls(Store::Schedule), 0);
    assert!(watched.holds(&[key]).await.is_err());
    assert_eq!(health.failed_calls(Store::Schedule), 1);
}
