//! The page of a notification: what it shows, and what can be done there.

use super::{Browser, make_key, operator, signed_in};
use crate::end_to_end::on_journaled_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Server, Stores, registration, with_ladder};
use reqwest::Method;
use serde_json::json;

on_journaled_stores!(
    a_dead_letter_is_read_and_replayed,
    the_ladder_is_a_line_of_steps,
    a_pending_one_is_moved_retried_and_cancelled,
    a_held_destination_and_a_removed_endpoint_are_told,
    what_was_sent_is_masked_and_its_unveiling_is_kept,
);

async fn a_dead_letter_is_read_and_replayed(stores: Stores) {
    let failing = Reaction::Answer(500, "no such order".into());
    let mut merchant = Merchant::scripted(vec![failing], Reaction::success()).await;
    let server = Server::start(stores).await;
    let admin = operator(&server).await;
    let desk = make_key(&admin, json!({ "name": "desk", "role": "support" })).await;
    let mut browser = signed_in(&desk).await;
    admin.register(with_ladder("1", &merchant, &[])).await;
    admin.until_state("1", "dead").await;
    let path = "/ui/notifications/t/1";
    let page = browser.get(path).await.is(200).text;
    for shown in [
        "chip-dead",
        "no such order",
        "<code>500</code>",
        "action=\"/ui/notifications/t/1/replay\"",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    // A dead letter is discarded by an operator alone, and cannot be cancelled.
    for hidden in ["/discard\"", "/cancel\"", "/retry\"", "/resend\""] {
        assert!(!page.contains(hidden), "{hidden}: {page}");
    }
    let refused = browser
        .submit(path, &format!("{path}/retry"), &[("reason", "why not")])
        .await;
    let refused = refused.is(409).text;
    assert!(
        refused.contains("class=\"problem\"") && refused.contains("why not"),
        "{refused}"
    );
    let done = browser
        .submit(path, &format!("{path}/replay"), &[("reason", "工单 4711")])
        .await;
    assert_eq!(done.is(303).location(), format!("{path}?done=replay"));
    admin.until_state("1", "delivered").await;
    let page = browser
        .get(&format!("{path}?done=replay"))
        .await
        .is(200)
        .text;
    for shown in ["notice-done", "chip-delivered", "工单 4711", "desk"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let (_, log) = admin
        .call(Method::GET, "/v1/audit-log?actor=desk", None)
        .await;
    assert_eq!(log["items"][0]["act"], "notification.replay", "{log}");
    assert_eq!(log["items"][0]["reason"], "工单 4711", "{log}");
    while merchant.arrived().is_some() {}
    server.stop().await;
}

async fn a_pending_one_is_moved_retried_and_cancelled(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![], Reaction::Answer(500, "later".into())).await;
    let server = Server::start(stores).await;
    let mut browser = Browser::of(&server);
    let mut asked = registration("1", &merchant);
    asked["delay"] = json!("1h");
    let before = server.register(asked).await;
    let path = "/ui/notifications/t/1";
    for wrong in ["", "soon", "31d"] {
        let refused = browser
            .submit(path, &format!("{path}/reschedule"), &[("when", wrong)])
            .await;
        let refused = refused.is(422).text;
        assert!(refused.contains(&format!("value=\"{wrong}\"")), "{refused}");
    }
    let moved = browser
        .submit(path, &format!("{path}/reschedule"), &[("when", "2h")])
        .await;
    moved.is(303);
    let after = server.get("1").await;
    assert!(
        after["next_attempt_at"].as_str() > before["next_attempt_at"].as_str(),
        "{after}"
    );
    browser
        .submit(path, &format!("{path}/retry"), &[("reason", "now")])
        .await
        .is(303);
    server.until_attempts("1", 1).await;
    browser
        .submit(path, &format!("{path}/cancel"), &[("reason", "paid twice")])
        .await
        .is(303);
    let ended = server.get("1").await;
    assert_eq!(ended["state"], "cancelled");
    let page = browser.get(path).await.is(200).text;
    for shown in ["paid twice", "chip-cancelled", "later"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    browser.get("/ui/notifications/t/none").await.is(404);
    browser.get("/ui/notifications/t%2F/1").await.is(404);
    while merchant.arrived().is_some() {}
    server.stop().await;
}

async fn a_held_destination_and_a_removed_endpoint_are_told(stores: Stores) {
    const SHOP: &str = "/v1/endpoints/shop-1";
    const WAITS: &str = "The destination is held, so calls begin when it is released.";
    const HOSTILE: &str = "<b>they move</b>";
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Server::start(stores).await;
    let mut browser = Browser::of(&server);
    let mut chinese = Browser::of(&server).with("accept-language", "zh-CN");
    let endpoint = json!({ "url": merchant.url("/n"), "ladder": { "intervals": [] } });
    let made = server.call(Method::PUT, SHOP, Some(endpoint)).await;
    assert_eq!(made.0, 201, "{}", made.1);
    let asked = |id: &str| json!({ "topic": "t", "id": id, "endpoint": "shop-1", "body": "a=1" });
    server.register(asked("dead")).await;
    merchant.call().await;
    server.until_state("dead", "dead").await;
    let mut later = asked("later");
    later["delay"] = json!("1h");
    server.register(later).await;
    let (dead, later) = ("/ui/notifications/t/dead", "/ui/notifications/t/later");
    for path in [dead, later] {
        let page = browser.get(path).await.is(200).text;
        assert!(!page.contains(WAITS), "{path}: {page}");
        assert!(!page.contains("endpoint was removed"), "{path}: {page}");
    }

    let hold = "/v1/lanes/endpoint%3Ashop-1/hold";
    let reason = Some(json!({ "reason": HOSTILE }));
    assert_eq!(server.call(Method::POST, hold, reason).await.0, 200);
    for path in [dead, later] {
        let page = browser.get(path).await.is(200).text;
        for shown in [
            WAITS,
            "api holds it since ",
            "&#60;b&#62;they move&#60;/b&#62;",
        ] {
            assert_eq!(page.matches(shown).count(), 1, "{path} {shown}: {page}");
        }
        assert!(!page.contains(HOSTILE), "{path}: {page}");
        let page = chinese.get(path).await.is(200).text;
        let shown = "目标已被暂停投递，恢复后才会投递。";
        assert!(page.contains(shown), "{path}: {page}");
    }

    // An endpoint is removed when nothing pending names it. The hold of its lane stays.
    let cancelled = server
        .call(Method::DELETE, "/v1/notifications/t/later", None)
        .await;
    assert_eq!(cancelled.0, 200, "{}", cancelled.1);
    assert_eq!(server.call(Method::DELETE, SHOP, None).await.0, 204);
    let page = browser.get(dead).await.is(200).text;
    for shown in [
        WAITS,
        "</b>: its endpoint was removed; a replay uses the last settings of that endpoint",
        "dead/replay\"",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let page = chinese.get(dead).await.is(200).text;
    assert!(page.contains("</b>：所属端点已删除，重放时使用"), "{page}");
    let page = browser.get(later).await.is(200).text;
    assert!(
        page.contains("</b>: its endpoint was removed.</p>"),
        "{page}"
    );
    assert!(!page.contains(WAITS), "nothing of it is called: {page}");
    server.stop().await;
}

async fn what_was_sent_is_masked_and_its_unveiling_is_kept(stores: Stores) {
    let merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let admin = operator(&server).await;
    let mut browser = signed_in(&admin).await;
    let mut asked = registration("1", &merchant);
    asked["body"] = json!("card=4111");
    asked["headers"] = json!({ "x-customer": "li.lei" });
    asked["delay"] = json!("1h");
    admin.register(asked).await;
    let path = "/ui/notifications/t/1";
    let page = browser.get(path).await.is(200).text;
    assert!(
        page.contains("x-customer") && page.contains("9 bytes"),
        "{page}"
    );
    assert!(!page.contains("4111") && !page.contains("li.lei"), "{page}");
    let shown = browser
        .submit(path, &format!("{path}/payload"), &[("reason", "ticket 5")])
        .await;
    let shown = shown.is(200);
    assert_eq!(shown.header("cache-control"), "no-store");
    assert!(
        shown.text.contains("card=4111") && shown.text.contains("li.lei"),
        "{}",
        shown.text
    );
    for part in [
        "curl --globoff --request POST",
        "x-customer: li.lei",
        "--data-raw",
    ] {
        assert!(shown.text.contains(part), "{part}: {}", shown.text);
    }
    let (_, log) = admin.call(Method::GET, "/v1/audit-log", None).await;
    let entry = &log["items"][0];
    assert_eq!(entry["act"], "notification.read_payload", "{log}");
    assert_eq!(
        (&entry["actor"], &entry["reason"]),
        (&json!("admin"), &json!("ticket 5")),
        "{log}"
    );
    assert!(!log.to_string().contains("4111"), "{log}");
    // The command is pasted into a terminal, where a control character of the body could act.
    let mut asked = registration("2", &merchant);
    asked["body"] = json!("a\u{1b}[201~\nrm b");
    asked["delay"] = json!("1h");
    admin.register(asked).await;
    let path = "/ui/notifications/t/2";
    let shown = browser
        .submit(path, &format!("{path}/payload"), &[("reason", "ticket 6")])
        .await;
    let shown = shown.is(200).text;
    let encoded = "printf %s YRtbMjAxfgpybSBi | base64 -d | curl";
    assert!(shown.contains(encoded), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
    server.stop().await;
}

async fn the_ladder_is_a_line_of_steps(stores: Stores) {
    let failing = Reaction::Answer(500, b"\xef\xbb\xbfno\x01".to_vec());
    let mut merchant = Merchant::scripted(vec![], failing).await;
    let server = Server::start(stores).await;
    let mut browser = Browser::of(&server).with("accept-language", "zh-CN");
    server
        .register(with_ladder("1", &merchant, &["1h", "2h"]))
        .await;
    let after = server.until_attempts("1", 1).await;
    let page = browser.get("/ui/notifications/t/1").await.is(200).text;
    let next = after["next_attempt_at"].as_str().expect("an instant");
    let deadline = after["deadline_at"].as_str().expect("an instant");
    for shown in [
        "class=\"step step-failed\"",
        "class=\"step step-next\" aria-current=\"step\" data-countdown",
        "class=\"step step-later\"",
        "class=\"step step-deadline\"",
        "href=\"#attempt-0\"",
        &format!("datetime=\"{next}\""),
        &format!("datetime=\"{deadline}\""),
        // The attempt: in words, its phases, its answer as text and in hexadecimal digits.
        "HTTP 状态码异常",
        "建立连接",
        "127.0.0.1:",
        "\\u{feff}no\\u{1}",
        "ef bb bf 6e 6f 01",
        "常见原因",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert_eq!(
        page.matches("class=\"step step-later\"").count(),
        1,
        "{page}"
    );
    while merchant.arrived().is_some() {}
    server.stop().await;
}
