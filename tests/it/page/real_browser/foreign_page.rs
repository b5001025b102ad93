//! A page of somebody else, open in the browser of somebody who is signed in, cannot act for them.

use super::desk::{Desk, ORDER};
use crate::support::chromium::{Chromium, DESKTOP};
use crate::support::merchant::{Merchant, Reaction};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_page_cannot_act_for_a_person_who_is_signed_in() {
    let browser = Chromium::open(DESKTOP).await;
    let desk = Desk::open().await;
    browser.go(&desk.url(&Desk::path())).await;
    browser.type_into("#key", desk.key()).await;
    browser.follow("main button").await;
    browser.see("#replay").await;
    // As if the token had become known.
    let own_token = "#replay [name=form_token]";
    let token = browser.attribute(own_token, "value").await;
    assert!(!token.is_empty());
    let page = foreign_page(&desk.url(&Desk::path()), &token);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length";
    let page = format!("{head}: {}\r\n\r\n{page}", page.len());
    let foreign = Merchant::scripted(Vec::new(), Reaction::Raw(page.into())).await;
    // Another site, which gets no cookie; and another port of the same host, which gets it.
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("http://{host}:{}/", foreign.port());
        browser.go(&url).await;
        browser.follow("#post").await;
        assert_eq!(browser.text("h1").await, "This did not work");
        assert_eq!(
            browser.url().await,
            desk.url(&format!("{}/replay", Desk::path()))
        );
        browser.go(&url).await;
        let fetched = browser
            .run(FETCH, json!([desk.url(&Desk::path()), token]))
            .await;
        assert_eq!(fetched, json!("refused"), "{host}");
        // Nor can it look into a frame of the page.
        let framed = browser.run(FRAMED, json!([])).await;
        assert_eq!(framed, json!(""), "{host}");
        let said = browser.console().await.join("\n");
        assert!(said.contains("frame-ancestors"), "{said}");
    }
    assert_eq!(desk.admin.get(ORDER).await["state"], "dead");
    // The session is good all the same, and the same request from the page itself does it.
    browser.go(&desk.url(&Desk::path())).await;
    browser.click("#replay > summary").await;
    browser.follow("#replay button").await;
    browser.see(".notice-done").await;
    assert_eq!(desk.admin.get(ORDER).await["series"], 2);
    desk.merchant.release();
    desk.admin.until_state(ORDER, "delivered").await;
    browser.close().await;
    desk.close().await;
}

/// A page that posts the form of somebody else's page, and frames that.
fn foreign_page(target: &str, token: &str) -> String {
    format!(
        "<!doctype html><title>Win a bicycle</title><iframe src=\"{target}\"></iframe>\
         <form method=\"post\" action=\"{target}/replay\"><input name=\"form_token\" value=\"{token}\">\
         <input name=\"reason\" value=\"hello\"><button id=\"post\">Win</button></form>"
    )
}

/// Sends the same by a script, with the cookies of the person, in the ways that a script has.
const FETCH: &str = "
    const [url, token] = arguments;
    const body = new URLSearchParams({ form_token: token });
    const sent = (mode) => fetch(`${url}/replay`, { method: 'POST', mode, credentials: 'include', body });
    return sent('cors').then((answer) => `read ${answer.status}`, () => 'refused')
      .then((first) => sent('no-cors').then((answer) => (answer.type === 'opaque' ? first : answer.type), () => first));";

/// What is in the frame: nothing that can be read.
const FRAMED: &str = "
    try { return frames[0].document.body.innerText; } catch (error) { return ''; }";
