//! The HTTP client with which commands call the API of a running server.
//!
//! An error is printed in a few lines. What the user can do about a refusal that any request may get is said here.

use super::CommandFailure;
use super::arguments::HOW_TO_FIND;
use super::refusal::Refusal;
use crate::api::problem::ProblemKind;
use crate::config::read_secret_text;
use crate::domain::key::Key;
use crate::journal::Actor;
use crate::tls_roots;
use anyhow::{Context as _, anyhow};
use clap::Args;
use reqwest::{Method, Response, StatusCode, header};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

/// How long a request may take, including its answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of an answer, in bytes.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;
/// Maximum length of a user's name that is sent as the actor, in bytes.
const LONGEST_ACTOR: usize = 64;
const DEFAULT_SERVER: &str = "http://127.0.0.1:8400";

/// The flags that say which server is called, and whether its JSON is printed.
#[derive(Args)]
pub struct ServerArguments {
    /// The server [env: RINGBACK_SERVER] [default: http://127.0.0.1:8400]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The server's API key [env: RINGBACK_API_KEY]
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// A file that contains the API key [env: RINGBACK_API_KEY_FILE]
    #[arg(long, value_name = "FILE", conflicts_with = "api_key")]
    api_key_file: Option<PathBuf>,
    /// Print the answer as JSON, also one that says why it was not done
    #[arg(long)]
    pub json: bool,
}

impl ServerArguments {
    /// The API key: of a flag, else of a variable.
    fn find_api_key(&self) -> Result<Option<GivenKey>, CommandFailure> {
        let given = |key: String, origin| Ok(Some(GivenKey { key, origin }));
        let read = |path: &Path, origin| -> Result<Option<GivenKey>, CommandFailure> {
            let key = read_secret_text(path)?.to_string();
            Ok(Some(GivenKey { key, origin }))
        };
        match (&self.api_key, &self.api_key_file) {
            (Some(key), _) => return given(key.clone(), "--api-key"),
            (None, Some(path)) => return read(path, "--api-key-file"),
            (None, None) => {}
        }
        let file = variable("RINGBACK_API_KEY_FILE");
        match (variable("RINGBACK_API_KEY"), file) {
            (Some(_), Some(_)) => {
                let problem =
                    "RINGBACK_API_KEY and RINGBACK_API_KEY_FILE are both given; give one of them";
                Err(CommandFailure::Usage(problem.to_string()))
            }
            (None, Some(path)) => read(Path::new(&path), "RINGBACK_API_KEY_FILE"),
            (Some(key), None) => given(key, "RINGBACK_API_KEY"),
            (None, None) => Ok(None),
        }
    }
}

/// An API key, and the flag or the variable that it comes from.
struct GivenKey {
    key: String,
    origin: &'static str,
}

/// A client of a server's API.
pub struct Client {
    http: reqwest::Client,
    server: Url,
    api_key: Option<GivenKey>,
    actor: String,
}

/// The actor that the notification's history shows: the name of the user, or `cli`.
pub fn who() -> String {
    let user = variable("USER").filter(|user| {
        let printable = user.bytes().all(|byte| byte.is_ascii_graphic());
        // The server refuses the names that it uses itself.
        printable && user.len() <= LONGEST_ACTOR && !Actor::is_name_of_the_server(user)
    });
    user.unwrap_or_else(|| "cli".to_string())
}

impl Client {
    /// Makes a client for the server that the flags or environment variables name.
    pub fn new(arguments: &ServerArguments) -> Result<Self, CommandFailure> {
        let (origin, server) = match (&arguments.server, variable("RINGBACK_SERVER")) {
            (Some(server), _) => ("--server", server.clone()),
            (None, Some(server)) => ("RINGBACK_SERVER", server),
            (None, None) => ("--server", DEFAULT_SERVER.to_string()),
        };
        let server = Url::parse(&server)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                CommandFailure::Usage(format!("{origin}: not a URL like {DEFAULT_SERVER}"))
            })?;
        Ok(Self {
            http: http_client()?,
            server,
            api_key: arguments.find_api_key()?,
            actor: who(),
        })
    }

    /// Makes a client for the server of the demonstration, which needs no key.
    pub fn local(address: SocketAddr) -> Result<Self, CommandFailure> {
        Ok(Self {
            http: http_client()?,
            server: Url::parse(&format!("http://{address}")).context("the address")?,
            api_key: None,
            actor: "demo".to_string(),
        })
    }

    /// The URL of a path in the API. The segments come after `/v1`.
    pub fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.server.clone();
        url.set_query(None);
        url.set_fragment(None);
        if let Ok(mut path) = url.path_segments_mut() {
            // This escapes all characters that would end a segment, and `%`.
            path.pop_if_empty().push("v1").extend(segments);
        }
        url
    }

    /// The URL of one notification, with further segments below it.
    pub fn notification_url(&self, collection: &str, key: &Key, below: &[&str]) -> Url {
        let mut segments = vec![collection, key.topic(), key.id()];
        segments.extend(below);
        self.url(&segments)
    }

    /// Sends a request and returns the body of the answer.
    pub async fn call(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Result<Vec<u8>, CommandFailure> {
        let mut request = self
            .http
            .request(method, url)
            .header(header::ACCEPT, "application/json")
            .header("ringback-actor", &self.actor);
        if let Some(given) = &self.api_key {
            request = request.bearer_auth(&given.key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| self.explain(&error))?;
        let status = response.status();
        let retry_after = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .map(str::to_string);
        let answer = self.read(response).await?;
        if status.is_success() {
            return Ok(answer);
        }
        let mut refusal = Refusal::of(status, retry_after.as_deref(), &answer);
        if status == StatusCode::UNAUTHORIZED {
            refusal.advise(&self.key_advice());
        } else if refusal.is(ProblemKind::Missing) {
            refusal.advise(HOW_TO_FIND);
        }
        Err(CommandFailure::Refused(Box::new(refusal)))
    }

    /// How to give the API key that the server asks for.
    fn key_advice(&self) -> String {
        let given = match &self.api_key {
            Some(given) => format!("the API key is that of {}; give another one", given.origin),
            None => "no API key is given; give one".to_string(),
        };
        format!(
            "{given} with --api-key or --api-key-file, or in RINGBACK_API_KEY or RINGBACK_API_KEY_FILE"
        )
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, CommandFailure> {
        let mut answer = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.explain(&error))?
        {
            if answer.len() + chunk.len() > LARGEST_ANSWER {
                return Err(anyhow!("the answer of {} is too large", self.place()).into());
            }
            answer.extend_from_slice(&chunk);
        }
        Ok(answer)
    }

    /// The failure of a request that got no complete answer.
    fn explain(&self, error: &reqwest::Error) -> CommandFailure {
        let place = self.place();
        let problem = if error.is_timeout() {
            format!("{place} did not answer within {} s", TIMEOUT.as_secs())
        } else if error.is_connect() {
            format!(
                "no server can be reached at {place}; start one with `ringback serve`, or name it \
                 with --server"
            )
        } else {
            format!("no answer from {place}: {}", root(error))
        };
        CommandFailure::Unreachable(problem)
    }

    /// The origin of the server's URL, which contains no credentials.
    fn place(&self) -> String {
        self.server.origin().ascii_serialization()
    }
}

fn http_client() -> anyhow::Result<reqwest::Client> {
    tls_roots::build(|| {
        reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
    })
    .context("the HTTP client")
}

/// The value of an environment variable; `None` if it is not set or empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The text of the innermost error, because the outer ones only repeat the URL.
fn root(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
