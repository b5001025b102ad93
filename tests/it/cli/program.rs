//! The program under test as a child process.

use std::io::{BufRead as _, BufReader, Read as _, pipe};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// What a finished program leaves behind.
#[derive(Debug)]
pub struct Finished {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// A program that runs until it is stopped; killed when dropped.
pub struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

/// The program with nothing of the caller's settings in its environment.
fn command(dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringback"));
    command.current_dir(dir).args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RINGBACK_") {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub fn run(dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    let output = command(dir, arguments, variables).output();
    finished(output.expect("the program runs"))
}

/// Runs it with a standard output that nobody reads.
pub fn run_into_closed_pipe(arguments: &[&str]) -> Finished {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let output = command(Path::new("."), arguments, &[])
        .stdout(writer)
        .output();
    finished(output.expect("the program runs"))
}

fn finished(output: Output) -> Finished {
    Finished {
        status: output.status.code().expect("ended by itself"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

impl Running {
    /// Starts the program.
    pub fn start(dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = command(dir, arguments, variables)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, stdout }
    }

    /// Waits for its next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("readable");
        line.trim_end().to_string()
    }

    /// Waits until the server that it is logs that it is ready, and returns where it listens.
    pub fn address(&mut self) -> String {
        let pipe = self.child.stderr.take().expect("piped");
        let mut log = BufReader::new(pipe);
        let address = loop {
            let mut line = String::new();
            let read = log.read_line(&mut line).expect("readable");
            assert_ne!(read, 0, "it ended before it was ready");
            let is_ready = line.contains("the server has started");
            if let Some((_, rest)) = line.split_once(" address=").filter(|_| is_ready) {
                break rest
                    .split_whitespace()
                    .next()
                    .expect("an address")
                    .to_string();
            }
        };
        // Read on, or the server would block once the pipe is full.
        std::thread::spawn(move || drop(std::io::copy(&mut log, &mut std::io::sink())));
        address
    }

    /// Sends it a signal, such as `TERM`, and waits for its end.
    pub fn stop(mut self, signal: &str) -> Finished {
        let status = Command::new("kill")
            .args([&format!("-{signal}"), &self.child.id().to_string()])
            .status();
        assert!(status.expect("kill runs").success());
        let status = self.child.wait().expect("it ends");
        let mut stdout = String::new();
        self.stdout.read_to_string(&mut stdout).expect("readable");
        let mut stderr = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_string(&mut stderr).expect("readable");
        }
        Finished {
            status: status.code().expect("ended by itself"),
            stdout,
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails when it has ended, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
