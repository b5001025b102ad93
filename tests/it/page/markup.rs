//! No stored text becomes markup.

use super::Browser;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Server, Stores, with_ladder};
use reqwest::Method;
use serde_json::json;
use std::fs;
use std::path::Path;

const HOSTILE: &str = "<script>alert(1)</script>'\"&<img src=x onerror=alert(2)>{{7*7}}";

/// Checks that a page shows the text, and shows it as text.
fn check(page: &str, what: &str) {
    for part in ["<script>alert", "<img src=x"] {
        assert!(!page.contains(part), "{what}: {page}");
    }
    assert!(
        page.contains("&#60;script&#62;alert(1)"),
        "{what} is shown: {page}"
    );
}

#[tokio::test]
async fn ids_answers_reasons_and_bodies_are_text() {
    let answer = Reaction::Answer(200, HOSTILE.into());
    let mut merchant = Merchant::scripted(vec![], answer).await;
    let server = Server::start(Stores::Embedded).await;
    let mut browser = Browser::of(&server);
    let id = HOSTILE.replace('/', "|");
    let mut asked = with_ladder(&id, &merchant, &[]);
    asked["body"] = json!(HOSTILE);
    asked["headers"] = json!({ "x-hostile": HOSTILE });
    asked["content_type"] = json!("text/plain; a=\"<script>alert(1)\"");
    asked["order"] = json!({ "key": HOSTILE, "number": 1, "mode": "latest" });
    asked["url"] = json!(merchant.url("/n?<script>alert(1)</script>"));
    server.register(asked).await;
    let found = browser
        .get(&format!(
            "/ui/search?q={}",
            url::form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>()
        ))
        .await
        .is(303);
    let path = found.location().to_string();
    let api = path.replace("/ui/", "/v1/");
    let dead = async {
        loop {
            let (_, view) = server.call(Method::GET, &api, None).await;
            if view["state"] == "dead" {
                return;
            }
            crate::support::short_pause().await;
        }
    };
    crate::support::within("it to be dead", dead).await;
    let page = browser.get(&path).await.is(200);
    check(&page.text, "the notification");
    let unveiled = browser
        .submit(&path, &format!("{path}/payload"), &[("reason", HOSTILE)])
        .await;
    check(&unveiled.is(200).text, "the payload");
    let letters = browser.get("/ui/dead-letters").await.is(200);
    check(&letters.text, "the dead letters");
    let plan = browser.get("/ui/dead-letters/plan").await.is(200);
    check(&plan.text, "the plan");
    let escaped: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    let pick = format!("t/{}", escaped.replace('+', "%20"));
    let picked = [
        ("pick-0", pick.as_str()),
        ("reason", HOSTILE),
        ("back", HOSTILE),
    ];
    let selected = browser
        .submit(&path, "/ui/dead-letters/selected", &picked)
        .await;
    check(&selected.is(200).text, "the selected ones");
    let replayed = browser
        .submit(&path, &format!("{path}/replay"), &[("reason", HOSTILE)])
        .await;
    replayed.is(303);
    check(&browser.get(&path).await.is(200).text, "the history");
    let refused = browser
        .submit(
            &path,
            &format!("{path}/discard"),
            &[("reason", &HOSTILE.repeat(20))],
        )
        .await;
    check(&refused.is(422).text, "a form that is not done");
    let query = url::form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect::<String>();
    for parameter in ["q", "topic", "state", "lane", "cause", "from", "to"] {
        let page = browser
            .get(&format!("/ui/search?{parameter}={query}&x={query}"))
            .await;
        for part in ["<script>alert", "<img src=x"] {
            assert!(!page.text.contains(part), "{parameter}: {}", page.text);
        }
    }
    for parameter in [
        "topic",
        "lane",
        "cause",
        "from",
        "to",
        "id_contains",
        "cursor",
    ] {
        for path in [
            "/ui/dead-letters",
            "/ui/dead-letters/plan",
            "/ui/cancel",
            "/ui/jobs",
        ] {
            let page = browser.get(&format!("{path}?{parameter}={query}")).await;
            for part in ["<script>alert", "<img src=x"] {
                assert!(
                    !page.text.contains(part),
                    "{path} {parameter}: {}",
                    page.text
                );
            }
        }
    }
    let job = [
        ("has_filter", "yes"),
        ("id_contains", "<script>alert(1)"),
        ("reason", HOSTILE),
    ];
    let made = browser.submit(&path, "/ui/cancel", &job).await.is(303);
    check(&browser.get(made.location()).await.is(200).text, "the job");
    check(&browser.get("/ui/jobs").await.is(200).text, "the jobs");
    let list = browser.get("/ui/search").await.is(200);
    check(&list.text, "the list");
    let unknown = browser.get(&format!("/ui/{query}")).await.is(404);
    assert!(!unknown.text.contains("<script>alert"), "{}", unknown.text);
    while merchant.arrived().is_some() {}
    server.stop().await;
}

#[test]
fn templates_escape_everything_and_have_nothing_inline() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page/templates");
    let mut seen = 0;
    for entry in fs::read_dir(dir).expect("the templates") {
        let path = entry.expect("an entry").path();
        let name = path.display().to_string();
        assert!(name.ends_with(".html"), "{name}: only these are escaped");
        let text = fs::read_to_string(&path).expect("readable");
        for forbidden in [
            "|safe",
            "| safe",
            "|escape(",
            " style=",
            "<style",
            "javascript:",
            "autoescape",
            "http://",
            "https://",
        ] {
            assert!(!text.contains(forbidden), "{name}: {forbidden}");
        }
        let mut attributes = text.split_whitespace();
        let handler = attributes.find(|word| word.starts_with("on") && word.contains("=\""));
        assert_eq!(handler, None, "{name}");
        seen += 1;
    }
    assert!(seen > 4, "the templates are found");
}
