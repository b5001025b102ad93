//! A real browser: headless Chromium, driven over the WebDriver protocol (W3C).
//!
//! Each test opens one with a profile of its own. Only one runs at a time in this process, since other tests run beside
//! it. Every call is bounded. What is looked for is waited for by the driver, which asks the browser until it is there.

mod process;

use super::{LONGEST_WAIT, within};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use process::{Driver, browser};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

/// One browser at a time.
static TURNS: Semaphore = Semaphore::const_new(1);
/// For how long a test waits for its turn: all others may come before it.
const LONGEST_TURN: Duration = Duration::from_secs(1_200);
/// For how long the driver waits for an element, a page or a script. Less than [`LONGEST_WAIT`], so that it says what was
/// missing.
const LONGEST_LOOK: Duration = Duration::from_secs(LONGEST_WAIT.as_secs() - 15);
/// The property that contains the id of an element (WebDriver, section 11).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How a browser is set up.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// The languages that it prefers, as in `Accept-Language`.
    pub languages: &'static str,
    /// The size of its window, in CSS pixels.
    pub size: (u32, u32),
    /// Whether it is a phone: its screen is the window, and pages are touched.
    pub is_phone: bool,
    /// Whether it runs scripts of pages.
    pub runs_scripts: bool,
}

/// A desktop browser in English.
pub const DESKTOP: Setup = Setup {
    languages: "en",
    size: (1_200, 900),
    is_phone: false,
    runs_scripts: true,
};

/// One browser with one window.
pub struct Chromium {
    client: Client,
    /// The URL of its session.
    session: String,
    // Dropped in this order: the processes, their files, then it is the next one's turn.
    _driver: Driver,
    _dir: TempDir,
    _turn: SemaphorePermit<'static>,
}

/// What the driver answered instead of doing it.
#[derive(Debug)]
pub struct Refused {
    /// The code, as in WebDriver, section 6.6.
    pub error: String,
    /// Why, for people.
    pub message: String,
}

impl Refused {
    /// Whether the page was changed under our hands, so that doing it again is right.
    fn is_passing(&self) -> bool {
        matches!(
            self.error.as_str(),
            "stale element reference" | "element click intercepted"
        )
    }
}

impl Chromium {
    /// Opens one when it is its turn.
    pub async fn open(setup: Setup) -> Self {
        let turn = tokio::time::timeout(LONGEST_TURN, TURNS.acquire()).await;
        let turn = turn.expect("the other browsers to be closed");
        let turn = turn.expect("never closed");
        let dir = tempfile::tempdir().expect("a temporary directory");
        let driver = Driver::start(dir.path()).await;
        super::install_tls();
        let client = Client::builder().no_proxy().build().expect("a client");
        let asked = json!({ "capabilities": { "alwaysMatch": capabilities(setup, &dir) } });
        let url = format!("{}/session", driver.url);
        let opened = send(&client, Method::POST, &url, Some(asked)).await;
        let opened = opened.unwrap_or_else(|error| panic!("a browser: {error:?}"));
        let id = opened["sessionId"].as_str().expect("a session");
        Self {
            session: format!("{url}/{id}"),
            client,
            _driver: driver,
            _dir: dir,
            _turn: turn,
        }
    }

    /// Closes it in good order. What is dropped is killed.
    pub async fn close(self) {
        self.must(Method::DELETE, "", None).await;
    }

    /// Opens a page, and waits until it has loaded.
    pub async fn go(&self, url: &str) {
        self.must(Method::POST, "/url", Some(json!({ "url": url })))
            .await;
    }

    /// The URL of the page that is open.
    pub async fn url(&self) -> String {
        text_of(self.must(Method::GET, "/url", None).await)
    }

    /// Waits until an element is there. A selector is CSS, or XPath if it begins with a slash.
    pub async fn see(&self, selector: &str) {
        self.element(selector).await;
    }

    /// The text of an element, as it is shown.
    pub async fn text(&self, selector: &str) -> String {
        text_of(self.on(selector, Method::GET, "/text", None).await)
    }

    /// An attribute of an element; empty if it has none of this name.
    pub async fn attribute(&self, selector: &str, name: &str) -> String {
        let path = format!("/attribute/{name}");
        let value = self.on(selector, Method::GET, &path, None).await;
        value.as_str().unwrap_or_default().to_string()
    }

    /// Clicks an element that leads to a page, and waits until that has taken the place of the one that is open. The
    /// driver itself waits only for what the click had begun when it returned, which may be nothing yet.
    pub async fn follow(&self, selector: &str) {
        let page = format!("/element/{}/name", self.element("html").await);
        self.click(selector).await;
        let what = format!("the page to which {selector} leads");
        within(&what, async {
            while self.call(Method::GET, &page, None).await.is_ok() {}
        })
        .await;
    }

    /// Clicks an element that leads to no other page.
    pub async fn click(&self, selector: &str) {
        self.on(selector, Method::POST, "/click", Some(json!({})))
            .await;
    }

    /// Types into a field.
    pub async fn type_into(&self, selector: &str, text: &str) {
        let text = Some(json!({ "text": text }));
        self.on(selector, Method::POST, "/value", text).await;
    }

    /// Presses and releases keys, one after the other, wherever the focus is.
    pub async fn press(&self, keys: &str) {
        let pressed = keys.chars().flat_map(|key| {
            [
                json!({ "type": "keyDown", "value": key.to_string() }),
                json!({ "type": "keyUp", "value": key.to_string() }),
            ]
        });
        let pressed: Vec<Value> = pressed.collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": pressed });
        let actions = json!({ "actions": [keyboard] });
        self.must(Method::POST, "/actions", Some(actions)).await;
    }

    /// Runs the body of a function in the page, with these arguments, and gives what it returns or promises. The policy of
    /// the page does not hold for it.
    pub async fn run(&self, script: &str, arguments: Value) -> Value {
        let asked = json!({ "script": script, "args": arguments });
        self.must(Method::POST, "/execute/sync", Some(asked)).await
    }

    /// Sends a command of the DevTools protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let asked = json!({ "cmd": command, "params": parameters });
        self.must(Method::POST, "/goog/cdp/execute", Some(asked))
            .await
    }

    /// Makes pages light or dark.
    pub async fn prefer_dark(&self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.devtools(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        )
        .await;
    }

    /// Minimizes the window, so that its tab is hidden.
    pub async fn hide(&self) {
        self.must(Method::POST, "/window/minimize", Some(json!({})))
            .await;
    }

    /// Shows the window again.
    pub async fn show(&self) {
        let (width, height) = DESKTOP.size;
        let size = json!({ "width": width, "height": height });
        self.must(Method::POST, "/window/rect", Some(size)).await;
    }

    /// The warnings and errors in the console of the browser since it was asked last: of scripts and of loading, and
    /// violations of the policy of the page.
    pub async fn console(&self) -> Vec<String> {
        let entries = self.log("browser").await;
        let messages = entries
            .iter()
            .map(|entry| text_of(entry["message"].clone()));
        messages.collect()
    }

    /// What has happened on the network since it was asked last: events of the DevTools protocol, each with its method and
    /// parameters.
    pub async fn network(&self) -> Vec<(String, Value)> {
        let entries = self.log("performance").await;
        let events = entries.iter().map(|entry| {
            let text = entry["message"].as_str().expect("a text");
            let mut event: Value = serde_json::from_str(text).expect("JSON");
            let event = event["message"].take();
            (text_of(event["method"].clone()), event["params"].clone())
        });
        events.collect()
    }

    /// A picture of the upper left part of the page of this size, in CSS pixels, as PNG.
    pub async fn picture(&self, (width, height): (u32, u32)) -> Vec<u8> {
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let asked = json!({ "format": "png", "clip": clip, "captureBeyondViewport": true });
        let taken = self.devtools("Page.captureScreenshot", asked).await;
        let picture = text_of(taken["data"].clone());
        STANDARD.decode(picture).expect("base64")
    }

    async fn log(&self, kind: &str) -> Vec<Value> {
        let kind = Some(json!({ "type": kind }));
        let entries = self.must(Method::POST, "/se/log", kind).await;
        entries.as_array().expect("entries").clone()
    }

    async fn element(&self, selector: &str) -> String {
        let using = match selector.starts_with('/') {
            true => "xpath",
            false => "css selector",
        };
        let asked = json!({ "using": using, "value": selector });
        match self.call(Method::POST, "/element", Some(asked)).await {
            Ok(found) => text_of(found[ELEMENT].clone()),
            Err(refused) => {
                let body = json!({ "using": "css selector", "value": "body" });
                let body = self.must(Method::POST, "/element", Some(body)).await;
                let path = format!("/element/{}/text", text_of(body[ELEMENT].clone()));
                let page = text_of(self.must(Method::GET, &path, None).await);
                let why = refused.message;
                panic!("{}: {why}\n{}\n{page}", refused.error, self.url().await);
            }
        }
    }

    /// Asks something of the first element that a selector finds. If the page replaces it meanwhile, it is looked up again.
    async fn on(&self, selector: &str, method: Method, path: &str, asked: Option<Value>) -> Value {
        let what = format!("{selector}{path}");
        let doing = async {
            loop {
                let path = format!("/element/{}{path}", self.element(selector).await);
                match self.call(method.clone(), &path, asked.clone()).await {
                    Ok(value) => return value,
                    Err(refused) => assert!(refused.is_passing(), "{what}: {refused:?}"),
                }
            }
        };
        within(&what, doing).await
    }

    async fn must(&self, method: Method, path: &str, asked: Option<Value>) -> Value {
        let answer = self.call(method, path, asked).await;
        answer.unwrap_or_else(|refused| panic!("{path}: {refused:?}"))
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        asked: Option<Value>,
    ) -> Result<Value, Refused> {
        let url = format!("{}{path}", self.session);
        send(&self.client, method, &url, asked).await
    }
}

async fn send(
    client: &Client,
    method: Method,
    url: &str,
    asked: Option<Value>,
) -> Result<Value, Refused> {
    let mut request = client.request(method, url);
    if let Some(asked) = asked {
        request = request
            .header("content-type", "application/json")
            .body(asked.to_string());
    }
    let answering = async { request.send().await.expect("an answer").bytes().await };
    let answer = within(url, answering).await.expect("an answer");
    let mut answer: Value = serde_json::from_slice(&answer).expect("JSON");
    let value = answer["value"].take();
    match value["error"].as_str() {
        None => Ok(value),
        Some(error) => Err(Refused {
            error: error.to_string(),
            message: value["message"].as_str().unwrap_or_default().to_string(),
        }),
    }
}

fn text_of(value: Value) -> String {
    let text = value.as_str();
    text.unwrap_or_else(|| panic!("a text: {value}"))
        .to_string()
}

/// What is asked of the driver when a browser is opened.
fn capabilities(setup: Setup, dir: &TempDir) -> Value {
    let (width, height) = setup.size;
    let profile = dir.path().join("profile");
    let mut arguments = vec![
        "--headless=new".to_string(),
        format!("--user-data-dir={}", profile.display()),
        format!("--window-size={width},{height}"),
        // It looks up no names, so it reaches nothing but this machine.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost".to_string(),
        "--remote-debugging-pipe".to_string(),
    ];
    let plain = [
        "no-first-run",
        "no-default-browser-check",
        "no-proxy-server",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "disable-breakpad",
        "disable-gpu",
        // Containers have little shared memory.
        "disable-dev-shm-usage",
        "hide-scrollbars",
        // What moves into its place slowly is not there yet.
        "force-prefers-reduced-motion",
        "force-device-scale-factor=1",
    ];
    arguments.extend(plain.map(|argument| format!("--{argument}")));
    // The sandbox does not run as root.
    if std::fs::metadata(dir.path()).expect("there").uid() == 0 {
        arguments.push("--no-sandbox".to_string());
    }
    let scripts = if setup.runs_scripts { 1 } else { 2 };
    let mut options = json!({
        "binary": browser(),
        "args": arguments,
        "prefs": {
            "intl.accept_languages": setup.languages,
            "profile.managed_default_content_settings.javascript": scripts,
        },
        "perfLoggingPrefs": { "enableNetwork": true, "enablePage": false },
    });
    if setup.is_phone {
        let metrics = json!({ "width": width, "height": height, "pixelRatio": 2.0, "touch": true, "mobile": true });
        options["mobileEmulation"] = json!({ "deviceMetrics": metrics });
    }
    let look_ms = u64::try_from(LONGEST_LOOK.as_millis()).expect("short");
    json!({
        "browserName": "chrome",
        "timeouts": { "implicit": look_ms, "pageLoad": look_ms, "script": look_ms },
        "goog:loggingPrefs": { "browser": "WARNING", "performance": "ALL" },
        "goog:chromeOptions": options,
    })
}
