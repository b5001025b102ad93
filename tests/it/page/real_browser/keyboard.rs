//! The page by the keyboard alone, and what has the focus when the page updates itself.

use super::desk::{Desk, ORDER};
use super::story::REASON;
use crate::support::chromium::{Chromium, DESKTOP};
use serde_json::{Value, json};

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
/// The longest way by Tab to anything on these pages.
const MOST_TABS: usize = 80;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_reached_by_tab_and_done_by_enter() {
    let browser = Chromium::open(DESKTOP).await;
    let mut desk = Desk::open().await;
    browser.go(&desk.url("/ui/")).await;
    // The field has the focus already.
    browser.see("#key:focus").await;
    browser.press(desk.key()).await;
    browser.press(ENTER).await;
    browser.see(".tiles").await;
    // The first thing leads past the head of the page.
    browser.press(TAB).await;
    browser.see(".skip:focus").await;
    browser.press(ENTER).await;
    tab_to(&browser, "main .tile").await;
    browser.go(&desk.url("/ui/")).await;
    tab_to(&browser, "#find").await;
    browser.press(ORDER).await;
    browser.press(ENTER).await;
    browser.see("h1.id").await;
    tab_to(&browser, "#replay > summary").await;
    browser.press(ENTER).await;
    tab_to(&browser, "#reason-replay").await;
    browser.press(REASON).await;
    tab_to(&browser, "#replay button").await;
    browser.press(ENTER).await;
    browser.see("h1 .chip-in_flight").await;
    // What has the focus keeps it when the page updates itself.
    tab_to(&browser, ".facts a").await;
    desk.merchant.release();
    browser.see("h1 .chip-delivered").await;
    assert!(has_focus(&browser, ".facts a").await);
    while desk.merchant.arrived().is_some() {}
    browser.close().await;
    desk.close().await;
}

async fn has_focus(browser: &Chromium, selector: &str) -> bool {
    let script = "return document.activeElement.matches(arguments[0])";
    browser.run(script, json!([selector])).await == json!(true)
}

/// Presses Tab until this has the focus. On the way, each thing that has it is seen to have it.
async fn tab_to(browser: &Chromium, selector: &str) {
    for _ in 0..MOST_TABS {
        if has_focus(browser, selector).await {
            return;
        }
        browser.press(TAB).await;
        let unmarked = browser.run(UNMARKED, json!([])).await;
        assert_eq!(
            unmarked,
            Value::Null,
            "it has the focus, and cannot be seen to have it"
        );
    }
    panic!("{selector} is not reached by Tab");
}

/// What has the focus, unless an outline around it is shown in the window.
const UNMARKED: &str = "
    const at = document.activeElement;
    if (at === document.body) return null;
    const { outlineStyle, outlineWidth } = getComputedStyle(at);
    const { width, height, bottom, top } = at.getBoundingClientRect();
    const isShown = width > 0 && height > 0 && bottom > 0 && top < innerHeight;
    return isShown && outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 ? null : at.outerHTML;";
