//! Destinations in trouble: they delay nobody else, and lose nothing themselves.

use super::on_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Server, Stores, registration};
use crate::support::signing::beside;
use crate::support::{short_pause, within};
use ringback::clock::{Clock as _, ManualClock};
use serde_json::{Value, json};
use std::time::Duration;

on_stores!(
    destinations_that_hang_delay_nobody_who_answers,
    destinations_that_have_much_to_get_keep_no_new_one_waiting,
    a_merchant_that_comes_back_after_an_hour_gets_everything_within_minutes,
    an_attempt_that_is_asked_for_is_made_at_once,
    an_attempt_that_is_asked_for_does_not_wait_because_an_earlier_one_fails,
);
on_stores!(@ two_servers_on_postgres Postgres
    destinations_that_hang_delay_nobody_who_answers_on_two_servers
    two_servers_probe_a_merchant_no_more_often_than_one
);
on_stores!(@ two_servers_on_redis_only RedisOnly
    destinations_that_hang_delay_nobody_who_answers_on_two_servers
    two_servers_probe_a_merchant_no_more_often_than_one
);

/// A limit that no call runs into while a test lasts.
const GENEROUS: Duration = Duration::from_secs(60);

/// So many servers on the same stores as the first one, which is one of them; by the same clock, if a test turns it.
async fn servers_beside(first: Server, clock: Option<ManualClock>, count: usize) -> Vec<Server> {
    let mut servers = vec![first];
    while servers.len() < count {
        let (config, dir) = beside(servers[0].config());
        servers.push(Server::open(config, clock.clone(), Some(dir)).await);
    }
    servers
}

async fn destinations_that_hang_delay_nobody_who_answers(stores: Stores) {
    hanging_destinations_delay_nobody(stores, 1).await;
}

async fn destinations_that_hang_delay_nobody_who_answers_on_two_servers(stores: Stores) {
    hanging_destinations_delay_nobody(stores, 2).await;
}

async fn hanging_destinations_delay_nobody(stores: Stores, servers: usize) {
    const PERMITS: usize = 8;
    let first = Server::start_as(stores, |config| {
        config.delivery.concurrency = PERMITS;
        config.delivery.timeout = GENEROUS;
    })
    .await;
    let servers = servers_beside(first, None, servers).await;
    let server = |number: usize| &servers[number % servers.len()];
    let mut healthy = Merchant::start().await;
    server(0).register(registration("first", &healthy)).await;
    healthy.call().await;
    let mut hanging = Vec::new();
    for merchant in 0..3 * PERMITS {
        let hangs = Merchant::scripted(vec![], Reaction::Hang).await;
        for number in 0..5 {
            let id = format!("hangs-{merchant}-{number}");
            server(number).register(registration(&id, &hangs)).await;
        }
        hanging.push(hangs);
    }
    // As many as unknown destinations may hold.
    let may_hold = servers.len() * PERMITS / 2;
    let mut held = 0;
    for number in 0..50 {
        if number == 40 {
            // A server need not have claimed anything while another one was faster.
            within("all servers to call what hangs", async {
                while held < may_hold {
                    held += hanging.iter_mut().map(calls).sum::<usize>();
                    short_pause().await;
                }
            })
            .await;
        }
        let id = format!("well-{number}");
        server(number).register(registration(&id, &healthy)).await;
        healthy.call().await;
        server(number + 1).until_state(&id, "delivered").await;
    }
    held += hanging.iter_mut().map(calls).sum::<usize>();
    assert_eq!(held, may_hold);
}

async fn destinations_that_have_much_to_get_keep_no_new_one_waiting(stores: Stores) {
    const PERMITS: usize = 16;
    let server = Server::start_as(stores, |config| {
        config.delivery.concurrency = PERMITS;
        config.delivery.timeout = GENEROUS;
    })
    .await;
    let mut busy = Merchant::start().await;
    for number in 0..PERMITS {
        let id = format!("first-{number}");
        server.register(registration(&id, &busy)).await;
        busy.call().await;
        server.until_state(&id, "delivered").await;
    }
    busy.now_does(Reaction::Held(Box::new(Reaction::success())));
    for number in 0..3 * PERMITS {
        let id = format!("held-{number}");
        server.register(registration(&id, &busy)).await;
    }
    for _ in 0..PERMITS - PERMITS / 4 {
        busy.call().await;
    }
    // It has all permits that it may have, and more to get.
    for number in 0..3 {
        let mut new = Merchant::start().await;
        let id = format!("new-{number}");
        server.register(registration(&id, &new)).await;
        new.call().await;
        server.until_state(&id, "delivered").await;
    }
}

/// The number of calls that have arrived since the last look.
fn calls(merchant: &mut Merchant) -> usize {
    std::iter::from_fn(|| merchant.arrived()).count()
}

/// A notification that is attempted every minute for three hours.
fn every_minute(id: &str, merchant: &Merchant) -> Value {
    let mut registration = registration(id, merchant);
    registration["ladder"] = json!({ "intervals": ["1m"], "window": "3h", "repeat_last": true });
    registration
}

async fn a_merchant_that_comes_back_after_an_hour_gets_everything_within_minutes(stores: Stores) {
    away_for_an_hour(stores, 1).await;
}

async fn two_servers_probe_a_merchant_no_more_often_than_one(stores: Stores) {
    away_for_an_hour(stores, 2).await;
}

/// A merchant that so many servers call together is away for an hour.
async fn away_for_an_hour(stores: Stores, servers: usize) {
    const MANY: usize = 200;
    let first = Server::start_by_hand(stores).await;
    let clock = first.clock().clone();
    let servers = servers_beside(first, Some(clock.clone()), servers).await;
    let server = |number: usize| &servers[number % servers.len()];
    let mut merchant = Merchant::scripted(vec![], Reaction::Close).await;
    for number in 0..MANY {
        let id = format!("n{number}");
        let asked = every_minute(&id, &merchant);
        server(number).register(asked).await;
    }
    let mut made = 0;
    for _ in 0..3_600 / 4 {
        clock.advance(4_000);
        // Time for a probe that is due by now; the next one counts from when it is recorded.
        server(0).get("n0").await;
        until_nothing_is_in_flight(server(0), &merchant).await;
        made += calls(&mut merchant);
    }
    assert!(
        (60..=140).contains(&made),
        "one at a time, ever less often: {made}"
    );

    merchant.now_does(Reaction::success());
    let back_ms = clock.now_ms();
    let mut untouched = 0;
    for number in 0..MANY {
        let id = format!("n{number}");
        let view = server(number)
            .until(&id, |view| {
                clock.advance(20);
                view["state"] == "delivered"
            })
            .await;
        untouched += usize::from(view["attempts_made"] == 1);
    }
    let took_ms = clock.now_ms() - back_ms;
    assert!(took_ms <= 180_000, "{took_ms} ms");
    assert!(
        untouched >= MANY - made,
        "{untouched} of {MANY} spent no attempt, {made} did"
    );
    for server in servers {
        server.stop().await;
    }
}

async fn an_attempt_that_is_asked_for_is_made_at_once(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::Close).await;
    for number in 0..5 {
        let id = format!("n{number}");
        server.register(every_minute(&id, &merchant)).await;
    }
    for _ in 0..3 {
        merchant.call().await;
    }
    until_probing(&server, &merchant).await;
    // The clock stands still, so no probe is due.
    merchant.now_does(Reaction::success());
    let waiting = async |server: &Server| {
        for number in 0..5 {
            let view = server.get(&format!("n{number}")).await;
            if view["attempts_made"] == 0 && view["state"] == "scheduled" {
                return format!("n{number}");
            }
        }
        panic!("some wait behind the probe")
    };
    let id = waiting(&server).await;
    let path = format!("/v1/notifications/t/{id}/retry");
    let (status, view) = server.call(reqwest::Method::POST, &path, None).await;
    assert_eq!(status, 200, "{view}");
    server.until_state(&id, "delivered").await;
    server.stop().await;
}

/// Waits until the failures of the calls that have arrived are noted.
async fn until_probing(server: &Server, merchant: &Merchant) {
    until_lane(server, merchant, |lane| lane["state"] == "probing").await;
}

async fn until_nothing_is_in_flight(server: &Server, merchant: &Merchant) {
    until_lane(server, merchant, |lane| lane["in_flight"] == 0).await;
}

async fn until_lane(server: &Server, merchant: &Merchant, is_so: impl Fn(&Value) -> bool) {
    let origin = merchant.url("");
    let lane: String = url::form_urlencoded::byte_serialize(origin.as_bytes()).collect();
    let path = format!("/v1/lanes/{lane}");
    within("the lane to be as wished", async {
        loop {
            let (status, lane) = server.call(reqwest::Method::GET, &path, None).await;
            assert_eq!(status, 200, "{lane}");
            if is_so(&lane) {
                return;
            }
            short_pause().await;
        }
    })
    .await;
}

async fn an_attempt_that_is_asked_for_does_not_wait_because_an_earlier_one_fails(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let held = Reaction::Held(Box::new(Reaction::Close));
    let reactions = vec![Reaction::Close, Reaction::Close, held];
    let mut merchant = Merchant::scripted(reactions, Reaction::success()).await;
    for id in ["n0", "n1"] {
        server.register(every_minute(id, &merchant)).await;
        merchant.call().await;
        server.until(id, |view| view["attempts_made"] == 1).await;
    }
    server.register(every_minute("n2", &merchant)).await;
    merchant.call().await;
    server.register(every_minute("n3", &merchant)).await;
    server.clock().advance(1);
    // After two failures the lane has one call in flight at most, and is not probing yet.
    let path = "/v1/notifications/t/n3/retry";
    let (status, view) = server.call(reqwest::Method::POST, path, None).await;
    assert_eq!(status, 200, "{view}");
    merchant.release();
    // The third failure makes the lane probing. The clock stands still, so no probe is due by itself.
    server.until_state("n3", "delivered").await;
    server.stop().await;
}
