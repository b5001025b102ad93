//! What keeps foreign pages out: the token of forms, the origin of requests, the policy of the content, the host.

use super::{Browser, operator, signed_in};
use crate::support::ringback::{Server, Stores};
use reqwest::Method;
use serde_json::json;

const PATH: &str = "/ui/notifications/t/1";

async fn with_one() -> Server {
    let server = Server::start(Stores::Embedded).await;
    let asked = json!({ "topic": "t", "id": "1", "url": "https://shop.example/n", "body": "x", "delay": "1h" });
    server.register(asked).await;
    server
}

async fn state_of(server: &Server, key: Option<&str>) -> String {
    let api = key.map_or_else(|| server.with_key(""), |key| server.with_key(key));
    let (_, view) = match key {
        Some(_) => api.call(Method::GET, "/v1/notifications/t/1", None).await,
        None => {
            server
                .call(Method::GET, "/v1/notifications/t/1", None)
                .await
        }
    };
    view["state"].as_str().unwrap_or_default().to_string()
}

#[tokio::test]
async fn a_form_without_the_token_of_the_session_does_nothing() {
    let server = with_one().await;
    let cancel = format!("{PATH}/cancel");
    // Also where no key is needed.
    let mut browser = Browser::of(&server);
    browser.post(&cancel, &[]).await.is(403);
    browser.post(&cancel, &[("form_token", "0")]).await.is(403);
    let without_session = browser.get(PATH).await.is(200).form_token();
    let admin = operator(&server).await;
    let mut one = signed_in(&admin).await;
    let token = one.get(PATH).await.is(200).form_token();
    for wrong in ["", "0", &without_session, &token[1..]] {
        one.post(&cancel, &[("form_token", wrong)]).await.is(403);
    }
    // The token of another session.
    let mut other = signed_in(&admin).await;
    if other.cookie("ringback_session") != one.cookie("ringback_session") {
        other.post(&cancel, &[("form_token", &token)]).await.is(403);
    }
    // Nobody is signed in.
    let mut nobody = Browser::of(&server);
    let sent_away = nobody
        .post(&cancel, &[("form_token", &token)])
        .await
        .is(303);
    assert_eq!(sent_away.location(), "/ui/sign-in");
    assert_eq!(state_of(&server, admin.key()).await, "scheduled");
    let done = one.post(&cancel, &[("form_token", &token)]).await.is(303);
    assert_eq!(done.location(), format!("{PATH}?done=cancel"));
    assert_eq!(state_of(&server, admin.key()).await, "cancelled");
    server.stop().await;
}

#[tokio::test]
async fn another_site_cannot_act_for_a_visitor() {
    let server = with_one().await;
    let cancel = format!("{PATH}/cancel");
    let mut browser = Browser::of(&server);
    let token = browser.get(PATH).await.is(200).form_token();
    let fields = [("form_token", token.as_str())];
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ] {
        browser
            .with(name, value)
            .post(&cancel, &fields)
            .await
            .is(403);
    }
    assert_eq!(state_of(&server, None).await, "scheduled");
    let own = server.url().to_string();
    let mut same = browser
        .with("origin", &own)
        .with("sec-fetch-site", "same-origin");
    same.post(&cancel, &fields).await.is(303);
    server.stop().await;
}

#[tokio::test]
async fn a_domain_name_is_refused_where_no_key_is_needed() {
    let server = with_one().await;
    for path in ["/ui/", PATH, "/ui/assets/page.css", "/ui/sign-in"] {
        let mut browser = Browser::of(&server).with("host", "rebind.example");
        browser.get(path).await.is(403);
    }
    Browser::of(&server)
        .with("host", "localhost:1")
        .get("/ui/")
        .await
        .is(200);
    operator(&server).await;
    let mut browser = Browser::of(&server).with("host", "desk.example");
    browser.get("/ui/sign-in").await.is(200);
    server.stop().await;
}

#[tokio::test]
async fn every_answer_has_the_policy_and_nothing_is_inline() {
    let server = with_one().await;
    let mut browser = Browser::of(&server);
    let pages = [
        "/ui/",
        "/ui/search",
        PATH,
        "/ui/nothing",
        "/ui/notifications/t/none",
    ];
    for path in pages {
        let page = browser.get(path).await;
        assert_eq!(page.header("cache-control"), "no-store", "{path}");
        assert!(
            page.header("content-type").starts_with("text/html"),
            "{path}"
        );
        for inline in ["<script>", "<style", " style=", " onclick=", "javascript:"] {
            assert!(!page.text.contains(inline), "{path}: {inline}");
        }
        for part in page.text.split("<script").skip(1) {
            assert!(part.starts_with(" src=\"/ui/assets/"), "{path}: {part}");
        }
    }
    for path in pages
        .iter()
        .chain(&["/ui", "/ui/assets/page.css", "/ui/language?to=zh"])
    {
        let answer = browser.get(path).await;
        let policy = answer.header("content-security-policy");
        for rule in [
            "default-src 'none'",
            "style-src 'self'",
            "script-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(
                policy.split("; ").any(|known| known == rule),
                "{path}: {policy}"
            );
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "same-origin", "{path}");
    }
    // An answer to a form that is refused, too.
    let refused = browser.post("/ui/sign-out", &[]).await.is(403);
    assert!(
        refused
            .header("content-security-policy")
            .contains("default-src 'none'")
    );
    server.stop().await;
}

#[tokio::test]
async fn files_have_their_content_types_and_are_kept_by_browsers() {
    let server = Server::start(Stores::Embedded).await;
    let mut browser = Browser::of(&server);
    let page = browser.get("/ui/").await.is(200).text;
    for (name, content_type) in [
        ("page.css", "text/css; charset=utf-8"),
        ("page.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let begun = format!("/ui/assets/{name}?v=");
        let (_, rest) = page.split_once(&begun).expect("an address");
        let address = format!("{begun}{}", rest.split('"').next().expect("its end"));
        let file = browser.get(&address).await.is(200);
        assert_eq!(file.header("content-type"), content_type);
        assert!(file.header("cache-control").contains("immutable"));
        let tag = file.header("etag").to_string();
        browser
            .with("if-none-match", &tag)
            .get(&address)
            .await
            .is(304);
        let other = browser.get(&format!("{begun}0")).await.is(200);
        assert_eq!(other.header("cache-control"), "no-cache");
    }
    browser.get("/ui/assets/none.css").await.is(404);
    server.stop().await;
}
