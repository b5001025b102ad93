//! Default keys that a server cannot read: they stop nothing but what the default keys would sign, and can be removed. And
//! those that the journal has lost.

use super::on_journaled_stores;
use crate::support::merchant::Merchant;
use crate::support::postgres::connect as connect_postgres;
use crate::support::ringback::{Server, Stores, config, registration, secret};
use crate::support::signing::{DEFAULT_KEYS, added};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::config::{JournalConfig, ServeConfig};
use ringback::domain::master_key::MasterKey;
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use zeroize::Zeroizing;

on_journaled_stores!(
    an_unreadable_default_key_hides_no_change_of_an_endpoint,
    an_unreadable_default_key_that_has_ended_is_left_out,
    what_the_journal_has_lost_signs_along_with_a_key_that_is_added,
);

const SHOP: &str = "/v1/endpoints/shop-1";
/// As a newer version would write it.
const NEW_KIND: &str = "UPDATE default_keys SET kind = 'newer' WHERE id = $1 AND kind <> $2";

async fn start(stores: Stores) -> Server {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(dir.path(), stores);
    config.master_key = Some(MasterKey::from_random(Zeroizing::new([7; 32])));
    Server::open(config, None, Some(dir)).await
}

/// Changes the journal behind the server, as another one would.
async fn write(config: &ServeConfig, sql: &'static str, [one, two]: [&str; 2]) {
    let changed = match &config.journal {
        JournalConfig::Postgres(url) => {
            let mut connection = connect_postgres(url.expose()).await;
            let update = sqlx::query(sql).bind(one).bind(two);
            let done = update.execute(&mut connection).await;
            done.expect("written").rows_affected()
        }
        JournalConfig::Sqlite(path) => {
            let options = SqliteConnectOptions::new().filename(path);
            let mut connection = options.connect().await.expect("a connection");
            let update = sqlx::query(sql).bind(one).bind(two);
            let done = update.execute(&mut connection).await;
            done.expect("written").rows_affected()
        }
        JournalConfig::None => panic!("a journal"),
    };
    assert!(changed > 0);
}

async fn until_warned(server: &Server, expected: bool) {
    let warned = async {
        loop {
            let (status, ready) = server.call(Method::GET, "/readyz", None).await;
            assert_eq!(status, 200, "{ready}");
            let warnings = ready["warnings"].to_string();
            if warnings.contains("cannot read the default key") == expected {
                return;
            }
            short_pause().await;
        }
    };
    within("the warning", warned).await;
}

async fn listed(server: &Server) -> Vec<Value> {
    let (status, list) = server.call(Method::GET, DEFAULT_KEYS, None).await;
    assert_eq!(status, 200, "{list}");
    list["items"].as_array().expect("a list").clone()
}

async fn an_unreadable_default_key_hides_no_change_of_an_endpoint(stores: Stores) {
    const ANOTHER_URL: &str = "UPDATE endpoints SET number = number + 1000000000000,
        settings = replace(settings, $1, $2)";
    let mut merchant = Merchant::start().await;
    let server = start(stores).await;
    let given = json!([{ "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD" }]);
    let endpoint = json!({ "url": merchant.url("/old"), "keys": given });
    let (status, made) = server.call(Method::PUT, SHOP, Some(endpoint)).await;
    assert_eq!(status, 201, "{made}");
    let id = listed(&server).await[0]["id"].clone();
    let first = id.as_str().expect("an id");
    write(server.config(), NEW_KIND, [first, "newer"]).await;
    until_warned(&server, true).await;

    // Another server changes the endpoint, and this one learns of it.
    write(server.config(), ANOTHER_URL, ["/old", "/new"]).await;
    let moved = async {
        for number in 0.. {
            let id = format!("a-{number}");
            let naming = json!({ "topic": "t", "id": id, "endpoint": "shop-1", "body": "x" });
            server.register(naming).await;
            let call = merchant.call().await;
            server.until_state(&id, "delivered").await;
            if call.request_line.contains("/new") {
                return;
            }
        }
    };
    within("the change", moved).await;

    server.register(registration("b", &merchant)).await;
    let is_asked_for = server.call(Method::POST, "/v1/notifications/t/b/retry", None);
    is_asked_for.await;
    assert!(merchant.arrived().is_none(), "nothing is signed by default");
    let items = listed(&server).await;
    let of = |item: &Value| (item["id"].clone(), item["kind"].clone());
    assert_eq!(
        items.iter().map(of).collect::<Vec<_>>(),
        [(id.clone(), json!("unreadable"))]
    );
    let path = format!("{DEFAULT_KEYS}/{first}");
    let (status, shown) = server.call(Method::GET, &path, None).await;
    assert_eq!((status, &shown["kind"]), (200, &json!("unreadable")));
    let (status, problem) = server.call(Method::DELETE, &path, None).await;
    assert_eq!(status, 409, "it is the last one: {problem}");

    // The unreadable one survives a change of others, and a start.
    let (second, _) = added(&server, "1h").await;
    let (third, _) = added(&server, "1h").await;
    let server = server.restart().await;
    until_warned(&server, true).await;
    let ids = async |server: &Server| -> Vec<Value> {
        let items = listed(server).await;
        items.iter().map(|item| item["id"].clone()).collect()
    };
    assert_eq!(
        ids(&server).await,
        [id.clone(), json!(third), json!(second)]
    );
    let (status, problem) = server.call(Method::DELETE, &path, None).await;
    assert_eq!(status, 204, "{problem}");
    assert_eq!(ids(&server).await, [json!(third), json!(second)]);
    until_warned(&server, false).await;
    let view = server.until_state("b", "delivered").await;
    assert_eq!(
        view["attempts"][0]["key_ids"],
        json!([third, second]),
        "{view}"
    );
    server.stop().await;
}

async fn an_unreadable_default_key_that_has_ended_is_left_out(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = start(stores).await;
    let first = listed(&server).await[0]["id"].clone();
    let first = first.as_str().expect("an id");
    let (second, _) = added(&server, "0s").await;
    write(server.config(), NEW_KIND, [first, "newer"]).await;
    let server = server.restart().await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts"][0]["key_ids"], json!([second]), "{view}");
    until_warned(&server, false).await;
    let ids: Vec<Value> = (listed(&server).await.iter())
        .map(|item| item["id"].clone())
        .collect();
    assert_eq!(ids, [json!(second)]);
    server.stop().await;
}

async fn what_the_journal_has_lost_signs_along_with_a_key_that_is_added(stores: Stores) {
    const LOSE: &str = "DELETE FROM default_keys WHERE id NOT IN ($1, $2)";
    let mut merchant = Merchant::start().await;
    let server = start(stores).await;
    // The secret with which the server was started was replaced.
    let (_, second) = added(&server, "0s").await;
    write(server.config(), LOSE, ["", "-"]).await;
    server.register(registration("lost", &merchant)).await;
    assert!(merchant.call().await.is_signed_by(&second));
    let (third_id, third) = added(&server, "1h").await;
    server.register(registration("added", &merchant)).await;
    let call = merchant.call().await;
    assert!(call.is_signed_by(&third) && call.is_signed_by(&second));
    assert!(!call.is_signed_by(&secret()), "it was replaced");
    let items = listed(&server).await;
    assert_eq!(
        (items.len(), &items[0]["id"]),
        (2, &json!(third_id)),
        "{items:?}"
    );
    server.stop().await;
}
