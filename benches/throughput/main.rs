//! How fast notifications go through, measured against what the HTTP client alone can do.
//!
//! One run measures everything on the same machine, one after the other, several rounds of it:
//!
//! * `bare`: a loop of an HTTP client (reqwest), posting the same signed 512-byte bodies to the same
//!   receiver. The yardstick, measured before and after each of the others.
//! * `drain`: 100,000 notifications fall due at the same instant; counted until the last arrives.
//! * `single`: notifications registered one by one over HTTP, counted from the first registration to
//!   the last arrival.
//! * `late`: notifications due evenly spread at half the drain's rate; how long after its due time
//!   each arrives.
//! * `--rebuild N` instead: N notifications pending, a thousand of them due, when Redis is emptied;
//!   how long until the first is delivered, and until all are back.
//!
//! Receiver, server under test, Redis (append-only file on) and this program are processes of their
//! own and share the machine's cores. `cargo bench --bench throughput -- --help` shows the options.

mod bare;
mod load;
#[path = "../../tests/it/support/postgres.rs"]
#[expect(dead_code, reason = "the tests do more with their servers")]
mod postgres;
mod rebuild;
mod receiver;
mod report;
mod server;

use receiver::Receiver;
use report::{Rate, Report, Row};
use server::{Setup, Stores};
use std::time::Duration;

/// What to measure, and how much of it.
#[derive(Debug, Clone)]
struct Options {
    rounds: usize,
    notifications: usize,
    connections: usize,
    lanes: usize,
    late_seconds: u64,
    stores: Vec<Stores>,
    rebuild: Option<usize>,
}

impl Options {
    fn parse() -> Option<Self> {
        let mut options = Self {
            rounds: 3,
            notifications: 100_000,
            connections: 64,
            lanes: 32,
            late_seconds: 10,
            stores: Stores::ALL.to_vec(),
            rebuild: None,
        };
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            let mut number = || words.next().and_then(|word| word.parse().ok());
            match word.as_str() {
                "--rounds" => options.rounds = number()?,
                "--notifications" => options.notifications = number()?,
                "--connections" => options.connections = number()?,
                "--lanes" => options.lanes = number()?,
                "--late-seconds" => options.late_seconds = number()? as u64,
                "--rebuild" => options.rebuild = Some(number()?),
                "--stores" => options.stores = vec![Stores::from_name(&words.next()?)?],
                _ => return None,
            }
        }
        Some(options)
    }
}

fn main() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .expect("installed once");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    if std::env::args().nth(1).as_deref() == Some(receiver::ROLE) {
        runtime.block_on(receiver::run());
        return;
    }
    let Some(options) = Options::parse() else {
        eprintln!(
            "options: --rounds N --notifications N --connections N --lanes N --late-seconds N \
             --stores redis|redis+postgres|redis+sqlite|embedded --rebuild N"
        );
        std::process::exit(2);
    };
    match options.rebuild {
        Some(pending) => runtime.block_on(rebuild::measure(&options, pending)),
        None => runtime.block_on(measure(&options)),
    }
}

/// Waits for something that comes soon, if at all.
async fn within<T>(what: &str, coming: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), coming).await {
        Ok(value) => value,
        Err(_) => panic!("it did not come: {what}"),
    }
}

async fn measure(options: &Options) {
    let mut report = Report::default();
    for round in 1..=options.rounds {
        let receiver = receiver::Receiver::start(options.lanes).await;
        let mut yardstick = Yardstick::start(&receiver, options).await;
        for stores in &options.stores {
            let setup = Setup::start(*stores).await;
            let drain = load::drain(&setup, &receiver, options.notifications).await;
            let drain = yardstick.share(drain).await;
            println!("round {round}: {stores} drain {drain}");
            let many = options.notifications;
            let single = load::single(&setup, &receiver, many, options.connections).await;
            let single = yardstick.share(single).await;
            println!("round {round}: {stores} single {single}");
            let half = drain.per_second / 2.0;
            let seconds = Duration::from_secs(options.late_seconds);
            let late = load::late(&setup, &receiver, half, seconds).await;
            println!("round {round}: {stores} late at {half:.0}/s: {late}");
            report.add(Row {
                stores: *stores,
                drain,
                single,
                late,
            });
            setup.stop().await;
        }
    }
    print!("{report}");
}

/// The bare client's rate, measured right before and right after each figure: shared machines change
/// their speed by the minute.
struct Yardstick<'a> {
    receiver: &'a Receiver,
    options: &'a Options,
    last: f64,
}

impl<'a> Yardstick<'a> {
    async fn start(receiver: &'a Receiver, options: &'a Options) -> Self {
        let last = bare::rate(receiver, options.notifications, options.connections).await;
        Self {
            receiver,
            options,
            last,
        }
    }

    /// A rate beside the mean of the bare rates before and after it.
    async fn share(&mut self, per_second: f64) -> Rate {
        let Options {
            notifications,
            connections,
            ..
        } = *self.options;
        let after = bare::rate(self.receiver, notifications, connections).await;
        let bare = f64::midpoint(self.last, after);
        self.last = after;
        Rate { per_second, bare }
    }
}
