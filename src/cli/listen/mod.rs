//! `ringback listen`: a merchant on this machine, to see what deliveries look like.
//!
//! Verifies every call by Standard Webhooks, prints it, and answers as the flags say. Listens on the
//! loopback address alone. The first line printed is the address; each call is a line after it.

mod merchant;

use super::terminal::{self, Colours, clean, start_of};
use super::{CommandFailure, block_on};
use crate::config::{SECRET_FILE, parse_duration, read_secret};
use crate::domain::attempt::escape;
use crate::domain::signature::SigningSecret;
use crate::domain::timestamp::display_ms;
use anyhow::Context as _;
use clap::Args;
use merchant::{ListenMerchant, ReceivedCall, SignatureCheck};
use owo_colors::Style;
use serde_json::json;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Calls that wait to be printed; more wait with their answer.
const PRINT_QUEUE: usize = 256;
/// Characters of a body in a line for people.
const SHOWN_CHARACTERS: usize = 80;
/// Where `serve` keeps its secret by default.
const DEFAULT_DATA_DIR: &str = "./ringback-data";

#[derive(Args)]
pub struct ListenArguments {
    /// The port on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 9400)]
    port: u16,
    /// What calls are signed with, whsec_...; else RINGBACK_SIGNING_SECRET, else the data directory's
    #[arg(long)]
    secret: Option<String>,
    /// A server's data directory, for its signing secret [default: ./ringback-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The body of the answer
    #[arg(long, value_name = "TEXT", default_value = "success")]
    answer: String,
    /// The status of the answer
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u16).range(200..=599))]
    status: u16,
    /// Answer 500 `fail` to the first N calls of each notification
    #[arg(long, value_name = "N", default_value_t = 0)]
    fail_first: u32,
    /// Wait so long before answering
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    delay: Duration,
    /// After the first line, print one JSON object per call
    #[arg(long)]
    json: bool,
}

/// Answers until it is stopped.
pub fn run(arguments: ListenArguments) -> Result<(), CommandFailure> {
    let secret = find_secret(&arguments)?;
    block_on(listen(arguments, secret))
}

async fn listen(
    arguments: ListenArguments,
    secret: Option<SigningSecret>,
) -> Result<(), CommandFailure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port))
        .await
        .with_context(|| format!("cannot listen on 127.0.0.1:{}", arguments.port))?;
    let port = listener.local_addr().context("the address")?.port();
    let stop = stop_signal()?;
    print(&format!("listening on http://127.0.0.1:{port}/"))?;
    if secret.is_none() {
        terminal::complain(
            "no signing secret given, so nothing can be verified; use --secret or --data-dir",
        );
    }
    let (calls, called) = mpsc::channel(PRINT_QUEUE);
    let merchant = ListenMerchant {
        secret,
        answer: arguments.answer,
        status: arguments.status,
        fail_first: arguments.fail_first,
        delay: arguments.delay,
        calls,
    };
    let serving = tokio::spawn(merchant.serve(listener));
    let printed = tokio::select! {
        () = stop => Ok(()),
        printed = print_calls(called, arguments.json) => printed,
    };
    serving.abort();
    Ok(printed?)
}

/// Completes at SIGTERM or SIGINT.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Prints calls until printing fails.
async fn print_calls(mut called: mpsc::Receiver<ReceivedCall>, json: bool) -> io::Result<()> {
    let colours = Colours::of_stdout();
    while let Some(call) = called.recv().await {
        print(&match json {
            true => as_json(&call),
            false => as_text(&call, colours),
        })?;
    }
    Ok(())
}

/// The secret that the flag, the variable or the data directory gives.
fn find_secret(arguments: &ListenArguments) -> Result<Option<SigningSecret>, CommandFailure> {
    let parse = |origin: &str, text: &str| {
        SigningSecret::parse(text)
            .map(Some)
            .map_err(|error| CommandFailure::Usage(format!("{origin}: {error}")))
    };
    if let Some(text) = &arguments.secret {
        return parse("--secret", text);
    }
    if let Some(dir) = &arguments.data_dir {
        let found = read_secret(dir)?;
        return match found {
            Some(secret) => Ok(Some(secret)),
            None => Err(CommandFailure::Usage(format!(
                "--data-dir: there is no {SECRET_FILE} in {}",
                dir.display()
            ))),
        };
    }
    match std::env::var("RINGBACK_SIGNING_SECRET") {
        Ok(text) if !text.is_empty() => parse("RINGBACK_SIGNING_SECRET", &text),
        Ok(_) | Err(_) => {
            let dir = std::env::var_os("RINGBACK_DATA_DIR").filter(|dir| !dir.is_empty());
            let dir = dir.map_or_else(|| PathBuf::from(DEFAULT_DATA_DIR), PathBuf::from);
            Ok(read_secret(Path::new(&dir))?)
        }
    }
}

/// Prints a line and flushes it: a program that reads it may be waiting for it.
fn print(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn as_text(call: &ReceivedCall, colours: Colours) -> String {
    let or_dash = |text: &Option<String>| text.as_deref().map_or("-".to_string(), clean);
    let (verdict, style) = match &call.signature {
        SignatureCheck::Verified => ("verified".to_string(), Style::new().green()),
        SignatureCheck::Bad(error) => (format!("bad signature ({error})"), Style::new().red()),
        SignatureCheck::Unverified => ("unverified".to_string(), Style::new().yellow()),
    };
    let body = match &call.body {
        Some(body) => format!(
            "{} bytes `{}`",
            body.bytes,
            start_of(&escape(&body.beginning), SHOWN_CHARACTERS)
        ),
        None => "body not read whole".to_string(),
    };
    format!(
        "{}  {}  topic {}  attempt {}  {}  {body}  -> {} `{}`",
        display_ms(call.at_ms),
        or_dash(&call.webhook_id),
        or_dash(&call.topic),
        or_dash(&call.attempt),
        colours.paint(&verdict, style),
        call.answered.0,
        start_of(&escape(call.answered.1.as_bytes()), SHOWN_CHARACTERS),
    )
}

fn as_json(call: &ReceivedCall) -> String {
    let (signature, problem) = match &call.signature {
        SignatureCheck::Verified => ("verified", None),
        SignatureCheck::Bad(error) => ("bad signature", Some(error.clone())),
        SignatureCheck::Unverified => ("unverified", None),
    };
    let body = call.body.as_ref();
    json!({
        "at": display_ms(call.at_ms),
        "method": call.method,
        "path": call.path,
        "webhook_id": call.webhook_id,
        "topic": call.topic,
        "attempt": call.attempt,
        "signature": signature,
        "problem": problem,
        "body_bytes": body.map(|body| body.bytes),
        "body": body.map(|body| escape(&body.beginning)),
        "answered": { "status": call.answered.0, "body": call.answered.1 },
    })
    .to_string()
}
