//! What monitoring reads.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Server, Stores, registration, with_ladder};
use crate::support::within;
use reqwest::Method;
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
            tokio::task::yield_now().await;
        }
    };
    within(&format!("{expected:?}"), reading).await
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
            ("ringback_leases_in_flight", 0.0),
            ("ringback_store_up{store=\"journal\"}", 1.0),
            ("ringback_store_up{store=\"schedule\"}", 1.0),
            ("ringback_store_failed_calls_total{store=\"journal\"}", 0.0),
        ],
    )
    .await;
    let outside = |name: &String| name.contains("127.0.0.1") || name.contains("\"t\"");
    assert!(!samples.keys().any(outside), "{samples:?}");
    server.stop().await;
}

crate::end_to_end::on_journaled_stores!(the_sum_of_all_states_is_what_was_registered);

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
