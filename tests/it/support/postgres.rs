//! Private PostgreSQL servers.
//!
//! Each listens on a free port of the loopback, keeps its files in a temporary directory, and ends
//! with the test process, however that ends: a small shell holds a pipe from us, sends the server
//! the signals that we name there, and ends it by its process id when the pipe closes. PostgreSQL
//! refuses to run as root, so root starts it as somebody else.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};
use std::fs::{self, Permissions};
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// Ports that are tried, since another process may take a free one before the server does.
const TRIES: usize = 5;
/// Lines of its log that are kept for whoever asks for them.
const MOST_LINES: usize = 10_000;
/// The user that all databases of these servers belong to.
const OWNER: &str = "ringback";

/// Closing the pipe ends the server at once. A signal that is named ends it too, and then there is
/// nothing left to end. Nobody says `KEEP` when the test process has died: then its files go as well.
/// The shell keeps no end of the pipe to which the server writes, so that this ends with the server.
const KEEPER: &str = r#""$@" 2>&1 & server=$! keep=
    exec >/dev/null
    while read -r word; do
        case "$word" in
            KEEP) keep=yes ;;
            *) kill -"$word" "$server"; wait "$server" ;;
        esac
    done
    kill -QUIT "$server" 2>/dev/null; wait "$server"
    [ -n "$keep" ] || { dir=$PWD; cd / && rm -rf "$dir"; }"#;

/// A server that ends when this value, or the whole process, does.
pub struct PostgresServer {
    running: Option<Running>,
    port: u16,
    arguments: Vec<String>,
    dir: TempDir,
}

/// The shell that holds a server.
struct Running {
    recovery: Child,
    pipe: Option<ChildStdin>,
    /// Reads what the server says; ends with the last of its processes.
    reader: Option<JoinHandle<()>>,
    log: Arc<Mutex<Vec<String>>>,
    /// The processes that were stopped in their tracks.
    paused: Vec<String>,
}

impl PostgresServer {
    /// Starts a server with further settings, such as `["fsync=on"]`. Without that it does not wait
    /// for the disk, which loses nothing as long as the machine itself goes on.
    pub fn start(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        initialise(dir.path());
        Self::launch(dir, settings)
    }

    /// Starts a standby that takes over its changes. This server is stopped while its files are copied.
    #[allow(dead_code, reason = "the benchmarks have none")]
    pub async fn start_standby(&mut self) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        give(dir.path());
        self.stop();
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(data(self.dir.path())).arg(dir.path());
        let copied = as_owner(&mut copy, dir.path()).status().expect("cp");
        assert!(copied.success(), "the files are copied");
        let signal = data(dir.path()).join("standby.signal");
        fs::write(&signal, "").expect("written");
        give(&signal);
        self.start_again().await;
        let primary = format!(
            "primary_conninfo=host=127.0.0.1 port={} user={OWNER}",
            self.port
        );
        tokio::task::block_in_place(|| Self::launch(dir, &[primary.as_str()]))
    }

    fn launch(dir: TempDir, settings: &[&str]) -> Self {
        for _ in 0..TRIES {
            let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
            let port = port.expect("a free port").port();
            let arguments = arguments(dir.path(), port, settings);
            if let Some(running) = Running::launch(dir.path(), &arguments) {
                return Self {
                    running: Some(running),
                    port,
                    arguments,
                    dir,
                };
            }
        }
        panic!("no private PostgreSQL server came up in {TRIES} tries");
    }

    /// The id of its first process, which is the parent of its sessions.
    #[allow(dead_code, reason = "only the benchmarks ask for it")]
    pub fn process(&self) -> u32 {
        first_process(self.dir.path())
    }

    /// Takes what it has logged since it was started, or since this was called last; at most [`MOST_LINES`].
    #[allow(dead_code, reason = "only the benchmarks ask for it")]
    pub fn take_log(&self) -> Vec<String> {
        let running = self.running.as_ref().expect("it runs");
        std::mem::take(&mut *running.log.lock().expect("not poisoned"))
    }

    /// Kills it with SIGKILL; returns when all of it is dead.
    pub fn kill(&mut self) {
        self.running.as_mut().expect("it runs").tell("KILL");
        self.running = None;
    }

    /// Has it end its sessions and stop, and waits until it has.
    pub fn stop(&mut self) {
        self.running.as_mut().expect("it runs").tell("INT");
        self.running = None;
    }

    /// Starts it again on the same port and files.
    pub async fn start_again(&mut self) {
        let coming = async {
            loop {
                // It may have much to recover.
                let running = tokio::task::block_in_place(|| {
                    Running::launch(self.dir.path(), &self.arguments)
                });
                if running.is_some() {
                    return running;
                }
                // Its sessions of before may need a moment to notice that they are orphans.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        self.running = super::within("PostgreSQL to come up again", coming).await;
    }

    /// Stops it and starts it again on the same port and files, when `meanwhile` is over.
    pub async fn restart(&mut self, meanwhile: impl Future<Output = ()>) {
        self.stop();
        meanwhile.await;
        self.start_again().await;
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Has it accept TLS alone from now on: with this certificate and key, from clients that show a certificate of that
    /// authority. All three are PEM texts.
    #[allow(dead_code, reason = "the benchmarks use no TLS")]
    pub async fn require_tls(&self, certificate: &str, key: &str, ca: &str) {
        let data = data(self.dir.path());
        let rules = "hostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n";
        for (name, text) in [
            ("server.crt", certificate),
            ("server.key", key),
            ("root.crt", ca),
            ("pg_hba.conf", rules),
        ] {
            let path = data.join(name);
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("ours to change");
            give(&path);
        }
        let url = self.url("postgres");
        let mut connection = connect(&url).await;
        for statement in [
            "ALTER SYSTEM SET ssl_ca_file = 'root.crt'",
            "ALTER SYSTEM SET ssl = on",
            "SELECT pg_reload_conf()",
        ] {
            run(&mut connection, statement).await;
        }
        let options: PgConnectOptions = url.parse().expect("a URL");
        let refused = async {
            // The server takes its files in a moment later.
            while options.connect().await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        super::within("PostgreSQL to refuse what is no TLS", refused).await;
    }

    /// Stops all of its processes in their tracks: it keeps its connections and answers nobody.
    pub fn pause(&mut self) {
        self.running
            .as_mut()
            .expect("it runs")
            .pause(self.dir.path());
    }

    /// Lets it go on.
    pub fn resume(&mut self) {
        self.running.as_mut().expect("it runs").resume();
    }

    /// The URL of one of its databases; `postgres` is always there.
    pub fn url(&self, database: &str) -> String {
        let address = self.address().parse().expect("an address");
        self.url_by(address, database)
    }

    /// Likewise, for whoever reaches it by another address.
    pub fn url_by(&self, address: SocketAddr, database: &str) -> String {
        format!("postgres://{OWNER}@{address}/{database}")
    }

    /// The URL of a new, empty database.
    pub fn fresh_database(&self) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("fresh{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let url = self.url("postgres");
        // On a runtime of its own: the caller may have one or not.
        let making = std::thread::scope(|scope| {
            let making = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(async {
                    let sql = format!("CREATE DATABASE {name}");
                    run(&mut connect(&url).await, &sql).await;
                });
            });
            making.join()
        });
        making.expect("a database");
        self.url(&name)
    }
}

impl Running {
    /// Starts a server; `None` if it ends before it is ready.
    fn launch(dir: &Path, arguments: &[String]) -> Option<Self> {
        let mut command = Command::new("sh");
        command
            .args(["-c", KEEPER, "recovery"])
            .arg(binaries().join("postgres"))
            .args(arguments);
        let mut recovery = as_owner(&mut command, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let pipe = recovery.stdin.take();
        let output = recovery.stdout.take().expect("piped");
        let mut lines = BufReader::new(output).lines();
        let ready = lines.any(|line| line.is_ok_and(|line| line.contains("ready to accept")));
        // Read on, or the server would block once the pipe is full.
        let log = Arc::<Mutex<Vec<String>>>::default();
        let kept = log.clone();
        let reader = std::thread::spawn(move || {
            for line in lines {
                let mut kept = kept.lock().expect("not poisoned");
                if kept.len() < MOST_LINES {
                    kept.push(line.unwrap_or_default());
                }
            }
        });
        let running = Self {
            recovery,
            pipe,
            reader: Some(reader),
            log,
            paused: Vec::new(),
        };
        ready.then_some(running)
    }

    /// The server first, so that it makes no more processes.
    fn pause(&mut self, dir: &Path) {
        let server = first_process(dir).to_string();
        signal("STOP", &server);
        self.paused = vec![server.clone()];
        let children = format!("/proc/{server}/task/{server}/children");
        let children = fs::read_to_string(children).expect("readable");
        for child in children.split_whitespace() {
            signal("STOP", child);
            self.paused.push(child.to_string());
        }
    }

    fn resume(&mut self) {
        for process in self.paused.drain(..).rev() {
            signal("CONT", &process);
        }
    }

    /// Tells the shell a word: a signal, or `KEEP`.
    fn tell(&mut self, word: &str) {
        let pipe = self.pipe.as_mut().expect("held until dropped");
        writeln!(pipe, "{word}").expect("the shell reads");
    }
}

impl Drop for Running {
    /// Ends the server and waits until it has ended, the processes of its sessions included: after a
    /// kill they go on until they notice.
    fn drop(&mut self) {
        // One in its tracks would not hear that it is to end.
        self.resume();
        self.tell("KEEP");
        drop(self.pipe.take());
        let _ = self.recovery.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Sends a signal to a process of a server.
pub fn signal(name: &str, process: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), process])
        .status();
    assert!(sent.expect("kill").success());
}

/// The URL of an empty database on the server that all tests share.
pub fn fresh_database() -> String {
    static SHARED: OnceLock<PostgresServer> = OnceLock::new();
    SHARED
        .get_or_init(|| PostgresServer::start(&[]))
        .fresh_database()
}

/// A connection beside the server under test, as an operator would have.
pub async fn connect(url: &str) -> PgConnection {
    let options: PgConnectOptions = url.parse().expect("a URL");
    super::within("a PostgreSQL connection", options.connect())
        .await
        .expect("connected")
}

/// Runs statements of which nothing is to come back.
pub async fn run(connection: &mut PgConnection, sql: &str) {
    let running = connection.execute(AssertSqlSafe(sql));
    super::within(sql, running).await.expect("it runs");
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}

/// Gives a file or directory to whom the server runs as.
fn give(path: &Path) {
    if let Some((user, group)) = other_than_root() {
        chown(path, Some(user), Some(group)).expect("ours to give");
    }
}

fn initialise(dir: &Path) {
    give(dir);
    let mut command = Command::new(binaries().join("initdb"));
    command
        .args(["--username", OWNER, "--auth", "trust", "--no-sync"])
        .args(["--encoding", "UTF8", "--locale", "C", "--pgdata"])
        .arg(data(dir));
    let output = as_owner(&mut command, dir).output().expect("initdb");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "initdb: {complaint}");
}

fn arguments(dir: &Path, port: u16, settings: &[&str]) -> Vec<String> {
    let mut arguments = vec!["-D".to_string(), data(dir).display().to_string()];
    let own = [
        "listen_addresses=127.0.0.1".to_string(),
        format!("port={port}"),
        format!("unix_socket_directories={}", dir.display()),
        "max_connections=400".to_string(),
        "fsync=off".to_string(),
        "logging_collector=off".to_string(),
    ];
    let settings = settings.iter().map(ToString::to_string);
    for setting in own.into_iter().chain(settings) {
        arguments.extend(["-c".to_string(), setting]);
    }
    arguments
}

/// In a directory that it may look into, as somebody who may run PostgreSQL, and with nothing of the
/// caller's settings.
fn as_owner<'command>(command: &'command mut Command, dir: &Path) -> &'command mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    if let Some((user, group)) = other_than_root() {
        command.uid(user).gid(group);
    }
    command.current_dir(dir).env("LC_ALL", "C")
}

/// Whom root runs the server as: the system's `postgres`, else `nobody`.
fn other_than_root() -> Option<(u32, u32)> {
    let own = fs::metadata("/proc/self").map_or(u32::MAX, |process| process.uid());
    if own != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |name: &str| {
        let entry = users
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let mut fields = entry.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(
        ids("postgres")
            .or_else(|| ids("nobody"))
            .unwrap_or((65_534, 65_534)),
    )
}

/// Where the server's programs are. Tests that need PostgreSQL fail without them; they are never
/// skipped.
fn binaries() -> &'static Path {
    static BINARIES: OnceLock<PathBuf> = OnceLock::new();
    BINARIES.get_or_init(|| {
        if let Some(path) = std::env::var_os("RINGBACK_TEST_POSTGRES") {
            return path.into();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        // Debian keeps them out of PATH, one directory per version.
        let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let debian = debian.filter_map(|version| Some(version.ok()?.path().join("bin")));
        std::env::split_paths(&path)
            .chain(debian)
            .find(|dir| dir.join("postgres").is_file() && dir.join("initdb").is_file())
            .expect(
                "no PostgreSQL server (postgres and initdb): install PostgreSQL 14 or newer, or run \
                 the tests by `make test`, which fetches one",
            )
    })
}

/// The id of the first process of the server in this directory.
fn first_process(dir: &Path) -> u32 {
    let file = fs::read_to_string(data(dir).join("postmaster.pid")).expect("it runs");
    let first = file.lines().next().and_then(|line| line.parse().ok());
    first.expect("its process id")
}
