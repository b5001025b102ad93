//! A signed-in browser: it keeps cookies, and follows no redirect.

use reqwest::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use reqwest::{Client, RequestBuilder, redirect};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An answer.
pub struct Answered {
    pub status: u16,
    pub text: String,
    pub took: Duration,
}

/// A browser.
pub struct Browser {
    client: Client,
    url: String,
    cookies: BTreeMap<String, String>,
}

impl Browser {
    /// Signs in at a server with an API key.
    pub async fn sign_in(url: &str, key: &str) -> Self {
        let client = Client::builder().no_proxy();
        let client = client.redirect(redirect::Policy::none()).build();
        let mut browser = Self {
            client: client.expect("a client"),
            url: url.to_string(),
            cookies: BTreeMap::new(),
        };
        let form = browser.get("/ui/sign-in").await.text;
        let (_, token) = form
            .split_once("name=\"form_token\" value=\"")
            .expect("a form");
        let token = token.split('"').next().expect("a token").to_string();
        let mut fields = url::form_urlencoded::Serializer::new(String::new());
        fields.extend_pairs([("form_token", token.as_str()), ("key", key)]);
        let request = (browser.client)
            .post(format!("{url}/ui/sign-in"))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(fields.finish());
        let signed_in = browser.send(request).await;
        assert_eq!(signed_in.status, 303, "{}", signed_in.text);
        browser
    }

    /// Opens a page.
    pub async fn get(&mut self, path: &str) -> Answered {
        let request = self.client.get(format!("{}{path}", self.url));
        self.send(request).await
    }

    async fn send(&mut self, mut request: RequestBuilder) -> Answered {
        let cookies = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let cookies: Vec<String> = cookies.collect();
        if !cookies.is_empty() {
            request = request.header(COOKIE, cookies.join("; "));
        }
        let sent = Instant::now();
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        for cookie in answer.headers().get_all(SET_COOKIE) {
            let cookie = cookie.to_str().expect("ASCII");
            let (name, rest) = cookie.split_once('=').expect("a cookie");
            let value = rest.split(';').next().expect("a value");
            self.cookies.insert(name.to_string(), value.to_string());
        }
        let text = answer.text().await.expect("a text");
        Answered {
            status,
            text,
            took: sent.elapsed(),
        }
    }
}
