//! What only a journal can tell: lists, history, who asked for what.

use super::faulty::{Fault, Faulty};
use super::{NOTIFICATIONS, NOW_MS, Reply, Server, order};
use crate::journal_contract::samples;
use reqwest::Method;
use ringback::api::ApiSettings;
use ringback::clock::ManualClock;
use ringback::domain::state::State;
use ringback::journal::recorder::Recorder;
use ringback::journal::sqlite::SqliteJournal;
use ringback::journal::{Prune, Recorded};
use ringback::schedule::memory::MemorySchedule;
use ringback::schedule::window::Window;
use ringback::schedule::{ClaimQuota, Limits, SettingsSource, Settlement};
use ringback::schedule::{ScheduleLeases as _, ScheduleReads as _};
use ringback::service::Service;
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;

/// A server over a schedule in memory and a journal in a file of its own.
pub struct Journaled {
    pub clock: ManualClock,
    pub schedule: Arc<MemorySchedule>,
    pub recorder: Arc<Recorder>,
    pub server: Server,
    _directory: TempDir,
}

impl Journaled {
    pub async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let recorder = recorder(&directory).await;
        let clock = ManualClock::at(NOW_MS);
        let limits = Limits {
            lane_start: 8,
            lane_cap: 8,
            lease_ms: 20_000,
            remember_ms: None,
            settings_source: SettingsSource::Schedule,
            window: Window::WHOLE,
            early_ms: 0,
        };
        let schedule = Arc::new(MemorySchedule::new(Arc::new(clock.clone()), limits));
        let service = Service::new(Some(recorder.clone()), schedule.clone());
        Self {
            clock,
            schedule,
            recorder,
            server: Server::start(service, ApiSettings::default()).await,
            _directory: directory,
        }
    }

    /// The ids of a page, and its cursor.
    pub async fn page(&self, query: &str) -> (Vec<String>, Option<String>) {
        let path = format!("{NOTIFICATIONS}?{query}");
        let page = self.server.get(&path).await.is(200);
        let ids = page["items"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|item| item["id"].as_str().map(str::to_string))
            .collect();
        (ids, page["next_cursor"].as_str().map(str::to_string))
    }
}

async fn recorder(directory: &TempDir) -> Arc<Recorder> {
    let path = directory.path().join("journal.db");
    let journal = SqliteJournal::open(&path, "one").await.expect("opens");
    Arc::new(Recorder::start(Arc::new(journal)))
}

#[tokio::test]
async fn lists_come_newest_first_in_pages() {
    let journaled = Journaled::start().await;
    for id in ["1", "2", "3"] {
        journaled.server.register(&order(id)).await.is(201);
        journaled.clock.advance(1_000);
    }
    let (ids, cursor) = journaled.page("limit=2").await;
    assert_eq!(ids, ["3", "2"]);
    let cursor = cursor.expect("there is more");
    let (ids, cursor) = journaled.page(&format!("limit=2&cursor={cursor}")).await;
    assert_eq!(ids, ["1"]);
    assert_eq!(cursor, None);
    let bad = journaled.server.get("/v1/notifications?cursor=x").await;
    bad.is_problem(400, "parameters");
    assert_eq!(bad.body["errors"][0]["parameter"], "cursor");
}

#[tokio::test]
async fn lists_are_filtered() {
    let journaled = Journaled::start().await;
    let mut elsewhere = order("2");
    elsewhere["topic"] = json!("refund");
    elsewhere["url"] = json!("https://other.example/");
    journaled.server.register(&order("1")).await.is(201);
    journaled
        .schedule
        .claim(ClaimQuota::of(1))
        .await
        .expect("claims");
    journaled.clock.advance(1_000);
    journaled.server.register(&elsewhere).await.is(201);
    journaled.clock.advance(1_000);
    journaled.server.register(&order("3")).await.is(201);
    let path = "/v1/notifications/payment.succeeded/3";
    journaled.server.delete(path).await.is(200);
    let check = async |query: &str, expected: &[&str]| {
        assert_eq!(journaled.page(query).await.0, expected, "{query}");
    };
    check("", &["3", "2", "1"]).await;
    check("topic=refund", &["2"]).await;
    check("topic=payment.succeeded", &["3", "1"]).await;
    check("lane=https://other.example", &["2"]).await;
    check("lane=https://Other.Example:443/", &["2"]).await;
    check("lane=https://shop.example/notify", &["3", "1"]).await;
    check("lane=http://shop.example", &[]).await;
    check("state=scheduled", &["2"]).await;
    check("state=in_flight", &["1"]).await;
    check("state=cancelled", &["3"]).await;
    check("state=delivered", &[]).await;
    check("from=2026-11-20T08:30:01Z", &["3", "2"]).await;
    check("to=2026-11-20T16:30:01%2B08:00", &["1"]).await;
    check("from=2026-11-20T08:30:01Z&to=2026-11-20T08:30:02Z", &["2"]).await;
}

#[tokio::test]
async fn what_only_the_schedule_knows_is_not_made_up_while_it_is_away() {
    let directory = tempfile::tempdir().expect("a directory");
    let schedule = Faulty::new(Fault::Unavailable);
    let service = Service::new(Some(recorder(&directory).await), schedule);
    let server = Server::start(service, ApiSettings::default()).await;
    // None is scheduled, so none is in flight.
    let none = server.get("/v1/notifications?state=in_flight").await;
    assert_eq!(none.is(200)["items"], json!([]));
    // It is in the journal by the time that the schedule fails.
    server
        .register(&order("1"))
        .await
        .is_problem(503, "unavailable");
    for state in ["in_flight", "scheduled"] {
        let reply = server.get(&format!("{NOTIFICATIONS}?state={state}")).await;
        reply.is_problem(503, "unavailable");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    let check = |view: &Value| {
        assert_eq!(view["state"], "scheduled");
        assert_eq!(view["may_be_in_flight"], true, "{view}");
    };
    check(&server.get(NOTIFICATIONS).await.is(200)["items"][0]);
    check(
        &server
            .get(&format!("{NOTIFICATIONS}/payment.succeeded/1"))
            .await
            .is(200),
    );
    let none = server.get("/v1/notifications?state=delivered").await;
    assert_eq!(none.is(200)["items"], json!([]));
}

#[tokio::test]
async fn what_is_known_of_flights_is_not_put_in_doubt() {
    let journaled = Journaled::start().await;
    journaled.server.register(&order("1")).await.is(201);
    let list = journaled.server.get(NOTIFICATIONS).await.is(200);
    assert_eq!(list["items"][0]["state"], "scheduled");
    assert_eq!(list["items"][0].get("may_be_in_flight"), None);
}

#[tokio::test]
async fn what_names_no_lane_is_said_and_not_taken_for_an_empty_one() {
    let journaled = Journaled::start().await;
    for path in [NOTIFICATIONS, "/v1/dead-letters"] {
        for lane in [
            "shop.example",
            "https://me:secret@shop.example",
            "ftp://a.example",
        ] {
            let reply = journaled.server.get(&format!("{path}?lane={lane}")).await;
            reply.is_problem(400, "parameters");
            let error = &reply.body["errors"][0];
            assert_eq!(error["parameter"], "lane");
            let detail = error["detail"].as_str().expect("a text");
            assert!(detail.contains("like https://shop.example,"), "{detail}");
            assert!(!detail.contains("secret"), "{detail}");
        }
    }
}

#[tokio::test]
async fn the_history_says_who_asked() {
    let journaled = Journaled::start().await;
    journaled.server.register(&order("1")).await.is(201);
    let path = "/v1/notifications/payment.succeeded/1";
    let request = journaled.server.request(Method::DELETE, path);
    Reply::of(request.header("ringback-actor", "li.lei"))
        .await
        .is(200);
    let view = journaled.server.get(path).await.is(200);
    assert_eq!(view["state"], "cancelled");
    let transitions: Vec<(&Value, &Value, &Value)> = view["transitions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (&one["kind"], &one["actor"], &one["instance"]))
        .collect();
    let (registered, cancelled) = (json!("registered"), json!("cancelled"));
    let (api, li_lei, one) = (json!("api"), json!("li.lei"), json!("one"));
    assert_eq!(
        transitions,
        [(&registered, &api, &one), (&cancelled, &li_lei, &one)]
    );
    assert_eq!(view["transitions"][0]["at"], "2026-11-20T08:30:00.000Z");
}

#[tokio::test]
async fn a_dead_letter_whose_last_attempt_is_not_settled_yet_is_not_refused_for_being_dead() {
    let journaled = Journaled::start().await;
    journaled.server.register(&order("1")).await.is(201);
    let claimed = journaled
        .schedule
        .claim(ClaimQuota::of(1))
        .await
        .expect("claimed");
    let [lease] = claimed.leases.try_into().expect("one");
    let entry = &lease.entry;
    let last = samples::refusal(&entry.notification, entry.progress);
    let parked = samples::record(journaled.recorder.journal(), last).await;
    assert_eq!(parked, Recorded::Applied);
    let replay = "/v1/dead-letters/payment.succeeded/1/replay";
    let early = journaled.server.post(replay).await;
    early.is_problem(503, "unavailable");
    let ended = Settlement::to(State::Dead, None, entry.progress, NOW_MS);
    journaled
        .schedule
        .settle(lease, ended)
        .await
        .expect("settled");
    journaled.server.post(replay).await.is(200);
}

#[tokio::test]
async fn a_batch_goes_through_the_journal() {
    let journaled = Journaled::start().await;
    let orders: Vec<Value> = (0..600).map(|number| order(&number.to_string())).collect();
    let batch = json!({ "notifications": orders });
    let path = "/v1/notifications/batch";
    for status in [201, 200] {
        let reply = journaled.server.post_json(path, &batch).await.is(200);
        let results = reply["results"].as_array().expect("a list");
        assert_eq!(results.len(), 600);
        assert!(results.iter().all(|result| result["status"] == status));
    }
    let counts = journaled.schedule.counts().await.expect("works");
    assert_eq!(counts.pending, 600);
}

#[tokio::test]
async fn what_lost_its_body_is_not_sent_again_and_stays_delivered() {
    let journaled = Journaled::start().await;
    journaled.server.register(&order("1")).await.is(201);
    let claimed = journaled
        .schedule
        .claim(ClaimQuota::of(1))
        .await
        .expect("claimed");
    let [lease] = claimed.leases.try_into().expect("one");
    let entry = &lease.entry;
    let journal = journaled.recorder.journal();
    let last = samples::delivery(&entry.notification, entry.progress);
    samples::apply(journal, last).await;
    let ended = Settlement::to(State::Delivered, None, entry.progress, NOW_MS);
    journaled
        .schedule
        .settle(lease, ended)
        .await
        .expect("settled");
    let prune = Prune {
        payloads_before_ms: NOW_MS + 1_000,
        records_before_ms: 0,
        dead_before_ms: None,
    };
    let pruned = journal.prune(&prune, 10).await.expect("pruned");
    assert_eq!(pruned.payloads, 1);
    let path = "/v1/notifications/payment.succeeded/1";
    let before = journaled.server.get(path).await.is(200);
    let reply = journaled.server.post(&format!("{path}/resend")).await;
    reply.is_problem(409, "payload-deleted");
    assert_eq!(reply.body["state"], "delivered");
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(journaled.server.get(path).await.is(200), before);
    let counts = journaled.schedule.counts().await.expect("works");
    assert_eq!((counts.pending, counts.in_flight), (0, 0));
    journaled.server.register(&order("1")).await.is(200);
}
