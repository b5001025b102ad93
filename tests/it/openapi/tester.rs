//! The tester schemathesis, which makes requests from the description and compares the answers with it.
//!
//! Three kinds of callers: without a key, an operator, and a producer that is bound to a topic. Every call to a merchant
//! goes to a proxy that is not there, so nothing leaves this machine.

use crate::receivers::program::python;
use crate::support::process::Process;
use reqwest::Method;
use serde_json::json;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

/// The longest that a run may take: several times what it takes on two slow cores.
const LONGEST_RUN: Duration = Duration::from_secs(400);
/// The seed, unless `RINGBACK_SCHEMATHESIS_SEED` gives another one.
const SEED: &str = "1";
/// What is checked of every answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,unsupported_method,allow_header_conformance,\
    use_after_free";
/// An address at which nobody listens.
const NO_PROXY: &str = "http://127.0.0.1:9";
const OPERATOR: &str = "operators-own-key";

/// Where the package is, if it is there.
fn package() -> Option<OsString> {
    let package = std::env::var_os("RINGBACK_TEST_SCHEMATHESIS");
    package.filter(|package| !package.is_empty())
}

/// Tells something also without `--nocapture`.
fn tell(text: &str) {
    let said = writeln!(std::io::stderr(), "schemathesis: {text}");
    said.expect("standard error");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tester_finds_no_answer_that_the_description_does_not_allow() {
    let Some(package) = package() else {
        tell("NOT tried, since the package is not here; `make test` fetches it");
        return;
    };
    let seed = std::env::var("RINGBACK_SCHEMATHESIS_SEED").unwrap_or_else(|_| SEED.to_string());
    let (open, locked) = tokio::join!(without_a_key(&package, &seed), with_keys(&package, &seed));
    for told in [open, locked].concat() {
        tell(&told);
    }
}

async fn without_a_key(package: &OsString, seed: &str) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(dir.path(), &[]).await;
    let phases = [
        "--phases",
        "examples,coverage,fuzzing,stateful",
        "--max-examples",
        "5",
        // It would make up keys, and most answers would be 401.
        "--generation-with-security-parameters",
        "false",
    ];
    let told = run(package, seed, &server, "no key", CHECKS, &phases).await;
    server.kill().await;
    vec![told]
}

async fn with_keys(package: &OsString, seed: &str) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(
        dir.path(),
        &["--api-key", OPERATOR, "--requests-per-key", "100000"],
    )
    .await;
    let producer = json!({ "name": "bound", "role": "producer", "topics": ["payment.succeeded"] });
    let operator = server.api().with_key(OPERATOR);
    let made = operator
        .call(Method::POST, "/v1/keys", Some(producer))
        .await;
    let producer = made.1["key"].as_str().expect("a key").to_string();
    // Also that no change works without a key or with a wrong one, and that no wrong value is accepted. Lists take empty
    // parameters, and a batch has its refusals in its results.
    let strict = format!("{CHECKS},ignored_auth,missing_required_header,negative_data_rejection");
    let changes = [
        "--phases",
        "coverage,fuzzing",
        "--exclude-method",
        "GET",
        "--exclude-path",
        "/v1/notifications/batch",
    ];
    let mut told = Vec::new();
    for (who, key, checks, phases) in [
        ("operator, changes", OPERATOR, strict.as_str(), &changes[..]),
        (
            "producer of a topic",
            &producer,
            CHECKS,
            &["--phases", "examples,fuzzing"],
        ),
    ] {
        let header = format!("Authorization: Bearer {key}");
        let arguments = [phases, &["--max-examples", "5", "--header", &header]].concat();
        told.push(run(package, seed, &server, who, checks, &arguments).await);
    }
    server.kill().await;
    told
}

async fn start(dir: &Path, arguments: &[&str]) -> Process {
    let arguments = [&["--proxy", NO_PROXY], arguments].concat();
    let mut server = Process::start(dir, &arguments).await;
    server.take_log(|_| {});
    server
}

/// Runs the tester. Gives what it did in one line; panics with what it found.
async fn run(
    package: &OsString,
    seed: &str,
    server: &Process,
    who: &str,
    checks: &str,
    arguments: &[&str],
) -> String {
    let url = server.api().url();
    // It leaves files in its working directory.
    let dir = TempDir::new().expect("a temporary directory");
    let mut tester = python();
    tester
        .env("PYTHONPATH", package)
        .env("NO_PROXY", "127.0.0.1")
        .current_dir(dir.path())
        .args([
            "-c",
            "from schemathesis.cli import schemathesis; schemathesis()",
            "--no-color",
        ])
        .args(["run", &format!("{url}/openapi.json"), "--url", url])
        .args([
            "--checks",
            checks,
            "--seed",
            seed,
            "--generation-database",
            "none",
        ])
        .args(["--warnings", "off", "--continue-on-failure"])
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(LONGEST_RUN, tester.output()).await;
    let output = ended.expect("the tester ends").expect("Python");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "schemathesis, {who}, seed {seed}: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let cases = said.lines().find(|line| line.contains(" generated, "));
    let cases = cases.expect("it counts its cases").trim();
    format!("{who}, seed {seed}: {cases}")
}
