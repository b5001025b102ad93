//! The receivers in `docs/receivers` as processes.

use crate::support::within;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Ports that are tried where the receiver cannot choose one, since another process may take a free one
/// before the receiver does.
const TRIES: usize = 5;

/// The version whose behaviour the document states.
const LIBRARY_CHECK: &str =
    "import standardwebhooks as it, sys; sys.exit(it.__version__ != '1.1.0')";

/// What a receiver is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Python,
    /// Python with the library of Standard Webhooks.
    PythonWithLibrary,
    Node,
    Php,
    Java,
    Go,
}

impl Language {
    /// Its name and what it needs, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::PythonWithLibrary => "Python with the package standardwebhooks 1.1.0",
            Self::Node => "Node.js",
            Self::Php => "PHP (php)",
            Self::Java => "Java (java and javac)",
            Self::Go => "Go (go)",
        }
    }

    /// Whether what it needs is on this machine.
    pub async fn is_installed(self) -> bool {
        let mut command = match self {
            Self::Python | Self::PythonWithLibrary => python(),
            Self::Node => node(),
            Self::Php => Command::new("php"),
            Self::Java => Command::new("javac"),
            Self::Go => Command::new("sh"),
        };
        command.args(match self {
            Self::Python => &["-c", "import sys; sys.exit(sys.version_info < (3, 9))"][..],
            Self::PythonWithLibrary => &["-c", LIBRARY_CHECK],
            Self::Node => &[
                "-e",
                "process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)",
            ],
            Self::Php => &["-r", "exit(PHP_VERSION_ID < 80100 ? 1 : 0);"],
            // Older compilers do not know this release.
            Self::Java => &["--release", "17", "--version"],
            Self::Go => &["-c", r"go env GOVERSION | grep -Eq '^go1\.(19|[2-9][0-9])'"],
        });
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        let ended = quiet.stderr(Stdio::null()).status().await;
        ended.is_ok_and(|status| status.success())
    }
}

/// A receiver that can be started: what has to be compiled before is compiled.
pub struct Program {
    /// What it is written in.
    pub language: Language,
    compiled: TempDir,
}

impl Program {
    /// The receiver in a language that is installed.
    pub async fn prepare(language: Language) -> Self {
        let compiled = tempfile::tempdir().expect("a temporary directory");
        let (mut compiler, name) = match language {
            Language::Java => (with(Command::new("javac"), ["-d".into()]), "Receiver.java"),
            Language::Go => (
                with(Command::new("go"), ["build".into(), "-o".into()]),
                "receiver.go",
            ),
            Language::Python | Language::PythonWithLibrary | Language::Node | Language::Php => {
                return Self { language, compiled };
            }
        };
        let result = compiler.arg(compiled.path()).arg(source(name)).output();
        let result = result.await.expect("a compiler");
        let complaint = String::from_utf8_lossy(&result.stderr);
        assert!(result.status.success(), "{name}: {complaint}");
        Self { language, compiled }
    }

    /// The command that starts it. The port is for a receiver that cannot choose one.
    fn command(&self, port: u16) -> Command {
        let file = |name: &str| source(name).into_os_string();
        let compiled = self.compiled.path();
        match self.language {
            Language::Python => with(python(), [file("receiver.py")]),
            Language::PythonWithLibrary => with(python(), [file("receiver_library.py")]),
            Language::Node => with(node(), [file("receiver.mjs")]),
            Language::Php => {
                let address = format!("127.0.0.1:{port}");
                let arguments = ["-S".into(), address.into(), file("receiver.php")];
                with(Command::new("php"), arguments)
            }
            Language::Java => {
                let arguments = ["-cp".into(), compiled.into(), "Receiver".into()];
                with(Command::new("java"), arguments)
            }
            Language::Go => Command::new(compiled.join("receiver")),
        }
    }
}

fn source(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("docs/receivers").join(name)
}

fn with<const N: usize>(mut command: Command, arguments: [OsString; N]) -> Command {
    command.args(arguments);
    command
}

fn named(variable: &str, otherwise: &str) -> Command {
    Command::new(std::env::var_os(variable).unwrap_or_else(|| otherwise.into()))
}

/// Python, as the tests found it, with the directories in which `make test` put the libraries.
pub fn python() -> Command {
    let mut python = named("RINGBACK_TEST_PYTHON", "python3");
    let libraries: Vec<OsString> = [
        "RINGBACK_TEST_STANDARDWEBHOOKS",
        "RINGBACK_TEST_CRYPTOGRAPHY",
    ]
    .iter()
    .filter_map(std::env::var_os)
    .collect();
    if !libraries.is_empty() {
        let path = std::env::join_paths(libraries).expect("no separator in them");
        python.env("PYTHONPATH", path);
    }
    // It would leave compiled files beside the sources.
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

/// Node.js, as the tests found it.
pub fn node() -> Command {
    named("RINGBACK_TEST_NODE", "node")
}

/// Where a receiver keeps what it received.
pub struct Store {
    dir: TempDir,
}

impl Store {
    /// An empty one. The receiver makes the directory itself.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("received")
    }

    /// Puts a file in the place of the directory, so that nothing can be stored.
    pub fn make_unusable(&self) {
        let path = self.path();
        // The receiver in PHP makes it with the first call that it accepts.
        if path.exists() {
            std::fs::remove_dir_all(&path).expect("it is removed");
        }
        std::fs::write(&path, "").expect("a file");
    }

    /// The body that is kept under an id.
    pub fn body(&self, webhook_id: &str) -> Vec<u8> {
        std::fs::read(self.path().join(webhook_id)).expect("a body")
    }

    /// The names of all files in it and beside it.
    pub fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for dir in [self.dir.path().to_path_buf(), self.path()] {
            for entry in std::fs::read_dir(dir).into_iter().flatten() {
                let name = entry.expect("an entry").file_name();
                names.insert(name.into_string().expect("a name"));
            }
        }
        names.remove("received");
        names
    }
}

/// A running receiver; killed when dropped.
pub struct Receiver {
    child: Child,
    lines: UnboundedReceiver<String>,
    said: Vec<String>,
    port: u16,
}

impl Receiver {
    /// Starts one and waits until it listens.
    pub async fn start(program: &Program, secrets: &str, store: &Store) -> Self {
        for _ in 0..TRIES {
            let mut receiver = Self::spawn(program, secrets, store);
            if let Some(port) = receiver.listens().await {
                receiver.port = port;
                return receiver;
            }
        }
        panic!("{} does not start", program.language.name());
    }

    /// Starts one that may end at once.
    pub fn spawn(program: &Program, secrets: &str, store: &Store) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let free = free.expect("a free port").port();
        let mut child = program
            .command(free)
            .env("PORT", "0")
            .env("STORE", store.path())
            .env("WEBHOOK_SECRET", secrets)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.language.name()));
        let (sender, lines) = unbounded_channel();
        forward(child.stdout.take().expect("piped"), sender.clone());
        forward(child.stderr.take().expect("piped"), sender);
        Self {
            child,
            lines,
            said: Vec::new(),
            port: 0,
        }
    }

    /// The port, once it listens; `None` if it ended instead.
    async fn listens(&mut self) -> Option<u16> {
        let is_ready = |line: &str| line.contains("listening on ") || line.ends_with(") started");
        let line = self.line(is_ready).await?;
        let (_, rest) = line.split_once("127.0.0.1:").expect("an address");
        let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next();
        Some(digits.and_then(|port| port.parse().ok()).expect("a port"))
    }

    /// The next line that is the one wished for; `None` if there is none until its end.
    async fn line(&mut self, wish: impl Fn(&str) -> bool) -> Option<String> {
        let reading = async {
            while let Some(line) = self.lines.recv().await {
                self.said.push(line.clone());
                if wish(&line) {
                    return Some(line);
                }
            }
            None
        };
        within("the receiver to say something", reading).await
    }

    /// Waits until it says that it treated a notification like this.
    pub async fn says(&mut self, what: &str, webhook_id: &str) {
        let text = format!("{what} {webhook_id}");
        let line = self.line(|line| line.ends_with(&text)).await;
        assert!(line.is_some(), "it ended without saying `{text}`");
    }

    /// How often it said that it stored something under an id, up to what was waited for.
    pub fn times_stored(&self, webhook_id: &str) -> usize {
        let text = format!("stored {webhook_id}");
        let stored = self.said.iter().filter(|line| line.ends_with(&text));
        stored.count()
    }

    /// Whether it ends by itself, with an error and without listening.
    pub async fn refuses_to_start(mut self) -> bool {
        self.listens().await.is_none() && {
            let ended = within("the receiver to end", self.child.wait()).await;
            !ended.expect("a status").success()
        }
    }

    /// Kills it with SIGKILL.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("it is ours to kill");
    }

    /// Where it receives.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/notify", self.port)
    }
}

fn forward(output: impl AsyncRead + Unpin + Send + 'static, lines: UnboundedSender<String>) {
    tokio::spawn(async move {
        let mut reader = BufReader::new(output).lines();
        while let Ok(Some(line)) = reader.next_line().await {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
}
