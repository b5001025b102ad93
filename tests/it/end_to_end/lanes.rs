//! Lanes that people see and hold: nothing is called until they release it, and nothing is lost.

use super::{on_several_redis, on_stores};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::redis::connect;
use crate::support::ringback::{Api, Server, Stores, registration};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::config::{JournalConfig, ServeConfig};
use ringback::domain::lane::Lane;
use ringback::domain::lane_settings::{LaneHold, LaneSetting};
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::{Actor, JournalWrites as _, LaneOrder};
use serde_json::{Value, json};

on_stores!(
    what_is_held_waits_and_goes_out_oldest_first,
    who_holds_a_lane_again_or_releases_it_twice_is_told,
    a_hold_survives_a_restart,
    an_attempt_that_is_asked_for_waits_for_the_release,
    lanes_are_listed_by_state_and_page_by_page,
    wrong_requests_about_lanes_are_named,
);
on_several_redis!(
    what_is_held_waits_and_goes_out_oldest_first,
    lanes_are_listed_by_state_and_page_by_page,
    a_hold_on_one_server_holds_on_the_other,
);
on_stores!(@ postgres_shared Postgres a_hold_on_one_server_holds_on_the_other);
on_stores!(@ redis_shared RedisOnly a_hold_on_one_server_holds_on_the_other);
on_stores!(@ postgres_flushed Postgres a_hold_survives_a_flushed_redis);
on_stores!(@ redis_flushed Redis a_hold_survives_a_flushed_redis);
on_stores!(@ postgres_crashed Postgres a_hold_that_only_reached_the_journal_is_obeyed);

/// The lane of a merchant.
fn lane(merchant: &Merchant) -> String {
    let lane = Lane::parse(&merchant.url("/")).expect("a lane");
    lane.as_str().to_string()
}

/// The path of a merchant's lane, with what is asked of it.
fn path(merchant: &Merchant, verb: &str) -> String {
    let encoded: String = url::form_urlencoded::byte_serialize(lane(merchant).as_bytes()).collect();
    format!("/v1/lanes/{encoded}{verb}")
}

async fn change(server: &Api, merchant: &Merchant, verb: &str, reason: &str) -> Value {
    let body = json!({ "reason": reason });
    let path = path(merchant, &format!("/{verb}"));
    let (status, view) = server.call(Method::POST, &path, Some(body)).await;
    let expected = if verb == "release" { 202 } else { 200 };
    assert_eq!(status, expected, "{view}");
    view
}

async fn show(server: &Api, merchant: &Merchant) -> Value {
    let (status, view) = server.call(Method::GET, &path(merchant, ""), None).await;
    assert_eq!(status, 200, "{view}");
    view
}

/// Everything that a list of lanes shows, in pages of so many.
async fn list(server: &Api, query: &str, limit: usize) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let escaped: String = url::form_urlencoded::byte_serialize(cursor.as_bytes()).collect();
        let path = format!("/v1/lanes?{query}&limit={limit}&cursor={escaped}");
        let (status, page) = server.call(Method::GET, &path, None).await;
        assert_eq!(status, 200, "{page}");
        let items = page["items"].as_array().expect("a list");
        assert!(items.len() <= limit, "{page}");
        all.extend(items.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_string(),
            None => return all,
        }
    }
}

/// A registration that is due after so long.
fn later(id: &str, merchant: &Merchant, delay: &str) -> Value {
    let mut registration = registration(id, merchant);
    registration["delay"] = delay.into();
    registration
}

/// Has another destination called, so that what is due was claimed if it may be.
async fn let_claims_pass(server: &Api, round: &str) {
    let mut healthy = Merchant::start().await;
    for number in 0..2 {
        let id = format!("passes-{round}-{number}");
        server.register(registration(&id, &healthy)).await;
        healthy.call().await;
        server.until_state(&id, "delivered").await;
    }
}

async fn what_is_held_waits_and_goes_out_oldest_first(stores: Stores) {
    // One call at a time, so that the merchant sees the order.
    let server = Server::start_by_hand(stores).await;
    let one = |config: &mut ServeConfig| config.schedule.lane_concurrency = 1;
    let server = server.restart_as(one).await;
    let mut merchant = Merchant::start().await;
    server.register(later("second", &merchant, "20s")).await;
    let held = change(&server, &merchant, "hold", "they move").await;
    assert_eq!(held["lane"], lane(&merchant));
    assert_eq!(held["state"], "held");
    assert_eq!(held["held_by"], "api");
    assert_eq!(held["held_reason"], "they move");
    assert_eq!(held["held_at"], "2026-11-20T08:30:00.000Z");
    for (id, delay) in [("third", "30s"), ("first", "10s")] {
        server.register(later(id, &merchant, delay)).await;
    }
    let told = "the lane is held by api since 2026-11-20T08:30:00.000Z (they move), so calls begin when it is released";
    let view = server.get("first").await;
    assert_eq!(
        (&view["warning"], &view["waiting_for"]),
        (&json!(told), &Value::Null),
        "it is not due yet: {view}"
    );
    server.clock().advance(60_000);
    let_claims_pass(&server, "held").await;
    assert!(merchant.arrived().is_none(), "it is held");
    let view = server.get("first").await;
    assert_eq!(
        (view.get("warning"), &view["waiting_for"]),
        (None, &json!("held")),
        "{view}"
    );
    let view = show(&server, &merchant).await;
    assert_eq!((&view["pending"], &view["due"]), (&json!(3), &json!(3)));
    assert_eq!(view["oldest_due_at"], "2026-11-20T08:30:10.000Z");
    assert_eq!(view["in_flight"], 0);

    let released = change(&server, &merchant, "release", "they have moved").await;
    assert_eq!(
        (&released["state"], &released["done"]),
        (&json!("done"), &json!(3))
    );
    let view = show(&server, &merchant).await;
    assert_eq!(
        (&view["state"], &view["held_by"]),
        (&json!("open"), &Value::Null)
    );
    for id in ["first", "second", "third"] {
        let call = merchant.call().await;
        assert_eq!(call.body, format!("id={id}").as_bytes(), "oldest first");
        assert_eq!(call.attempt(), 1, "no attempt was spent");
        let view = server.until_state(id, "delivered").await;
        assert_eq!(view["attempts_made"], 1);
    }
    server.stop().await;
}

async fn who_holds_a_lane_again_or_releases_it_twice_is_told(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let merchant = Merchant::start().await;
    let begin = "2026-11-20T08:30:00.000Z";
    let held = change(&server, &merchant, "hold", "they move").await;
    assert_eq!(held.get("held_before"), Some(&Value::Null), "{held}");
    for (reason, before, expected) in [
        ("", "they move", "they move"),
        ("they move", "they move", "they move"),
        ("until noon", "they move", "until noon"),
        ("", "until noon", "until noon"),
    ] {
        server.clock().advance(60_000);
        let again = change(&server, &merchant, "hold", reason).await;
        let expected_before = json!({ "at": begin, "by": "api", "reason": before });
        assert_eq!(again["held_before"], expected_before, "{again}");
        assert_eq!(again["held_at"], begin, "{again}");
        assert_eq!(again["held_reason"], expected, "{again}");
        let shown = show(&server, &merchant).await;
        assert_eq!(shown["held_at"], begin, "{shown}");
        assert_eq!(shown["held_reason"], expected, "{shown}");
        assert_eq!(shown.get("held_before"), None, "{shown}");
    }
    server.register(registration("1", &merchant)).await;
    for (was_held, matched) in [(None, 1), (Some(&json!(false)), 0)] {
        let released = change(&server, &merchant, "release", "").await;
        assert_eq!(released.get("was_held"), was_held, "{released}");
        assert_eq!(released["matched"], matched, "{released}");
        assert_eq!(released["state"], "done", "{released}");
    }
    let held = change(&server, &merchant, "hold", "again").await;
    assert_eq!(held["held_before"], Value::Null, "{held}");
    server.stop().await;
}

async fn a_hold_survives_a_restart(stores: Stores) {
    let server = Server::start(stores).await;
    let mut merchant = Merchant::start().await;
    change(&server, &merchant, "hold", "").await;
    server.register(registration("1", &merchant)).await;
    let server = server.restart().await;
    let_claims_pass(&server, "again").await;
    assert!(merchant.arrived().is_none(), "it is still held");
    assert_eq!(show(&server, &merchant).await["state"], "held");
    change(&server, &merchant, "release", "").await;
    merchant.call().await;
    server.until_state("1", "delivered").await;
    let server = server.restart().await;
    assert_eq!(show(&server, &merchant).await["state"], "open");
    server.register(registration("2", &merchant)).await;
    merchant.call().await;
    server.stop().await;
}

async fn an_attempt_that_is_asked_for_waits_for_the_release(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let mut once = registration("dead", &merchant);
    once["ladder"] = json!({ "intervals": [] });
    server.register(once).await;
    merchant.call().await;
    server.until_state("dead", "dead").await;
    server.register(later("waits", &merchant, "1h")).await;
    change(&server, &merchant, "hold", "").await;
    merchant.now_does(Reaction::success());
    for path in ["notifications/t/waits/retry", "dead-letters/t/dead/replay"] {
        let path = format!("/v1/{path}");
        let (status, view) = server.call(Method::POST, &path, None).await;
        assert_eq!(status, 200, "{view}");
        assert_eq!(view["waiting_for"], "held", "{view}");
        let because = view["waiting_because"].as_str().expect("a sentence");
        assert!(because.starts_with("its lane is held by api"), "{because}");
    }
    let_claims_pass(&server, "held").await;
    assert!(merchant.arrived().is_none(), "nobody breaks the hold");
    change(&server, &merchant, "release", "").await;
    for id in ["waits", "dead"] {
        server.until_state(id, "delivered").await;
    }
    server.stop().await;
}

async fn lanes_are_listed_by_state_and_page_by_page(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchants = Vec::new();
    for number in 0..7 {
        let merchant = Merchant::start().await;
        if number != 6 {
            let id = format!("n{number}");
            server.register(later(&id, &merchant, "1h")).await;
        }
        merchants.push(merchant);
    }
    let failing = Merchant::scripted(vec![], Reaction::Close).await;
    for number in 0..4 {
        let id = format!("fails-{number}");
        server.register(registration(&id, &failing)).await;
    }
    for number in [2, 6] {
        change(&server, &merchants[number], "hold", "x").await;
    }
    let names = |lanes: &[Value]| {
        let name = |lane: &Value| lane["lane"].as_str().expect("a name").to_string();
        let mut names: Vec<String> = lanes.iter().map(name).collect();
        names.sort_unstable();
        names
    };
    let sorted = |mut names: Vec<String>| {
        names.sort_unstable();
        names
    };
    within("the lane to be probed", async {
        while show(&server, &failing).await["state"] != "probing" {
            short_pause().await;
        }
    })
    .await;
    let probing = list(&server, "state=probing", 3).await;
    assert_eq!(names(&probing), [lane(&failing)]);
    assert_eq!(probing[0]["concurrency_now"], 1);
    assert!(probing[0]["failing_since"].is_string(), "{probing:?}");
    let held = [2, 6].map(|number| lane(&merchants[number]));
    let expected = sorted(held.to_vec());
    assert_eq!(names(&list(&server, "state=held", 1).await), expected);
    let all = merchants.iter().map(lane).chain([lane(&failing)]);
    let all = sorted(all.collect());
    for limit in [1, 3, 100] {
        assert_eq!(names(&list(&server, "state=", limit).await), all, "{limit}");
    }
    server.stop().await;
}

async fn wrong_requests_about_lanes_are_named(stores: Stores) {
    let server = Server::start(stores).await;
    let check = async |method: Method, path: &str, body: Option<Value>, status: u16, why: &str| {
        let (found, view) = server.call(method, path, body).await;
        assert_eq!(found, status, "{path}: {view}");
        let detail = view["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(why), "{path}: {view}");
    };
    let shop = "/v1/lanes/https%3A%2F%2Fshop.example";
    let (get, post) = (Method::GET, Method::POST);
    check(
        get.clone(),
        "/v1/lanes/shop",
        None,
        404,
        "a lane is `endpoint:`",
    )
    .await;
    check(
        get.clone(),
        "/v1/lanes?state=shut",
        None,
        400,
        "open, probing or held",
    )
    .await;
    check(
        get.clone(),
        "/v1/lanes?lane=x",
        None,
        400,
        "unknown parameter",
    )
    .await;
    check(
        get.clone(),
        &format!("{shop}?x=1"),
        None,
        400,
        "takes no parameters",
    )
    .await;
    check(get, &format!("{shop}/hold"), None, 405, "").await;
    let unknown = Some(json!({ "why": "x" }));
    check(
        post.clone(),
        &format!("{shop}/hold"),
        unknown,
        422,
        "known are reason",
    )
    .await;
    let long = Some(json!({ "reason": "x".repeat(501) }));
    check(
        post.clone(),
        &format!("{shop}/release"),
        long,
        422,
        "at most 500",
    )
    .await;
    check(post, "/v1/lanes/%ff/hold", None, 400, "UTF-8").await;
    let (status, view) = server.call(Method::GET, shop, None).await;
    assert_eq!((status, &view["state"]), (200, &json!("open")), "{view}");
    assert_eq!(view["pending"], 0);
    assert!(
        list(&server, "state=", 10).await.is_empty(),
        "a look leaves nothing"
    );
    server.stop().await;
}

async fn a_hold_on_one_server_holds_on_the_other(stores: Stores) {
    let one = Server::start(stores).await;
    let other = Server::open(one.config().clone(), None, None).await;
    let mut merchant = Merchant::start().await;
    for round in 0..3 {
        change(&one, &merchant, "hold", "both").await;
        // Answered, so no server calls it from here on.
        for (number, server) in [&one, &other].into_iter().enumerate() {
            let id = format!("n{round}-{number}");
            server.register(registration(&id, &merchant)).await;
            let_claims_pass(server, &id).await;
            assert_eq!(show(server, &merchant).await["held_reason"], "both");
        }
        assert!(merchant.arrived().is_none(), "{round}");
        change(&other, &merchant, "release", "").await;
        for number in 0..2 {
            merchant.call().await;
            let id = format!("n{round}-{number}");
            one.until_state(&id, "delivered").await;
        }
    }
    one.stop().await;
    other.stop().await;
}

async fn a_hold_survives_a_flushed_redis(stores: Stores) {
    let server = Server::start(stores).await;
    let mut merchant = Merchant::start().await;
    change(&server, &merchant, "hold", "they move").await;
    server.register(registration("1", &merchant)).await;
    for round in 0..3 {
        let url = server.config().schedule.redis.clone().expect("on Redis");
        let mut connection = connect(url.expose()).await;
        let flush = ::redis::cmd("FLUSHDB").exec_async(&mut connection).await;
        flush.expect("flushed");
        let_claims_pass(&server, &format!("flushed-{round}")).await;
        assert!(merchant.arrived().is_none(), "{round}");
        let view = show(&server, &merchant).await;
        assert_eq!(view["held_reason"], "they move", "{view}");
    }
    change(&server, &merchant, "release", "").await;
    merchant.call().await;
    server.until_state("1", "delivered").await;
    server.stop().await;
}

async fn a_hold_that_only_reached_the_journal_is_obeyed(stores: Stores) {
    let server = Server::start(stores).await;
    let mut merchant = Merchant::start().await;
    let JournalConfig::Postgres(url) = &server.config().journal else {
        panic!("not PostgreSQL");
    };
    // As a server leaves it that dies between the two stores.
    let journal = PostgresJournal::open(url.expose(), "dies", false).await;
    let hold = LaneHold {
        by: "anna".into(),
        reason: "they move".into(),
        since_ms: 5,
    };
    let order = LaneOrder {
        lane: Lane::parse(&lane(&merchant)).expect("a lane"),
        setting: LaneSetting::Hold(Some(hold)),
        actor: Actor::named("anna"),
        reason: "they move".into(),
        at_ms: 5,
    };
    let journal = journal.expect("it opens");
    journal.change_lane(&order).await.expect("kept");
    within("the hold to be brought", async {
        while show(&server, &merchant).await["state"] != "held" {
            short_pause().await;
        }
    })
    .await;
    server.register(registration("1", &merchant)).await;
    let_claims_pass(&server, "held").await;
    assert!(merchant.arrived().is_none());
    change(&server, &merchant, "release", "").await;
    merchant.call().await;
    server.stop().await;
}
