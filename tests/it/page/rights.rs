//! Every route of the page by every role, and by nobody.

use super::{Browser, make_key, operator, signed_in};
use crate::support::merchant::Merchant;
use crate::support::ringback::{Server, Stores, registration};
use reqwest::Method;
use ringback::domain::role::Role;
use ringback::page::rights::{Access, PAGE_RIGHTS};
use serde_json::json;

#[tokio::test]
async fn each_role_may_open_what_the_table_says() {
    let server = Server::start(Stores::Embedded).await;
    let admin = operator(&server).await;
    let mut visitors = vec![("nobody", None, Browser::of(&server))];
    let mut forged = Browser::of(&server);
    forged.set_cookie("ringback_session", "1:admin:00:9999999999999:00");
    visitors.push(("a forged session", None, forged));
    for role in Role::ALL {
        let asked = json!({ "name": format!("a-{role}"), "role": role.as_str() });
        let key = make_key(&admin, asked).await;
        visitors.push((role.as_str(), Some(role), signed_in(&key).await));
    }
    for (method, route, access) in PAGE_RIGHTS {
        // Nothing has these names, so what is permitted changes nothing.
        let path = route
            .replace("{topic}", "t")
            .replace("{id}", "none")
            .replace("{name}", "none")
            .replace("{lane}", "endpoint:none")
            .replace("{*rest}", "none/none");
        for (name, role, browser) in &visitors {
            let mut browser = browser.clone();
            let token = browser.get("/ui/sign-in").await.form_token();
            let answer = match *method {
                "GET" => browser.get(&path).await,
                _ => browser.post(&path, &[("form_token", &token)]).await,
            };
            let is_away = answer.status == 303
                && answer.location().starts_with("/ui/sign-in")
                && answer.location() != "/ui/sign-in?out=1";
            let is_refused = matches!(answer.status, 401 | 403 | 405 | 500);
            let is_expected = match (access, role) {
                (Access::Open, _) => !is_refused || path == "/ui/sign-in",
                (Access::Needs(_), None) => {
                    is_away || (path == "/ui/events" && answer.status == 401)
                }
                (Access::Needs(permission), Some(role)) if role.permits(*permission) => {
                    !is_away && !is_refused
                }
                (Access::Needs(_), Some(_)) => answer.status == 403,
            };
            assert!(
                is_expected,
                "{name}: {method} {path}: {} {}",
                answer.status,
                answer.location()
            );
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_key_that_is_bound_to_topics_opens_no_others() {
    let merchant = Merchant::start().await;
    let server = Server::start(Stores::Embedded).await;
    let admin = operator(&server).await;
    for topic in ["t", "u"] {
        let mut asked = registration("1", &merchant);
        asked["topic"] = json!(topic);
        asked["delay"] = json!("1h");
        admin.register(asked).await;
    }
    let one = json!({ "name": "one", "role": "producer", "topics": ["t"] });
    let mut one = signed_in(&make_key(&admin, one).await).await;
    let two = json!({ "name": "two", "role": "producer", "topics": ["t", "v"] });
    let mut two = signed_in(&make_key(&admin, two).await).await;
    one.get("/ui/notifications/t/1").await.is(200);
    one.get("/ui/notifications/u/1").await.is(403);
    one.get("/ui/notifications/%75/1").await.is(403);
    one.get("/ui/events?of=notification/u/1").await.is(403);
    let refused = one
        .submit("/ui/notifications/t/1", "/ui/notifications/u/1/cancel", &[])
        .await;
    refused.is(403);
    // Its own topic is searched, so the id is found once.
    let found = one.get("/ui/search?q=1").await.is(303);
    assert_eq!(found.location(), "/ui/notifications/t/1");
    one.get("/ui/search?q=1&topic=u").await.is(403);
    two.get("/ui/search?q=1").await.is(422);
    two.get("/ui/search?q=1&topic=t").await.is(303);
    let both = signed_in(&admin).await.get("/ui/search?q=1").await.is(200);
    assert!(
        both.text.contains("/ui/notifications/t/1") && both.text.contains("/ui/notifications/u/1")
    );
    let overview = one.get("/ui/").await.is(200);
    assert!(
        !overview.text.contains("class=\"tiles\""),
        "{}",
        overview.text
    );
    one.get("/ui/events?of=overview").await.is(403);
    let (status, _) = admin.call(Method::GET, "/v1/notifications/u/1", None).await;
    assert_eq!(status, 200);
    server.stop().await;
}
