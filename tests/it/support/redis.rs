//! Private Redis servers.
//!
//! Each listens on a free port of the loopback, keeps its files in a temporary directory, and ends
//! with the test process, however that ends: a small shell holds a pipe from us, sends the server
//! the signals that we name there, and ends it by its process id when the pipe closes.

use super::ports::HeldPort;
use super::redis_tls::RedisAuthority;
use redis::AsyncConnectionConfig;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tempfile::TempDir;

/// Databases of the shared server; each test takes one for itself.
const DATABASES: usize = 4_096;
/// What a server says that holds data, once it is ready.
const READY: &str = "Ready to accept";
/// Ports that are tried, since another process may take a free one before the server does.
const TRIES: usize = 5;

/// The shell keeps no end of the pipe to which the server writes, so that this ends with the server.
const KEEPER: &str = r#""$@" & server=$!
    exec >/dev/null
    while read -r signal; do kill -"$signal" "$server"; done
    kill "$server" 2>/dev/null; kill -CONT "$server" 2>/dev/null; wait "$server""#;

/// A server that ends when this value, or the whole process, does.
pub struct RedisServer {
    running: Option<Running>,
    port: u16,
    arguments: Vec<String>,
    dir: TempDir,
    /// Its process id, while it is paused.
    paused: Mutex<Option<String>>,
}

/// What a server with an append-only file had written down at an instant: each file, by its path
/// below the server's directory, with its number and its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written(BTreeMap<PathBuf, (u64, u64)>);

/// The shell that holds a server.
pub struct Running {
    recovery: Child,
    pipe: Option<ChildStdin>,
}

impl RedisServer {
    /// Starts a server with further arguments, such as `["--appendonly", "yes"]`.
    pub fn start(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Self::start_on(arguments, |_| {})
    }

    /// Starts another server on a copy of what this one, which is dead, wrote down.
    pub fn start_copy(&self) -> Self {
        assert!(self.running.is_none(), "its files would change meanwhile");
        Self::start_on(self.arguments.clone(), |dir| {
            for path in self.written().0.keys() {
                let copy = dir.join(path);
                fs::create_dir_all(copy.parent().expect("a directory")).expect("made");
                fs::copy(self.dir.path().join(path), copy).expect("copied");
            }
        })
    }

    /// Starts a server in a directory that `prepare` puts something into.
    fn start_on(arguments: Vec<String>, prepare: impl Fn(&Path)) -> Self {
        for _ in 0..TRIES {
            let dir = tempfile::tempdir().expect("a temporary directory");
            prepare(dir.path());
            let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
            let port = port.expect("a free port").port();
            if let Some(server) = Self::launch(port, dir, &arguments) {
                return server;
            }
        }
        panic!("no private Redis server came up in {TRIES} tries");
    }

    /// Whether the program knows TLS. What is built from the sources without further options does not.
    pub fn knows_tls() -> bool {
        static KNOWS: OnceLock<bool> = OnceLock::new();
        *KNOWS.get_or_init(|| {
            let authority = RedisAuthority::new("Redis CA");
            (0..TRIES).any(|_| {
                let [plain, tls] = [HeldPort::any(), HeldPort::any()];
                let arguments = authority.server_arguments(tls.number);
                Self::start_at(plain.number, &arguments).is_some()
            })
        })
    }

    /// Starts a server on this port; `None` if it does not come up there.
    pub fn start_at(port: u16, arguments: &[String]) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self::launch(port, dir, arguments)
    }

    fn launch(port: u16, dir: TempDir, arguments: &[String]) -> Option<Self> {
        let running = Running::launch(&data_node(port, dir.path(), arguments), READY)?;
        Some(Self {
            running: Some(running),
            port,
            arguments: arguments.to_vec(),
            dir,
            paused: Mutex::default(),
        })
    }

    /// Whether it runs and was not paused.
    pub fn is_there(&self) -> bool {
        self.running.is_some() && self.paused().is_none()
    }

    /// Starts a server that has the user of the documents, with these rights.
    pub fn start_for(rights: &[String], arguments: &[&str]) -> Self {
        let user = rights.iter().map(String::as_str);
        let arguments: Vec<&str> = (arguments.iter().copied())
            .chain(["--user", "ringback"])
            .chain(user)
            .collect();
        Self::start(&arguments)
    }

    /// Stops it and starts it again on the same port and files, when `meanwhile` is over.
    pub async fn restart(mut self, meanwhile: impl Future<Output = ()>) -> Self {
        self.end();
        meanwhile.await;
        self.start_again().await;
        self
    }

    /// Stops it in its tracks: it keeps its connections and answers nobody.
    pub async fn pause(&self) {
        let mut connection = connect(&self.url(0)).await;
        let info: String = (redis::cmd("INFO").arg("server"))
            .query_async(&mut connection)
            .await
            .expect("answered");
        let id = info
            .lines()
            .find_map(|line| line.strip_prefix("process_id:"))
            .expect("its process id");
        signal("STOP", id.trim());
        *self.paused() = Some(id.trim().to_string());
    }

    /// Lets it go on, if it was paused.
    pub fn resume(&self) {
        if let Some(id) = self.paused().take() {
            signal("CONT", &id);
        }
    }

    fn paused(&self) -> MutexGuard<'_, Option<String>> {
        self.paused.lock().expect("not poisoned")
    }

    fn end(&mut self) {
        // A paused one would not hear that it is to end.
        self.resume();
        self.running = None;
    }

    /// Kills it with SIGKILL; returns when it is dead. What it was told last may be lost.
    pub fn kill(&mut self) {
        let mut running = self.running.take().expect("it runs");
        let pipe = running.pipe.as_mut().expect("held until dropped");
        writeln!(pipe, "KILL").expect("the shell reads");
        *self.paused() = None;
    }

    /// What it has written down by now. It writes what a command changed before it answers the command,
    /// unless the disk keeps it waiting.
    pub fn written(&self) -> Written {
        let dir = self.dir.path();
        let mut files = BTreeMap::new();
        for path in files_of(dir)
            .into_iter()
            .chain(files_of(&dir.join("appendonlydir")))
        {
            let path = path.strip_prefix(dir).expect("below it").to_path_buf();
            // One that it has just removed has been rewritten.
            if let Ok(file) = fs::metadata(dir.join(&path)) {
                files.insert(path, (file.ino(), file.len()));
            }
        }
        Written(files)
    }

    /// Takes from it, while it is dead, what it wrote down since then, as a power cut does with what
    /// was not flushed yet. `false`, and nothing is taken, if its files were rewritten meanwhile.
    pub fn set_back(&mut self, to: &Written) -> bool {
        assert!(self.running.is_none(), "it would not notice");
        let now = self.written();
        let is_longer = |(path, (number, length)): (&PathBuf, &(u64, u64))| {
            now.0
                .get(path)
                .is_some_and(|now| now.0 == *number && now.1 >= *length)
        };
        if now.0.len() != to.0.len() || !to.0.iter().all(is_longer) {
            return false;
        }
        for (path, (_, length)) in &to.0 {
            let file = File::options().write(true).open(self.dir.path().join(path));
            file.and_then(|file| file.set_len(*length))
                .expect("cut off");
        }
        true
    }

    /// Starts it again on the same port and files.
    pub async fn start_again(&mut self) {
        let coming = async {
            loop {
                // It may have much to read in.
                let running = tokio::task::block_in_place(|| {
                    let arguments = data_node(self.port, self.dir.path(), &self.arguments);
                    Running::launch(&arguments, READY)
                });
                if running.is_some() {
                    return running;
                }
                // A connection of somebody else's may hold the port for a moment.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        self.running = super::within("Redis to come up again", coming).await;
    }

    /// Its port without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL of one of its databases.
    pub fn url(&self, database: usize) -> String {
        format!("redis://127.0.0.1:{}/{database}", self.port)
    }

    /// Likewise, for the user of the documents.
    pub fn user_url(&self, database: usize) -> String {
        let url = self.url(database);
        url.replace("redis://", "redis://ringback:PASSWORD@")
    }
}

/// The rights that `docs/operations.md` gives to a user of the server's own, its password among them.
pub fn documented_rights() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md");
    let text = std::fs::read_to_string(path).expect("readable");
    let start = text.find("ACL SETUSER ringback").expect("it is there");
    let end = text[start..].find("```").expect("the end of the block");
    let words = text[start..start + end].split_whitespace().skip(3);
    words.map(ToString::to_string).collect()
}

/// The rights that are needed besides with Sentinel, in a cluster and with `--redis-wait`, as `docs/operations.md` lists them.
pub fn documented_rights_besides() -> Vec<String> {
    listed_between("Rights besides", "At sentinels")
}

/// The user of the documents at sentinels.
pub fn documented_rights_at_sentinels() -> Vec<String> {
    let user = ["on", ">PASSWORD", "resetchannels"].map(ToString::to_string);
    let listed = listed_between("At sentinels", "Of a managed cluster");
    let channels = |right: String| match right.strip_prefix('+') {
        Some("switch-master" | "promoted-slave") => format!("&{right}"),
        _ => right,
    };
    (user.into_iter())
        .chain(listed.into_iter().map(channels))
        .collect()
}

/// What begins with a plus sign between two texts of `docs/operations.md`.
fn listed_between(from: &str, to: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md");
    let text = std::fs::read_to_string(path).expect("readable");
    let (_, rest) = text.split_once(from).expect("a paragraph");
    let (listed, _) = rest.split_once(to).expect("the end of the list");
    let words = listed.split(|byte: char| byte.is_whitespace() || "`.,".contains(byte));
    (words.filter(|word| word.starts_with('+')))
        .map(ToString::to_string)
        .collect()
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.end();
    }
}

impl Running {
    /// Starts the program with these arguments; `None` if it ends before it has said that it is ready.
    pub fn launch(arguments: &[OsString], ready: &str) -> Option<Self> {
        let mut recovery = Command::new("sh")
            .args(["-c", KEEPER, "recovery"])
            .arg(binary())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let pipe = recovery.stdin.take();
        let output = recovery.stdout.take().expect("piped");
        let running = Self { recovery, pipe };
        let mut lines = BufReader::new(output).lines();
        let ready = lines.any(|line| line.is_ok_and(|line| line.contains(ready)));
        // Read on, or the server would block once the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        ready.then_some(running)
    }
}

/// The arguments of a server that holds data.
fn data_node(port: u16, dir: &Path, arguments: &[String]) -> Vec<OsString> {
    let (port, databases) = (port.to_string(), DATABASES.to_string());
    let own = ["--bind", "127.0.0.1", "--port", &port]
        .into_iter()
        .chain(["--save", "", "--daemonize", "no"])
        .chain(["--databases", &databases, "--dir"]);
    let own = own.map(OsString::from).chain([dir.into()]);
    own.chain(arguments.iter().map(OsString::from)).collect()
}

impl Drop for Running {
    /// Ends the server and waits until it has ended.
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.recovery.wait();
    }
}

/// Sends a signal to a process.
fn signal(name: &str, id: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), id])
        .status();
    assert!(sent.expect("kill").success());
}

/// The files of an append-only file in a directory, which may not be there.
fn files_of(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("appendonly.aof") && entry.path().is_file()
        })
        .map(|entry| entry.path())
        .collect()
}

/// The URL of an empty database on the server that all tests share.
pub fn fresh_database() -> String {
    static SHARED: OnceLock<RedisServer> = OnceLock::new();
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let database = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(database < DATABASES, "raise DATABASES");
    SHARED.get_or_init(|| RedisServer::start(&[])).url(database)
}

/// A connection beside the server under test, as an operator would have.
pub async fn connect(url: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(url).expect("a URL");
    // A busy machine takes longer at times than the half second that the library grants.
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(super::LONGEST_WAIT));
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    super::within("a Redis connection", connecting)
        .await
        .expect("connected")
}

/// The server program. Tests that need Redis fail without one; they are never skipped.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("RINGBACK_TEST_REDIS") {
        return path.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|dir| ["redis-server", "valkey-server"].map(|name| dir.join(name)))
        .find(|candidate| candidate.is_file())
        .expect(
            "no redis-server or valkey-server on PATH: install Redis 6.2 or newer, or Valkey, or \
             run the tests by `make test`, which fetches one",
        )
}
