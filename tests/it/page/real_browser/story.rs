//! An order is found, its attempts are read, it is replayed, and the page shows by itself that it has been delivered.

use super::desk::{Desk, LOGIN_PAGE, ORDER};
use crate::support::chromium::{Chromium, DESKTOP, Setup};
use serde_json::{Value, json};

/// What the page says in a language.
pub struct Words {
    /// The attribute `lang` of its documents.
    pub tag: &'static str,
    /// The title of the sign-in.
    pub sign_in: &'static str,
    /// The state of a dead letter.
    pub dead: &'static str,
    /// The state in which an attempt is made.
    pub in_flight: &'static str,
    /// The state of what was acknowledged.
    pub delivered: &'static str,
    /// What it says of an answer that was not the one that was agreed.
    pub wrong_answer: &'static str,
    /// What can be done with a dead letter.
    pub replay: &'static str,
    /// What it says when that was done.
    pub replayed: &'static str,
}

/// English.
pub const ENGLISH: Words = Words {
    tag: "en",
    sign_in: "Sign in",
    dead: "dead",
    in_flight: "in flight",
    delivered: "delivered",
    wrong_answer: "wrong answer",
    replay: "Replay",
    replayed: "It is replayed.",
};

/// Chinese.
pub const CHINESE: Words = Words {
    tag: "zh-Hans",
    sign_in: "登录",
    dead: "死信",
    in_flight: "投递中",
    delivered: "已送达",
    wrong_answer: "应答内容不符",
    replay: "重放",
    replayed: "已开始重放。",
};

/// A phone.
pub const PHONE: Setup = Setup {
    languages: "en",
    size: (360, 740),
    is_phone: true,
    runs_scripts: true,
};

/// A reason with what could become markup.
pub const REASON: &str = "ticket 4711: <b>the shop</b> is back";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_found_replayed_and_seen_delivered() {
    tell(DESKTOP, &ENGLISH).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_in_chinese() {
    let chinese = Setup {
        languages: "zh-CN,zh",
        ..DESKTOP
    };
    tell(chinese, &CHINESE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_on_a_phone() {
    tell(PHONE, &ENGLISH).await;
}

async fn tell(setup: Setup, words: &Words) {
    let browser = Chromium::open(setup).await;
    let mut desk = Desk::open().await;
    browser.go(&desk.url("/ui/")).await;
    assert_eq!(browser.attribute("html", "lang").await, words.tag);
    assert_eq!(browser.text("h1").await, words.sign_in);
    browser.type_into("#key", desk.key()).await;
    browser.follow("main button").await;
    find(&browser, &desk).await;
    read(&browser, words).await;

    browser.click("#replay > summary").await;
    assert_eq!(browser.text("#replay button").await, words.replay);
    browser.type_into("#reason-replay", REASON).await;
    browser.follow("#replay button").await;
    assert_eq!(browser.text(".notice-done").await, words.replayed);
    browser.see("h1 .chip-in_flight").await;
    let state = browser.text("h1 .chip").await;
    assert_eq!(state, words.in_flight);
    // A page that is loaded again has not got this mark.
    let mark = "document.documentElement.dataset.mark = 'kept'";
    browser.run(mark, json!([])).await;
    while desk.merchant.arrived().is_some() {}
    desk.merchant.release();
    browser.see("h1 .chip-delivered").await;
    let state = browser.text("h1 .chip").await;
    assert_eq!(state, words.delivered);
    browser.see("html[data-mark=kept]").await;
    let history = browser.text(".history").await;
    assert!(
        history.contains("desk-1") && history.contains(REASON),
        "{history}"
    );
    browser.see("#attempt-2 .chip-delivered").await;
    assert_eq!(desk.admin.get(ORDER).await["series"], json!(2));
    no_sideways_scrolling(&browser, setup).await;
    assert_eq!(browser.console().await, [""; 0]);
    browser.close().await;
    desk.close().await;
}

/// Looks for the order in the box that is on every page.
async fn find(browser: &Chromium, desk: &Desk) {
    browser.type_into("#find", ORDER).await;
    browser.follow(".find button").await;
    browser.see("h1.id").await;
    assert_eq!(browser.url().await, desk.url(&Desk::path()));
}

/// Reads its attempts.
async fn read(browser: &Chromium, words: &Words) {
    let title = browser.text("h1").await;
    assert_eq!(title, format!("{ORDER} {}", words.dead));
    for attempt in ["#attempt-0", "#attempt-1"] {
        let shown = browser.text(attempt).await;
        for part in [words.wrong_answer, "200", LOGIN_PAGE] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
    // Who has the answer as text can see its bytes.
    browser.click("#attempt-1 [id^=hex] > summary").await;
    let bytes = browser.text("#attempt-1 .hex").await;
    assert!(bytes.contains("3c 68 74 6d 6c"), "{bytes}");
}

/// Checks that the page is not wider than the window, and that nothing stands out of it.
pub async fn no_sideways_scrolling(browser: &Chromium, setup: Setup) {
    let wide = browser.run(WIDER, json!([setup.size.0])).await;
    assert_eq!(wide, Value::Array(Vec::new()), "{}", browser.url().await);
}

/// What is wider than the window, or stands out of it on the right, other than what scrolls by itself or is hidden.
const WIDER: &str = "
    const [width] = arguments;
    const { scrollWidth } = document.documentElement;
    const found = scrollWidth > width ? [`document ${scrollWidth}`] : [];
    const scrolls = (element) => {
      for (let at = element.parentElement; at; at = at.parentElement) {
        if (getComputedStyle(at).overflowX !== 'visible') return true;
      }
      return false;
    };
    for (const element of document.body.querySelectorAll('*')) {
      const { right, width: own } = element.getBoundingClientRect();
      if (own > 1 && right > width + 1 && !scrolls(element)) found.push(`${element.tagName}.${element.className} ${right}`);
    }
    return found;";
