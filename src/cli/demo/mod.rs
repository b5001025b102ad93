//! `ringback demo`: runs a dispatcher and a simulated merchant in one process, and shows every attempt live.
//!
//! The demonstration uses the dispatcher only through its API and through the calls to the merchant. Its
//! files are in a temporary directory, which is removed at the end. It ends within about [`LONGEST`]. The exit
//! status is 1 if a result was not as expected.

mod board;
mod merchant;
mod stories;
mod story_progress;

use super::client::Client;
use super::terminal::now_ms;
use super::{CommandFailure, block_on};
use crate::app::App;
use crate::config::ServeConfig;
use crate::domain::signature::SigningSecret;
use anyhow::{Context as _, anyhow};
use board::Board;
use ipnet::{IpNet, Ipv4Net};
use merchant::{ArrivedCall, DemoMerchant};
use reqwest::Method;
use serde_json::{Value, json};
use std::fs::DirBuilder;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::time::Duration;
use stories::{STORIES, TOPIC, Twist};
use story_progress::StoryProgress;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior};
use uuid::Uuid;

/// After this time the demonstration ends, even if some stories have not ended.
const LONGEST: Duration = Duration::from_secs(14);
/// How often the states are read from the API, and the output is drawn.
const TICK: Duration = Duration::from_millis(100);
/// How long after the start the notification of the cancelled story is cancelled.
const CANCEL_AFTER: Duration = Duration::from_secs(2);

/// Runs all stories and prints their results.
pub fn run() -> Result<(), CommandFailure> {
    block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
        tokio::select! {
            done = demonstrate() => done,
            _ = terminate.recv() => Err(CommandFailure::Interrupted),
            _ = interrupt.recv() => Err(CommandFailure::Interrupted),
        }
    })
}

async fn demonstrate() -> Result<(), CommandFailure> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| anyhow!("cannot read random bytes: {error}"))?;
    let secret = SigningSecret::from_random(&random);
    let dir = TemporaryDir::make()?;
    let mut config = ServeConfig::new(&dir.0, secret.clone());
    config.api.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let loopback = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);
    config.delivery.allow_destinations = vec![IpNet::V4(loopback)];

    let merchant = DemoMerchant::open(secret).await?;
    let app = App::start(config).await?;
    let played = match Client::local(app.address()) {
        Ok(client) => Demonstration::new(client, merchant).play().await,
        Err(failure) => Err(failure),
    };
    app.stop().await;
    let problems = played?;
    if problems.is_empty() {
        return Ok(());
    }
    Err(CommandFailure::Failed(anyhow!(
        "unexpected results: {}",
        problems.join("; ")
    )))
}

struct Demonstration {
    client: Client,
    merchant: DemoMerchant,
    board: Board,
    progress: Vec<StoryProgress>,
    started: Instant,
}

impl Demonstration {
    fn new(client: Client, merchant: DemoMerchant) -> Self {
        Self {
            client,
            merchant,
            board: Board::new(),
            progress: STORIES.iter().map(StoryProgress::new).collect(),
            started: Instant::now(),
        }
    }

    /// Registers the notifications, shows what happens to them, and replays or cancels them as their stories
    /// say. Returns the results that were not as expected.
    async fn play(mut self) -> Result<Vec<String>, CommandFailure> {
        self.board.open(STORIES)?;
        self.started = Instant::now();
        for index in 0..STORIES.len() {
            self.register(index).await?;
        }
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while !self.over() && self.started.elapsed() < LONGEST {
            tokio::select! {
                biased;
                call = self.merchant.called() => self.hear(&call)?,
                _ = tick.tick() => {
                    for index in 0..STORIES.len() {
                        self.look(index).await?;
                        self.step_in(index).await?;
                    }
                    self.board.draw()?;
                }
            }
        }
        self.close()
    }

    async fn register(&mut self, index: usize) -> Result<(), CommandFailure> {
        let story = &STORIES[index];
        let registration = json!({
            "topic": TOPIC,
            "id": story.id,
            "url": self.merchant.url(index),
            "body": format!("out_trade_no={}&total_amount=8.88", story.id),
            "content_type": "application/x-www-form-urlencoded",
            "ladder": { "intervals": story.intervals },
            "delay": story.delay,
        });
        let url = self.client.url(&["notifications"]);
        let answer = self.ask(Method::POST, url, Some(&registration)).await?;
        self.progress[index].see(&answer);
        self.board.saw(&self.progress[index])
    }

    /// Processes a call that has arrived at the merchant.
    fn hear(&mut self, call: &ArrivedCall) -> Result<(), CommandFailure> {
        let Some(progress) = self.progress.get_mut(call.story) else {
            return Ok(());
        };
        let late_ms = progress.hear(call);
        self.board.attempted(progress.story, call, late_ms)
    }

    /// Reads the state of a notification from the API, and shows it.
    async fn look(&mut self, index: usize) -> Result<(), CommandFailure> {
        let answer = self.ask(Method::GET, self.url(index, ""), None).await?;
        // The calls that led to this state arrived before it, so they are shown first.
        while let Some(call) = self.merchant.called_meanwhile() {
            self.hear(&call)?;
        }
        if self.progress[index].see(&answer) {
            self.board.saw(&self.progress[index])?;
        }
        Ok(())
    }

    /// Makes the change by hand of a story, if it has one and its time has come: replays the dead letter, or
    /// cancels the notification before it is due.
    async fn step_in(&mut self, index: usize) -> Result<(), CommandFailure> {
        let progress = &self.progress[index];
        let (method, url, body, note) = match progress.story.twist {
            Twist::Replayed if progress.state == "dead" && !progress.stepped_in => (
                Method::POST,
                self.url(index, "replay"),
                Some(json!({ "reason": "the merchant has repaired its page" })),
                "replayed by hand",
            ),
            Twist::Cancelled
                if progress.state == "scheduled"
                    && !progress.stepped_in
                    && self.started.elapsed() >= CANCEL_AFTER =>
            {
                (
                    Method::DELETE,
                    self.url(index, ""),
                    None,
                    "cancelled by its owner",
                )
            }
            Twist::None | Twist::Replayed | Twist::Cancelled => return Ok(()),
        };
        self.progress[index].stepped_in = true;
        self.board.note(&STORIES[index], note)?;
        let answer = self.ask(method, url, body.as_ref()).await?;
        self.progress[index].see(&answer);
        self.board.saw(&self.progress[index])
    }

    fn over(&self) -> bool {
        self.progress.iter().all(|progress| progress.over(now_ms()))
    }

    fn close(mut self) -> Result<Vec<String>, CommandFailure> {
        let problems: Vec<String> = self
            .progress
            .iter()
            .flat_map(StoryProgress::problems)
            .collect();
        self.board.close(&self.progress, problems.is_empty())?;
        Ok(problems)
    }

    fn url(&self, index: usize, below: &str) -> url::Url {
        let collection = match below {
            "" => "notifications",
            _ => "dead-letters",
        };
        let mut segments = vec![collection, TOPIC, STORIES[index].id];
        if !below.is_empty() {
            segments.push(below);
        }
        self.client.url(&segments)
    }

    async fn ask(
        &self,
        method: Method,
        url: url::Url,
        body: Option<&Value>,
    ) -> Result<Value, CommandFailure> {
        let answer = self.client.call(method, url, body).await?;
        Ok(serde_json::from_slice(&answer).context("the answer is not JSON")?)
    }
}

/// A temporary directory. It is removed when this value is dropped, also after an error or a signal.
struct TemporaryDir(PathBuf);

impl TemporaryDir {
    fn make() -> Result<Self, CommandFailure> {
        let name = format!("ringback-demo-{}", Uuid::now_v7().simple());
        let path = std::env::temp_dir().join(name);
        // The creation fails if the directory exists, because it then belongs to another program.
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot create the directory {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        // If this fails, the operating system removes the temporary files later.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
