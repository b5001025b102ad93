//! API keys: made, shown once, revoked.

use super::{Browser, operator, signed_in};
use crate::end_to_end::on_journaled_stores;
use crate::support::ringback::{Server, Stores};
use reqwest::Method;

on_journaled_stores!(a_key_is_made_shown_once_and_revoked);

const PATH: &str = "/ui/keys";

fn key_on(page: &str) -> String {
    let (_, rest) = page
        .split_once("<code id=\"secret\">")
        .unwrap_or_else(|| panic!("{page}"));
    rest.split('<').next().expect("a key").to_string()
}

async fn a_key_is_made_shown_once_and_revoked(stores: Stores) {
    let server = Server::start(stores).await;
    let mut browser = Browser::of(&server);
    let first = [("name", "admin"), ("role", "support")];
    let refused = browser.submit(PATH, PATH, &first).await.is(409).text;
    assert!(refused.contains("operator and no end") && refused.contains("value=\"admin\""));
    let first = [("name", "admin"), ("role", "operator")];
    let made = browser.submit(PATH, PATH, &first).await.is(200);
    assert_eq!(made.header("cache-control"), "no-store");
    let key = key_on(&made.text);
    assert!(key.starts_with("rbk_"), "{key}");
    let warning = "From now on, requests without a key are refused";
    assert!(made.text.contains(warning), "{}", made.text);
    // From now on one has to sign in.
    browser.get(PATH).await.is(303);
    let admin = server.with_key(&key);
    let mut browser = signed_in(&admin).await;
    for wrong in [
        [
            ("name", "a b"),
            ("role", "support"),
            ("topics", ""),
            ("expires", ""),
        ],
        [
            ("name", "a"),
            ("role", "root"),
            ("topics", ""),
            ("expires", ""),
        ],
        [
            ("name", "a"),
            ("role", "support"),
            ("topics", "t"),
            ("expires", ""),
        ],
        [
            ("name", "a"),
            ("role", "producer"),
            ("topics", "t/u"),
            ("expires", ""),
        ],
        [
            ("name", "a"),
            ("role", "producer"),
            ("topics", ""),
            ("expires", "<soon>"),
        ],
    ] {
        let refused = browser.submit(PATH, PATH, &wrong).await.is(422).text;
        assert!(
            refused.contains("class=\"problem\"") && !refused.contains("<soon>"),
            "{refused}"
        );
    }
    let asked = [
        ("name", "till"),
        ("role", "producer"),
        ("topics", "paid refunded"),
        ("expires", "90d"),
    ];
    let till = browser.submit(PATH, PATH, &asked).await.is(200);
    let till = server.with_key(&key_on(&till.text));
    browser.submit(PATH, PATH, &asked).await.is(409);
    let list = browser.get(PATH).await.is(200).text;
    for shown in [
        "<b class=\"break\">till</b>",
        "paid refunded",
        "/ui/keys/till/revoke\"",
    ] {
        assert!(list.contains(shown), "{shown}: {list}");
    }
    assert!(!list.contains("rbk_"), "{list}");
    let revoke = "/ui/keys/till/revoke";
    browser.submit(PATH, revoke, &[]).await.is(422);
    let (status, _) = till
        .call(Method::GET, "/v1/notifications?topic=paid", None)
        .await;
    assert_eq!(status, 200);
    let confirmed = [("confirm", "yes")];
    let revoked = browser.submit(PATH, revoke, &confirmed).await;
    assert_eq!(revoked.is(303).location(), "/ui/keys?done=key-revoked");
    let (status, _) = till
        .call(Method::GET, "/v1/notifications?topic=paid", None)
        .await;
    assert_eq!(status, 401);
    browser.submit(PATH, revoke, &confirmed).await.is(404);
    let (_, log) = admin
        .call(Method::GET, "/v1/audit-log?actor=admin", None)
        .await;
    assert_eq!(log["items"][0]["act"], "api_key.revoke", "{log}");
    assert_eq!(log["items"][1]["act"], "api_key.add", "{log}");
    server.stop().await;
}

#[tokio::test]
async fn the_last_operator_is_not_revoked_while_there_are_others() {
    let server = Server::start(Stores::Embedded).await;
    let admin = operator(&server).await;
    let mut browser = signed_in(&admin).await.with("accept-language", "zh");
    let desk = [("name", "desk"), ("role", "support")];
    browser.submit(PATH, PATH, &desk).await.is(200);
    let revoke = "/ui/keys/admin/revoke";
    let refused = browser.submit(PATH, revoke, &[("confirm", "yes")]).await;
    assert!(
        refused
            .is(409)
            .text
            .contains("最后一个永不到期的 operator Key")
    );
    browser.get(PATH).await.is(200);
    server.stop().await;
}
