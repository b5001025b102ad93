//! The audit log on the page: in words, by actor and time, a page at a time.

use super::{make_key, operator, signed_in};
use crate::end_to_end::on_journaled_stores;
use crate::support::ringback::{Server, Stores};
use reqwest::Method;
use serde_json::json;

on_journaled_stores!(what_people_did_is_told_in_both_languages);

const HOSTILE: &str = "<script>alert(1)</script>";

async fn what_people_did_is_told_in_both_languages(stores: Stores) {
    let server = Server::start(stores).await;
    let admin = operator(&server).await;
    let desk = make_key(&admin, json!({ "name": "desk", "role": "support" })).await;
    let lane = "/v1/lanes/https%3A%2F%2Fshop.example";
    let reason = Some(json!({ "reason": HOSTILE }));
    let (status, _) = desk
        .call(Method::POST, &format!("{lane}/hold"), reason)
        .await;
    assert_eq!(status, 200);
    let mut browser = signed_in(&admin).await;
    let page = browser.get("/ui/audit-log").await.is(200).text;
    for shown in [
        "held a destination",
        "made an API key",
        "&#60;script&#62;",
        "\"/ui/destinations/https%3A%2F%2Fshop.example\"",
        "\"/ui/audit-log?actor=desk\"",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(!page.contains(HOSTILE), "{page}");
    let mut chinese = browser.with("accept-language", "zh");
    let page = chinese.get("/ui/audit-log?actor=desk").await.is(200).text;
    assert!(
        page.contains("暂停目标投递") && !page.contains("创建 API Key"),
        "{page}"
    );
    for nothing in ["actor=nobody", "to=1h", "from=2100-01-01"] {
        let page = browser
            .get(&format!("/ui/audit-log?{nothing}"))
            .await
            .is(200)
            .text;
        assert!(!page.contains("held a destination"), "{nothing}: {page}");
    }
    let page = browser
        .get("/ui/audit-log?from=1h&actor=desk")
        .await
        .is(200)
        .text;
    assert!(page.contains("held a destination"), "{page}");
    for wrong in ["from=yesterday", "to=x", "actor=%E5%BA%97", "cursor=x"] {
        let page = browser.get(&format!("/ui/audit-log?{wrong}")).await;
        assert!(matches!(page.status, 400 | 422), "{wrong}: {}", page.status);
    }
    server.stop().await;
}

#[tokio::test]
async fn the_audit_log_has_pages() {
    let server = Server::start(Stores::Embedded).await;
    let admin = operator(&server).await;
    for at in 0..55 {
        let path = format!("/v1/lanes/endpoint%3Ashop-{at:02}/hold");
        let (status, _) = admin.call(Method::POST, &path, None).await;
        assert_eq!(status, 200);
    }
    let mut browser = signed_in(&admin).await;
    let mut address = "/ui/audit-log?actor=admin".to_string();
    let mut seen = Vec::new();
    loop {
        let page = browser.get(&address).await.is(200).text;
        let shown =
            |at: &usize| page.contains(&format!("\"/ui/destinations/endpoint%3Ashop-{at:02}\""));
        seen.extend((0..55).filter(shown));
        let Some((before, _)) = page.split_once("\" rel=\"next\"") else {
            break;
        };
        let href = before.rsplit("href=\"").next().expect("an address");
        address = href.replace("&#38;", "&");
        assert!(address.contains("actor=admin"), "{address}");
    }
    assert_eq!(seen.len(), 55);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 55);
    server.stop().await;
}
