//! The commands that speak to a server, against a stand-in that keeps what it was asked and
//! answers one thing.

use super::program::{Finished, run};
use crate::support::refusing_port::RefusingPort;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::any;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

pub struct Asked {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Value,
}

pub struct StandIn {
    pub address: SocketAddr,
    asked: mpsc::Receiver<Asked>,
}

pub type Answer = (StatusCode, [(&'static str, &'static str); 1], String);

impl StandIn {
    pub async fn open(answer: Answer) -> Self {
        let (sender, asked) = mpsc::channel(8);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("bound");
        let router = Router::new()
            .fallback(any(keep))
            .with_state(Arc::new((sender, answer)));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, asked }
    }

    pub async fn answering(answer: &Value) -> Self {
        let headers = [("content-type", "application/json")];
        Self::open((StatusCode::OK, headers, answer.to_string())).await
    }

    /// Runs the program against this server.
    pub async fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
        let server = format!("http://{}", self.address);
        let owned = |text: &&str| (*text).to_string();
        let arguments: Vec<String> = arguments.iter().map(owned).collect();
        let mut variables: Vec<(String, String)> = variables
            .iter()
            .map(|(name, value)| (owned(name), owned(value)))
            .collect();
        variables.push(("RINGBACK_SERVER".to_string(), server));
        let program = tokio::task::spawn_blocking(move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let variables: Vec<(&str, &str)> = variables
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            run(Path::new("."), &arguments, &variables)
        });
        program.await.expect("no panic")
    }

    pub fn asked(&mut self) -> Asked {
        self.asked.try_recv().expect("asked")
    }
}

async fn keep(
    State(kept): State<Arc<(mpsc::Sender<Asked>, Answer)>>,
    request: Request,
) -> impl IntoResponse {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1024 * 1024).await.expect("read");
    let asked = Asked {
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    };
    kept.0.send(asked).await.expect("a test that listens");
    kept.1.clone()
}

/// Which request a command makes.
async fn check(arguments: &[&str], method: Method, path_and_query: &str, body: Value) {
    let mut server = StandIn::answering(&json!({ "items": [] })).await;
    let finished = server.run(arguments, &[]).await;
    assert_eq!(finished.status, 0, "{arguments:?} {}", finished.stderr);
    let asked = server.asked();
    assert_eq!(asked.method, method, "{arguments:?}");
    assert_eq!(asked.uri.to_string(), path_and_query, "{arguments:?}");
    assert_eq!(asked.body, body, "{arguments:?}");
}

#[tokio::test]
async fn every_command_is_one_request() {
    let none = Value::Null;
    let shop = "/v1/lanes/https:%2F%2Fshop.example";
    let lanes = ["lanes", "--state", "held", "--limit", "5", "--cursor", "x"];
    check(
        &lanes,
        Method::GET,
        "/v1/lanes?state=held&limit=5&cursor=x",
        none.clone(),
    )
    .await;
    let show = ["lane", "show", "https://Shop.example/notify"];
    check(&show, Method::GET, shop, none.clone()).await;
    let reason = json!({ "reason": "they move" });
    for verb in ["hold", "release"] {
        let path = format!("{shop}/{verb}");
        let change = [
            "lane",
            verb,
            "https://shop.example",
            "--reason",
            "they move",
        ];
        check(&change, Method::POST, &path, reason.clone()).await;
    }
    let retry = [
        "lane",
        "retry",
        "https://shop.example",
        "--reason",
        "back",
        "--rate",
        "50",
    ];
    let body = json!({ "reason": "back", "rate": 50.0, "dry_run": false });
    check(&retry, Method::POST, &format!("{shop}/retry"), body).await;
    let dry_run = ["lane", "retry", "https://shop.example", "--dry-run"];
    let body = json!({ "reason": "", "rate": null, "dry_run": true });
    check(&dry_run, Method::POST, &format!("{shop}/retry"), body).await;
    let jobs = ["jobs", "--state", "done", "--limit", "5", "--cursor", "0a"];
    let query = "/v1/jobs?state=done&limit=5&cursor=0a";
    check(&jobs, Method::GET, query, none.clone()).await;
    let show = ["job", "show", "0a"];
    check(&show, Method::GET, "/v1/jobs/0a", none.clone()).await;
    let list = ["job", "notifications", "0a"];
    let path = "/v1/jobs/0a/notifications?result=done";
    check(&list, Method::GET, path, none.clone()).await;
    let more = ["--result", "failed", "--limit", "5", "--cursor", "1-2"];
    let list = [&list[..], &more[..]].concat();
    let path = "/v1/jobs/0a/notifications?result=failed&limit=5&cursor=1-2";
    check(&list, Method::GET, path, none.clone()).await;
    for verb in ["pause", "resume", "stop"] {
        let path = format!("/v1/jobs/0a/{verb}");
        check(&["job", verb, "0a"], Method::POST, &path, none.clone()).await;
    }
    check(
        &["show", "t", "1"],
        Method::GET,
        "/v1/notifications/t/1",
        none.clone(),
    )
    .await;
    check(
        &["cancel", "t", "1"],
        Method::DELETE,
        "/v1/notifications/t/1",
        none.clone(),
    )
    .await;
    check(
        &["retry", "t", "1"],
        Method::POST,
        "/v1/notifications/t/1/retry",
        none.clone(),
    )
    .await;
    check(
        &["discard", "t", "1"],
        Method::DELETE,
        "/v1/dead-letters/t/1",
        none.clone(),
    )
    .await;
    check(
        &["replay", "t", "1", "--reason", "repaired"],
        Method::POST,
        "/v1/dead-letters/t/1/replay",
        json!({ "reason": "repaired" }),
    )
    .await;
    let filter = json!({ "topic": "t", "cause": "refused", "id_contains": "shop" });
    check(
        &[
            "replay",
            "--topic",
            "t",
            "--cause",
            "refused",
            "--id-contains",
            "shop",
            "--rate",
            "5",
            "--dry-run",
        ],
        Method::POST,
        "/v1/dead-letters/replay",
        json!({ "filter": filter, "reason": "", "rate": 5.0, "dry_run": true }),
    )
    .await;
    let filter = json!({ "lane": "https://shop.example", "from": "2026-11-20T08:30:00Z", "to": "2026-11-21T08:30:00Z" });
    check(
        &[
            "cancel",
            "--lane",
            "https://shop.example",
            "--from",
            "2026-11-20T08:30:00Z",
            "--to",
            "2026-11-21T08:30:00Z",
            "--reason",
            "wrong price",
            "--detach",
        ],
        Method::POST,
        "/v1/notifications/cancel",
        json!({ "filter": filter, "reason": "wrong price", "rate": null, "dry_run": false }),
    )
    .await;
    check(
        &["replay", "--all", "--detach"],
        Method::POST,
        "/v1/dead-letters/replay",
        json!({ "filter": {}, "reason": "", "rate": null, "dry_run": false }),
    )
    .await;
    check(
        &["resend", "t", "1", "--reason", "they lost it"],
        Method::POST,
        "/v1/notifications/t/1/resend",
        json!({ "reason": "they lost it" }),
    )
    .await;
    check(
        &["reschedule", "t", "1", "--delay", "30m"],
        Method::PATCH,
        "/v1/notifications/t/1",
        json!({ "delay": "30m" }),
    )
    .await;
    check(
        &["reschedule", "t", "1", "--at", "2026-11-20T08:30:00Z"],
        Method::PATCH,
        "/v1/notifications/t/1",
        json!({ "deliver_at": "2026-11-20T08:30:00Z" }),
    )
    .await;
    check(
        &[
            "endpoint",
            "key",
            "add",
            "shop-1",
            "--kind",
            "ed25519",
            "--overlap",
            "1h",
        ],
        Method::POST,
        "/v1/endpoints/shop-1/keys",
        json!({ "kind": "ed25519", "overlap": "1h" }),
    )
    .await;
    check(
        &["endpoint", "key", "remove", "shop-1", "key_1"],
        Method::DELETE,
        "/v1/endpoints/shop-1/keys/key_1",
        none.clone(),
    )
    .await;
    check(
        &["endpoint", "key", "list", "shop-1"],
        Method::GET,
        "/v1/endpoints/shop-1",
        none.clone(),
    )
    .await;
    check(&["list"], Method::GET, "/v1/notifications", none.clone()).await;
    check(
        &[
            "list",
            "--state",
            "in_flight",
            "--lane",
            "https://a.example",
            "--limit",
            "5",
        ],
        Method::GET,
        "/v1/notifications?state=in_flight&lane=https%3A%2F%2Fa.example&limit=5",
        none.clone(),
    )
    .await;
    check(
        &[
            "dead",
            "--cause",
            "refused",
            "--from",
            "2026-11-20T08:30:00+08:00",
            "--cursor",
            "1-2",
        ],
        Method::GET,
        "/v1/dead-letters?cause=refused&from=2026-11-20T08%3A30%3A00%2B08%3A00&cursor=1-2",
        none,
    )
    .await;
}

#[tokio::test]
async fn every_printable_id_survives_the_path() {
    let id: String = (b' '..=b'~').map(char::from).collect();
    let mut server = StandIn::answering(&json!({})).await;
    // The first character is a space, so the program cannot take the id for a flag.
    server.run(&["show", "t", &id], &[]).await;
    let path = server.asked().uri.path().to_string();
    let segments: Vec<&str> = path.split('/').collect();
    assert_eq!(segments.len(), 5, "{path}");
    let mut bytes = segments[4].bytes();
    let mut decoded = String::new();
    while let Some(byte) = bytes.next() {
        let byte = if byte == b'%' {
            let digits: String = bytes.by_ref().take(2).map(char::from).collect();
            u8::from_str_radix(&digits, 16).expect("two digits")
        } else {
            byte
        };
        decoded.push(char::from(byte));
    }
    assert_eq!(decoded, id);
}

#[tokio::test]
async fn a_registration_holds_what_was_given() {
    let registered = async |arguments: &[&str]| {
        let mut server = StandIn::answering(&json!({})).await;
        let mut all = vec!["send", "t", "https://a.example/"];
        all.extend(arguments);
        let finished = server.run(&all, &[]).await;
        assert_eq!(finished.status, 0, "{}", finished.stderr);
        let asked = server.asked();
        assert_eq!(asked.uri.to_string(), "/v1/notifications");
        let mut body = asked.body;
        assert_eq!(body["topic"].take(), "t");
        assert_eq!(body["url"].take(), "https://a.example/");
        if !arguments.contains(&"--id") {
            // The command makes an id, so that a repetition can name it.
            let made = body.as_object_mut().and_then(|body| body.remove("id"));
            let made = made.as_ref().and_then(Value::as_str).expect("an id");
            assert_eq!(made.len(), 36, "{made}");
        }
        body
    };
    let plain = |rest: Value| {
        let mut all = json!({ "topic": null, "url": null });
        let members = all.as_object_mut().expect("an object");
        members.extend(rest.as_object().expect("an object").clone());
        all
    };
    assert_eq!(registered(&[""]).await, plain(json!({ "body": "" })));
    let empty = ["--body-file", "/dev/null"];
    assert_eq!(registered(&empty).await, plain(json!({ "body": "" })));
    assert_eq!(registered(&["-1"]).await, plain(json!({ "body": "-1" })));
    assert_eq!(
        registered(&["{ \"a\": 1 }"]).await,
        plain(json!({ "body": "{ \"a\": 1 }", "content_type": "application/json" }))
    );
    let everything = [
        "a=1",
        "--id",
        "1",
        "--content-type",
        "text/x",
        "--header",
        "x=1=2",
        "--header",
        "y=",
        "--delay",
        "4m",
        "--ladder",
        r#"{"intervals":["1s"]}"#,
        "--ack",
        "exact",
    ];
    assert_eq!(
        registered(&everything).await,
        plain(json!({
            "body": "a=1", "id": "1", "content_type": "text/x",
            "headers": { "x": "1=2", "y": "" }, "delay": "4m",
            "ladder": { "intervals": ["1s"] }, "ack": "exact",
        }))
    );
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("body");
    std::fs::write(&file, b"\xff\x00").expect("written");
    let file = file.to_str().expect("UTF-8");
    assert_eq!(
        registered(&["--body-file", file]).await,
        plain(json!({ "body_base64": "/wA=" }))
    );
}

#[tokio::test]
async fn a_first_attempt_in_the_past_is_told() {
    let answer = json!({ "topic": "t", "id": "1", "registered_at": "2026-11-20T08:30:00.000Z" });
    let server = StandIn::answering(&answer).await;
    let send = ["send", "t", "https://a.example/", "", "--id", "1"];
    for (deliver_at, is_past) in [
        ("2026-11-20T08:29:59.999Z", true),
        ("2026-11-20T16:30:00+08:00", false),
    ] {
        let words = [&send[..], &["--deliver-at", deliver_at]].concat();
        let finished = server.run(&words, &[]).await;
        assert_eq!(finished.status, 0, "{}", finished.stderr);
        let said = finished.stderr.contains("in the past");
        assert_eq!(said, is_past, "{}", finished.stderr);
    }
    let finished = server.run(&send, &[]).await;
    assert_eq!(finished.stderr, "");
}

#[tokio::test]
async fn a_test_call_that_is_not_acknowledged_ends_with_status_1() {
    for (outcome, status, complaint) in [
        ("acknowledged", 0, ""),
        (
            "http_status",
            1,
            "ringback: the call was not acknowledged\n",
        ),
    ] {
        let attempt = json!({ "number": 1, "outcome": outcome, "status": 200, "duration_ms": 3 });
        let server = StandIn::answering(&attempt).await;
        for flags in [&[][..], &["--json"]] {
            let words = [&["endpoint", "test", "shop-1"], flags].concat();
            let finished = server.run(&words, &[]).await;
            assert_eq!(finished.status, status, "{outcome}");
            let said = if flags.is_empty() { complaint } else { "" };
            assert_eq!(finished.stderr, said, "{outcome}");
            assert!(finished.stdout.contains(outcome), "{}", finished.stdout);
            assert_eq!(finished.stdout.lines().count(), 1, "{}", finished.stdout);
        }
    }
}

#[tokio::test]
async fn a_body_that_was_forgotten_is_not_sent_as_an_empty_one() {
    let server = StandIn::answering(&json!({})).await;
    let send = ["send", "t", "https://a.example/", "--id", "1"];
    let finished = server.run(&send, &[]).await;
    assert_eq!((finished.status, finished.stdout.as_str()), (2, ""));
    assert_eq!(
        finished.stderr,
        "ringback: no body is given; use BODY or --body-file FILE, and '' for an empty body\n"
    );
}

#[tokio::test]
async fn a_move_is_given_in_one_of_two_ways() {
    let server = StandIn::answering(&json!({})).await;
    for (rest, named) in [
        (&[][..], "--delay"),
        (&["--delay", "1s", "--at", "2026-11-20T08:30:00Z"], "--at"),
    ] {
        let words = [&["reschedule", "t", "1"], rest].concat();
        let finished = server.run(&words, &[]).await;
        assert_eq!((finished.status, finished.stdout.as_str()), (2, ""));
        assert!(finished.stderr.contains(named), "{}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1);
    }
}

#[tokio::test]
async fn the_caller_is_named_and_shows_the_key() {
    let mut server = StandIn::answering(&json!({})).await;
    let mut check = async |variables: &[(&str, &str)], actor: &str, key: Option<&str>| {
        server.run(&["show", "t", "1"], variables).await;
        let headers = server.asked().headers;
        assert_eq!(headers["ringback-actor"], actor);
        let given = headers.get("authorization");
        assert_eq!(given.map(|value| value.to_str().expect("ASCII")), key);
    };
    check(&[("USER", "li")], "li", None).await;
    check(&[("USER", "李")], "cli", None).await;
    check(&[("USER", "")], "cli", None).await;
    check(&[("USER", "dispatcher")], "cli", None).await;
    check(
        &[("USER", "a b"), ("RINGBACK_API_KEY", "k")],
        "cli",
        Some("Bearer k"),
    )
    .await;
}

#[tokio::test]
async fn a_refusal_is_told_in_a_few_lines() {
    let problem = json!({
        "type": "about:blank", "title": "Unprocessable Content", "status": 422,
        "detail": "2 fields are wrong",
        "errors": [
            { "pointer": "/url", "detail": "not a URL\u{1b}[2J" }, { "pointer": "/ack" },
            { "parameter": "state", "detail": "no state" },
        ],
    });
    let headers = [("content-type", "application/problem+json")];
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    let server = StandIn::open((status, headers, problem.to_string())).await;
    let told = "ringback: 422 Unprocessable Entity: Unprocessable Content\n  \
         /url: not a URL\\u{1b}[2J\n  /ack: \n  state: no state\n";
    let advice = "  if shop.1 is the name of an endpoint, write endpoint:shop.1\n";
    for (url, more) in [("x.example/n", ""), ("endpoint:x", ""), ("shop.1", advice)] {
        let finished = server.run(&["send", "t", url, "b"], &[]).await;
        assert_eq!((finished.status, finished.stdout.as_str()), (1, ""));
        assert_eq!(finished.stderr, format!("{told}{more}"), "{url}");
    }

    let headers = [("retry-after", "2")];
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let server = StandIn::open((status, headers, "<html>".to_string())).await;
    let finished = server.run(&["show", "t", "1"], &[]).await;
    assert_eq!(finished.status, 1);
    assert_eq!(
        finished.stderr,
        "ringback: 503 Service Unavailable\n  try again in 2 s\n"
    );
}

#[tokio::test]
async fn whoever_has_no_api_key_or_a_wrong_one_is_told_how_to_give_one() {
    let problem = json!({ "title": "No valid API key", "status": 401, "detail": "why" });
    let headers = [("content-type", "application/problem+json")];
    let server = StandIn::open((StatusCode::UNAUTHORIZED, headers, problem.to_string())).await;
    let ways = "with --api-key or --api-key-file, or in RINGBACK_API_KEY or RINGBACK_API_KEY_FILE";
    let check = async |words: &[&str], variables: &[(&str, &str)], given: &str| {
        let finished = server.run(&[&["lanes"], words].concat(), variables).await;
        let expected =
            format!("ringback: 401 Unauthorized: No valid API key: why\n  {given} {ways}\n");
        assert_eq!((finished.status, finished.stderr), (5, expected));
    };
    let of = |origin: &str| format!("the API key is that of {origin}; give another one");
    check(&[], &[], "no API key is given; give one").await;
    check(&["--api-key", "hunter2"], &[], &of("--api-key")).await;
    let variable = [("RINGBACK_API_KEY", "hunter2")];
    check(&[], &variable, &of("RINGBACK_API_KEY")).await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("key");
    std::fs::write(&file, "hunter2").expect("written");
    let file = file.to_str().expect("UTF-8");
    check(&["--api-key-file", file], &[], &of("--api-key-file")).await;
}

#[tokio::test]
async fn whoever_knows_an_id_alone_is_told_how_to_look_for_it() {
    let problem =
        json!({ "type": "urn:ringback:problem:missing", "title": "No such notification" });
    let headers = [("content-type", "application/problem+json")];
    let server = StandIn::open((StatusCode::NOT_FOUND, headers, problem.to_string())).await;
    for (words, status) in [
        (&["show", "order-5"][..], 2),
        (&["show"], 2),
        (&["show", "t", "order-5"], 4),
        (&["show", "t", "order-5", "--payload"], 4),
        (&["retry", "order-5"], 2),
        (&["replay", "order-5"], 2),
        (&["cancel", "t", "order-5"], 4),
    ] {
        let finished = server.run(words, &[]).await;
        assert_eq!(finished.status, status, "{words:?} {}", finished.stderr);
        let said = finished.stderr.contains("`ringback find ID` looks");
        assert!(said, "{words:?} {}", finished.stderr);
    }
    for words in [&["job", "show"][..], &["send", "t"]] {
        let finished = server.run(words, &[]).await;
        assert_eq!(finished.status, 2, "{words:?}");
        assert!(!finished.stderr.contains("find"), "{}", finished.stderr);
    }
}

#[tokio::test]
async fn what_may_have_been_registered_can_be_sent_again_under_its_id() {
    let headers = [("content-type", "text/plain")];
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let mut server = StandIn::open((status, headers, String::new())).await;
    let finished = server
        .run(&["send", "t", "https://a.example/", "b"], &[])
        .await;
    let sent = server.asked().body;
    let id = sent["id"].as_str().expect("an id");
    assert_eq!(finished.status, 1);
    let hint = format!("to send the same notification again, give its id: --id {id}\n");
    assert!(finished.stderr.contains(&hint), "{}", finished.stderr);
    let finished = server
        .run(&["send", "t", "https://a.example/", "b", "--id", "1"], &[])
        .await;
    assert!(!finished.stderr.contains("--id"), "{}", finished.stderr);
}

#[tokio::test]
async fn json_is_printed_as_the_server_sent_it() {
    let answer = "{ \"state\":  \"delivered\", \"unknown\": [1.0] }";
    let headers = [("content-type", "application/json")];
    let server = StandIn::open((StatusCode::OK, headers, answer.to_string())).await;
    for arguments in [&["show", "t", "1", "--json"][..], &["list", "--json"]] {
        let finished = server.run(arguments, &[]).await;
        assert_eq!(finished.stdout, format!("{answer}\n"));
    }
}

#[tokio::test]
async fn an_answer_that_is_not_ours_is_said_so() {
    let headers = [("content-type", "text/html")];
    let server = StandIn::open((StatusCode::OK, headers, "<html>".to_string())).await;
    let finished = server.run(&["show", "t", "1"], &[]).await;
    assert_eq!((finished.status, finished.stdout.as_str()), (1, ""));
    let expected = "ringback: the answer does not come from a Ringback server: ";
    assert!(finished.stderr.starts_with(expected), "{}", finished.stderr);
    assert_eq!(finished.stderr.lines().count(), 1);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let refusing = RefusingPort::take();
    let address = refusing.address();
    let server = format!("http://user:hunter2@{address}/x");
    let finished = run(Path::new("."), &["list", "--server", &server], &[]);
    assert_eq!((finished.status, finished.stdout.as_str()), (3, ""));
    assert_eq!(
        finished.stderr,
        format!(
            "ringback: no server can be reached at http://{address}; start one with `ringback \
             serve`, or name it with --server\n"
        )
    );
    let wrong = run(Path::new("."), &["list", "--server", "hunter2"], &[]);
    assert_eq!(wrong.status, 2);
    assert_eq!(
        wrong.stderr,
        "ringback: --server: not a URL like http://127.0.0.1:8400\n"
    );
}

#[tokio::test]
async fn whoever_names_nothing_does_not_mean_everything() {
    let mut server = StandIn::answering(&json!({})).await;
    for (arguments, why) in [
        (&["replay"][..], "--all means everything"),
        (&["cancel", "--reason", "x"], "--all means everything"),
        (&["replay", "t"], "<ID>"),
        (&["replay", "t", "1", "--topic", "t"], "cannot be used with"),
        (&["replay", "t", "1", "--dry-run"], "cannot be used with"),
        (
            &["replay", "--all", "--cause", "refused"],
            "cannot be used with",
        ),
        (
            &["cancel", "t", "1", "--reason", "x"],
            "takes none for one notification",
        ),
        (&["cancel", "--topic", "t", "--cause", "refused"], "--cause"),
    ] {
        let finished = server.run(arguments, &[]).await;
        assert_eq!(finished.status, 2, "{arguments:?}");
        assert!(
            finished.stderr.contains(why),
            "{arguments:?} {}",
            finished.stderr
        );
    }
    assert!(server.asked.try_recv().is_err(), "nothing was asked");
}

#[tokio::test]
async fn a_job_that_has_not_done_everything_is_a_failure() {
    let check = async |job: Value, status: u8, why: &str| {
        let server = StandIn::answering(&job).await;
        let finished = server.run(&["replay", "--all"], &[]).await;
        assert_eq!(finished.status, i32::from(status), "{}", finished.stderr);
        assert!(finished.stderr.contains(why), "{}", finished.stderr);
        assert!(finished.stdout.contains("0a-1"), "{}", finished.stdout);
    };
    let job = |state: &str, problem: Value| json!({ "id": "0a-1", "kind": "replay", "state": state, "filter": {}, "problem": problem });
    check(job("done", Value::Null), 0, "job 0a-1; it goes on if").await;
    check(
        job("failed", "most failed".into()),
        1,
        "the job has failed; its problem is printed above",
    )
    .await;
    check(job("paused", Value::Null), 1, "the job is paused").await;
    let mut some_failed = job("done", Value::Null);
    some_failed["failed"] = json!(3);
    let why = "some notifications could not be changed; the command printed above lists them";
    check(some_failed, 1, why).await;
}
