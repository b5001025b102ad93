//! The measured server and its journal.

use crate::browser::Browser;
use crate::fill::{self, Registered};
use crate::postgres::PostgresServer;
use ringback::journal::JournalMaintenance as _;
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::sqlite::SqliteJournal;
use serde_json::{Value, json};
use std::fmt;
use std::net::TcpListener;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Where the journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalKind {
    Sqlite,
    Postgres,
}

impl JournalKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.to_string() == name)
    }
}

impl fmt::Display for JournalKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        })
    }
}

/// The settings of PostgreSQL: more memory than by default, as a server of its own would have.
const POSTGRES: &[&str] = &["fsync=on", "shared_buffers=512MB", "max_wal_size=8GB"];

/// A server on a filled journal. The processes end when this value is dropped.
pub struct Running {
    ringback: Child,
    _postgres: Option<PostgresServer>,
    _dir: TempDir,
    url: String,
    client: reqwest::Client,
    key: String,
    /// When the notifications were registered.
    pub registered: Registered,
}

impl Running {
    /// Fills a journal with so many notifications, and starts a server on it.
    pub async fn start(kind: JournalKind, notifications: u64) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let begun = Instant::now();
        let registered = Registered::of(notifications);
        let mut arguments = vec!["serve".to_string()];
        let mut postgres = None;
        match kind {
            JournalKind::Sqlite => {
                let path = dir.path().join("journal.db");
                let journal = SqliteJournal::open(&path, "fill").await.expect("it opens");
                fill::prepare(&journal, registered).await;
                journal.close().await;
                fill::sqlite(&path, notifications, registered).await;
                arguments.extend([
                    "--journal".to_string(),
                    format!("sqlite://{}", path.display()),
                ]);
            }
            JournalKind::Postgres => {
                let server = PostgresServer::start(POSTGRES);
                let url = server.url("postgres");
                let journal = PostgresJournal::open(&url, "fill", true).await;
                let journal = journal.expect("it opens");
                fill::prepare(&journal, registered).await;
                journal.close().await;
                fill::postgres(&url, notifications, registered).await;
                arguments.extend(["--journal".to_string(), url]);
                postgres = Some(server);
            }
        }
        println!("filled in {:.0} s", begun.elapsed().as_secs_f64());
        let port = free_port();
        let ringback = Command::new(env!("CARGO_BIN_EXE_ringback"))
            .args(arguments)
            .args([
                "--listen",
                &format!("127.0.0.1:{port}"),
                "--log",
                "warn",
                "--data-dir",
            ])
            .arg(dir.path())
            .kill_on_drop(true)
            .spawn()
            .expect("the server");
        let mut running = Self {
            ringback,
            _postgres: postgres,
            _dir: dir,
            url: format!("http://127.0.0.1:{port}"),
            client: reqwest::Client::builder()
                .no_proxy()
                .build()
                .expect("a client"),
            key: String::new(),
            registered,
        };
        running.prepare().await;
        running
    }

    /// Waits until the server is ready, and makes a key and endpoints.
    async fn prepare(&mut self) {
        let mut tries = 0;
        loop {
            let answer = self.client.get(format!("{}/readyz", self.url)).send().await;
            if answer.is_ok_and(|answer| answer.status() == 200) {
                break;
            }
            tries += 1;
            assert!(tries < 600, "the server did not become ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let key = json!({ "name": "admin", "role": "operator" });
        let made = self.call(reqwest::Method::POST, "/v1/keys", key).await;
        self.key = made["key"].as_str().expect("a key").to_string();
        for number in 0..fill::ENDPOINTS {
            let url = json!({ "url": format!("https://shop-{number}.example/hooks") });
            let path = format!("/v1/endpoints/shop-{number}");
            self.call(reqwest::Method::PUT, &path, url).await;
        }
    }

    async fn call(&self, method: reqwest::Method, path: &str, body: Value) -> Value {
        let request = self.client.request(method, format!("{}{path}", self.url));
        // The first key is made without one.
        let request = match self.key.as_str() {
            "" => request,
            key => request.bearer_auth(key),
        };
        let request = request
            .header("content-type", "application/json")
            .body(body.to_string());
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        let text = answer.text().await.expect("a text");
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// A browser that is signed in as an operator.
    pub async fn signed_in(&self) -> Browser {
        Browser::sign_in(&self.url, &self.key).await
    }

    /// Ends the server.
    pub async fn stop(mut self) {
        self.ringback.kill().await.expect("the server ends");
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .expect("a free port")
        .port()
}
