//! How commands end that cannot do what they are asked for: the exit status, and what they print.

use super::program::{Finished, run};
use super::requests::StandIn;
use crate::support::refusing_port::RefusingPort;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::path::Path;

/// The one JSON object that it printed; nothing else, in no other place.
fn printed(finished: &Finished) -> Value {
    assert_eq!(finished.stderr, "");
    assert_eq!(finished.stdout.lines().count(), 1, "{}", finished.stdout);
    serde_json::from_str(&finished.stdout).expect("JSON")
}

#[tokio::test]
async fn every_kind_of_refusal_has_a_status_of_its_own_and_is_json_if_wanted() {
    for (http, status) in [
        (400, 1),
        (401, 5),
        (403, 5),
        (404, 4),
        (409, 6),
        (410, 1),
        (422, 1),
        (429, 1),
        (500, 1),
        (503, 1),
    ] {
        let problem = json!({
            "type": "urn:ringback:problem:x", "title": "A title", "status": http, "detail": "why",
            "errors": [{ "pointer": "/url", "detail": "not a URL" }], "further": [1.5],
        });
        let headers = [("content-type", "application/problem+json")];
        let answer = (
            StatusCode::from_u16(http).expect("a status"),
            headers,
            problem.to_string(),
        );
        let mut server = StandIn::open(answer).await;
        for words in [
            &["show", "t", "1"][..],
            &["list"],
            &["lane", "show", "https://a.example"],
            &["lanes"],
            &["key", "revoke", "x"],
            &["endpoint", "set", "shop", "--timeout", "1s"],
            &["send", "t", "https://a.example", "b", "--id", "1"],
        ] {
            let finished = server.run(words, &[]).await;
            server.asked();
            assert_eq!(
                (finished.status, finished.stdout.as_str()),
                (status, ""),
                "{words:?}"
            );
            let said = format!("ringback: {http} ");
            assert!(finished.stderr.starts_with(&said), "{}", finished.stderr);
            let finished = server.run(&[words, &["--json"]].concat(), &[]).await;
            server.asked();
            assert_eq!(finished.status, status, "{words:?}");
            let mut printed = printed(&finished);
            let advice = match http {
                401 => Some("--api-key"),
                404 if words[0] == "endpoint" => Some("--url"),
                _ => None,
            };
            if let Some(advice) = advice {
                let said = printed["advice"].take();
                assert!(said.as_str().is_some_and(|said| said.contains(advice)));
                printed.as_object_mut().expect("an object").remove("advice");
            }
            assert_eq!(printed, problem, "{words:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_no_problem_is_said_so_in_json() {
    let headers = [("content-type", "text/html")];
    let answer = (StatusCode::BAD_GATEWAY, headers, "<html>".to_string());
    let server = StandIn::open(answer).await;
    let finished = server.run(&["show", "t", "1", "--json"], &[]).await;
    assert_eq!(finished.status, 1);
    let expected = json!({
        "title": "Bad Gateway", "status": 502,
        "detail": "the answer is not JSON, so it may not come from a Ringback server",
    });
    assert_eq!(printed(&finished), expected);
}

#[test]
fn a_server_that_does_not_answer_is_json_too() {
    let refusing = RefusingPort::take();
    let server = format!("http://{}", refusing.address());
    let words = ["list", "--json", "--server", &server];
    let finished = run(Path::new("."), &words, &[]);
    assert_eq!(finished.status, 3);
    let printed = printed(&finished);
    assert_eq!(printed["title"], "No server answers");
    let detail = printed["detail"].as_str().expect("a text");
    assert!(
        detail.starts_with("no server can be reached at http://127.0.0.1:"),
        "{detail}"
    );
}

#[test]
fn a_wrong_value_is_json_too_and_a_wrong_command_line_is_one_line() {
    let wrong = run(Path::new("."), &["list", "--json", "--server", "x"], &[]);
    assert_eq!(wrong.status, 2);
    let expected = json!({
        "title": "Wrong usage or settings", "detail": "--server: not a URL like http://127.0.0.1:8400",
    });
    assert_eq!(printed(&wrong), expected);
    let unknown = run(Path::new("."), &["list", "--json", "--sever", "x"], &[]);
    assert_eq!((unknown.status, unknown.stdout.as_str()), (2, ""));
    assert_eq!(unknown.stderr.lines().count(), 1, "{}", unknown.stderr);
    let ladder = run(Path::new("."), &["ladder", "alipya", "--json"], &[]);
    assert_eq!(ladder.status, 2);
    assert_eq!(printed(&ladder)["title"], "Wrong usage or settings");
}

/// The id that the command has made is the only way to send the same notification again.
#[tokio::test]
async fn the_id_of_what_may_have_been_registered_is_in_the_json() {
    let headers = [("content-type", "application/problem+json")];
    let problem = json!({ "title": "A store is out of reach", "status": 503 }).to_string();
    let mut server = StandIn::open((StatusCode::SERVICE_UNAVAILABLE, headers, problem)).await;
    let send = ["send", "t", "https://a.example/", "b", "--json"];
    let finished = server.run(&send, &[]).await;
    assert_eq!(finished.status, 1);
    assert_eq!(printed(&finished)["id"], server.asked().body["id"]);

    let refusing = RefusingPort::take();
    let nobody = format!("http://{}", refusing.address());
    let finished = run(Path::new("."), &send, &[("RINGBACK_SERVER", &nobody)]);
    assert_eq!(finished.status, 3);
    assert_eq!(printed(&finished)["id"].as_str().map(str::len), Some(36));

    let headers = [("content-type", "application/problem+json")];
    let problem = json!({ "title": "Some fields are wrong", "status": 422 }).to_string();
    let server = StandIn::open((StatusCode::UNPROCESSABLE_ENTITY, headers, problem)).await;
    let finished = server.run(&send, &[]).await;
    assert_eq!(printed(&finished).get("id"), None);
}

#[test]
fn the_statuses_are_in_the_help_and_in_the_documents() {
    let help = run(Path::new("."), &["--help"], &[]);
    let (_, listed) = help.stdout.split_once("Exit statuses:\n").expect("a list");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("docs/operations.md")).expect("the document");
    let statuses: Vec<&str> = listed.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(statuses.len(), 8, "{listed}");
    for line in statuses {
        let (number, meaning) = line.trim_start().split_once("  ").expect("two columns");
        let row = format!("| {number} | {meaning} |");
        assert!(document.contains(&row), "{row}");
    }
}
