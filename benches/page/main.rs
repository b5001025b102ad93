//! Benchmark: how long the pages under `/ui/` take with a million notifications in the journal.
//!
//! For each journal, it is filled by SQL with notifications of 25 days: 1,000 destinations, 5 topics, all states, attempts,
//! ids with a common beginning, an audit log, ended jobs, and counts for the plots. Then a server is started on it,
//! somebody signs in, and every page and every kind of search is requested again and again, one request after the other.
//! A request counts from when it is sent until the whole answer is there. `cargo bench --bench page -- --help` shows the
//! options.

mod browser;
mod fill;
mod pages;
#[path = "../../tests/it/support/postgres.rs"]
#[expect(dead_code, reason = "the tests do more with their servers")]
mod postgres;
mod server;

use pages::Measured;
use server::{JournalKind, Running};
use std::time::Duration;

/// The options of the command line.
struct Options {
    notifications: u64,
    requests: usize,
    journals: Vec<JournalKind>,
    /// Only the rows whose names contain this.
    only: String,
}

impl Options {
    fn parse() -> Option<Self> {
        let mut options = Self {
            notifications: 1_000_000,
            requests: 200,
            journals: JournalKind::ALL.to_vec(),
            only: String::new(),
        };
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            match word.as_str() {
                "--notifications" => options.notifications = words.next()?.parse().ok()?,
                "--requests" => options.requests = words.next()?.parse().ok()?,
                "--journal" => options.journals = vec![JournalKind::from_name(&words.next()?)?],
                "--only" => options.only = words.next()?,
                _ => return None,
            }
        }
        (options.notifications >= 10_000 && options.requests > 0).then_some(options)
    }
}

fn main() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .expect("installed once");
    let Some(options) = Options::parse() else {
        eprintln!(
            "options: --notifications N (10000 at least) --requests N --journal sqlite|postgres --only TEXT"
        );
        std::process::exit(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(measure(&options));
}

/// Waits at most a minute for a future. `what` names it in the error.
async fn within<T>(what: &str, coming: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), coming).await {
        Ok(value) => value,
        Err(_) => panic!("this took more than a minute: {what}"),
    }
}

async fn measure(options: &Options) {
    for kind in &options.journals {
        println!(
            "{kind}, {} notifications, {} requests each; milliseconds",
            options.notifications, options.requests
        );
        let running = Running::start(*kind, options.notifications).await;
        let mut browser = running.signed_in().await;
        println!(
            "{:62} {:>7} {:>7} {:>7} {:>6}",
            "page", "p50", "p99", "max", "KB"
        );
        let mut slow = Vec::new();
        for page in pages::all(options.notifications, running.registered) {
            if !page.name.contains(&options.only) {
                continue;
            }
            let measured = page.measure(&mut browser, options.requests).await;
            println!("{measured}");
            if measured.p99_us > Measured::GOAL_US {
                slow.push(page.name);
            }
        }
        println!(
            "above 50 ms at p99: {}",
            match slow.as_slice() {
                [] => "none".to_string(),
                slow => slow.join("; "),
            }
        );
        running.stop().await;
    }
}
