//! The real program as a process of its own, to be stopped, killed and started again.

use super::ringback::Api;
use super::within;
use crate::receivers::program::python;
use serde_json::Value;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

/// A running `ringback serve`; killed when dropped.
pub struct Process {
    child: Child,
    /// Until somebody takes it away.
    log: Option<Lines<BufReader<ChildStderr>>>,
    api: Api,
    instance: String,
    /// What it logged when it was ready.
    ready: Value,
}

impl Process {
    /// Starts one that keeps its files in `dir`, with further arguments, and waits until it is
    /// ready.
    pub async fn start(dir: &Path, arguments: &[&str]) -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_ringback")), dir, arguments).await
    }

    /// Like [`Process::start`], for a process that trusts only the authorities in this file.
    pub async fn start_trusting(roots: &Path, dir: &Path, arguments: &[&str]) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_ringback"));
        program
            .env("SSL_CERT_FILE", roots)
            .env_remove("SSL_CERT_DIR");
        Self::run(program, dir, arguments).await
    }

    /// Like [`Process::start`], for a process that survives a limit on the size of its files.
    pub async fn start_unharmed(dir: &Path, arguments: &[&str]) -> Self {
        Self::start_ignoring("XFSZ", dir, arguments).await
    }

    /// Like [`Process::start`], for a process that ends with its terminal, also if the tests were started by `nohup`: a
    /// process inherits that a signal is ignored, and a shell cannot undo that.
    pub async fn start_with_terminal(dir: &Path, arguments: &[&str]) -> Self {
        let mut program = python();
        program.args([
            "-c",
            "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])",
            env!("CARGO_BIN_EXE_ringback"),
        ]);
        Self::run(program, dir, arguments).await
    }

    /// Like [`Process::start`], for a process that is to outlive its terminal.
    pub async fn start_without_hang_up(dir: &Path, arguments: &[&str]) -> Self {
        Self::start_ignoring("HUP", dir, arguments).await
    }

    async fn start_ignoring(signal: &str, dir: &Path, arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"trap "" "$0"; exec "$@""#, signal]);
        shell.arg(env!("CARGO_BIN_EXE_ringback"));
        Self::run(shell, dir, arguments).await
    }

    async fn run(mut program: Command, dir: &Path, arguments: &[&str]) -> Self {
        let mut child = program
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--log-format",
                "json",
                "--data-dir",
            ])
            .arg(dir)
            .args(["--allow-destination", "127.0.0.0/8"])
            .args(arguments)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let ready = within("the server to be ready", async {
            while let Some(line) = log.next_line().await.expect("readable") {
                let line: Value = serde_json::from_str(&line).expect("a JSON line");
                if line["message"] == "the server has started and is ready for requests" {
                    return line;
                }
            }
            panic!("it ended without becoming ready");
        })
        .await;
        let field = |name: &str| ready[name].as_str().expect("a text").to_string();
        Self {
            child,
            log: Some(log),
            api: Api::at(format!("http://{}", field("address"))),
            instance: field("instance"),
            ready,
        }
    }

    /// The name under which it signs what it writes into the journal.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The line that it logged when it was ready.
    pub fn ready(&self) -> &Value {
        &self.ready
    }

    /// Takes its log away, one line at a time. Needed where it writes more than a pipe holds: it
    /// would stand still.
    pub fn take_log(&mut self, each: impl Fn(&str) + Send + 'static) {
        let Some(mut log) = self.log.take() else {
            return;
        };
        tokio::spawn(async move {
            while let Ok(Some(line)) = log.next_line().await {
                each(&line);
            }
        });
    }

    /// Goes away from reading its log, as a terminal does that is closed.
    pub fn close_log(&mut self) {
        self.log = None;
    }

    /// Its API.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Kills it with SIGKILL.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("it is ours to kill");
    }

    /// Sends it a signal.
    pub async fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &id])
            .status()
            .await;
        assert!(sent.expect("kill").success());
    }

    /// Waits for a log message; gives the lines up to it that nobody waited for before.
    pub async fn logged(&mut self, message: &str) -> Vec<Value> {
        let log = self.log.as_mut().expect("its log was taken away");
        let mut lines = Vec::new();
        within(message, async {
            while let Some(line) = log.next_line().await.expect("readable") {
                let found = line.contains(message);
                lines.push(serde_json::from_str(&line).expect("a JSON line"));
                if found {
                    return lines;
                }
            }
            panic!("it ended without saying `{message}`");
        })
        .await
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Waits until it has ended.
    pub async fn ended(mut self) -> ExitStatus {
        within("the server to end", self.child.wait())
            .await
            .expect("a status")
    }
}
