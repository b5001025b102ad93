//! `ringback listen`: a merchant on this machine that shows the deliveries it receives.
//!
//! It verifies the signature of every call (Standard Webhooks), prints the call, and answers as the flags say.
//! It listens only on the loopback address. The first printed line is the address. Then each call is one line.

mod merchant;

use super::terminal::{self, Colours, clean, start_of};
use super::{CommandFailure, block_on};
use crate::config::{SECRET_FILE, parse_duration, read_secret, read_secret_text};
use crate::domain::attempt::escape;
use crate::domain::signature::SigningSecret;
use crate::domain::timestamp::display_ms;
use crate::domain::verifying_key::VerifyingKey;
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

/// Maximum number of calls that wait to be printed. If there are more, their answers wait too.
const PRINT_QUEUE: usize = 256;
/// Maximum characters of a body in a printed line.
const SHOWN_CHARACTERS: usize = 80;
/// The default data directory of `serve`, where its signing secret is stored.
const DEFAULT_DATA_DIR: &str = "./ringback-data";

#[derive(Args)]
pub struct ListenArguments {
    /// The port on 127.0.0.1; 0 means any free port
    #[arg(long, default_value_t = 9400)]
    port: u16,
    /// A signing secret, whsec_..., or a public key, whpk_...; repeatable: one of them has to match [default: RINGBACK_SIGNING_SECRET, RINGBACK_SIGNING_SECRET_FILE, then the secret in the data directory]
    #[arg(long, value_name = "SECRET|PUBLIC_KEY")]
    secret: Vec<String>,
    /// The data directory of the server, which contains its signing secret [default: ./ringback-data]
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
    /// Answer 401 to calls whose signature is wrong or missing, with the reason, as a merchant must
    #[arg(long)]
    strict: bool,
    /// Wait this long before answering
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    delay: Duration,
    /// After the first line, print one JSON object per call
    #[arg(long)]
    json: bool,
}

/// Answers calls until a signal stops the process.
pub fn run(arguments: ListenArguments) -> Result<(), CommandFailure> {
    let keys = find_keys(&arguments)?;
    if arguments.strict && keys.is_empty() {
        return Err(CommandFailure::Usage(
            "--strict needs a signing secret; use --secret or --data-dir".to_string(),
        ));
    }
    block_on(listen(arguments, keys))
}

async fn listen(arguments: ListenArguments, keys: Vec<VerifyingKey>) -> Result<(), CommandFailure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port))
        .await
        .with_context(|| format!("cannot listen on 127.0.0.1:{}", arguments.port))?;
    let port = listener.local_addr().context("the address")?.port();
    let stop = stop_signal()?;
    print(&format!("listening on http://127.0.0.1:{port}/"))?;
    if keys.is_empty() {
        terminal::complain(
            "no signing secret is known, so no signature can be verified; use --secret or --data-dir",
        );
    }
    let (calls, called) = mpsc::channel(PRINT_QUEUE);
    let merchant = ListenMerchant {
        keys,
        answer: arguments.answer,
        status: arguments.status,
        fail_first: arguments.fail_first,
        strict: arguments.strict,
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
        let warning = warning_of(&call);
        if json {
            print(&as_json(&call, warning.as_deref()))?;
            continue;
        }
        print(&as_text(&call, colours))?;
        if let Some(warning) = warning {
            terminal::complain(&warning);
        }
    }
    Ok(())
}

/// Finds the keys: from the flag, or the secret in the environment variable or the data directory.
fn find_keys(arguments: &ListenArguments) -> Result<Vec<VerifyingKey>, CommandFailure> {
    let parse = |origin: &str, text: &str| {
        VerifyingKey::parse(text)
            .map_err(|error| CommandFailure::Usage(format!("{origin}: {error}")))
    };
    let in_dir = |secret: Option<SigningSecret>| {
        let key = secret.map(VerifyingKey::Secret);
        key.into_iter().collect::<Vec<_>>()
    };
    if !arguments.secret.is_empty() {
        let given = arguments.secret.iter();
        return given.map(|text| parse("--secret", text)).collect();
    }
    if let Some(dir) = &arguments.data_dir {
        let found = read_secret(dir)?;
        return match found {
            Some(secret) => Ok(in_dir(Some(secret))),
            None => Err(CommandFailure::Usage(format!(
                "--data-dir: there is no {SECRET_FILE} in {}",
                dir.display()
            ))),
        };
    }
    match std::env::var("RINGBACK_SIGNING_SECRET") {
        Ok(text) if !text.is_empty() => Ok(vec![parse("RINGBACK_SIGNING_SECRET", &text)?]),
        Ok(_) | Err(_) => {
            let file = std::env::var_os("RINGBACK_SIGNING_SECRET_FILE");
            if let Some(file) = file.filter(|file| !file.is_empty()) {
                let text = read_secret_text(Path::new(&file))?;
                return Ok(vec![parse("RINGBACK_SIGNING_SECRET_FILE", &text)?]);
            }
            let dir = std::env::var_os("RINGBACK_DATA_DIR").filter(|dir| !dir.is_empty());
            let dir = dir.map_or_else(|| PathBuf::from(DEFAULT_DATA_DIR), PathBuf::from);
            Ok(in_dir(read_secret(Path::new(&dir))?))
        }
    }
}

/// Says that a call was acknowledged although its signature is not right.
fn warning_of(call: &ReceivedCall) -> Option<String> {
    match &call.signature {
        SignatureCheck::Bad(why) if call.answered.0 < 300 => Some(format!(
            "WARNING: a call with a bad signature ({why}) was answered {}; a merchant must refuse it: anybody can forge such \
             a call; with --strict it is answered 401",
            call.answered.0
        )),
        SignatureCheck::Bad(_) | SignatureCheck::Verified | SignatureCheck::Unverified => None,
    }
}

/// Prints a line and flushes it, because a program that reads the output may wait for the line.
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
        None => "body not read completely".to_string(),
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

fn as_json(call: &ReceivedCall, warning: Option<&str>) -> String {
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
        "warning": warning,
        "body_bytes": body.map(|body| body.bytes),
        "body": body.map(|body| escape(&body.beginning)),
        "answered": { "status": call.answered.0, "body": call.answered.1 },
    })
    .to_string()
}
