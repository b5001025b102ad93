//! What a schedule in memory holds: bodies are left to the journal, and too much is refused.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{BEGIN_MS, Server, Stores, config, registration, with_ladder};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::clock::ManualClock;
use serde_json::{Value, json};
use std::time::Duration;

const REGISTER: &str = "/v1/notifications";
/// Large enough that a body in memory would show in the figures.
const LARGE: usize = 200_000;

/// A text that differs at every place, so that a body that is cut or mixed up shows.
fn large(id: &str) -> String {
    let numbered = (0..).map(|number| format!("{id}:{number};"));
    let mut text: String = numbered.take(LARGE / 8).collect();
    text.truncate(LARGE);
    text
}

/// A number of `/metrics`.
async fn metric(server: &Server, name: &str) -> u64 {
    let answer = reqwest::get(format!("{}/metrics", server.url())).await;
    let text = answer.expect("an answer").text().await.expect("a text");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("{name} in\n{text}"));
    line.trim().parse().expect("a number")
}

async fn bodies_held(server: &Server) -> u64 {
    metric(server, "ringback_schedule_memory_bytes{of=\"bodies\"}").await
}

/// The outcome is in the journal a moment before the schedule has it, and a reading of the metrics
/// serves for a second.
async fn until_no_body_is_held(server: &Server) {
    let reading = async {
        while bodies_held(server).await > 0 {
            short_pause().await;
        }
    };
    within("the body to be left to the journal", reading).await;
}

async fn post(server: &Server, registration: &Value) -> (u16, Value) {
    let body = Some(registration.clone());
    server.call(Method::POST, REGISTER, body).await
}

/// One that is due later: it does not end, and its body is not held. Only the first ten are for the merchant, and all others for
/// destinations of which none has many.
fn later(id: &str, merchant: &Merchant) -> Value {
    let mut registration = registration(id, merchant);
    registration["delay"] = json!("20m");
    let number: usize = id.parse().expect("a number");
    if number >= 10 {
        registration["url"] = json!(format!("http://127.0.0.{}:9/", 2 + number % 200));
    }
    registration
}

/// Registers until the server is full. Gives the ids taken and the one refused.
async fn fill_up(server: &Server, merchant: &Merchant) -> (Vec<String>, String) {
    let mut taken = Vec::new();
    for number in 0..10_000 {
        let id = format!("{number:05}");
        match post(server, &later(&id, merchant)).await {
            (201, _) => taken.push(id),
            (status, problem) => {
                assert_eq!(status, 503, "{problem}");
                assert_eq!(problem["type"], "urn:ringback:problem:full");
                let detail = problem["detail"].as_str().expect("a text");
                assert!(detail.contains("schedule-memory"), "{detail}");
                return (taken, id);
            }
        }
    }
    panic!("it was never full");
}

async fn full_server() -> Server {
    let bound = |config: &mut ringback::config::ServeConfig| {
        config.schedule.memory_bytes = 40_000;
    };
    Server::start_as(Stores::Embedded, bound).await
}

#[tokio::test]
async fn a_body_of_a_later_attempt_is_read_from_the_journal() {
    let refusals = vec![Reaction::fail(), Reaction::fail()];
    let mut merchant = Merchant::scripted(refusals, Reaction::success()).await;
    let server = Server::start_by_hand(Stores::Embedded).await;
    let body = large("order-1");
    let mut asked = with_ladder("order-1", &merchant, &["1m", "1m"]);
    asked["body"] = json!(body);
    server.register(asked).await;
    assert_eq!(merchant.call().await.body, body.as_bytes(), "at once");
    server.until_attempts("order-1", 1).await;
    until_no_body_is_held(&server).await;

    server.clock().advance(60_000);
    let second = merchant.call().await;
    assert_eq!((second.attempt(), &second.body[..]), (2, body.as_bytes()));
    server.until_attempts("order-1", 2).await;

    let server = server.restart().await;
    assert_eq!(
        bodies_held(&server).await,
        0,
        "it was loaded without bodies"
    );
    server.clock().advance(60_000);
    let third = merchant.call().await;
    assert_eq!((third.attempt(), &third.body[..]), (3, body.as_bytes()));
    server.until_state("order-1", "delivered").await;
    server.stop().await;
}

/// Two attempts of new destinations, whose bodies together take more than half of the memory for bodies, and one of a
/// destination that has answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn destinations_that_hang_leave_memory_for_bodies_to_those_that_answer() {
    const BODY: usize = 40_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(dir.path(), Stores::Embedded);
    // A quarter of it is for bodies that are read.
    config.schedule.memory_bytes = 4 * 100_000;
    // The calls hang for longer than this test may take.
    config.delivery.timeout = Duration::from_secs(300);
    let clock = ManualClock::at(BEGIN_MS);
    let server = Server::open(config, Some(clock), Some(dir)).await;
    let mut answers = Merchant::start().await;
    server.register(registration("first", &answers)).await;
    answers.call().await;
    server.until_state("first", "delivered").await;
    until_no_body_is_held(&server).await;
    let large = async |id: &str, merchant: &Merchant, delay: &str| {
        let mut asked = registration(id, merchant);
        asked["body"] = json!("x".repeat(BODY));
        asked["delay"] = json!(delay);
        server.register(asked).await;
    };
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut one = Merchant::scripted(vec![], held.clone()).await;
    let mut other = Merchant::scripted(vec![], held).await;
    large("one", &one, "10m").await;
    large("other", &other, "10m").await;
    large("answered", &answers, "10m1s").await;

    server.clock().advance(600_000);
    let is_one = tokio::select! {
        _ = one.call() => true,
        _ = other.call() => false,
    };
    let (called, called_id, mut waiting, waiting_id) = match is_one {
        true => (one, "one", other, "other"),
        false => (other, "other", one, "one"),
    };
    server.until_state(waiting_id, "in_flight").await;
    server.clock().advance(1_000);
    assert_eq!(answers.call().await.body.len(), BODY);
    server.until_state("answered", "delivered").await;
    assert!(waiting.arrived().is_none(), "it has no memory yet");

    // It is too late for its lease to wait any longer.
    server.clock().advance(9_000);
    server.until_state(waiting_id, "scheduled").await;
    called.release();
    server.until_state(called_id, "delivered").await;
    server.clock().advance(1_000);
    assert_eq!(waiting.call().await.body.len(), BODY);
    waiting.release();
    let view = server.until_state(waiting_id, "delivered").await;
    let attempt = &view["attempts"][0];
    let shown = (&view["attempts_made"], &attempt["deferred_by"]);
    assert_eq!(shown, (&json!(1), &json!("busy")), "{view}");
    server.stop().await;
}

/// Awaits that `/readyz` answers so.
async fn until_ready(server: &Server, wanted: u16) {
    let asking = async {
        while server.call(Method::GET, "/readyz", None).await.0 != wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(&format!("/readyz to answer {wanted}"), asking).await;
}

#[tokio::test]
async fn bodies_of_first_attempts_that_are_far_off_are_not_held() {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(Stores::Embedded).await;
    for id in ["1", "2", "3"] {
        let mut asked = registration(id, &merchant);
        asked["body"] = json!(large(id));
        asked["delay"] = json!("1h");
        server.register(asked).await;
    }
    assert_eq!(bodies_held(&server).await, 0);
    server.clock().advance(3_600_000);
    let mut arrived = Vec::new();
    for _ in 0..3 {
        arrived.push(String::from_utf8(merchant.call().await.body).expect("text"));
    }
    arrived.sort();
    assert!(arrived == ["1", "2", "3"].map(large), "byte for byte");
    server.stop().await;
}

#[tokio::test]
async fn too_much_is_refused_before_anything_is_written_down() {
    let merchant = Merchant::start().await;
    let server = full_server().await;
    let (taken, refused) = fill_up(&server, &merchant).await;
    assert!(taken.len() > 10, "{}", taken.len());
    let path = format!("/v1/notifications/t/{refused}");
    let (status, view) = server.call(Method::GET, &path, None).await;
    assert_eq!(status, 404, "{view}");
    assert_eq!(
        metric(&server, "ringback_registered").await,
        taken.len() as u64
    );

    // What was accepted is accepted still, however often it is asked for.
    let (status, view) = post(&server, &later(&taken[0], &merchant)).await;
    assert_eq!((status, &view["state"]), (200, &json!("scheduled")));
    let mut other = later(&taken[0], &merchant);
    other["body"] = json!("other");
    assert_eq!(post(&server, &other).await.0, 409);

    // In a batch, each item by itself.
    let items = json!({"notifications": [later(&refused, &merchant), later(&taken[0], &merchant)]});
    let (status, batch) = server
        .call(Method::POST, "/v1/notifications/batch", Some(items))
        .await;
    assert_eq!(status, 200, "{batch}");
    let statuses: Vec<&Value> = (0..2).map(|at| &batch["results"][at]["status"]).collect();
    assert_eq!(statuses, [&json!(503), &json!(200)], "{batch}");

    let limit = metric(&server, "ringback_schedule_memory_limit_bytes").await;
    let held = metric(&server, "ringback_schedule_memory_bytes{of=\"entries\"}").await;
    assert!(limit == 40_000 && held <= limit, "{held} of {limit}");
    server.stop().await;
}

#[tokio::test]
async fn what_follows_in_an_order_is_not_taken_before_what_finds_no_room() {
    let merchant = Merchant::start().await;
    let server = full_server().await;
    let (taken, _) = fill_up(&server, &merchant).await;
    let path = format!("/v1/notifications/t/{}", taken[20]);
    let (status, view) = server.call(Method::DELETE, &path, None).await;
    assert_eq!(status, 200, "{view}");
    let ordered = |id: &str, number: u32| {
        let mut asked = later(id, &merchant);
        asked["url"] = json!("http://127.0.0.250:9/");
        asked["order"] = json!({ "key": "o", "number": number, "mode": "strict" });
        asked
    };
    let mut large = ordered("50001", 1);
    large["headers"] = json!({ "x-note": "y".repeat(4_000) });
    let items = json!({ "notifications": [large, ordered("50002", 2)] });
    let (status, batch) = server
        .call(Method::POST, "/v1/notifications/batch", Some(items))
        .await;
    assert_eq!(status, 200, "{batch}");
    for at in 0..2 {
        let result = &batch["results"][at];
        assert_eq!(result["status"], 503, "{batch}");
    }
    let kind = &batch["results"][0]["problem"]["type"];
    assert_eq!(kind, "urn:ringback:problem:full", "{batch}");
    // There is room for the second one.
    server.register(ordered("50002", 2)).await;
    server.stop().await;
}

/// A destination that is held keeps what is registered for it, however long that takes.
#[tokio::test]
async fn a_destination_that_keeps_much_leaves_memory_to_the_others() {
    let mut merchant = Merchant::start().await;
    let server = full_server().await;
    let held = "/v1/lanes/http%3A%2F%2F127.0.0.1%3A9/hold";
    let (status, answer) = server
        .call(Method::POST, held, Some(json!({ "reason": "a test" })))
        .await;
    assert_eq!(status, 200, "{answer}");
    let mut taken = 0;
    let problem = loop {
        let mut asked = registration(&format!("held-{taken}"), &merchant);
        asked["url"] = json!("http://127.0.0.1:9/");
        match post(&server, &asked).await {
            (201, _) => taken += 1,
            (503, problem) => break problem,
            (status, problem) => panic!("{status}: {problem}"),
        }
    };
    assert!(taken > 10, "{taken}");
    assert_eq!(problem["type"], "urn:ringback:problem:full");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(
        detail.contains("for this destination") && detail.contains("schedule-memory"),
        "{detail}"
    );
    let (status, report) = server.call(Method::GET, "/readyz", None).await;
    assert_eq!(status, 200, "{report}");
    server.register(registration("other", &merchant)).await;
    assert_eq!(merchant.call().await.body, b"id=other");
    server.until_state("other", "delivered").await;
    server.stop().await;
}

#[tokio::test]
async fn there_is_room_again_once_something_has_ended() {
    let merchant = Merchant::start().await;
    let server = full_server().await;
    let (taken, refused) = fill_up(&server, &merchant).await;
    // Who sends registrations here is told that others take them.
    until_ready(&server, 503).await;
    let path = format!("/v1/notifications/t/{}", taken[0]);
    let (status, view) = server.call(Method::DELETE, &path, None).await;
    assert_eq!(status, 200, "{view}");
    server.register(later(&refused, &merchant)).await;
    let next = later("99999", &merchant);
    assert_eq!(post(&server, &next).await.0, 503, "it is full again");

    // By a delivery likewise.
    let path = format!("/v1/notifications/t/{}/retry", taken[1]);
    let (status, view) = server.call(Method::POST, &path, None).await;
    assert!(status < 300, "{status} {view}");
    server.until_state(&taken[1], "delivered").await;
    let registering = async {
        // The delivery is in the journal a moment before it leaves the schedule.
        loop {
            match post(&server, &next).await.0 {
                503 => short_pause().await,
                status => return assert_eq!(status, 201),
            }
        }
    };
    within("room", registering).await;
    let path = format!("/v1/notifications/t/{}", taken[2]);
    let (status, view) = server.call(Method::DELETE, &path, None).await;
    assert_eq!(status, 200, "{view}");
    until_ready(&server, 200).await;
    server.stop().await;
}

#[tokio::test]
async fn what_the_journal_holds_is_loaded_whatever_the_limit() {
    let merchant = Merchant::start().await;
    let server = full_server().await;
    let (taken, _) = fill_up(&server, &merchant).await;
    let server = server
        .restart_as(|config| config.schedule.memory_bytes = 10_000)
        .await;
    let pending = metric(&server, "ringback_schedule_entries{state=\"pending\"}").await;
    assert_eq!(pending, taken.len() as u64);
    let one_more = later("99999", &merchant);
    assert_eq!(post(&server, &one_more).await.0, 503);
    server.stop().await;
}
