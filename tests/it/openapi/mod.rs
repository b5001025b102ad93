//! The description of the HTTP API: that it is the one in the repository, and that it is true.

mod examples;
mod tester;

use crate::support::install_tls;
use crate::support::process::Process;
use crate::support::ringback::{Server, Stores};
use reqwest::{Client, Method};
use ringback::api::openapi;
use ringback::api::rights::RIGHTS;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const KEPT: &str = "docs/openapi.json";

/// What needs no key, and so is not in the table of rights.
const OPEN: [(&str, &str); 4] = [
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
];

pub fn described() -> Value {
    serde_json::from_str(openapi::text()).expect("JSON")
}

#[test]
fn the_description_in_the_repository_is_that_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(KEPT);
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let mut lines = kept.lines().zip(openapi::text().lines()).enumerate();
    let differing = lines.find(|(_, (kept, made))| kept != made);
    if let Some((number, (kept, made))) = differing {
        let number = number + 1;
        panic!(
            "{KEPT} differs from the program in line {number}: it has `{}`, the program `{}`; if that is meant, write it \
             anew by `make openapi`, and look at the difference",
            kept.trim(),
            made.trim()
        );
    }
    assert!(
        kept == openapi::text(),
        "{KEPT} is shorter or longer than what the program makes; write it anew by `make openapi`"
    );
}

/// The operations that are described, each with its method and path.
fn operations(document: &Value) -> Vec<(String, String, &Map<String, Value>)> {
    let paths = document["paths"].as_object().expect("paths");
    let mut found = Vec::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().expect("methods") {
            let operation = operation.as_object().expect("an operation");
            found.push((method.to_uppercase(), path.clone(), operation));
        }
    }
    found
}

#[test]
fn every_route_is_described_and_nothing_else() {
    let document = described();
    let operations = operations(&document);
    let found: BTreeSet<(&str, &str)> = (operations.iter())
        .map(|(method, path, _)| (method.as_str(), path.as_str()))
        .collect();
    let routes = RIGHTS.iter().map(|right| (right.0, right.1));
    assert_eq!(found, routes.chain(OPEN).collect());
    let mut names = BTreeSet::new();
    for (method, path, operation) in &operations {
        let name = operation["operationId"].as_str().expect("a name");
        assert!(names.insert(name), "{name} is there twice");
        let needs_key = !operation.contains_key("security");
        assert_eq!(needs_key, path.starts_with("/v1/"), "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_and_the_command_give_the_description_without_a_key() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Process::start(dir.path(), &["--api-key", "operators-own-key"]).await;
    let address = format!("{}/openapi.json", server.api().url());
    let client = Client::builder().no_proxy().build().expect("a client");
    let answer = client.get(&address).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/json");
    let text = answer.text().await.expect("a text");
    assert!(
        text == openapi::text(),
        "a server gives another description"
    );
    let refused = client.get(format!("{}/v1/jobs", server.api().url())).send();
    assert_eq!(refused.await.expect("an answer").status(), 401);
    let printed = crate::cli::program::run(dir.path(), &["openapi"], &[]);
    assert_eq!(printed.status, 0);
    assert!(
        printed.stdout == text,
        "the command prints another description"
    );
    server.kill().await;
}

/// The schema that a reference names, or itself.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => {
            let pointer = reference.trim_start_matches('#');
            document.pointer(pointer).expect(reference)
        }
        None => schema,
    }
}

/// The pointers of the fields that an answer calls unknown.
fn unknown(answer: &Value) -> BTreeSet<&str> {
    let errors = answer["errors"].as_array().into_iter().flatten();
    let unknown = errors.filter(|error| {
        let detail = error["detail"].as_str().unwrap_or_default();
        detail.starts_with("unknown")
    });
    unknown
        .filter_map(|error| error["pointer"].as_str().or(error["parameter"].as_str()))
        .collect()
}

/// A path with something at each of its places.
fn filled(path: &str) -> String {
    path.replace("{lane}", "endpoint:none")
        .replace("{topic}", "t")
        .replace("{name}", "none")
        .replace("{id}", "0")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_described_members_of_requests_are_those_that_are_read() {
    install_tls();
    let server = Server::start(Stores::Embedded).await;
    let document = described();
    let endpoint = json!({ "url": "https://shop.example/n" });
    let made = server.call(Method::PUT, "/v1/endpoints/none", Some(endpoint));
    assert_eq!(made.await.0, 201);
    let mut bodies = 0;
    for (method, path, operation) in operations(&document) {
        let Some(content) = operation.get("requestBody").map(|body| &body["content"]) else {
            continue;
        };
        bodies += 1;
        let schema = resolved(&document, &content["application/json"]["schema"]);
        assert_eq!(schema["additionalProperties"], false, "{method} {path}");
        let described = schema["properties"].as_object();
        let described: Vec<&String> = described
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
            .collect();
        // No member of any request is an empty array, so nothing of this is done.
        let mut wrong = Map::from_iter(described.iter().map(|name| ((*name).clone(), json!([]))));
        if path == "/v1/notifications/batch" {
            wrong["notifications"] = json!("");
        }
        wrong.insert("not-described".into(), json!(1));
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let (status, answer) = server
            .call(method, &filled(&path), Some(wrong.into()))
            .await;
        assert_eq!(status, 422, "{path}: {answer}");
        assert_eq!(
            unknown(&answer),
            BTreeSet::from(["/not-described"]),
            "{path}"
        );
    }
    assert!(bodies > 15, "{bodies} bodies");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_described_parameters_are_those_that_are_read() {
    install_tls();
    let server = Server::start(Stores::Embedded).await;
    let document = described();
    let mut lists = 0;
    for (method, path, operation) in operations(&document) {
        if method != "GET" || !path.starts_with("/v1/") {
            continue;
        }
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let parameters = parameters.filter(|parameter| parameter["in"] == "query");
        let names = parameters.filter_map(|parameter| parameter["name"].as_str());
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for name in names {
            query.append_pair(name, "");
            lists += 1;
        }
        let query = query.append_pair("not-described", "").finish();
        let path = format!("{}?{query}", filled(&path));
        let (status, answer) = server.call(Method::GET, &path, None).await;
        assert_eq!(status, 400, "{path}: {answer}");
        let errors = answer["errors"].as_array().expect("errors");
        assert_eq!(errors.len(), 1, "{path}: {answer}");
        assert_eq!(errors[0]["parameter"], "not-described", "{path}");
    }
    assert!(lists > 25, "{lists} parameters");
    server.stop().await;
}
