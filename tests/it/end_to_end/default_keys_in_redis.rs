//! Default keys without a journal: two servers on one Redis sign alike, through rotations, restarts, losses of Redis and a
//! change of the master key.

use super::default_keys::check_that_three_started_at_once_sign_alike;
use crate::support::merchant::Merchant;
use crate::support::redis::{connect, fresh_database};
use crate::support::ringback::{Server, Stores, config, registration, secret};
use crate::support::signing::{
    DEFAULT_KEYS, GIVEN, add, added, beside, listed, master_key, other, with_master_key,
};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::app::App;
use ringback::app::default_keys::WrongSetting;
use ringback::config::ServeConfig;
use ringback::domain::signature::{SecretOrigin, SigningSecret};
use serde_json::json;
use std::process::Stdio;
use tokio::process::Command;

/// Two servers without a journal, and a merchant.
struct Pair {
    one: Server,
    two: Server,
    merchant: Merchant,
    sent: usize,
}

impl Pair {
    async fn start() -> Self {
        let (config, dir) = with_master_key(Stores::RedisOnly);
        let (other, other_dir) = beside(&config);
        Self {
            one: Server::open(config, None, Some(dir)).await,
            two: Server::open(other, None, Some(other_dir)).await,
            merchant: Merchant::start().await,
            sent: 0,
        }
    }

    /// Sends one after the other until both servers sign with these secrets and no others of `none`.
    async fn until_signed(&mut self, by: &[&SigningSecret], none: &[&SigningSecret]) {
        let mut signs = [false, false];
        let sending = async {
            while signs != [true, true] {
                self.sent += 1;
                let asked = registration(&self.sent.to_string(), &self.merchant);
                let server = [&self.one, &self.two][self.sent % 2];
                server.register(asked).await;
                let call = self.merchant.call().await;
                let signatures = call.header("Webhook-Signature").split(' ').count();
                let is_by = by.iter().all(|secret| call.is_signed_by(secret));
                let is_by_no_other = none.iter().all(|secret| !call.is_signed_by(secret));
                let sender = usize::from(call.header("User-Agent") == "the-other");
                signs[sender] = is_by && is_by_no_other && signatures == by.len();
            }
        };
        within("both servers to sign so", sending).await;
    }

    async fn stop(self) {
        self.one.stop().await;
        self.two.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_is_seen_by_both_servers_and_survives_a_restart() {
    let mut pair = Pair::start().await;
    let first = listed(&pair.one).await.remove(0);
    assert!(first.starts_with("default_"), "{first}");
    let old = secret();
    pair.until_signed(&[&old], &[]).await;
    let (second, new) = added(&pair.two, "1h").await;
    pair.until_signed(&[&new, &old], &[]).await;
    for server in [&pair.one, &pair.two] {
        assert_eq!(listed(server).await, [second.as_str(), first.as_str()]);
    }
    // An attempt shows the ids of what signed it.
    let shop = "/v1/endpoints/shop";
    let endpoint = json!({ "url": pair.merchant.url("/n") });
    assert_eq!(
        pair.one.call(Method::PUT, shop, Some(endpoint)).await.0,
        201
    );
    let (_, attempt) = pair
        .one
        .call(Method::POST, "/v1/endpoints/shop/test", None)
        .await;
    assert_eq!(attempt["key_ids"], json!([second, first]), "{attempt}");
    pair.merchant.call().await;

    // The same secret again, and one that signs only for some time.
    let (status, same) = add(&pair.one, json!({ "secret": new.expose() })).await;
    assert_eq!((status, &same["id"]), (200, &json!(second)));
    let (status, problem) = add(&pair.one, json!({ "secret": old.expose() })).await;
    assert_eq!(status, 409, "{problem}");
    for (id, expected) in [(&second, 409), (&first, 204), (&first, 404)] {
        let path = format!("{DEFAULT_KEYS}/{id}");
        let (status, problem) = pair.one.call(Method::DELETE, &path, None).await;
        assert_eq!(status, expected, "{problem}");
    }
    pair.until_signed(&[&new], &[&old]).await;

    // All servers stop. One is still given the secret that was replaced.
    let (config, dir) = (pair.two.config().clone(), pair.two.stop_and_keep().await);
    let given = |config: &mut ServeConfig| config.delivery.secret_origin = SecretOrigin::Given;
    let mut pair = Pair {
        one: pair.one.restart_as(given).await,
        two: Server::open(config, None, dir).await,
        ..pair
    };
    assert_eq!(listed(&pair.two).await, [second.as_str()]);
    pair.until_signed(&[&new], &[&old]).await;
    // Nothing of it is in Redis in the clear.
    let url = (pair.one.config().schedule.redis.clone()).expect("on Redis");
    let read = redis::Cmd::get("{rb:0}:default_keys");
    let record: String = read
        .query_async(&mut connect(url.expose()).await)
        .await
        .expect("a record");
    for secret in [&new, &old] {
        assert!(!record.contains(secret.expose().trim_start_matches("whsec_")));
    }
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_another_secret_or_another_master_key_ends_at_its_start() {
    let (config, dir) = with_master_key(Stores::RedisOnly);
    let server = Server::open(config.clone(), None, Some(dir)).await;
    let keys = listed(&server).await;
    let started = async |change: &dyn Fn(&mut ServeConfig)| {
        let (mut other, _dir) = beside(&config);
        change(&mut other);
        match App::start(other).await {
            Ok(app) => {
                app.stop().await;
                None
            }
            Err(error) => Some((error.is::<WrongSetting>(), format!("{error:#}"))),
        }
    };
    let refused = started(&|config: &mut ServeConfig| {
        config.delivery.signing_secret = other(43);
        config.delivery.secret_origin = SecretOrigin::Given;
    })
    .await;
    let (is_setting, error) = refused.expect("it is refused");
    assert!(
        is_setting && error.starts_with("--signing-secret: "),
        "{error}"
    );
    assert!(error.contains("default-key add") && error.contains(&keys[0]));
    assert!(!error.contains('\n') && !error.contains(other(43).expose()));
    for key in [None, master_key(8)] {
        let refused = started(&|config: &mut ServeConfig| config.master_key = key.clone()).await;
        let (is_setting, error) = refused.expect("it is refused");
        assert!(!is_setting && error.contains("--master-key"), "{error}");
    }
    // The one in its data directory is not used, and no error.
    let kept = started(&|config: &mut ServeConfig| {
        config.delivery.signing_secret = other(43);
        config.delivery.secret_origin = SecretOrigin::Kept;
    })
    .await;
    assert_eq!(kept, None);
    assert_eq!(listed(&server).await, keys);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_ends_with_status_2_if_redis_has_other_default_keys() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = fresh_database();
    let master = master_key(7).expect("made").expose().to_string();
    let program = |secret: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringback"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "off"])
            .args(["--redis", &url, "--journal", "none"])
            .env("RINGBACK_MASTER_KEY", &master)
            .args(["--signing-secret", secret, "--data-dir"])
            .arg(dir.path())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    };
    // The first server gives its secret, and stays.
    let mut own = config(dir.path(), Stores::RedisOnly);
    own.schedule.redis = Some(ringback::config::RedisUrl::parse(&url).expect("a URL"));
    own.master_key = master_key(7);
    let server = Server::open(own, None, None).await;
    let output = within("the program to end", program(GIVEN).output());
    let output = output.await.expect("an output");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(text.lines().count(), 1, "{text}");
    let expected = "ringback: --signing-secret: the default keys that the servers share are others";
    assert!(
        text.starts_with(expected) && !text.contains("C2FV"),
        "{text}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_start_at_once_without_a_journal_sign_alike() {
    check_that_three_started_at_once_sign_alike(Stores::RedisOnly).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_redis_gets_the_default_keys_back() {
    let mut pair = Pair::start().await;
    let (second, new) = added(&pair.one, "0s").await;
    pair.until_signed(&[&new], &[&secret()]).await;
    let url = (pair.one.config().schedule.redis.clone()).expect("on Redis");
    let mut redis = connect(url.expose()).await;
    let flushed = redis::cmd("FLUSHDB");
    flushed.exec_async(&mut redis).await.expect("flushed");
    // A server that starts in this moment may find none, and give its own secret as the first key. That does not stay.
    let (mut own, dir) = beside(pair.one.config());
    own.delivery.signing_secret = other(43);
    own.delivery.secret_origin = SecretOrigin::Kept;
    let third = Server::open(own, None, Some(dir)).await;
    let are_back = async {
        while listed(&third).await != [second.as_str()] {
            short_pause().await;
        }
    };
    within("the default keys to be put back", are_back).await;
    for server in [&pair.one, &pair.two] {
        assert_eq!(listed(server).await, [second.as_str()]);
    }
    // A server that starts then signs with them.
    let third = third.restart().await;
    third.register(registration("third", &pair.merchant)).await;
    assert!(pair.merchant.call().await.is_signed_by(&new));
    third.stop().await;
    pair.until_signed(&[&new], &[&secret(), &other(43)]).await;
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_key_is_changed_one_server_after_the_other() {
    let pair = Pair::start().await;
    let (_, new) = added(&pair.one, "0s").await;
    let keys = listed(&pair.one).await;
    // First all servers know both master keys, then each gets the new one as its own.
    let both = |config: &mut ServeConfig| config.other_master_key = master_key(8);
    let changed = |config: &mut ServeConfig| {
        config.master_key = master_key(8);
        config.other_master_key = master_key(7);
    };
    let one = pair.one.restart_as(both).await;
    let two = pair.two.restart_as(both).await;
    let one = one.restart_as(changed).await;
    // The default keys are encrypted again by now. The other server opens them, and can add none of its own.
    let (status, problem) = add(&two, json!({})).await;
    assert_eq!(status, 409, "{problem}");
    let mut pair = Pair { one, two, ..pair };
    pair.until_signed(&[&new], &[&secret()]).await;
    let alone = |config: &mut ServeConfig| {
        config.master_key = master_key(8);
        config.other_master_key = None;
    };
    let mut pair = Pair {
        one: pair.one.restart_as(alone).await,
        two: pair.two.restart_as(alone).await,
        ..pair
    };
    assert_eq!(listed(&pair.two).await, keys);
    pair.until_signed(&[&new], &[&secret()]).await;
    added(&pair.two, "1h").await;
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_master_key_there_are_no_default_keys() {
    let mut merchant = Merchant::start().await;
    let (mut config, dir) = with_master_key(Stores::RedisOnly);
    let master = config.master_key.take();
    let without = Server::open(config.clone(), None, Some(dir)).await;
    assert_eq!(listed(&without).await, [""; 0]);
    let (status, problem) = add(&without, json!({})).await;
    assert_eq!(status, 409, "{problem}");
    // One with another secret is refused beside it, and one with the same gives the first key.
    let (mut own, own_dir) = beside(&config);
    own.master_key = master;
    own.delivery.signing_secret = other(43);
    let error = App::start(own.clone()).await.err().expect("it is refused");
    let error = format!("{error:#}");
    assert!(error.contains("sign with another secret"), "{error}");
    own.delivery.signing_secret = secret();
    let with = Server::open(own, None, Some(own_dir)).await;
    assert_eq!(listed(&with).await.len(), 1);
    assert_eq!(listed(&without).await.len(), 1);
    for (number, server) in [&with, &without].into_iter().enumerate() {
        server
            .register(registration(&number.to_string(), &merchant))
            .await;
        assert!(merchant.call().await.is_signed_by(&secret()));
    }
    with.stop().await;
    without.stop().await;
}
