//! Every page, in both languages: no rule of accessibility is broken, light or dark, nothing is refused by the policy of
//! the page or loaded from another host, and nothing scrolls sideways on a phone.

use super::scene::{DEAD, DELIVERED, PENDING, Scene};
use super::story::{CHINESE, ENGLISH, PHONE, Words, no_sideways_scrolling};
use crate::support::chromium::{Chromium, DESKTOP};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The version of the rules; `tests/browser.sh` fetches it.
const AXE: &str = "4.12.1";

/// A page, and what is clicked there before it is looked at, each with a text to be typed if that is not empty. Buttons lead to
/// another page.
struct Shown {
    path: String,
    then: &'static [(&'static str, &'static str)],
}

#[rustfmt::skip]
const PATHS: &[&str] = &[
    "/ui/", "/ui/search", "/ui/search?q=order-2026112", "/ui/search?q=nothing-like-it", "/ui/search?state=wrong&from=never",
    "/ui/dead-letters", "/ui/dead-letters?cause=refused", "/ui/dead-letters?id_contains=none", "/ui/dead-letters/plan",
    "/ui/cancel?lane=endpoint%3Aold-mill", "/ui/jobs", "/ui/destinations", "/ui/destinations/endpoint%3Anorth-bikes",
    "/ui/destinations/endpoint%3Aold-mill", "/ui/endpoints", "/ui/endpoints/moon-books", "/ui/endpoints/moon-books/edit",
    "/ui/new-endpoint", "/ui/default-keys", "/ui/keys", "/ui/audit-log",
];

/// Pages that are there only as answers to forms.
const ANSWERS: &[(&str, &[(&str, &str)])] = &[
    (
        "/ui/dead-letters",
        &[
            ("tbody tr:first-child [type=checkbox]", ""),
            ("main form[method=post] button", ""),
        ],
    ),
    (
        "/ui/endpoints/harbour-cafe",
        &[("form[action$=test] button", "")],
    ),
    (
        "/ui/keys",
        &[
            ("#name", "no spaces here"),
            ("form[action$=keys] button", ""),
        ],
    ),
    (
        "/ui/new-endpoint",
        &[
            ("#name", "new-1"),
            ("#url", "ftp://shop.example/"),
            ("main form button", ""),
        ],
    ),
];

/// All pages.
fn pages(scene: &Scene) -> Vec<Shown> {
    let of_one = [DEAD, PENDING, DELIVERED].map(Scene::path);
    let job = format!("/ui/jobs/{}", scene.job);
    let paths = PATHS.iter().map(ToString::to_string);
    let paths = paths.chain(of_one).chain([job, Scene::path("none")]);
    let mut pages: Vec<_> = paths.map(|path| Shown { path, then: &[] }).collect();
    pages.extend(ANSWERS.iter().map(|(path, then)| Shown {
        path: path.to_string(),
        then,
    }));
    pages.push(Shown {
        path: Scene::path(DELIVERED),
        then: &[
            ("#unveil > summary", ""),
            ("#reason-payload", "ticket 4711"),
            ("#unveil button", ""),
        ],
    });
    pages
}

impl Shown {
    async fn open(&self, browser: &Chromium, scene: &Scene) {
        browser.go(&scene.url(&self.path)).await;
        for (selector, text) in self.then {
            match *text {
                "" if selector.ends_with("button") => browser.follow(selector).await,
                "" => browser.click(selector).await,
                text => browser.type_into(selector, text).await,
            }
        }
        browser.see("main").await;
    }

    fn name(&self) -> String {
        match self.then.last() {
            None => self.path.clone(),
            Some((last, _)) => format!("{} {last}", self.path),
        }
    }
}

/// Signs in as the operator.
pub async fn sign_in(browser: &Chromium, scene: &Scene) {
    browser.go(&scene.url("/ui/sign-in")).await;
    let key = scene.admin.key().expect("a key");
    browser.type_into("#key", key).await;
    browser.follow("main button").await;
    browser.see(".tiles").await;
}

/// Chooses a language.
pub async fn choose(browser: &Chromium, scene: &Scene, words: &Words) {
    let tag = &words.tag[..2];
    browser
        .go(&scene.url(&format!("/ui/language?to={tag}&back=%2Fui%2F")))
        .await;
    assert_eq!(browser.attribute("html", "lang").await, words.tag);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_page_breaks_a_rule_of_accessibility_or_loads_what_it_may_not() {
    let axe = std::fs::read_to_string(axe()).expect("axe-core");
    let browser = Chromium::open(DESKTOP).await;
    let scene = Scene::set().await;
    let mut found = Vec::new();
    browser.go(&scene.url("/ui/sign-in")).await;
    heard(&browser, &scene, "the sign-in", &mut found).await;
    judge(&browser, &axe, "the sign-in", &mut found).await;
    what_is_wrong_is_found(&browser, &axe, &scene).await;
    sign_in(&browser, &scene).await;
    for words in [&ENGLISH, &CHINESE] {
        choose(&browser, &scene, words).await;
        for shown in pages(&scene) {
            shown.open(&browser, &scene).await;
            let name = format!("{} {}", words.tag, shown.name());
            heard(&browser, &scene, &name, &mut found).await;
            judge(&browser, &axe, &name, &mut found).await;
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    browser.close().await;
    scene.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_page_scrolls_sideways_on_a_phone() {
    let browser = Chromium::open(PHONE).await;
    let scene = Scene::set().await;
    sign_in(&browser, &scene).await;
    for words in [&ENGLISH, &CHINESE] {
        choose(&browser, &scene, words).await;
        for shown in pages(&scene) {
            shown.open(&browser, &scene).await;
            browser.run(OPEN_ALL, json!([])).await;
            no_sideways_scrolling(&browser, PHONE).await;
        }
    }
    browser.close().await;
    scene.strike().await;
}

/// What is folded in is looked at too.
const OPEN_ALL: &str = "for (const one of document.querySelectorAll('details')) one.open = true;";

/// Checks the checks: a picture without a text, a script of another host and a style in an attribute.
async fn what_is_wrong_is_found(browser: &Chromium, axe: &str, scene: &Scene) {
    let mut found = Vec::new();
    let wrong = "
        document.getElementById('main').append(document.createElement('img'));
        document.head.append(Object.assign(document.createElement('script'), { src: 'http://other.example/x.js' }));
        document.body.setAttribute('style', 'color: red');";
    browser.run(wrong, json!([])).await;
    judge(browser, axe, "wrong", &mut found).await;
    heard(browser, scene, "wrong", &mut found).await;
    let found = found.join("\n");
    for part in ["image-alt", "script-src", "style-src"] {
        assert!(found.contains(part), "{part}: {found}");
    }
}

/// What the browser says, and what it asked for, since the last page.
async fn heard(browser: &Chromium, scene: &Scene, name: &str, found: &mut Vec<String>) {
    let mut requests = 0;
    for (method, event) in browser.network().await {
        if method != "Network.requestWillBeSent" {
            continue;
        }
        let url = event["request"]["url"].as_str().expect("a URL");
        requests += 1;
        // The browser has a page of its own, with which it starts.
        let own = [&scene.url("/"), "data:", "chrome:"];
        if !own.iter().any(|own| url.starts_with(own)) {
            found.push(format!("{name}: asked {url}"));
        }
    }
    assert!(
        requests > 0 || name == "wrong",
        "{name}: the requests are seen"
    );
    // A status is told as an error too. Everything else is one.
    let said = browser.console().await;
    let said = said
        .iter()
        .filter(|said| !said.contains("the server responded with a status of 4"));
    found.extend(said.map(|said| format!("{name}: {said}")));
}

/// Applies all rules to the page as it is light, and those of contrast as it is dark.
async fn judge(browser: &Chromium, axe: &str, name: &str, found: &mut Vec<String>) {
    browser.run(axe, json!([])).await;
    browser.run(OPEN_ALL, json!([])).await;
    let dark = json!({ "runOnly": { "type": "rule", "values": ["color-contrast"] } });
    let light = json!({ "rules": { "target-size": { "enabled": true } } });
    for (is_dark, rules) in [(false, light), (true, dark)] {
        browser.prefer_dark(is_dark).await;
        let broken = browser.run(JUDGE, json!([rules])).await;
        let broken = broken.as_array().expect("a list");
        let shade = if is_dark { "dark" } else { "light" };
        found.extend(
            broken
                .iter()
                .map(|rule| format!("{name} {shade}: {}", text(rule))),
        );
    }
    browser.prefer_dark(false).await;
}

/// Gives each place at which a rule is broken, and fails if no rule was applied.
const JUDGE: &str = "
    return axe.run(document, { ...arguments[0], resultTypes: ['violations'] }).then((result) => {
      if (result.passes.length + result.violations.length === 0) throw new Error('no rule was applied');
      return result.violations.flatMap((rule) =>
        rule.nodes.map((node) => `${rule.id}: ${node.html} ${node.failureSummary}`));
    });";

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().replace('\n', " ")
}

/// The rules. Tests that need them fail without; they are never skipped.
fn axe() -> PathBuf {
    if let Some(path) = std::env::var_os("RINGBACK_TEST_AXE") {
        return path.into();
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"));
    let path = target.join(format!("test-servers/axe-core-{AXE}/axe.min.js"));
    assert!(
        path.is_file(),
        "axe-core {AXE} is not here: run tests/browser.sh axe, or the tests by `make test`, which fetches it"
    );
    path
}
