//! The page under `/ui/`, over real HTTP.

mod api_keys;
mod audit_log;
mod dead_letters;
mod destinations;
mod endpoints;
mod foreign;
mod languages;
mod live;
mod markup;
mod notifications;
mod overview;
mod plots;
mod real_browser;
mod rights;
mod searching;
mod signing_in;
mod words;

use crate::support::ringback::{Api, Server};
use crate::support::within;
use reqwest::header::{CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, LOCATION, SET_COOKIE};
use reqwest::{Client, Method, RequestBuilder, Response, redirect};
use serde_json::json;
use std::collections::BTreeMap;

/// A browser as far as a test needs one: it keeps cookies, and follows no redirect by itself.
#[derive(Clone)]
pub struct Browser {
    client: Client,
    url: String,
    cookies: BTreeMap<String, String>,
    headers: Vec<(HeaderName, String)>,
}

/// An answer of the page.
pub struct Answered {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answered {
    /// A header; empty if it is missing.
    pub fn header(&self, name: impl AsRef<str>) -> &str {
        let value = self.headers.get(name.as_ref());
        value.map_or("", |value| value.to_str().expect("ASCII"))
    }

    /// Where it leads.
    pub fn location(&self) -> &str {
        self.header(LOCATION)
    }

    /// The token of its forms.
    pub fn form_token(&self) -> String {
        let (_, rest) = (self.text)
            .split_once("name=\"form_token\" value=\"")
            .unwrap_or_else(|| panic!("a form: {}", self.text));
        rest.split('"').next().expect("a value").to_string()
    }

    /// Checks the status; the text is shown if it is another.
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{} {}", self.location(), self.text);
        self
    }
}

impl Browser {
    /// A browser that opens the pages of this server.
    pub fn of(api: &Api) -> Self {
        Self::at(api.url())
    }

    /// A browser that opens the pages at this URL.
    pub fn at(url: &str) -> Self {
        crate::support::install_tls();
        let client = Client::builder().no_proxy();
        let client = client.redirect(redirect::Policy::none()).build();
        Self {
            client: client.expect("a client"),
            url: url.to_string(),
            cookies: BTreeMap::new(),
            headers: Vec::new(),
        }
    }

    /// The same browser, which sends this header too.
    pub fn with(&self, name: &'static str, value: &str) -> Self {
        let mut other = self.clone();
        let header = (HeaderName::from_static(name), value.to_string());
        other.headers.push(header);
        other
    }

    /// A cookie that it has.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.get(name).map(String::as_str)
    }

    /// Changes a cookie.
    pub fn set_cookie(&mut self, name: &str, value: &str) {
        self.cookies.insert(name.to_string(), value.to_string());
    }

    /// Opens a page.
    pub async fn get(&mut self, path: &str) -> Answered {
        self.send(Method::GET, path, None).await
    }

    /// Sends a form as it is.
    pub async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answered {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        self.send(Method::POST, path, Some(form.finish())).await
    }

    /// Sends a form with the token of the page that has it.
    pub async fn submit(&mut self, page: &str, path: &str, fields: &[(&str, &str)]) -> Answered {
        let token = self.get(page).await.is(200).form_token();
        let fields = [fields, &[("form_token", token.as_str())]].concat();
        self.post(path, &fields).await
    }

    /// Signs in with a key.
    pub async fn sign_in(&mut self, key: &str) {
        let done = self
            .submit("/ui/sign-in", "/ui/sign-in", &[("key", key)])
            .await;
        assert_eq!(
            (done.is(303).location(), true),
            ("/ui/", self.cookie("ringback_session").is_some())
        );
    }

    /// Opens a page whose answer is read by the test.
    pub async fn open(&self, path: &str) -> Response {
        let opening = self.request(Method::GET, path).send();
        within("the page", opening).await.expect("an answer")
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = (self.client).request(method, format!("{}{path}", self.url));
        let cookies: Vec<String> = (self.cookies.iter())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !cookies.is_empty() {
            request = request.header(COOKIE, cookies.join("; "));
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request
    }

    async fn send(&mut self, method: Method, path: &str, form: Option<String>) -> Answered {
        let mut request = self.request(method, path);
        if let Some(form) = form {
            request = request
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form);
        }
        let answer = within("the page", request.send()).await.expect("an answer");
        for cookie in answer.headers().get_all(SET_COOKIE) {
            let cookie = cookie.to_str().expect("ASCII");
            let (name, rest) = cookie.split_once('=').expect("a cookie");
            let value = rest.split(';').next().expect("a value");
            if rest.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_string(), value.to_string());
            }
        }
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let text = within("the page", answer.text()).await.expect("a text");
        Answered {
            status,
            headers,
            text,
        }
    }
}

/// Makes the first key of a server, an operator's, and returns its API with it.
pub async fn operator(server: &Server) -> Api {
    make_key(server, json!({ "name": "admin", "role": "operator" })).await
}

/// Makes a key, and returns the API with it.
pub async fn make_key(api: &Api, asked: serde_json::Value) -> Api {
    let (status, made) = api.call(Method::POST, "/v1/keys", Some(asked)).await;
    assert_eq!(status, 201, "{made}");
    api.with_key(made["key"].as_str().expect("a key"))
}

/// A browser that is signed in with the key of this API.
pub async fn signed_in(api: &Api) -> Browser {
    let mut browser = Browser::of(api);
    browser.sign_in(api.key().expect("a key")).await;
    browser
}
