//! The audit log over HTTP: who did what with which key, and who may read it.
//!
//! What a crash or a lost reply in between does needs no test here: the change and its entry are one transaction of the
//! journal (`journal_contract/audit_log.rs`).

use super::on_journaled_stores;
use crate::cli::program::run;
use crate::support::merchant::Merchant;
use crate::support::postgres::{connect, run as run_in_postgres};
use crate::support::ringback::{Api, Server, Stores, registration};
use crate::support::within;
use reqwest::Method;
use ringback::config::{JournalConfig, ServeConfig};
use ringback::domain::master_key::MasterKey;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};
use zeroize::Zeroizing;

const AUDIT_LOG: &str = "/v1/audit-log";

on_journaled_stores!(
    what_people_do_is_listed_with_who_and_why,
    only_operators_read_the_audit_log,
    the_audit_log_is_listed_in_pages_and_by_actor_and_time,
    what_cannot_be_kept_is_refused,
);

async fn make(api: &Api, name: &str, role: &str) -> Api {
    let asked = json!({ "name": name, "role": role });
    let (status, made) = api.call(Method::POST, "/v1/keys", Some(asked)).await;
    assert_eq!(status, 201, "{made}");
    api.with_key(made["key"].as_str().expect("a key"))
}

async fn get(api: &Api, path: &str) -> (u16, Value) {
    api.call(Method::GET, path, None).await
}

async fn listed(api: &Api, query: &str) -> Value {
    let (status, page) = get(api, &format!("{AUDIT_LOG}{query}")).await;
    assert_eq!(status, 200, "{page}");
    page
}

/// Each entry as `actor act name (reason)`, oldest first.
fn lines(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().expect("a list").iter().rev();
    let line = |item: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_string();
        let (actor, act) = (text(&item["actor"]), text(&item["act"]));
        let name = text(&item["subject"]["name"]);
        format!("{actor} {act} {name} ({})", text(&item["reason"]))
    };
    items.map(line).collect()
}

/// Registers one that is due in an hour.
async fn register_later(api: &Api, id: &str, merchant: &Merchant) {
    let mut asked = registration(id, merchant);
    asked["delay"] = json!("1h");
    api.register(asked).await;
}

async fn what_people_do_is_listed_with_who_and_why(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let master_key = MasterKey::from_random(Zeroizing::new([7; 32]));
    let server = Server::start_as(stores, |config| config.master_key = Some(master_key)).await;
    let admin = make(&server, "admin", "operator").await;
    let desk = make(&admin, "desk", "support").await;
    let shop = make(&admin, "shop", "producer").await;
    let origin = merchant.url("");
    let lane: String = url::form_urlencoded::byte_serialize(origin.as_bytes()).collect();
    let hold = format!("/v1/lanes/{lane}/hold");
    let release = format!("/v1/lanes/{lane}/release");
    let retry = format!("/v1/lanes/{lane}/retry");
    for id in ["1", "2", "3"] {
        register_later(&shop, id, &merchant).await;
    }
    let secret = json!([{ "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD" }]);
    let endpoint =
        json!({ "url": merchant.url("/e"), "headers": { "x-token": "hush" }, "keys": secret });
    let down = Some(json!({ "reason": "they are down" }));
    let back = Some(json!({ "reason": "they are back" }));
    let one = "/v1/notifications/t/1";
    let payload = format!("{one}/payload");
    let (shop_1, test) = ("/v1/endpoints/shop-1", "/v1/endpoints/shop-1/test");
    let moved = Some(json!({ "delay": "2h" }));
    for (api, person, method, path, body, expected) in [
        (
            &desk,
            Some("li.lei"),
            Method::POST,
            &*hold,
            down.clone(),
            200,
        ),
        (&desk, Some("li.lei"), Method::POST, &hold, down, 200),
        (&desk, None, Method::GET, &payload, None, 200),
        (&shop, None, Method::GET, &payload, None, 200),
        (&desk, None, Method::PATCH, one, moved, 200),
        (
            &shop,
            None,
            Method::DELETE,
            "/v1/notifications/t/2",
            None,
            200,
        ),
        (&desk, Some("han"), Method::DELETE, one, None, 200),
        (&desk, Some("han"), Method::DELETE, one, None, 200),
        (
            &desk,
            None,
            Method::DELETE,
            "/v1/dead-letters/t/1",
            None,
            403,
        ),
        (
            &desk,
            None,
            Method::GET,
            "/v1/notifications/t/none/payload",
            None,
            404,
        ),
        (&desk, None, Method::POST, &release, back.clone(), 202),
        (&desk, None, Method::POST, &retry, back, 202),
        (
            &admin,
            None,
            Method::PUT,
            shop_1,
            Some(endpoint.clone()),
            201,
        ),
        (&admin, None, Method::PUT, shop_1, Some(endpoint), 200),
        (
            &admin,
            None,
            Method::PATCH,
            shop_1,
            Some(json!({ "http": "1.1", "timeout": "5s" })),
            200,
        ),
        (&admin, None, Method::POST, test, None, 200),
        (&admin, None, Method::DELETE, "/v1/keys/shop", None, 204),
        (&admin, None, Method::DELETE, "/v1/keys/shop", None, 404),
        (&admin, None, Method::DELETE, shop_1, None, 204),
    ] {
        let (status, answer) = api.call_as(person, method.clone(), path, body).await;
        assert_eq!(status, expected, "{method} {path}: {answer}");
    }
    merchant.call().await;
    let page = listed(&admin, "").await;
    let expected = [
        "api api_key.add admin (-)".to_string(),
        "admin api_key.add desk (-)".to_string(),
        "admin api_key.add shop (-)".to_string(),
        format!("desk/li.lei lane.hold {origin} (they are down)"),
        "desk notification.read_payload t/1 (-)".to_string(),
        "desk notification.reschedule t/1 (-)".to_string(),
        "desk/han notification.cancel t/1 (-)".to_string(),
        format!("desk lane.release {origin} (they are back)"),
        format!("desk lane.retry {origin} (they are back)"),
        "admin endpoint.create shop-1 (-)".to_string(),
        "admin endpoint.change shop-1 (-)".to_string(),
        "admin endpoint.test shop-1 (-)".to_string(),
        "admin api_key.revoke shop (-)".to_string(),
        "admin endpoint.remove shop-1 (-)".to_string(),
    ];
    assert_eq!(lines(&page), expected);
    let changed = &page["items"][3];
    assert_eq!(changed["detail"], "changed: timeout, http", "{changed}");
    let cancelled = &page["items"][7];
    let subject = json!({ "kind": "notification", "name": "t/1", "topic": "t", "id": "1" });
    assert_eq!(cancelled["subject"], subject);
    let text = page.to_string();
    for hidden in ["whsec_", "C2FVsBQI", "hush", "rbk_", "id=1"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    server.stop().await;
}

async fn only_operators_read_the_audit_log(stores: Stores) {
    let server = Server::start(stores).await;
    let admin = make(&server, "admin", "operator").await;
    for (name, role) in [("desk", "support"), ("shop", "producer")] {
        let api = make(&admin, name, role).await;
        let (status, problem) = get(&api, AUDIT_LOG).await;
        let kind = &problem["type"];
        assert_eq!(
            (status, kind),
            (403, &json!("urn:ringback:problem:forbidden"))
        );
    }
    for (api, detail) in [
        (Api::at(server.url().to_string()), "send an API key"),
        (server.with_key("rbk_00"), "is no API key of this server"),
    ] {
        let (status, problem) = get(&api, AUDIT_LOG).await;
        assert_eq!(
            (status, &problem["title"]),
            (401, &json!("No valid API key"))
        );
        let found = problem["detail"].as_str().unwrap_or_default();
        assert!(found.contains(detail), "{problem}");
    }
    server.stop().await;
}

async fn the_audit_log_is_listed_in_pages_and_by_actor_and_time(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let admin = make(&server, "admin", "operator").await;
    let instant = async |name: &str| {
        server.clock().advance(1_000);
        make(&admin, name, "support").await;
        let page = listed(&admin, "?limit=1").await;
        page["items"][0]["at"].as_str().expect("a time").to_string()
    };
    let (first, second) = (instant("a").await, instant("b").await);
    let names = |page: &Value| {
        let items = page["items"].as_array().expect("a list").iter();
        let name = |item: &Value| item["subject"]["name"].as_str().unwrap_or("-").to_string();
        items.map(name).collect::<Vec<_>>()
    };
    let check = async |query: &str, expected: &[&str]| {
        assert_eq!(names(&listed(&admin, query).await), expected, "{query}");
    };
    check("", &["b", "a", "admin"]).await;
    check(&format!("?from={first}&to={second}"), &["a"]).await;
    check("?actor=api", &["admin"]).await;
    check("?actor=admin", &["b", "a"]).await;
    check("?actor=nobody", &[]).await;
    let page = listed(&admin, "?limit=2").await;
    assert_eq!(names(&page), ["b", "a"]);
    let cursor = page["next_cursor"].as_str().expect("a cursor");
    let page = listed(&admin, &format!("?limit=2&cursor={cursor}")).await;
    assert_eq!(
        (names(&page), &page["next_cursor"]),
        (vec!["admin".to_string()], &Value::Null)
    );
    for wrong in [
        "act=x",
        "limit=0",
        "from=yesterday",
        "cursor=x",
        "actor=a&actor=b",
    ] {
        let (status, problem) = get(&admin, &format!("{AUDIT_LOG}?{wrong}")).await;
        assert_eq!(status, 400, "{wrong}: {problem}");
    }
    server.stop().await;
}

/// Makes a change of the schema that no journal makes.
async fn alter(config: &ServeConfig, statement: &str) {
    match &config.journal {
        JournalConfig::Postgres(url) => {
            run_in_postgres(&mut connect(url.expose()).await, statement).await;
        }
        JournalConfig::Sqlite(path) => {
            let options = SqliteConnectOptions::new().filename(path);
            let mut connection = options.connect().await.expect("a connection");
            let altering = connection.execute(AssertSqlSafe(statement));
            altering.await.expect("altered");
        }
        JournalConfig::None => panic!("there is no journal"),
    }
}

async fn what_cannot_be_kept_is_refused(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    register_later(&server, "1", &merchant).await;
    let endpoint = json!({ "url": merchant.url("/e") });
    let shop_1 = "/v1/endpoints/shop-1";
    let (status, made) = server.call(Method::PUT, shop_1, Some(endpoint)).await;
    assert_eq!(status, 201, "{made}");
    let test = (Method::POST, "/v1/endpoints/shop-1/test");
    let payload = (Method::GET, "/v1/notifications/t/1/payload");
    alter(server.config(), "ALTER TABLE audit_log RENAME TO away").await;
    for (method, path) in [&test, &payload] {
        let (status, problem) = server.call(method.clone(), path, None).await;
        assert_eq!(status, 503, "{path}: {problem}");
        assert_eq!(problem.get("body"), None, "{problem}");
    }
    alter(server.config(), "ALTER TABLE away RENAME TO audit_log").await;
    for (method, path) in [&test, &payload] {
        // A prepared statement may be refused once more.
        let asking = async { while server.call(method.clone(), path, None).await.0 != 200 {} };
        within("the act to be done", asking).await;
    }
    // The first call is that of the second request.
    assert_eq!(
        merchant.call().await.header("Ringback-Topic"),
        "ringback.test"
    );
    assert!(merchant.arrived().is_none());
    let expected = [
        "api endpoint.create shop-1 (-)",
        "api endpoint.test shop-1 (-)",
        "api notification.read_payload t/1 (-)",
    ];
    assert_eq!(lines(&listed(&server, "").await), expected);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_journal_list_the_same_acts() {
    let one = Server::start(Stores::Postgres).await;
    let two = Server::open(one.config().clone(), None, None).await;
    let hold = |api: &Api, lane: &str| {
        let (api, path) = (api.clone(), format!("/v1/lanes/{lane}/hold"));
        async move { api.call(Method::POST, &path, None).await.0 }
    };
    assert_eq!(hold(&one, "endpoint:a").await, 200);
    assert_eq!(hold(&two, "endpoint:b").await, 200);
    let (first, second) = (listed(&one, "").await, listed(&two, "").await);
    assert_eq!(first, second);
    let expected = [
        "api lane.hold endpoint:a (-)",
        "api lane.hold endpoint:b (-)",
    ];
    assert_eq!(lines(&first), expected);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_journal_there_is_no_audit_log() {
    let merchant = Merchant::start().await;
    let server = Server::start(Stores::RedisOnly).await;
    let (status, problem) = get(&server, AUDIT_LOG).await;
    let kind = &problem["type"];
    assert_eq!(
        (status, kind),
        (501, &json!("urn:ringback:problem:no-journal"))
    );
    // What would be kept is done all the same.
    register_later(&server, "1", &merchant).await;
    assert_eq!(get(&server, "/v1/notifications/t/1/payload").await.0, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_lists_what_people_did() {
    let server = Server::start(Stores::Embedded).await;
    let admin = make(&server, "admin", "operator").await;
    let key = admin.key().expect("a key");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let ringback = |words: &[&str]| {
        let words = [words, &["--server", server.url()]].concat();
        run(
            dir.path(),
            &words,
            &[("RINGBACK_API_KEY", key), ("USER", "li.lei")],
        )
    };
    let held = ringback(&["lane", "hold", "endpoint:a", "--reason", "moving"]);
    assert_eq!(held.status, 0, "{}", held.stderr);
    let text = ringback(&["audit-log"]).stdout;
    let line = text.lines().nth(1).unwrap_or_default();
    for word in ["admin/li.lei", "lane.hold", "endpoint:a", "moving"] {
        assert!(line.contains(word), "{word}: {text}");
    }
    let by_key = ringback(&["audit-log", "--actor", "api", "--limit", "5", "--json"]).stdout;
    let page: Value = serde_json::from_str(&by_key).expect("JSON");
    assert_eq!(lines(&page), ["api api_key.add admin (-)"]);
    let none = ringback(&["audit-log", "--from", "2099-01-01T00:00:00Z"]);
    assert_eq!((none.status, &*none.stdout), (0, "none\n"));
    let wrong = ringback(&["audit-log", "--to", "tomorrow"]);
    assert_eq!(wrong.status, 2, "{}", wrong.stdout);
    server.stop().await;
}
