//! API keys: who may do what, on one server and on several.

use super::on_journaled_stores;
use crate::cli::program::run;
use crate::support::merchant::Merchant;
use crate::support::ringback::{Api, BEGIN_MS, Server, Stores, config, registration};
use crate::support::within;
use reqwest::Method;
use ringback::api::rights::RIGHTS;
use ringback::app::App;
use ringback::config::ApiKey;
use ringback::domain::role::Role;
use serde_json::{Value, json};

const KEYS: &str = "/v1/keys";
const NOTIFICATIONS: &str = "/v1/notifications";

on_journaled_stores!(
    each_role_may_do_what_the_table_says,
    the_first_key_is_an_operators_and_the_last_one_stays,
    a_key_that_is_bound_to_topics_knows_no_others,
    a_key_ends_at_its_end_and_at_its_revocation,
    a_key_is_the_actor_of_what_is_done_with_it,
    a_key_whose_answer_was_lost_is_revoked_and_made_again,
    a_first_key_whose_answer_was_lost_is_replaced_by_that_of_the_settings,
);

/// Makes a key. Returns the API with it.
async fn make(api: &Api, asked: Value) -> Api {
    let (status, made) = api.call(Method::POST, KEYS, Some(asked)).await;
    assert_eq!(status, 201, "{made}");
    let key = made["key"].as_str().expect("a key");
    assert!(key.starts_with("rbk_") && key.len() == 68, "{key}");
    api.with_key(key)
}

async fn operator(api: &Api) -> Api {
    make(api, json!({ "name": "admin", "role": "operator" })).await
}

/// As the documents say: the caller never sees the key, and asks again.
async fn a_key_whose_answer_was_lost_is_revoked_and_made_again(stores: Stores) {
    let server = Server::start(stores).await;
    let admin = operator(&server).await;
    let asked = json!({ "name": "anna", "role": "support" });
    let lost = make(&admin, asked.clone()).await;
    let (status, problem) = admin.call(Method::POST, KEYS, Some(asked.clone())).await;
    assert_eq!((status, kind(&problem)), (409, "api-key"), "{problem}");
    assert_eq!(problem.get("key"), None);
    let revoked = admin.call(Method::DELETE, "/v1/keys/anna", None).await;
    assert_eq!(revoked.0, 204);
    let anna = make(&admin, asked).await;
    assert_eq!(get(&anna, NOTIFICATIONS).await.0, 200);
    assert_eq!(get(&lost, NOTIFICATIONS).await.0, 401);
    server.stop().await;
}

async fn a_first_key_whose_answer_was_lost_is_replaced_by_that_of_the_settings(stores: Stores) {
    let server = Server::start(stores).await;
    operator(&server).await;
    let asked = json!({ "name": "admin", "role": "operator" });
    let again = server.call(Method::POST, KEYS, Some(asked.clone())).await;
    assert_eq!(again.0, 401, "nobody has the key");
    let given = ApiKey::parse("of-the-settings").expect("a key");
    let server = server
        .restart_as(|config| config.api.key = Some(given))
        .await;
    let rescuer = server.with_key("of-the-settings");
    let revoked = rescuer.call(Method::DELETE, "/v1/keys/admin", None).await;
    assert_eq!(revoked.0, 204);
    make(&rescuer, asked).await;
    server.stop().await;
}

async fn get(api: &Api, path: &str) -> (u16, Value) {
    api.call(Method::GET, path, None).await
}

fn kind(problem: &Value) -> &str {
    let kind = problem["type"].as_str().unwrap_or_default();
    kind.trim_start_matches("urn:ringback:problem:")
}

async fn each_role_may_do_what_the_table_says(stores: Stores) {
    let server = Server::start(stores).await;
    let admin = operator(&server).await;
    let mut callers = vec![
        ("no key", None, server.with_key("")),
        ("a wrong key", None, server.with_key("rbk_00")),
    ];
    for role in Role::ALL {
        let asked = json!({ "name": format!("a-{role}"), "role": role.as_str() });
        callers.push((role.as_str(), Some(role), make(&admin, asked).await));
    }
    for (method, route, permission) in RIGHTS {
        // Nothing has these names, so what is permitted changes nothing. The bodies are wrong.
        let path = route.replace("{topic}", "t").replace("{id}", "none");
        let path = path
            .replace("{name}", "none")
            .replace("{lane}", "endpoint:none");
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        for (name, role, api) in &callers {
            let body = (method != Method::GET).then(|| json!({ "unknown": true }));
            let (status, answer) = api.call(method.clone(), &path, body).await;
            let is_expected = match role {
                None => status == 401,
                Some(role) if role.permits(*permission) => !matches!(status, 401 | 403 | 405 | 500),
                Some(_) => status == 403 && kind(&answer) == "forbidden",
            };
            assert!(is_expected, "{name}: {method} {path}: {status} {answer}");
        }
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(&server, path).await.0, 200, "{path}");
    }
    server.stop().await;
}

async fn the_first_key_is_an_operators_and_the_last_one_stays(stores: Stores) {
    let server = Server::start(stores).await;
    let desk = json!({ "name": "desk", "role": "support" });
    let (status, problem) = server.call(Method::POST, KEYS, Some(desk.clone())).await;
    assert_eq!((status, kind(&problem)), (409, "api-key"), "{problem}");
    assert_eq!(get(&server, NOTIFICATIONS).await.0, 200);
    let admin = operator(&server).await;
    assert_eq!(get(&server, NOTIFICATIONS).await.0, 401);
    make(&admin, desk).await;
    let (status, problem) = admin.call(Method::DELETE, "/v1/keys/admin", None).await;
    assert_eq!((status, kind(&problem)), (409, "api-key"), "{problem}");
    let taken = json!({ "name": "admin", "role": "operator" });
    let (status, problem) = admin.call(Method::POST, KEYS, Some(taken)).await;
    assert_eq!((status, kind(&problem)), (409, "api-key"), "{problem}");
    let (_, shown) = get(&admin, "/v1/keys/desk").await;
    assert_eq!(shown["created_by"], "admin", "{shown}");
    let (_, listed) = get(&admin, KEYS).await;
    let names: Vec<&str> = (listed["items"].as_array().expect("a list").iter())
        .filter_map(|item| item["name"].as_str())
        .collect();
    assert_eq!(names, ["admin", "desk"]);
    assert!(!listed.to_string().contains("rbk_"), "{listed}");
    // The keys outlive the server.
    let server = server.restart().await;
    let admin = Api::at(server.url().to_string()).with_key(admin.key().expect("a key"));
    assert_eq!(get(&server, NOTIFICATIONS).await.0, 401);
    for name in ["desk", "admin"] {
        let path = format!("/v1/keys/{name}");
        assert_eq!(
            admin.call(Method::DELETE, &path, None).await.0,
            204,
            "{name}"
        );
    }
    assert_eq!(get(&server, NOTIFICATIONS).await.0, 200);
    server.stop().await;
}

async fn a_key_that_is_bound_to_topics_knows_no_others(stores: Stores) {
    let merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let admin = operator(&server).await;
    let bound = json!({ "name": "one", "role": "producer", "topics": ["t"] });
    let (one, two) = (
        make(&admin, bound).await,
        json!({ "name": "two", "role": "producer", "topics": ["t", "u"] }),
    );
    let two = make(&admin, two).await;
    let of_topic = |topic: &str, id: &str| {
        let mut asked = registration(id, &merchant);
        asked["topic"] = json!(topic);
        asked["delay"] = json!("1h");
        asked
    };
    let forbidden = async |api: &Api, method: Method, path: &str, body: Option<Value>| {
        let (status, problem) = api.call(method, path, body).await;
        assert_eq!(
            (status, kind(&problem)),
            (403, "forbidden"),
            "{path}: {problem}"
        );
    };
    one.register(of_topic("t", "1")).await;
    two.register(of_topic("u", "2")).await;
    forbidden(&one, Method::POST, NOTIFICATIONS, Some(of_topic("u", "2"))).await;
    let batch = json!({ "notifications": [of_topic("t", "3"), of_topic("u", "4")] });
    let (status, answer) = one
        .call(Method::POST, "/v1/notifications/batch", Some(batch))
        .await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        (
            &answer["results"][0]["status"],
            &answer["results"][1]["status"]
        ),
        (&json!(201), &json!(403))
    );
    assert_eq!(get(&admin, "/v1/notifications/u/4").await.0, 404);
    for method in [Method::GET, Method::DELETE] {
        forbidden(&one, method.clone(), "/v1/notifications/u/2", None).await;
        forbidden(&one, method, "/v1/notifications/%75/2", None).await;
    }
    forbidden(
        &one,
        Method::PATCH,
        "/v1/notifications/u/2",
        Some(json!({ "delay": "2h" })),
    )
    .await;
    let ordered = |topic: &str, id: &str, number: i64| {
        let mut asked = of_topic(topic, id);
        asked["order"] = json!({ "key": "order-1", "number": number, "mode": "latest" });
        asked
    };
    // Its number is taken by one that it may not read, so that one is not named.
    two.register(ordered("u", "6", 2)).await;
    let batch = json!({ "notifications": [ordered("t", "5", 2)] });
    let (_, answer) = one
        .call(Method::POST, "/v1/notifications/batch", Some(batch))
        .await;
    let in_batch = &answer["results"][0];
    assert_eq!(in_batch["status"], 409, "{answer}");
    let (status, problem) = one
        .call(Method::POST, NOTIFICATIONS, Some(ordered("t", "5", 2)))
        .await;
    assert_eq!((status, kind(&problem)), (409, "out-of-order"), "{problem}");
    for said in [&problem, in_batch] {
        let text = said.to_string();
        assert!(!text.contains("\"other\""), "{text}");
        assert!(!text.contains("the other is"), "{text}");
    }
    let (_, problem) = two
        .call(Method::POST, NOTIFICATIONS, Some(ordered("t", "5", 2)))
        .await;
    assert_eq!(problem["other"], json!({ "topic": "u", "id": "6" }));
    for list in [NOTIFICATIONS, "/v1/dead-letters"] {
        forbidden(&one, Method::GET, &format!("{list}?topic=u"), None).await;
        forbidden(&two, Method::GET, list, None).await;
        assert_eq!(get(&two, &format!("{list}?topic=u")).await.0, 200);
    }
    let (status, listed) = get(&one, NOTIFICATIONS).await;
    let ids: Vec<&Value> = (listed["items"].as_array().expect("a list").iter())
        .map(|item| &item["id"])
        .collect();
    assert_eq!((status, ids), (200, vec![&json!("3"), &json!("1")]));
    assert_eq!(
        one.call(Method::DELETE, "/v1/notifications/t/1", None)
            .await
            .0,
        200
    );
    server.stop().await;
}

async fn a_key_ends_at_its_end_and_at_its_revocation(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let admin = operator(&server).await;
    let end = ringback::domain::timestamp::display_ms(BEGIN_MS + 60_000);
    let asked = json!({ "name": "short", "role": "support", "expires_at": end });
    let short = make(&admin, asked).await;
    let revoked = make(&admin, json!({ "name": "revoked", "role": "support" })).await;
    server.clock().advance(59_999);
    assert_eq!(get(&short, NOTIFICATIONS).await.0, 200);
    server.clock().advance(1);
    let (status, problem) = get(&short, NOTIFICATIONS).await;
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(
        status == 401 && detail.contains("`short` has expired"),
        "{problem}"
    );
    let (_, shown) = get(&admin, "/v1/keys/short").await;
    assert_eq!(shown["has_expired"], true, "{shown}");
    assert_eq!(get(&revoked, NOTIFICATIONS).await.0, 200);
    for expected in [204, 404] {
        let (status, _) = admin.call(Method::DELETE, "/v1/keys/revoked", None).await;
        assert_eq!(status, expected);
    }
    assert_eq!(get(&revoked, NOTIFICATIONS).await.0, 401);
    server.stop().await;
}

async fn a_key_is_the_actor_of_what_is_done_with_it(stores: Stores) {
    let merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let admin = operator(&server).await;
    let shop = make(&admin, json!({ "name": "shop", "role": "producer" })).await;
    let mut asked = registration("1", &merchant);
    asked["delay"] = json!("1h");
    shop.register(asked).await;
    let path = "/v1/notifications/t/1";
    let (status, view) = admin
        .call_as(Some("li.lei"), Method::DELETE, path, None)
        .await;
    assert_eq!(status, 200, "{view}");
    let (_, view) = get(&admin, path).await;
    let actors: Vec<&Value> = (view["transitions"].as_array().expect("a history").iter())
        .map(|line| &line["actor"])
        .collect();
    assert_eq!(actors, [&json!("shop"), &json!("admin/li.lei")], "{view}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_keys_holds_on_every_server() {
    let one = Server::start(Stores::Postgres).await;
    let two = Server::open(one.config().clone(), None, None).await;
    let admin = operator(&one).await;
    let on_two = |api: &Api| Api::at(two.url().to_string()).with_key(api.key().expect("a key"));
    let until = async |api: &Api, expected: u16| {
        let asking = async { while get(api, NOTIFICATIONS).await.0 != expected {} };
        within("the other server to know the change", asking).await;
    };
    until(&Api::at(two.url().to_string()), 401).await;
    until(&on_two(&admin), 200).await;
    let desk = make(
        &on_two(&admin),
        json!({ "name": "desk", "role": "support" }),
    )
    .await;
    assert_eq!(get(&desk, NOTIFICATIONS).await.0, 200);
    let on_one = Api::at(one.url().to_string()).with_key(desk.key().expect("a key"));
    until(&on_one, 200).await;
    assert_eq!(
        admin.call(Method::DELETE, "/v1/keys/desk", None).await.0,
        204
    );
    assert_eq!(get(&on_one, NOTIFICATIONS).await.0, 401);
    until(&desk, 401).await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_others_can_reach_needs_a_key() {
    crate::support::install_tls();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(dir.path(), Stores::Embedded);
    config.api.listen = "0.0.0.0:0".parse().expect("an address");
    let refused = App::start(config.clone()).await.err().expect("refused");
    assert!(
        format!("{refused:#}").contains("set api-key"),
        "{refused:#}"
    );
    config.api.listen = "127.0.0.1:0".parse().expect("an address");
    let server = Server::open(config.clone(), None, None).await;
    let admin = operator(&server).await;
    server.stop().await;
    config.api.listen = "0.0.0.0:0".parse().expect("an address");
    let server = Server::open(config, None, None).await;
    let url = server.url().replace("0.0.0.0", "127.0.0.1");
    assert_eq!(get(&Api::at(url.clone()), NOTIFICATIONS).await.0, 401);
    let admin = Api::at(url).with_key(admin.key().expect("a key"));
    assert_eq!(get(&admin, NOTIFICATIONS).await.0, 200);
    let (status, problem) = admin.call(Method::DELETE, "/v1/keys/admin", None).await;
    // Nobody but the holder of the last key could use the server, and then nobody could.
    assert_eq!(status, 204, "{problem}");
    let (status, problem) = get(&admin, NOTIFICATIONS).await;
    assert_eq!(status, 401, "{problem}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_asks_too_often_is_told_to_wait_and_others_are_not() {
    let server =
        Server::start_as(Stores::Embedded, |config| config.api.requests_per_key = 20).await;
    let admin = operator(&server).await;
    let desk = make(&admin, json!({ "name": "desk", "role": "support" })).await;
    let refused = async {
        loop {
            let (status, problem) = get(&desk, NOTIFICATIONS).await;
            if status == 429 {
                return problem;
            }
            assert_eq!(status, 200, "{problem}");
        }
    };
    // The 21st at the latest, unless the machine needs a twentieth of a second for each.
    let problem = within("a request to be refused", refused).await;
    assert_eq!(kind(&problem), "too-many-requests", "{problem}");
    assert_eq!(get(&admin, NOTIFICATIONS).await.0, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_journal_there_is_the_key_of_the_settings_alone() {
    let server = Server::start(Stores::RedisOnly).await;
    let asked = json!({ "name": "admin", "role": "operator" });
    let (status, problem) = server.call(Method::POST, KEYS, Some(asked)).await;
    assert_eq!((status, kind(&problem)), (501, "no-journal"), "{problem}");
    assert_eq!(get(&server, KEYS).await.0, 501);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_make_list_and_revoke_keys() {
    let server = Server::start(Stores::Embedded).await;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let ringback = |words: &[&str], key: &str| {
        let words = [words, &["--server", server.url()]].concat();
        run(dir.path(), &words, &[("RINGBACK_API_KEY", key)])
    };
    let made = ringback(&["key", "add", "admin", "--role", "operator"], "none");
    assert_eq!(made.status, 0, "{}", made.stderr);
    let key = made.stdout.lines().next().expect("a line");
    assert!(key.starts_with("rbk_"), "{}", made.stdout);
    let warning = "from now on, requests without a key are refused";
    assert!(made.stdout.contains(warning), "{}", made.stdout);
    let refused = ringback(&["key", "list"], "none");
    assert_eq!((refused.status, refused.stdout.as_str()), (5, ""));
    let refused = ringback(&["key", "list", "--json"], "none");
    assert_eq!((refused.status, refused.stderr.as_str()), (5, ""));
    let problem: Value = serde_json::from_str(&refused.stdout).expect("JSON");
    assert_eq!(kind(&problem), "unauthorized", "{problem}");
    let words = [
        "key",
        "add",
        "shop",
        "--role",
        "producer",
        "--topic",
        "t",
        "--expires-in",
        "90d",
    ];
    let second = ringback(&words, key);
    assert_eq!(second.status, 0, "{}", second.stderr);
    assert!(!second.stdout.contains(warning), "{}", second.stdout);
    let listed = ringback(&["key", "list"], key).stdout;
    assert!(
        listed.contains("producer") && listed.contains("never"),
        "{listed}"
    );
    assert!(!listed.contains("rbk_"), "{listed}");
    let revoked = ringback(&["key", "revoke", "shop"], key);
    assert_eq!(revoked.stdout, "revoked\n", "{}", revoked.stderr);
    server.stop().await;
}
