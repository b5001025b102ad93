//! Attempts that cannot be read any more: lists are answered without them.

use super::on_journaled_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::postgres::connect as connect_postgres;
use crate::support::ringback::{Server, Stores, with_ladder};
use reqwest::Method;
use ringback::config::{JournalConfig, ServeConfig};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;

on_journaled_stores!(a_list_does_not_fail_with_the_last_attempts);

async fn damage(config: &ServeConfig) {
    const UPDATE: &str = "UPDATE attempts SET outcome = 'nonsense'";
    match &config.journal {
        JournalConfig::Postgres(url) => {
            let mut connection = connect_postgres(url.expose()).await;
            let update = sqlx::query(UPDATE).execute(&mut connection);
            update.await.expect("written");
        }
        JournalConfig::Sqlite(path) => {
            let options = SqliteConnectOptions::new().filename(path);
            let mut connection = options.connect().await.expect("a connection");
            let update = sqlx::query(UPDATE).execute(&mut connection);
            update.await.expect("written");
        }
        JournalConfig::None => panic!("attempts are not kept"),
    }
}

async fn a_list_does_not_fail_with_the_last_attempts(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Server::start(stores).await;
    let api = &*server;
    api.register(with_ladder("dead", &merchant, &[])).await;
    merchant.call().await;
    api.until_state("dead", "dead").await;
    let last = async |path: &str| {
        let (status, page) = api.call(Method::GET, path, None).await;
        assert_eq!(status, 200, "{page}");
        assert_eq!(page["items"][0]["id"], "dead", "{page}");
        page["items"][0].get("last_attempt").cloned()
    };
    let lists = ["/v1/dead-letters", "/v1/notifications?state=dead"];
    for path in lists {
        let read = last(path).await.expect("it is there");
        assert_eq!(read["outcome"], "wrong_answer", "{path}");
    }
    damage(server.config()).await;
    for path in lists {
        assert_eq!(last(path).await, None, "{path}");
    }
    server.stop().await;
}
