//! `ringback demo`: an embedded dispatcher and a pretend merchant, every attempt shown live.
//!
//! Uses nothing but what everybody has: the API, and what arrives at the merchant. Keeps its files
//! in a directory of its own and removes it. Ends by itself within [`LONGEST`]; status 1 if
//! something did not turn out as it should.

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

/// How long the whole demonstration may take.
const LONGEST: Duration = Duration::from_secs(14);
/// How often the states are asked for, and the board is drawn.
const TICK: Duration = Duration::from_millis(100);
/// When the notification that is to be cancelled is cancelled.
const CANCEL_AFTER: Duration = Duration::from_secs(2);

/// Plays all stories and prints how they ended.
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
        "not as it should be: {}",
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

    /// Registers, watches, steps in where a story asks for it. Gives what went wrong.
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

    /// A call has arrived at the merchant.
    fn hear(&mut self, call: &ArrivedCall) -> Result<(), CommandFailure> {
        let Some(progress) = self.progress.get_mut(call.story) else {
            return Ok(());
        };
        let late_ms = progress.hear(call);
        self.board.attempted(progress.story, call, late_ms)
    }

    /// Asks for the state of a notification.
    async fn look(&mut self, index: usize) -> Result<(), CommandFailure> {
        let answer = self.ask(Method::GET, self.url(index, ""), None).await?;
        // The calls that led to this state were made before it.
        while let Some(call) = self.merchant.called_meanwhile() {
            self.hear(&call)?;
        }
        if self.progress[index].see(&answer) {
            self.board.saw(&self.progress[index])?;
        }
        Ok(())
    }

    /// Does what people do in this story: replays a dead letter, cancels before it is due.
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
        Ok(serde_json::from_slice(&answer).context("the answer is no JSON")?)
    }
}

/// A directory that goes when this is dropped, whichever way the demonstration ends.
struct TemporaryDir(PathBuf);

impl TemporaryDir {
    fn make() -> Result<Self, CommandFailure> {
        let name = format!("ringback-demo-{}", Uuid::now_v7().simple());
        let path = std::env::temp_dir().join(name);
        // Not recursive: a directory that exists already is not ours.
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own clearing of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
