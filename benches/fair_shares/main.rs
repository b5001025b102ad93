//! Benchmark: how much destinations in trouble delay the calls to those that answer.
//!
//! A thousand destinations answer at once. Their notifications are due evenly spread, at half the rate that
//! the server can deliver to them. How late the calls arrive is measured three times, each time on a fresh server that
//! has delivered as many notifications before: alone, beside one kind of destinations in trouble
//! ([`trouble::Trouble`]), whose notifications are all due when the measurement begins, and alone again, because
//! machines change their speed by the minute. What was measured beside them is compared with the mean of the two. The
//! settings are the defaults. `--beside nobody` measures alone three times: how far the ratio is from 1 then is what
//! the machine does to it. Each line also says which share of the processors' time a hypervisor gave to other machines
//! ([`stolen`]): calls are late then for no reason of ours.
//!
//! The calls to the destinations that answer begin [`WARM_UP_MS`] before that, and those are not counted. A virtual machine
//! that was idle may get its second processor a third of a second late, and everything is late then.
//!
//! `--return-after` measures the other way round: how soon a merchant that was away has all that waited for it
//! ([`returning`]).
//!
//! The receiver, the server, Redis (append-only file on) and this program are separate processes on the same
//! machine. `cargo bench --bench fair_shares -- --help` shows the options.

#[path = "../throughput/load.rs"]
#[expect(dead_code, reason = "the other benchmark does more with it")]
mod load;
#[path = "../../tests/it/support/postgres.rs"]
#[expect(dead_code, reason = "the tests do more with their servers")]
mod postgres;
#[path = "../throughput/processor_time.rs"]
mod processor_time;
#[path = "../throughput/receiver.rs"]
mod receiver;
#[path = "../throughput/report.rs"]
#[expect(dead_code, reason = "the other benchmark does more with it")]
mod report;
mod returning;
#[path = "../throughput/server.rs"]
#[expect(dead_code, reason = "the other benchmark does more with it")]
mod server;
#[path = "../throughput/settled.rs"]
mod settled;
mod stolen;
mod trouble;

use receiver::{Receiver, now_us};
use report::Lateness;
use server::{Setup, Stores};
use std::fmt;
use std::time::Duration;
use stolen::ProcessorTime;
use trouble::Trouble;

/// Number of destinations that answer.
const HEALTHY: usize = 1_000;
/// How long before the measurement the load begins, in milliseconds.
const WARM_UP_MS: u64 = 2_000;
/// Number of notifications with which the rate of the server is measured.
const DRAINED: usize = 50_000;

/// The options of the command line.
struct Options {
    rounds: usize,
    seconds: u64,
    stores: Vec<Stores>,
    troubles: Vec<Trouble>,
    /// For how long a merchant is away, if that is what is measured.
    return_after: Option<Duration>,
}

impl Options {
    fn parse() -> Option<Self> {
        let mut options = Self {
            rounds: 1,
            seconds: 15,
            stores: vec![Stores::RedisPostgres, Stores::Embedded],
            troubles: Trouble::ALL.to_vec(),
            return_after: None,
        };
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            let value = words.next()?;
            match word.as_str() {
                "--rounds" => options.rounds = value.parse().ok()?,
                "--seconds" => options.seconds = value.parse().ok()?,
                "--stores" => options.stores = vec![Stores::from_name(&value)?],
                "--beside" => options.troubles = vec![Trouble::from_name(&value)?],
                "--return-after" => {
                    options.return_after = Some(Duration::from_secs(value.parse().ok()?));
                }
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
    rlimit::increase_nofile_limit(u64::MAX).expect("a limit of open files");
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
        let names: Vec<String> = Trouble::ALL.iter().map(ToString::to_string).collect();
        eprintln!(
            "options: --rounds N --seconds N --stores redis|redis+postgres|redis+sqlite|embedded --beside {} \
             | --return-after SECONDS",
            names.join("|")
        );
        std::process::exit(2);
    };
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
    for round in 1..=options.rounds {
        for stores in &options.stores {
            if let Some(away) = options.return_after {
                let setup = Setup::start(*stores).await;
                let returned = returning::measure(&setup, away).await;
                println!("round {round}: {stores}: {returned}");
                setup.stop().await;
                continue;
            }
            for trouble in &options.troubles {
                measure_beside(round, *stores, *trouble, options.seconds).await;
            }
        }
    }
}

/// Measures alone, beside the destinations in trouble, and alone again, each on a fresh server: what a server has done
/// before makes it slower, for example because PostgreSQL cleans up after that.
async fn measure_beside(round: usize, stores: Stores, trouble: Trouble, seconds: u64) {
    let receiver = Receiver::start(HEALTHY).await;
    let mut rate = None;
    let mut fresh = async |beside: Option<Trouble>| {
        let setup = Setup::start(stores).await;
        let drained = load::drain(&setup, &receiver, DRAINED, Duration::ZERO)
            .await
            .per_second;
        let per_second = *rate.get_or_insert(drained / 2.0);
        let measured = lateness(&setup, &receiver, per_second, seconds, beside).await;
        setup.stop().await;
        (measured, per_second)
    };
    let (alone, per_second) = fresh(None).await;
    println!("round {round}: {stores} alone at {per_second:.0}/s: {alone}");
    let (beside, _) = fresh(Some(trouble)).await;
    println!("round {round}: {stores} beside {trouble}: {beside}");
    println!(
        "round {round}: {stores} beside {trouble}, after the first second: {}",
        beside.later
    );
    let (again, _) = fresh(None).await;
    println!("round {round}: {stores} alone again: {again}");
    let of_alone = |beside: &Lateness, alone: &Lateness, again: &Lateness| {
        2.0 * beside.p99_us as f64 / (alone.p99_us + again.p99_us) as f64
    };
    println!(
        "round {round}: {stores} beside {trouble}: p99 {:.2} of alone, after the first second {:.2}",
        of_alone(&beside.all, &alone.all, &again.all),
        of_alone(&beside.later, &alone.later, &again.later),
    );
}

/// How late the calls to the destinations that answer arrived.
struct Measured {
    /// All that were due after the warm-up.
    all: Lateness,
    /// Those that were due after the first second of it.
    later: Lateness,
    /// The share of the processors' time that the hypervisor gave to other machines meanwhile.
    stolen: Option<f64>,
}

impl fmt::Display for Measured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.all)?;
        match self.stolen {
            Some(stolen) => write!(out, ", stolen {:.1} %", stolen * 100.0),
            None => Ok(()),
        }
    }
}

async fn lateness(
    setup: &Setup,
    receiver: &Receiver,
    per_second: f64,
    seconds: u64,
    beside: Option<Trouble>,
) -> Measured {
    receiver.stats("reset").await;
    let many = (per_second * (seconds as f64 + WARM_UP_MS as f64 / 1e3)) as usize;
    let lead_ms = settled::SETTLED_MS + many as u64 / 5;
    let first_ms = now_us() / 1_000 + lead_ms;
    let counted_ms = first_ms + WARM_UP_MS;
    let _destinations = match beside {
        Some(trouble) => Some(trouble.register(setup, counted_ms).await),
        None => None,
    };
    let due = |number: usize| first_ms + (number as f64 / per_second * 1e3) as u64;
    load::register(setup, receiver, (0..many).map(due)).await;
    settled::on_disk(setup).await;
    let now_ms = now_us() / 1_000;
    assert!(
        now_ms < first_ms,
        "registering took longer than {lead_ms} ms"
    );
    let before = ProcessorTime::now();
    load::arrived(receiver, many).await;
    let after = ProcessorTime::now();
    let stats = receiver.stats("late").await;
    let from = |from_ms: u64| {
        let calls = stats.late_us.iter().zip(&stats.due_us);
        let counted = calls.filter(|(_, due_us)| **due_us >= from_ms * 1_000);
        Lateness::of(counted.map(|(late_us, _)| *late_us).collect())
    };
    Measured {
        all: from(counted_ms),
        later: from(counted_ms + 1_000),
        stolen: after
            .zip(before)
            .map(|(after, before)| after.stolen_since(before)),
    }
}
