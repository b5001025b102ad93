//! What monitoring reads.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Server, Stores, registration, with_ladder};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::config::ApiKey;
use std::collections::BTreeMap;

/// Every sample by its name and labels.
async fn read(server: &Server) -> BTreeMap<String, f64> {
    let url = format!("{}/metrics", server.url());
    let client = reqwest::Client::builder().no_proxy().build();
    let answer = client.expect("a client").get(url).send();
    let answer = within("the metrics", answer).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let content_type = answer.headers()["content-type"].to_str().expect("ASCII");
    assert!(content_type.starts_with("application/openmetrics-text; version=1.0.0"));
    let text = answer.text().await.expect("a text");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_string(), value.parse().expect("a number"))
        })
        .collect()
}

/// Reads until all of these samples are there: one reading serves everybody for a second.
async fn until(server: &Server, expected: &[(&str, f64)]) -> BTreeMap<String, f64> {
    let reading = async {
        loop {
            let samples = read(server).await;
            if expected
                .iter()
                .all(|(name, value)| samples.get(*name) == Some(value))
            {
                return samples;
            }
            short_pause().await;
        }
    };
    within(&format!("{expected:?}"), reading).await
}

/// The status of a request, with this key.
async fn status(url: String, key: Option<&str>) -> u16 {
    let client = reqwest::Client::builder().no_proxy().build();
    let mut request = client.expect("a client").get(url);
    if let Some(key) = key {
        request = request.bearer_auth(key);
    }
    let answer = within("an answer", request.send()).await;
    answer.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn metrics_may_have_a_key_of_their_own() {
    let server = Server::start_as(Stores::Embedded, |config| {
        config.api.key = Some(ApiKey::parse("of-the-api").expect("a key"));
        config.api.metrics_key = Some(ApiKey::parse("of-the-metrics").expect("a key"));
    })
    .await;
    let metrics = format!("{}/metrics", server.url());
    for (key, expected) in [
        (None, 401),
        (Some("of-the-api"), 401),
        (Some("of-the-metric"), 401),
        (Some("of-the-metrics"), 200),
    ] {
        assert_eq!(status(metrics.clone(), key).await, expected, "{key:?}");
    }
    // It opens nothing else, and probes need none.
    let list = format!("{}/v1/notifications", server.url());
    assert_eq!(status(list, Some("of-the-metrics")).await, 401);
    assert_eq!(status(format!("{}/readyz", server.url()), None).await, 200);
    server.stop().await;
}

#[tokio::test]
async fn metrics_may_have_a_listener_of_their_own() {
    for key in [None, Some("of-the-metrics")] {
        let server = Server::start_as(Stores::Embedded, |config| {
            config.api.metrics_listen = Some("127.0.0.1:0".parse().expect("an address"));
            config.api.metrics_key = key.map(|key| ApiKey::parse(key).expect("a key"));
        })
        .await;
        let own = server.metrics_address().expect("a listener");
        let own = |path: &str| format!("http://{own}{path}");
        assert_eq!(status(format!("{}/metrics", server.url()), None).await, 404);
        assert_eq!(status(format!("{}/metrics", server.url()), key).await, 404);
        assert_eq!(status(own("/metrics"), key).await, 200);
        let without = if key.is_some() { 401 } else { 200 };
        assert_eq!(status(own("/metrics"), None).await, without);
        for path in ["/v1/notifications", "/healthz", "/readyz", "/ui/"] {
            assert_eq!(status(own(path), key).await, 404, "{path}");
        }
        server.stop().await;
        let client = reqwest::Client::builder().no_proxy().build();
        let after = client.expect("a client").get(own("/metrics")).send().await;
        assert!(after.is_err_and(|error| error.is_connect()));
    }
}

async fn the_sum_of_all_states_is_what_was_registered(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    let server = Server::start(stores).await;
    let api = &*server;
    api.register(with_ladder("dead", &merchant, &[])).await;
    merchant.call().await;
    api.until_state("dead", "dead").await;
    api.register(registration("delivered", &merchant)).await;
    merchant.call().await;
    api.until_state("delivered", "delivered").await;
    for id in ["cancelled", "pending"] {
        let mut asked = registration(id, &merchant);
        asked["delay"] = "30m".into();
        api.register(asked).await;
    }
    let path = "/v1/notifications/t/cancelled";
    assert_eq!(api.call(Method::DELETE, path, None).await.0, 200);

    let samples = until(
        &server,
        &[
            ("ringback_registered", 4.0),
            ("ringback_notifications{state=\"pending\"}", 1.0),
            ("ringback_notifications{state=\"delivered\"}", 1.0),
            ("ringback_notifications{state=\"dead\"}", 1.0),
            ("ringback_notifications{state=\"cancelled\"}", 1.0),
            ("ringback_schedule_entries{state=\"pending\"}", 1.0),
            ("ringback_schedule_entries{state=\"in_flight\"}", 0.0),
            ("ringback_attempts_total{outcome=\"wrong_answer\"}", 1.0),
            ("ringback_attempts_total{outcome=\"acknowledged\"}", 1.0),
            ("ringback_attempts_total{outcome=\"timeout\"}", 0.0),
            ("ringback_attempt_duration_seconds_count", 2.0),
            ("ringback_attempt_lateness_seconds_count", 2.0),
            ("ringback_leases_in_flight{class=\"idle\"}", 0.0),
            ("ringback_leases_in_flight{class=\"doubtful\"}", 0.0),
            ("ringback_attempts_deferred_total{by=\"held\"}", 0.0),
            ("ringback_lanes{state=\"open\"}", 1.0),
            ("ringback_lanes{state=\"probing\"}", 0.0),
            ("ringback_oldest_due_seconds", 0.0),
            (
                "ringback_api_requests_total{method=\"POST\",route=\"/v1/notifications\",status=\"201\"}",
                4.0,
            ),
            (
                "ringback_api_requests_total{method=\"DELETE\",route=\"/v1/notifications/{topic}/{id}\",status=\"200\"}",
                1.0,
            ),
            ("ringback_store_up{store=\"journal\"}", 1.0),
            ("ringback_store_up{store=\"schedule\"}", 1.0),
            ("ringback_store_failed_calls_total{store=\"journal\"}", 0.0),
        ],
    )
    .await;
    let limit = samples["ringback_concurrency_limit"];
    assert!(limit > 0.0, "{samples:?}");
    for name in [
        "ringback_store_call_duration_seconds_count{store=\"journal\",work=\"settling\"}",
        "ringback_store_call_duration_seconds_count{store=\"schedule\",work=\"claiming\"}",
        "ringback_api_request_duration_seconds_count{method=\"POST\",route=\"/v1/notifications\"}",
    ] {
        assert!(samples[name] >= 1.0, "{name}");
    }
    #[cfg(target_os = "linux")]
    for name in [
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_cpu_seconds_total",
    ] {
        assert!(samples[name] > 0.0, "{name}");
    }
    let outside = |name: &String| name.contains("127.0.0.1") || name.contains("\"t\"");
    assert!(!samples.keys().any(outside), "{samples:?}");
    server.stop().await;
}

crate::end_to_end::on_journaled_stores!(the_sum_of_all_states_is_what_was_registered);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_counted_by_route_whatever_their_paths_say() {
    let server = Server::start(Stores::Embedded).await;
    let api = &*server;
    assert_eq!(
        api.call(Method::GET, "/v1/notifications/t/1", None).await.0,
        404
    );
    assert_eq!(
        api.call(Method::GET, "/v1/notifications/t/2", None).await.0,
        404
    );
    assert_eq!(
        api.call(Method::PUT, "/v1/notifications/t/2", None).await.0,
        405
    );
    assert_eq!(api.call(Method::GET, "/v1/nothing", None).await.0, 404);
    let shown = "ringback_api_requests_total{method=\"GET\",route=\"/v1/notifications/{topic}/{id}\",status=\"404\"}";
    let samples = until(&server, &[(shown, 2.0)]).await;
    let counted = samples
        .iter()
        .filter(|(name, _)| name.starts_with("ringback_api_requests_total"));
    let other = "ringback_api_requests_total{method=\"other\",route=\"other\",status=\"405\"}";
    let names: Vec<&str> = counted.map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [shown, other]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_in_one_process_count_for_themselves() {
    let mut merchant = Merchant::start().await;
    let (busy, idle) = (
        Server::start(Stores::RedisOnly).await,
        Server::start(Stores::Embedded).await,
    );
    busy.register(registration("a", &merchant)).await;
    merchant.call().await;
    let acknowledged = "ringback_attempts_total{outcome=\"acknowledged\"}";
    let samples = until(&busy, &[(acknowledged, 1.0)]).await;
    // Without a journal, there is none to count.
    assert_eq!(samples.get("ringback_registered"), None);
    assert_eq!(samples.get("ringback_store_up{store=\"journal\"}"), None);
    assert_eq!(read(&idle).await[acknowledged], 0.0);
    busy.stop().await;
    idle.stop().await;
}
