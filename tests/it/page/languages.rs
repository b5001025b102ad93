//! Both languages.

use super::words::english_words;
use super::{Answered, Browser, make_key, operator, signed_in};
use crate::end_to_end::on_journaled_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Api, Server, Stores, registration, with_ladder};
use crate::support::{short_pause, within};
use reqwest::Method;
use serde_json::{Value, json};

on_journaled_stores!(no_sentence_on_the_chinese_page_is_in_english);

#[tokio::test]
async fn the_browser_or_a_link_decides_the_language() {
    let server = Server::start(Stores::Embedded).await;
    let page = Browser::of(&server).get("/ui/").await.is(200);
    assert!(page.text.contains("<html lang=\"en\">"), "{}", page.text);
    let mut chinese = Browser::of(&server).with("accept-language", "zh-CN,zh;q=0.9,en;q=0.8");
    let page = chinese.get("/ui/search?q=x").await.is(200);
    assert!(
        page.text.contains("<html lang=\"zh-Hans\">"),
        "{}",
        page.text
    );
    assert!(page.text.contains("未找到任何记录"), "{}", page.text);
    let link = "/ui/language?to=en&amp;back=%2Fui%2Fsearch%3Fq%3Dx";
    let escaped = link.replace("&amp;", "&#38;");
    assert!(page.text.contains(&escaped), "{}", page.text);
    let back = chinese.get(&link.replace("&amp;", "&")).await.is(303);
    assert_eq!(back.location(), "/ui/search?q=x");
    let page = chinese.get("/ui/search?q=x").await.is(200);
    assert!(page.text.contains("<html lang=\"en\">"), "{}", page.text);
    let elsewhere = chinese
        .get("/ui/language?to=zh&back=https://evil.example/")
        .await
        .is(303);
    assert_eq!(elsewhere.location(), "/ui/");
    server.stop().await;
}

/// What people and keys are called, and what they wrote, in the test below.
const NAMES: [&str; 7] = [
    "api",
    "admin",
    "desk",
    "shop",
    "ticket",
    "paid",
    "dispatcher",
];

/// The words in English that were found, by page.
struct EnglishWords {
    instance: String,
    found: Vec<String>,
}

impl EnglishWords {
    /// Notes the words of ours on a page in Chinese that are in English.
    fn check(&mut self, what: &str, page: &Answered) {
        let is_chinese = page.text.contains("<html lang=\"zh-Hans\">");
        assert!(is_chinese, "{what}: {}", page.text);
        let known = [&NAMES[..], &[&self.instance]].concat();
        let found = english_words(&page.text, &known).into_iter();
        self.found
            .extend(found.map(|found| format!("{what}: {found}")));
    }
}

/// Registers one whose only attempt fails in this way.
async fn let_die(api: &Api, merchant: &mut Merchant, id: &str, reaction: Reaction) {
    merchant.now_does(reaction);
    let mut asked = with_ladder(id, merchant, &[]);
    if id == "gone-1" {
        asked["ack"] = json!("standard-webhooks");
    }
    api.register(asked).await;
    merchant.call().await;
    api.until_state(id, "dead").await;
}

/// Opens a page until it has this text.
async fn until_shown(browser: &mut Browser, path: &str, text: &str) -> Answered {
    within(&format!("{path} to show {text}"), async {
        loop {
            let page = browser.get(path).await.is(200);
            if page.text.contains(text) {
                return page;
            }
            short_pause().await;
        }
    })
    .await
}

/// Sends a request that must succeed.
async fn ask(api: &Api, method: Method, path: &str, body: Value) {
    let (status, view) = api.call(method, path, Some(body)).await;
    assert!((200..300).contains(&status), "{path}: {status} {view}");
}

/// What failed, and the words that the page in Chinese has for it.
const DEAD: [(&str, &str); 6] = [
    (
        "wrong-1",
        "应答状态码 200，但应答内容为 `fail`，应为 `success`",
    ),
    ("status-1", "应答状态码 500"),
    ("gone-1", "应答状态码 410（Gone）：商户要求停止通知"),
    ("other-1", "应答不是 HTTP <span lang=\"en\">"),
    ("port-1", "无法建立连接：连接被拒绝"),
    (
        "inside-1",
        "地址 10.0.0.1 为内网地址，且不在允许的目标范围内",
    ),
];

async fn no_sentence_on_the_chinese_page_is_in_english(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let admin = operator(&server).await;
    make_key(&admin, json!({ "name": "desk", "role": "producer", "topics": ["paid"], "expires_at": "2999-01-01T00:00:00Z" })).await;
    let mut browser = signed_in(&admin).await.with("accept-language", "zh-CN");

    let_die(&admin, &mut merchant, "wrong-1", Reaction::fail()).await;
    let failing = Reaction::Answer(500, b"no such order".to_vec());
    let_die(&admin, &mut merchant, "status-1", failing).await;
    let_die(
        &admin,
        &mut merchant,
        "gone-1",
        Reaction::Answer(410, b"never".to_vec()),
    )
    .await;
    let other = Reaction::Raw(b"SSH-2.0-x\r\n".to_vec());
    let_die(&admin, &mut merchant, "other-1", other).await;
    for (id, url) in [
        ("port-1", "http://127.0.0.1:1/n"),
        ("inside-1", "https://10.0.0.1/n"),
    ] {
        let mut asked = with_ladder(id, &merchant, &[]);
        asked["url"] = json!(url);
        admin.register(asked).await;
        admin.until_state(id, "dead").await;
    }
    merchant.now_does(Reaction::success());
    admin.register(registration("good-1", &merchant)).await;
    merchant.call().await;
    let good = admin.until_state("good-1", "delivered").await;
    let instance = good["transitions"][0]["instance"].as_str();
    let mut words = EnglishWords {
        instance: instance.expect("a server").to_string(),
        found: Vec::new(),
    };

    // Pending ones: of an order, of low priority, moved, and held by hand.
    for (id, number) in [("order-1", 1), ("order-2", 2)] {
        let mut asked = registration(id, &merchant);
        asked["delay"] = json!("1h");
        asked["priority"] = json!("low");
        asked["order"] = json!({ "key": "key-1", "number": number, "mode": "latest" });
        admin.register(asked).await;
    }
    admin.until_state("order-1", "cancelled").await;
    ask(
        &admin,
        Method::PATCH,
        "/v1/notifications/t/order-2",
        json!({ "delay": "2h" }),
    )
    .await;
    let lane = merchant.url("");
    let encoded: String = url::form_urlencoded::byte_serialize(lane.as_bytes()).collect();
    let held = format!("/v1/lanes/{encoded}/hold");
    ask(
        &admin,
        Method::POST,
        &held,
        json!({ "reason": "ticket 4711" }),
    )
    .await;
    ask(
        &admin,
        Method::POST,
        "/v1/notifications/t/order-2/retry",
        json!({}),
    )
    .await;
    let waiting = "/ui/notifications/t/order-2";
    let page = until_shown(&mut browser, waiting, "暂停。").await;
    words.check("what waits", &page);
    for shown in ["低（排在普通之后）", "仅最大编号有效", "ticket 4711"] {
        assert!(page.text.contains(shown), "{shown}: {}", page.text);
    }

    // An endpoint and its changes, and jobs.
    const SHOP: &str = "/v1/endpoints/shop";
    let endpoint = json!({ "url": "https://shop.example/n" });
    ask(&admin, Method::PUT, SHOP, endpoint).await;
    let change = json!({ "rate": 5, "user_agent": "x/1" });
    ask(&admin, Method::PATCH, SHOP, change).await;
    let plan = browser.get("/ui/cancel?id_contains=none-1").await.is(200);
    words.check("a plan", &plan);
    let job = [
        ("has_filter", "yes"),
        ("id_contains", "none-1"),
        ("topic", "paid"),
        ("reason", "ticket 5"),
    ];
    let made = browser
        .submit("/ui/cancel", "/ui/cancel", &job)
        .await
        .is(303);
    let job = made
        .location()
        .split('?')
        .next()
        .expect("a path")
        .to_string();
    words.check("the job", &until_shown(&mut browser, &job, "已完成").await);

    for (id, shown) in DEAD {
        let page = browser
            .get(&format!("/ui/notifications/t/{id}"))
            .await
            .is(200);
        words.check(id, &page);
        assert!(page.text.contains(shown), "{shown}: {}", page.text);
    }
    let destination = format!("/ui/destinations/{encoded}");
    let pages = [
        "/ui/",
        "/ui/?hours=1",
        "/ui/search",
        "/ui/search?q=wrong-1",
        "/ui/search?state=dead",
        "/ui/dead-letters",
        "/ui/dead-letters/plan",
        "/ui/cancel",
        "/ui/jobs",
        "/ui/destinations",
        "/ui/endpoints",
        "/ui/endpoints/shop",
        "/ui/endpoints/shop/edit",
        "/ui/new-endpoint",
        "/ui/default-keys",
        "/ui/keys",
        "/ui/audit-log",
        "/ui/notifications/t/order-1",
        "/ui/notifications/t/good-1",
        &job,
        &destination,
    ];
    for path in pages {
        let page = browser.get(path).await;
        if page.status != 303 {
            words.check(path, &page.is(200));
        }
    }
    let mut visitor = Browser::of(&server).with("accept-language", "zh");
    words.check("the sign-in", &visitor.get("/ui/sign-in").await.is(200));

    refused_acts_are_in_chinese(&mut browser, (&job, &destination), &mut words).await;
    let found = words.found;
    assert!(found.is_empty(), "{}", found.join("\n"));
    server.stop().await;
}

/// An act that is refused: the page with a token, the address, the fields, the status, and what is said.
type RefusedAct<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], u16, &'a str);

/// What the service refuses is said in Chinese, beside the form or on a page of its own.
async fn refused_acts_are_in_chinese(
    browser: &mut Browser,
    (job, destination): (&str, &str),
    words: &mut EnglishWords,
) {
    const LETTER: &str = "/ui/notifications/t/wrong-1";
    const GOOD: &str = "/ui/notifications/t/good-1";
    const KEYS: &str = "/ui/endpoints/shop";
    let retry = format!("{LETTER}/retry");
    let replay = format!("{GOOD}/replay");
    let pause = format!("{job}/pause");
    let fast = format!("{destination}/retry");
    let keys = format!("{KEYS}/keys");
    let remove = format!("{KEYS}/keys/key_none/remove");
    let picked = "/ui/dead-letters/selected";
    let discard = "/ui/dead-letters/selected/discard";
    let refused: [RefusedAct<'_>; 8] = [
        (
            LETTER,
            &retry,
            &[],
            409,
            "通知的状态为“死信”，不能执行“立即投递”，请改用“重放”。",
        ),
        (GOOD, &replay, &[], 409, "请改用“重新发送”。"),
        (job, &pause, &[], 409, "任务已结束：已完成。"),
        (destination, &fast, &[("rate", "0")], 422, "速率"),
        (
            KEYS,
            &keys,
            &[("secret", "x"), ("overlap", "99d")],
            422,
            "未添加密钥。",
        ),
        (
            KEYS,
            &remove,
            &[("confirm", "yes")],
            404,
            "端点没有此 ID 的签名密钥。",
        ),
        (
            LETTER,
            picked,
            &[("pick-0", "t/good-1")],
            200,
            "已不是死信，将跳过",
        ),
        (
            LETTER,
            discard,
            &[("pick-0", "t/good-1")],
            409,
            "不能执行“作废”",
        ),
    ];
    for (page, path, fields, status, shown) in refused {
        // A job that has ended has no forms, but the other pages have a token.
        let from = if page == job { LETTER } else { page };
        let answer = browser.submit(from, path, fields).await.is(status);
        words.check(path, &answer);
        assert!(answer.text.contains(shown), "{shown}: {}", answer.text);
    }
    for path in [
        "/ui/no-such-page",
        "/ui/jobs/019aa3f2-0000",
        "/ui/endpoints/none-1",
    ] {
        words.check(path, &browser.get(path).await.is(404));
    }
    words.check(
        "wrong times",
        &browser.get("/ui/audit-log?from=x").await.is(422),
    );
}
