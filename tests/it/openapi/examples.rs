//! The programs in `docs/examples` that register notifications, and the examples in the description.

use super::described;
use crate::receivers::program::{node, python};
use crate::support::merchant::Merchant;
use crate::support::process::Process;
use crate::support::{install_tls, within};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// A program, what runs it, and how to see whether that is there. Those with `true` have to be there.
struct Example {
    file: &'static str,
    runs: fn() -> Command,
    check: &'static [&'static str],
    is_mandatory: bool,
}

const EXAMPLES: [Example; 6] = [
    Example {
        file: "register.py",
        runs: python,
        check: &["-c", "import sys; sys.exit(sys.version_info < (3, 9))"],
        is_mandatory: true,
    },
    Example {
        file: "register.mjs",
        runs: node,
        check: &[
            "-e",
            "process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)",
        ],
        is_mandatory: true,
    },
    Example {
        file: "register.sh",
        runs: || Command::new("sh"),
        check: &["-c", "curl --version"],
        is_mandatory: false,
    },
    Example {
        file: "register.php",
        runs: || Command::new("php"),
        check: &["-r", "exit(PHP_VERSION_ID < 80100 ? 1 : 0);"],
        is_mandatory: false,
    },
    Example {
        file: "Register.java",
        runs: || Command::new("java"),
        check: &["--source", "17", "--version"],
        is_mandatory: false,
    },
    Example {
        file: "register.go",
        runs: || {
            let mut go = Command::new("go");
            go.arg("run");
            go
        },
        check: &[],
        is_mandatory: false,
    },
];

fn path(file: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("docs/examples").join(file)
}

async fn is_installed(example: &Example) -> bool {
    let mut command = match example.check {
        [] => {
            let mut shell = Command::new("sh");
            shell.args(["-c", r"go env GOVERSION | grep -Eq '^go1\.(19|[2-9][0-9])'"]);
            shell
        }
        check => {
            let mut command = (example.runs)();
            command.args(check);
            command
        }
    };
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
    let ended = quiet.stderr(Stdio::null()).status().await;
    ended.is_ok_and(|status| status.success())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_programs_that_register_do_so() {
    install_tls();
    for example in EXAMPLES {
        let is_installed = is_installed(&example).await;
        let what = match is_installed {
            true => "is tried",
            false => "is NOT tried, since what runs it is not installed or too old",
        };
        // The macros that print are captured by the test harness.
        let said = writeln!(std::io::stderr(), "example {}: {what}", example.file);
        said.expect("standard error");
        assert!(is_installed || !example.is_mandatory, "{}", example.file);
        if is_installed {
            check(&example).await;
        }
    }
}

async fn check(example: &Example) {
    let file = example.file;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Process::start(dir.path(), &["--api-key", "operators-own-key"]).await;
    let mut merchant = Merchant::start().await;
    let url = merchant.url("/notify");
    let run = async |key: &str, amount: &str| {
        let mut program = (example.runs)();
        program
            .arg(path(file))
            .args([&url, "order-1001", amount])
            .env("RINGBACK_SERVER", server.api().url())
            .env("RINGBACK_API_KEY", key)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = within(file, program.output()).await.expect(file);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said, complained)
    };
    let (status, said, complained) = run("operators-own-key", "8.88").await;
    assert_eq!(status, Some(0), "{file}: {said}{complained}");
    assert!(
        said.starts_with("registered order-1001: 201"),
        "{file}: {said}"
    );
    let call = merchant.call().await;
    let body: Value = serde_json::from_slice(&call.body).expect("JSON");
    assert_eq!(
        body,
        json!({ "order": "order-1001", "amount": "8.88" }),
        "{file}"
    );
    // Once more, with other content, and without a key.
    let (status, said, _) = run("operators-own-key", "8.88").await;
    assert_eq!(status, Some(0), "{file}: {said}");
    assert!(
        said.starts_with("registered order-1001: 200"),
        "{file}: {said}"
    );
    let (status, _, complained) = run("operators-own-key", "9.99").await;
    assert_eq!(status, Some(1), "{file}");
    assert!(
        complained.contains("urn:ringback:problem:mismatch"),
        "{file}: {complained}"
    );
    let (status, _, complained) = run("another-key", "8.88").await;
    assert_eq!(status, Some(1), "{file}");
    assert!(
        complained.contains("urn:ringback:problem:unauthorized"),
        "{file}: {complained}"
    );
    assert!(merchant.arrived().is_none(), "{file}: it was called twice");
    server.kill().await;
}

/// Compares each example in the description with its schema, by the library of the tester.
const COMPARE: &str = r#"
import json, sys, jsonschema_rs
document = json.load(sys.stdin)
compared = 0
def check(schema, value, where):
    global compared
    compared += 1
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "components": document["components"], **schema}
    for error in jsonschema_rs.validator_for(whole, validate_formats=True).iter_errors(value):
        sys.exit(f"{where}: {error}")
def content(holder, where):
    for kind, media in holder.get("content", {}).items():
        if "example" in media:
            check(media["schema"], media["example"], f"{where} {kind}")
        for name, example in media.get("examples", {}).items():
            check(media["schema"], example["value"], f"{where} {kind} {name}")
for path, item in [*document["paths"].items(), *document["webhooks"].items()]:
    for method, operation in item.items():
        content(operation.get("requestBody", {}), f"{method} {path}")
        for status, response in operation["responses"].items():
            content(response, f"{method} {path} {status}")
        for parameter in operation.get("parameters", []):
            if "example" in parameter:
                check(parameter["schema"], parameter["example"], f"{method} {path} {parameter['name']}")
for name, response in document["components"]["responses"].items():
    content(response, name)
print(compared)
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_in_the_description_fit_their_schemas() {
    use tokio::io::AsyncWriteExt as _;
    let package = std::env::var_os("RINGBACK_TEST_SCHEMATHESIS");
    let Some(package) = package.filter(|package| !package.is_empty()) else {
        let said = writeln!(
            std::io::stderr(),
            "examples in the description: NOT compared, since the package schemathesis is not here; `make test` fetches it"
        );
        return said.expect("standard error");
    };
    let mut compare = python();
    compare.env("PYTHONPATH", package).args(["-c", COMPARE]);
    let streams = compare
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = streams.kill_on_drop(true).spawn().expect("Python");
    let mut input = child.stdin.take().expect("piped");
    let text = described().to_string();
    let written = input.write_all(text.as_bytes()).await;
    drop(input);
    let output = within("the comparison", child.wait_with_output())
        .await
        .expect("it ran");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && written.is_ok(), "{complaint}");
    let compared: usize = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .expect("a number");
    assert!(compared > 80, "{compared} examples");
}
