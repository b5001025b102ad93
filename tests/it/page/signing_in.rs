//! Signing in and out, and what ends a session.

use super::{Browser, make_key, operator, signed_in};
use crate::support::proxy::Line;
use crate::support::ringback::{BEGIN_MS, Server, Stores, before_redis, config};
use crate::support::{short_pause, within};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use reqwest::Method;
use reqwest::header::SET_COOKIE;
use ringback::domain::master_key::MasterKey;
use serde_json::json;
use zeroize::Zeroizing;

#[tokio::test]
async fn one_signs_in_with_a_key_and_is_led_back() {
    let server = Server::start(Stores::Embedded).await;
    let admin = operator(&server).await;
    let mut browser = Browser::of(&server);
    let sent_away = browser.get("/ui/search?q=a%20b").await.is(303);
    assert_eq!(
        sent_away.location(),
        "/ui/sign-in?to=%2Fui%2Fsearch%3Fq%3Da%2520b"
    );
    let page = browser.get(sent_away.location()).await.is(200);
    assert!(
        page.text.contains("value=\"/ui/search?q=a%20b\""),
        "{}",
        page.text
    );
    for wrong in ["", "rbk_00", "hunter2"] {
        let refused = browser
            .submit("/ui/sign-in", "/ui/sign-in", &[("key", wrong)])
            .await;
        assert!(matches!(refused.status, 401 | 422), "{}", refused.status);
        assert!(
            refused.text.contains("class=\"problem\""),
            "{}",
            refused.text
        );
        assert!(
            wrong.is_empty() || !refused.text.contains(wrong),
            "{}",
            refused.text
        );
        assert_eq!(browser.cookie("ringback_session"), None);
    }
    let key = admin.key().expect("a key");
    let fields = [("key", key), ("to", "/ui/search?q=a%20b")];
    let done = browser
        .submit("/ui/sign-in", "/ui/sign-in", &fields)
        .await
        .is(303);
    assert_eq!(done.location(), "/ui/search?q=a%20b");
    let cookie = done.header(SET_COOKIE).to_string();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/ui", "Max-Age=43200"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(
        !cookie.contains("Secure") && !cookie.contains(key),
        "{cookie}"
    );
    let page = browser.get("/ui/").await.is(200);
    assert!(page.text.contains("<b>admin</b>"), "{}", page.text);
    // Somewhere else, one is not led.
    let fields = [("key", key), ("to", "https://other.example/ui/")];
    let done = Browser::of(&server)
        .submit("/ui/sign-in", "/ui/sign-in", &fields)
        .await;
    assert_eq!(done.is(303).location(), "/ui/");
    // Behind a proxy that speaks TLS.
    let mut by_tls = Browser::of(&server).with("x-forwarded-proto", "https");
    let done = by_tls.submit("/ui/sign-in", "/ui/sign-in", &fields).await;
    assert!(done.header(SET_COOKIE).contains("; Secure"));
    let out = browser.submit("/ui/", "/ui/sign-out", &[]).await.is(303);
    assert_eq!(out.location(), "/ui/sign-in?out=1");
    assert_eq!(browser.cookie("ringback_session"), None);
    browser.get("/ui/").await.is(303);
    server.stop().await;
}

#[tokio::test]
async fn a_session_ends_with_its_key_its_time_and_any_change_of_its_cookie() {
    let server = Server::start_by_hand(Stores::Embedded).await;
    let admin = operator(&server).await;
    let end = ringback::domain::timestamp::display_ms(BEGIN_MS + 60_000);
    let short = json!({ "name": "short", "role": "support", "expires_at": end });
    let short = make_key(&admin, short).await;
    let desk = make_key(&admin, json!({ "name": "desk", "role": "support" })).await;
    let mut of_admin = signed_in(&admin).await;
    let mut of_short = signed_in(&short).await;
    let mut of_desk = signed_in(&desk).await;
    let cookie = of_desk
        .cookie("ringback_session")
        .expect("a session")
        .to_string();
    for changed in [
        cookie.replace("desk", "admin"),
        cookie.replacen("1:", "2:", 1),
        format!("{cookie}0"),
        cookie[..cookie.len() - 1].to_string(),
    ] {
        let mut forged = of_desk.clone();
        forged.set_cookie("ringback_session", &changed);
        forged.get("/ui/").await.is(303);
    }
    of_short.get("/ui/").await.is(200);
    server.clock().advance(60_000);
    of_short.get("/ui/").await.is(303);
    of_desk.get("/ui/").await.is(200);
    let revoked = admin.call(Method::DELETE, "/v1/keys/desk", None).await;
    assert_eq!(revoked.0, 204);
    of_desk.get("/ui/").await.is(303);
    // A new key of the same name does not open the old session.
    make_key(&admin, json!({ "name": "desk", "role": "operator" })).await;
    of_desk.get("/ui/").await.is(303);
    of_admin.get("/ui/").await.is(200);
    server.clock().advance(12 * 3_600_000 - 60_000);
    of_admin.get("/ui/").await.is(303);
    server.stop().await;
}

#[tokio::test]
async fn wrong_keys_are_limited_and_lock_nobody_out() {
    let server = Server::start(Stores::Embedded).await;
    let admin = operator(&server).await;
    let mut browser = Browser::of(&server);
    let token = browser.get("/ui/sign-in").await.is(200).form_token();
    let fields = [("key", "rbk_00"), ("form_token", token.as_str())];
    let mut refused = None;
    for _ in 0..1_000 {
        let answer = browser.post("/ui/sign-in", &fields).await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
        assert_eq!(answer.status, 401);
    }
    let refused = refused.expect("too many attempts");
    assert_eq!(refused.header("retry-after"), "1");
    // The limit is used up before each attempt with the right key.
    for _ in 0..20 {
        let mut browser = browser.clone();
        while browser.post("/ui/sign-in", &fields).await.status != 429 {}
        let fields = [("key", admin.key().expect("a key")), fields[1]];
        let done = browser.post("/ui/sign-in", &fields).await.is(303);
        assert_eq!(done.location(), "/ui/");
        assert!(browser.cookie("ringback_session").is_some());
    }
    server.stop().await;
}

#[tokio::test]
async fn without_any_key_nobody_signs_in() {
    let server = Server::start(Stores::Embedded).await;
    let mut browser = Browser::of(&server);
    let page = browser.get("/ui/").await.is(200);
    assert!(!page.text.contains("/ui/sign-out"), "{}", page.text);
    assert_eq!(browser.get("/ui/sign-in").await.is(303).location(), "/ui/");
    assert_eq!(browser.get("/ui").await.is(308).location(), "/ui/");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_good_on_every_server_with_the_same_master_key() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().expect("a temporary directory"));
    let mut settings = config(dirs[0].path(), Stores::Postgres);
    settings.master_key = Some(MasterKey::from_random(Zeroizing::new([7; 32])));
    let first = Server::open(settings.clone(), None, None).await;
    let admin = operator(&first).await;
    let browser = signed_in(&admin).await;
    settings.data_dir = dirs[1].path().to_path_buf();
    let second = Server::open(settings, None, None).await;
    let mut elsewhere = Browser::of(&second);
    let cookie = browser.cookie("ringback_session").expect("a session");
    elsewhere.set_cookie("ringback_session", cookie);
    elsewhere.get("/ui/").await.is(200);
    // A form of one server is taken by the other.
    let out = elsewhere.submit("/ui/", "/ui/sign-out", &[]).await;
    out.is(303);
    let embedded = config(dirs[2].path(), Stores::Embedded);
    let other = Server::open(embedded, None, None).await;
    operator(&other).await;
    let mut foreign = Browser::of(&other);
    foreign.set_cookie("ringback_session", cookie);
    foreign.get("/ui/").await.is(303);
    for server in [first, second, other] {
        server.stop().await;
    }
}

#[tokio::test]
async fn the_rate_of_a_key_holds_for_the_page() {
    let server = Server::start_as(Stores::Embedded, |config| config.api.requests_per_key = 3).await;
    let admin = operator(&server).await;
    let mut browser = signed_in(&admin).await;
    let mut limited = None;
    for _ in 0..1_000 {
        let answer = browser.get("/ui/").await;
        if answer.status == 429 {
            limited = Some(answer);
            break;
        }
    }
    assert_eq!(
        limited.expect("too many requests").header("retry-after"),
        "1"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_requests_of_a_key_leave_places_to_the_others() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut settings = config(dir.path(), Stores::Redis);
    let line = before_redis(&mut settings);
    let server = Server::open(settings, None, None).await;
    let admin = operator(&server).await;
    let desk = make_key(&admin, json!({ "name": "desk", "role": "support" })).await;
    let mut of_admin = signed_in(&admin).await;
    let mut of_desk = signed_in(&desk).await;
    line.set(Line::Holds).await;
    // They wait for Redis. Of the 128 places, a key that is alone may have half.
    let pages = (0..120).map(|_| of_desk.open("/ui/destinations"));
    let mut answers: FuturesUnordered<_> = pages.collect();
    let refused = answers.next().await.expect("an answer");
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let text = within("a text", refused.text()).await.expect("a text");
    let said = "Too many requests with this API key.";
    assert!(text.contains(said), "{text}");
    of_admin.get("/ui/keys").await.is(200);
    line.set(Line::Passes).await;
    while answers.next().await.is_some() {}
    drop(answers);
    let given_back = async {
        while of_desk.get("/ui/destinations").await.status != 200 {
            short_pause().await;
        }
    };
    within("a place", given_back).await;
    server.stop().await;
}
