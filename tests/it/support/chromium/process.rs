//! The process of a chromedriver, and the Chromium that it starts.

use crate::support::within;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::ChildStdout;

/// A shell that holds a pipe from us, and kills its process group when the pipe closes: itself, the driver, and the
/// browser with all its children. So nothing is left behind, however this process ends.
const KEEPER: &str = r#""$@" & exec >&-
    while read -r _; do :; done
    kill -KILL 0"#;

/// A running chromedriver. It and its browser are killed when this is dropped.
pub struct Driver {
    keeper: Child,
    pipe: Option<ChildStdin>,
    /// Its URL.
    pub url: String,
}

impl Driver {
    /// Starts one on a free port. It and the browser keep their own files in `dir`.
    pub async fn start(dir: &Path) -> Self {
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(driver())
            .args(["--port=0", "--log-level=SEVERE"])
            .env("HOME", dir)
            .env("TMPDIR", dir)
            .env_remove("DISPLAY")
            .env_remove("DBUS_SESSION_BUS_ADDRESS")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let pipe = keeper.stdin.take();
        let output = keeper.stdout.take().expect("piped");
        let mut driver = Self {
            keeper,
            pipe,
            url: String::new(),
        };
        let output = ChildStdout::from_std(output).expect("a pipe");
        let mut lines = BufReader::new(output).lines();
        let port = within("chromedriver to start", async {
            while let Some(line) = lines.next_line().await.expect("readable") {
                if let Some((_, port)) = line.split_once("started successfully on port ") {
                    return port.trim_end_matches('.').to_string();
                }
            }
            panic!("chromedriver ended without saying its port");
        })
        .await;
        driver.url = format!("http://127.0.0.1:{port}");
        // Read on, or the driver would block once the pipe is full.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        driver
    }
}

impl Drop for Driver {
    /// Kills both, and waits until the shell has ended.
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.keeper.wait();
    }
}

/// The browser. Tests that need it fail without one; they are never skipped.
pub fn browser() -> PathBuf {
    find(
        "RINGBACK_TEST_CHROMIUM",
        &["chromium", "chromium-browser", "google-chrome", "chrome"],
    )
}

fn driver() -> PathBuf {
    find("RINGBACK_TEST_CHROMEDRIVER", &["chromedriver"])
}

fn find(variable: &str, names: &[&str]) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|dir| names.iter().map(move |name| dir.join(name)))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| {
            panic!(
                "none of {names:?} is on PATH: install Chromium and chromedriver of one version, name them in \
                 RINGBACK_TEST_CHROMIUM and RINGBACK_TEST_CHROMEDRIVER, or run the tests by `make test`, which installs \
                 them"
            )
        })
}
