//! Endpoints: made, changed, tried, and removed; their keys, and the default keys.

use super::{Browser, make_key, operator, signed_in};
use crate::end_to_end::on_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Server, Stores};
use crate::support::signing::with_master_key;
use reqwest::Method;
use serde_json::{Value, json};

on_stores!(
    an_endpoint_is_made_changed_and_removed,
    keys_are_rotated_and_a_made_secret_is_shown_once,
);

const HOSTILE: &str = "<script>alert(1)</script>";

/// The value of a hidden field.
fn hidden(page: &str, name: &str) -> String {
    let begun = format!("name=\"{name}\" value=\"");
    let (_, rest) = page
        .split_once(&begun)
        .unwrap_or_else(|| panic!("{name}: {page}"));
    rest.split('"').next().expect("a value").to_string()
}

/// The secret on the page that shows it once.
fn secret_on(page: &str) -> &str {
    let (_, rest) = page
        .split_once("<code id=\"secret\">")
        .unwrap_or_else(|| panic!("{page}"));
    rest.split('<').next().expect("a secret")
}

async fn an_endpoint_is_made_changed_and_removed(stores: Stores) {
    let server = Server::start(stores).await;
    let mut browser = Browser::of(&server);
    let new = "/ui/new-endpoint";
    let wrong = [
        ("name", "shop"),
        ("url", "ftp://x"),
        ("rate", "<fast>"),
        ("ack", "{"),
    ];
    let refused = browser.submit(new, new, &wrong).await.is(422).text;
    assert!(refused.contains("value=\"&#60;fast&#62;\""), "{refused}");
    assert!(refused.contains("class=\"problem\""), "{refused}");
    let wrong = [("name", "shop"), ("url", "ftp://x"), ("rate", "<fast>")];
    let refused = browser.submit(new, new, &wrong).await.is(422).text;
    assert_eq!(refused.matches("class=\"problem\"").count(), 2, "{refused}");
    let nameless = [("name", "a/b"), ("url", "https://shop.example/n")];
    browser.submit(new, new, &nameless).await.is(422);
    let asked = [
        ("name", "shop"),
        ("url", "https://shop.example/n"),
        ("rate", "5"),
        ("ladder", r#"{"intervals":["1s","5s"]}"#),
        ("retry_after", "false"),
    ];
    let made = browser.submit(new, new, &asked).await.is(303);
    assert_eq!(made.location(), "/ui/endpoints/shop?done=endpoint-made");
    browser.submit(new, new, &asked).await.is(409);
    let more = json!({ "headers": { "x-secret": "hidden-value" }, "metadata": { "who": HOSTILE, "n": 1e2 } });
    let (status, before) = server
        .call(Method::PATCH, "/v1/endpoints/shop", Some(more))
        .await;
    assert_eq!(status, 200, "{before}");
    assert_eq!(
        (&before["rate"], &before["retry_after"]),
        (&json!(5.0), &json!(false))
    );
    let page = browser.get("/ui/endpoints/shop").await.is(200).text;
    for shown in [
        "https://shop.example/n",
        "x-secret",
        "&#60;script&#62;",
        "data-live=",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(
        !page.contains("hidden-value") && !page.contains(HOSTILE),
        "{page}"
    );

    let edit = "/ui/endpoints/shop/edit";
    let form = browser.get(edit).await.is(200).text;
    let version = hidden(&form, "version");
    let change = [
        ("version", version.as_str()),
        ("url", "https://shop.example/n"),
        ("ladder", r#"{"intervals":["3s"]}"#),
        ("rate", ""),
        ("concurrency", "3"),
    ];
    let saved = browser.submit(edit, edit, &change).await.is(303);
    assert_eq!(saved.location(), "/ui/endpoints/shop?done=endpoint-saved");
    let (_, after) = server.call(Method::GET, "/v1/endpoints/shop", None).await;
    for same in [
        "headers",
        "metadata",
        "retry_after",
        "url",
        "keys",
        "signature_headers",
    ] {
        assert_eq!(after[same], before[same], "{same}: {after}");
    }
    assert_eq!(
        (&after["rate"], &after["concurrency"]),
        (&Value::Null, &json!(3))
    );
    assert_eq!(after["ladder"]["intervals"], json!(["3s"]), "{after}");
    // The form is older than the endpoint now.
    let stale = browser
        .submit(edit, edit, &[("version", &version), ("rate", "9")])
        .await;
    let stale = stale.is(409).text;
    assert!(stale.contains("value=\"9\""), "{stale}");
    assert_ne!(hidden(&stale, "version"), version);
    let (_, unchanged) = server.call(Method::GET, "/v1/endpoints/shop", None).await;
    assert_eq!(unchanged, after);

    let pending =
        json!({ "topic": "t", "id": "1", "endpoint": "shop", "body": "x", "delay": "1h" });
    server.register(pending).await;
    let remove = "/ui/endpoints/shop/remove";
    browser
        .submit("/ui/endpoints/shop", remove, &[])
        .await
        .is(422);
    let confirmed = [("confirm", "yes")];
    let refused = browser
        .submit("/ui/endpoints/shop", remove, &confirmed)
        .await;
    let refused = refused.is(409).text;
    assert!(
        refused.contains("state=scheduled") && refused.contains("are pending"),
        "{refused}"
    );
    let (status, _) = server
        .call(Method::DELETE, "/v1/notifications/t/1", None)
        .await;
    assert_eq!(status, 200);
    let removed = browser
        .submit("/ui/endpoints/shop", remove, &confirmed)
        .await;
    assert_eq!(
        removed.is(303).location(),
        "/ui/endpoints?done=endpoint-removed"
    );
    browser.get("/ui/endpoints/shop").await.is(404);
    browser.get(edit).await.is(404);
    server.stop().await;
}

async fn keys_are_rotated_and_a_made_secret_is_shown_once(stores: Stores) {
    let (config, dir) = with_master_key(stores);
    let server = Server::open(config, None, Some(dir)).await;
    let mut browser = Browser::of(&server);
    let shop = json!({ "url": "https://shop.example/n" });
    let (status, _) = server
        .call(Method::PUT, "/v1/endpoints/shop", Some(shop))
        .await;
    assert_eq!(status, 201);
    for (page, api, list) in [
        ("/ui/endpoints/shop", "/v1/endpoints/shop", "keys"),
        ("/ui/default-keys", "/v1/default-keys", "items"),
    ] {
        let keys = match list {
            "keys" => format!("{page}/keys"),
            _ => page.to_string(),
        };
        let ids = async || {
            let (_, view) = server.call(Method::GET, api, None).await;
            let items = view[list].as_array().expect("a list").clone();
            let id = |item: &Value| item["id"].as_str().expect("an id").to_string();
            items.iter().map(id).collect::<Vec<_>>()
        };
        let earlier = ids().await;
        let fields = [("kind", "symmetric"), ("overlap", "1h")];
        let mut secrets = Vec::new();
        for _ in 0..2 {
            let made = browser.submit(page, &keys, &fields).await.is(200);
            assert_eq!(made.header("cache-control"), "no-store");
            let secret = secret_on(&made.text).to_string();
            assert!(secret.starts_with("whsec_"), "{secret}");
            secrets.push(secret);
        }
        assert_ne!(secrets[0], secrets[1]);
        let now = ids().await;
        let shown = browser.get(page).await.is(200).text;
        assert_eq!(now.len(), earlier.len() + 2);
        for id in &now {
            assert!(shown.contains(id.as_str()), "{id}: {shown}");
        }
        assert!(!shown.contains("whsec_"), "{shown}");
        assert!(
            shown.contains("for good") && shown.contains("until <time"),
            "{shown}"
        );
        // What was typed as a secret is never written back.
        let given = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let wrong = [("secret", given), ("overlap", "31d")];
        let refused = browser.submit(page, &keys, &wrong).await.is(422).text;
        assert!(
            refused.contains("value=\"31d\"") && !refused.contains("C2FV"),
            "{refused}"
        );
        let added = browser.submit(page, &keys, &[("secret", given)]).await;
        assert_eq!(
            added.is(303).location(),
            format!("{page}?done=signing-key-added")
        );
        let again = browser.submit(page, &keys, &[("secret", given)]).await;
        assert_eq!(
            again.is(303).location(),
            format!("{page}?done=signing-key-known")
        );
        let newest = ids().await.remove(0);
        let remove = |id: &str| format!("{keys}/{id}/remove");
        browser.submit(page, &remove(&now[0]), &[]).await.is(422);
        let last = browser
            .submit(page, &remove(&newest), &[("confirm", "yes")])
            .await;
        assert!(last.is(409).text.contains("notice-failed"));
        let removed = browser
            .submit(page, &remove(&now[0]), &[("confirm", "yes")])
            .await;
        assert_eq!(
            removed.is(303).location(),
            format!("{page}?done=signing-key-removed")
        );
        let again = browser
            .submit(page, &remove(&now[0]), &[("confirm", "yes")])
            .await;
        again.is(404);
        assert!(!ids().await.contains(&now[0]));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_call_shows_what_came_back() {
    let answer = Reaction::Answer(200, HOSTILE.into());
    let mut merchant = Merchant::scripted(vec![], answer).await;
    let server = Server::start(Stores::Embedded).await;
    let admin = operator(&server).await;
    let shop = json!({ "url": merchant.url("/n") });
    let (status, _) = admin
        .call(Method::PUT, "/v1/endpoints/shop", Some(shop))
        .await;
    assert_eq!(status, 201);
    let mut browser = signed_in(&admin).await;
    let path = "/ui/endpoints/shop";
    let tried = browser
        .submit(path, &format!("{path}/test"), &[])
        .await
        .is(200)
        .text;
    for shown in [
        "wrong answer",
        "<code>200</code>",
        "&#60;script&#62;",
        "class=\"trace\"",
    ] {
        assert!(tried.contains(shown), "{shown}: {tried}");
    }
    assert!(
        !tried.contains(HOSTILE) && !tried.contains("data-live="),
        "{tried}"
    );
    merchant.call().await;
    let (_, listed) = admin.call(Method::GET, "/v1/notifications", None).await;
    assert_eq!(listed["items"], json!([]), "nothing of it is kept");
    let (_, log) = admin.call(Method::GET, "/v1/audit-log", None).await;
    assert_eq!(log["items"][0]["act"], "endpoint.test", "{log}");
    let list = browser.get("/ui/endpoints").await.is(200).text;
    assert!(
        list.contains("\"/ui/endpoints/shop\"") && list.contains("/ui/new-endpoint"),
        "{list}"
    );
    // Support staff read it, and find no forms.
    let desk = make_key(&admin, json!({ "name": "desk", "role": "support" })).await;
    let mut desk = signed_in(&desk).await.with("accept-language", "zh");
    let page = desk.get(path).await.is(200).text;
    assert!(page.contains("签名密钥"), "{page}");
    for hidden in ["/test\"", "/remove\"", "/edit\"", "/keys\""] {
        assert!(
            !page.contains(&format!("{path}{hidden}")),
            "{hidden}: {page}"
        );
    }
    desk.get(&format!("{path}/edit")).await.is(403);
    let list = desk.get("/ui/endpoints").await.is(200).text;
    assert!(!list.contains("/ui/new-endpoint"), "{list}");
    server.stop().await;
}

#[tokio::test]
async fn the_list_of_endpoints_has_pages() {
    let server = Server::start(Stores::Embedded).await;
    for at in 0..51 {
        let shop = json!({ "url": "https://shop.example/n" });
        let path = format!("/v1/endpoints/shop-{at:02}");
        let (status, _) = server.call(Method::PUT, &path, Some(shop)).await;
        assert_eq!(status, 201);
    }
    let mut browser = Browser::of(&server);
    let first = browser.get("/ui/endpoints").await.is(200).text;
    assert!(
        first.contains("/ui/endpoints/shop-49\"") && !first.contains("/ui/endpoints/shop-50\"")
    );
    let second = "/ui/endpoints?cursor=shop-49";
    assert!(
        first.contains(&format!("\"{second}\" rel=\"next\"")),
        "{first}"
    );
    let second = browser.get(second).await.is(200).text;
    assert!(second.contains("/ui/endpoints/shop-50\"") && !second.contains("rel=\"next\""));
    server.stop().await;
}
