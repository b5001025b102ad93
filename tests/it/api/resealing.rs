//! Changes of an endpoint that have read its secrets before the master key is changed, and write them afterwards.

use super::{NOW_MS, Reply, Server, memory};
use crate::support::postgres::fresh_database;
use crate::support::tls::Identity;
use crate::support::within;
use async_trait::async_trait;
use reqwest::Method;
use ringback::api::ApiSettings;
use ringback::clock::ManualClock;
use ringback::domain::attempt::Attempt;
use ringback::domain::endpoint::{Endpoint, EndpointName};
use ringback::domain::master_key::MasterKey;
use ringback::endpoints::Endpoints;
use ringback::endpoints::store::EndpointStore;
use ringback::journal::decorator::{JournalCall, JournalDecorator};
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::recorder::Recorder;
use ringback::journal::resealing::ResealResult;
use ringback::journal::sqlite::SqliteJournal;
use ringback::journal::{Actor, Journal, JournalError};
use ringback::keyring::Keyring;
use ringback::keyring::reseal::Resealer;
use ringback::service::{Service, TestCaller};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

const SHOP: &str = "/v1/endpoints/shop";
const KEYS: &str = "/v1/endpoints/shop/keys";
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const OTHER_SECRET: &str = "whsec_D2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn master(byte: u8) -> MasterKey {
    MasterKey::from_random(Zeroizing::new([byte; 32]))
}

fn shop() -> EndpointName {
    EndpointName::parse("shop").expect("a name")
}

/// A journal whose secrets can be encrypted again.
#[derive(Clone)]
enum Resealed {
    Sqlite {
        journal: Arc<SqliteJournal>,
        _directory: Arc<TempDir>,
    },
    Postgres(Arc<PostgresJournal>),
}

impl Resealed {
    async fn sqlite() -> Self {
        let directory = Arc::new(tempfile::tempdir().expect("a directory"));
        let journal = SqliteJournal::open(&directory.path().join("journal.db"), "one").await;
        Self::Sqlite {
            journal: Arc::new(journal.expect("it opens")),
            _directory: directory,
        }
    }

    async fn postgres() -> Self {
        let journal = PostgresJournal::open(&fresh_database(), "one", true).await;
        Self::Postgres(Arc::new(journal.expect("it opens")))
    }

    fn journal(&self) -> &dyn Journal {
        match self {
            Self::Sqlite { journal, .. } => journal.as_ref(),
            Self::Postgres(journal) => journal.as_ref(),
        }
    }

    /// What `ringback master-key change` does, from the first master key to the second.
    async fn reseal(&self) {
        let mut resealer = Resealer::new(master(1), master(2));
        let actor = Actor::named("master-key change");
        let result = match self {
            Self::Sqlite { journal, .. } => journal.reseal(&mut resealer, &actor, NOW_MS + 1).await,
            Self::Postgres(journal) => journal.reseal(&mut resealer, &actor, NOW_MS + 1).await,
        };
        assert_eq!(result.expect("resealed"), ResealResult::Done);
        assert_eq!(resealer.counts().expect("done").unopened, 0);
    }

    /// Whether the second master key opens every secret of the endpoint.
    async fn is_resealed(&self) -> bool {
        let stored = self.journal().endpoint(&shop()).await.expect("read");
        let Endpoint { settings, keys, .. } = stored.expect("there").endpoint;
        let keyring = Keyring::with(master(2));
        let tls = settings.tls.expect("TLS settings");
        let identity = tls.identity().expect("a certificate");
        keys.list()
            .iter()
            .all(|key| keyring.open("shop", key).is_ok())
            && keyring
                .open_client_key("shop", &identity.sealed_key)
                .is_ok()
    }
}

/// A journal that holds one write of an endpoint.
struct HeldWrite {
    inner: Resealed,
    holds: AtomicBool,
    held: Semaphore,
    go: Semaphore,
}

impl JournalDecorator for HeldWrite {
    fn inner(&self) -> &dyn Journal {
        self.inner.journal()
    }

    async fn around<T: Send>(
        &self,
        call: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        if call == JournalCall::SetEndpoint && self.holds.swap(false, Ordering::AcqRel) {
            self.held.add_permits(1);
            self.go.acquire().await.expect("open").forget();
        }
        calling.await
    }
}

struct NoTestCalls;

#[async_trait]
impl TestCaller for NoTestCalls {
    async fn call(&self, endpoint: Arc<Endpoint>) -> Attempt {
        panic!("no test asks for a call to {}", endpoint.name)
    }
}

/// A server with the first master key, which opens with the second one too if it `knows_both`.
async fn serve(journal: Arc<HeldWrite>, knows_both: bool) -> Server {
    let other = knows_both.then(|| master(2));
    let keyring = Keyring::with(master(1)).with_other(other);
    let store = EndpointStore::Journal(journal.clone());
    let endpoints = Endpoints::open(Some(store), None).await.expect("read");
    let endpoints = Arc::new(endpoints.with_keyring(keyring));
    let recorder = Some(Arc::new(Recorder::start(journal)));
    let schedule = Arc::new(memory(&ManualClock::at(NOW_MS)));
    let service = Service::new(recorder, schedule).with_endpoints(endpoints, Arc::new(NoTestCalls));
    Server::start(service, ApiSettings::default()).await
}

/// Asks for a change, and changes the master key between what it reads and what it writes.
async fn check(
    inner: Resealed,
    knows_both: bool,
    (method, path, change): (Method, &str, impl Fn(&Identity) -> Value),
    expected: u16,
) {
    let client = Identity::self_signed(&["client"], |_| {});
    let journal = Arc::new(HeldWrite {
        inner: inner.clone(),
        holds: AtomicBool::new(false),
        held: Semaphore::new(0),
        go: Semaphore::new(0),
    });
    let server = serve(journal.clone(), knows_both).await;
    let ask = async |method: Method, path: &str, body: &Value| {
        let request = server.request(method, path).body(body.to_string());
        Reply::of(request.header("content-type", "application/json")).await
    };
    let made = json!({
        "url": "https://shop.example/old", "keys": [{ "secret": SECRET }],
        "client_certificate": client.certificate_pem(), "client_key": client.key_pem(),
    });
    ask(Method::PUT, SHOP, &made).await.is(201);
    assert!(!inner.is_resealed().await);
    journal.holds.store(true, Ordering::Release);
    let change = change(&client);
    let resealing = async {
        journal.held.acquire().await.expect("open").forget();
        inner.reseal().await;
        journal.go.add_permits(1);
    };
    let both = async { tokio::join!(ask(method.clone(), path, &change), resealing) };
    let (reply, ()) = within("the change", both).await;
    let stage = format!("{method} {path} {knows_both}: {}", reply.body);
    assert_eq!(reply.status, expected, "{stage}");
    assert!(inner.is_resealed().await, "{stage}");
    let view = server.get(SHOP).await.is(200);
    let is_changed = view["url"] == "https://shop.example/new";
    assert_eq!(is_changed, expected == 200, "{stage} {view}");
    assert_eq!(view["keys"].as_array().map(Vec::len), Some(1), "{view}");
}

fn keeps_the_client_key(client: &Identity) -> Value {
    json!({
        "url": "https://shop.example/new", "keys": [{ "secret": SECRET }],
        "client_certificate": client.certificate_pem(),
    })
}

fn keeps_the_signing_keys(client: &Identity) -> Value {
    json!({ "url": "https://shop.example/new", "client_certificate": client.certificate_pem() })
}

fn gives_the_same_again(client: &Identity) -> Value {
    json!({
        "url": "https://shop.example/new", "keys": [{ "secret": SECRET }],
        "client_certificate": client.certificate_pem(), "client_key": client.key_pem(),
    })
}

fn changes_the_url(_: &Identity) -> Value {
    json!({ "url": "https://shop.example/new" })
}

fn adds_a_key(_: &Identity) -> Value {
    json!({ "secret": OTHER_SECRET })
}

async fn nothing_writes_back_what_the_old_master_key_encrypted(open: impl AsyncFn() -> Resealed) {
    type Change = fn(&Identity) -> Value;
    let cases: [(bool, Method, &str, Change, u16); 8] = [
        (true, Method::PUT, SHOP, keeps_the_client_key, 200),
        (true, Method::PUT, SHOP, keeps_the_signing_keys, 200),
        (true, Method::PUT, SHOP, gives_the_same_again, 200),
        (false, Method::PUT, SHOP, keeps_the_signing_keys, 200),
        // It cannot open what is there, so it would encrypt the secret with the old master key.
        (false, Method::PUT, SHOP, gives_the_same_again, 409),
        (false, Method::PATCH, SHOP, changes_the_url, 200),
        (true, Method::PATCH, SHOP, changes_the_url, 200),
        (true, Method::POST, KEYS, adds_a_key, 409),
    ];
    for (knows_both, method, path, change, expected) in cases {
        check(open().await, knows_both, (method, path, change), expected).await;
    }
}

#[tokio::test]
async fn nothing_writes_back_what_the_old_master_key_encrypted_in_sqlite() {
    nothing_writes_back_what_the_old_master_key_encrypted(Resealed::sqlite).await;
}

#[tokio::test]
async fn nothing_writes_back_what_the_old_master_key_encrypted_in_postgres() {
    nothing_writes_back_what_the_old_master_key_encrypted(Resealed::postgres).await;
}
