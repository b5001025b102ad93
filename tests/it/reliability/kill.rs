//! Killing everything at random moments under load.
//!
//! The short form is part of `make test`. `make kill` runs the long form; its size comes from
//! `RINGBACK_KILL_KILLS`, `RINGBACK_KILL_NOTIFICATIONS` and, to repeat the decisions of a run,
//! `RINGBACK_KILL_SEED`.

use super::account::Account;
use super::callers::Callers;
use super::receiver::Receiver;
use super::stage::{Stage, Stores};
use crate::support::chance::{Chance, fresh_seed};
use crate::support::redis::Written;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The short form.
const KILLS: u32 = 6;
const NOTIFICATIONS: u32 = 1_000;
/// How long things run between two kills.
const BETWEEN_MS: std::ops::Range<u64> = 50..600;
/// In so many portions the registrations between two kills are let go.
const PORTIONS: u32 = 8;
/// Likewise, where Redis is then set back by that.
const SET_BACK_MS: std::ops::Range<u64> = 300..1_200;
/// How long something stays dead.
const AWAY_MS: std::ops::Range<u64> = 0..700;
/// Beyond this the load counts as stuck.
const LONGEST_LOAD: Duration = Duration::from_secs(3_600);

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    /// One server.
    Server,
    /// All servers.
    Servers,
    /// Redis.
    Redis,
    /// Redis, with what it wrote down since the kill before or for about a second: it is set back, as by a
    /// power cut.
    Second,
    /// PostgreSQL.
    Postgres,
    /// What Redis holds; it goes on empty.
    Data,
}

impl Victim {
    fn name(self) -> &'static str {
        match self {
            Self::Server => "a server",
            Self::Servers => "all servers",
            Self::Redis => "Redis",
            Self::Second => "Redis, and set back",
            Self::Postgres => "PostgreSQL",
            Self::Data => "what Redis holds (FLUSHALL)",
        }
    }

    /// One at random, sometimes two at the same time.
    fn any(chance: &mut Chance, stage: &Stage) -> Vec<Self> {
        let server = if stage.servers() > 1 && chance.percent(25) {
            Self::Servers
        } else {
            Self::Server
        };
        let mut stores = Vec::new();
        if stage.has_redis() {
            stores.extend([Self::Redis, Self::Second, Self::Second, Self::Data]);
        }
        if stage.has_postgres() {
            stores.extend([Self::Postgres; 2]);
        }
        if stores.is_empty() || chance.percent(40) {
            return vec![server];
        }
        let store = *chance.pick(&stores);
        match chance.below(100) {
            0..60 => vec![store],
            60..80 => vec![server, store],
            80..90 => vec![store, server],
            _ => {
                let other = *chance.pick(&stores);
                let is_redis = |store| matches!(store, Self::Redis | Self::Second);
                if other == store || is_redis(store) && is_redis(other) {
                    vec![store]
                } else {
                    vec![store, other]
                }
            }
        }
    }

    /// A power cut of the machine that Redis and the servers share.
    fn power_cut(chance: &mut Chance) -> Vec<Self> {
        if chance.percent(50) {
            vec![Self::Servers, Self::Second]
        } else {
            vec![Self::Second, Self::Servers]
        }
    }

    async fn kill(self, which: usize, stage: &mut Stage) {
        match self {
            Self::Server => stage.kill_server(which).await,
            Self::Servers => {
                for which in 0..stage.servers() {
                    stage.kill_server(which).await;
                }
            }
            Self::Redis | Self::Second => stage.kill_redis(),
            Self::Postgres => stage.kill_postgres(),
            Self::Data => stage.flush_redis().await,
        }
    }

    async fn start_again(self, which: usize, stage: &mut Stage, receiver: &Receiver) {
        match self {
            Self::Server => stage.start_server(which, receiver).await,
            Self::Servers => {
                for which in 0..stage.servers() {
                    stage.start_server(which, receiver).await;
                }
            }
            Self::Redis | Self::Second => stage.start_redis().await,
            Self::Postgres => stage.start_postgres().await,
            Self::Data => {}
        }
    }
}

/// Kills these one right after the other, leaves them dead for a while, and starts them again. Redis is set
/// back to what it had written down at some instant, if one is given. Says whether it was.
async fn strike(
    mut victims: Vec<Victim>,
    set_back: Option<Written>,
    chance: &mut Chance,
    stage: &mut Stage,
    receiver: &Receiver,
) -> bool {
    let servers = u64::try_from(stage.servers()).expect("few");
    let which = usize::try_from(chance.below(servers)).expect("few");
    // What is empty cannot be emptied, and the dead cannot be asked to.
    victims.sort_by_key(|victim| *victim != Victim::Data);
    for victim in &victims {
        victim.kill(which, stage).await;
    }
    let is_set_back = match set_back {
        Some(to) => stage.set_redis_back(&to).await,
        None => false,
    };
    tokio::time::sleep(chance.millis(AWAY_MS)).await;
    // A server does not start without its stores.
    victims.sort_by_key(|victim| matches!(victim, Victim::Server | Victim::Servers));
    for victim in victims {
        victim.start_again(which, stage, receiver).await;
    }
    is_set_back
}

/// How large a run is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// How many times something is killed.
    pub kills: u32,
    /// How many notifications are registered.
    pub notifications: u32,
    /// What all decisions follow from.
    pub seed: u64,
    /// Whether it is the long form.
    pub is_long: bool,
}

impl Size {
    /// As the environment says, else short.
    pub fn of_environment() -> Self {
        fn number<Number: FromStr>(name: &str) -> Option<Number> {
            let text = std::env::var(name).ok()?;
            let parsed = text.parse().ok();
            Some(parsed.unwrap_or_else(|| panic!("{name} is no number: {text}")))
        }
        let notifications = number("RINGBACK_KILL_NOTIFICATIONS");
        Self {
            kills: number("RINGBACK_KILL_KILLS").unwrap_or(KILLS),
            notifications: notifications.unwrap_or(NOTIFICATIONS),
            seed: number("RINGBACK_KILL_SEED").unwrap_or_else(fresh_seed),
            is_long: notifications.is_some(),
        }
    }
}

async fn run(stores: Stores) {
    let size = Size::of_environment();
    let name = stores.name();
    println!("{name}: {size:?}");
    let started = Instant::now();
    let receiver = Receiver::start(size.seed).await;
    let mut stage = Stage::start(stores, &receiver).await;
    let callers = Callers::new(
        size.seed,
        size.notifications,
        receiver.origins(),
        stage.urls(),
    );
    if size.is_long {
        callers.run_is_long();
    }
    let load = tokio::spawn(callers.clone().run());

    let mut chance = Chance::of_one(size.seed, 1 << 40);
    let mut kills: BTreeMap<Victim, u32> = BTreeMap::new();
    let mut at_once = 0;
    // The load is spread over the run, so that every kill meets some of it, registrations too.
    let share = size.notifications / (size.kills + 1);
    let portion = share / PORTIONS;
    for kill in 0..size.kills {
        // The first one is what takes most, so that the short form has it every time.
        let mut victims = match kill {
            0 if stage.has_redis() => Victim::power_cut(&mut chance),
            _ => Victim::any(&mut chance, &stage),
        };
        let is_second = |victim: &Victim| *victim == Victim::Second;
        let loses = victims.iter().any(is_second);
        let set_back = loses.then(|| stage.written_by_redis());
        // A random moment is what this test is about.
        let between = chance.millis(if loses { SET_BACK_MS } else { BETWEEN_MS });
        for _ in 1..PORTIONS {
            callers.allow(portion);
            tokio::time::sleep(between / PORTIONS).await;
        }
        callers.allow(share - portion * (PORTIONS - 1));
        tokio::time::sleep(chance.millis(0..8)).await;
        at_once += u32::from(victims.len() > 1);
        let is_set_back = strike(
            victims.clone(),
            set_back,
            &mut chance,
            &mut stage,
            &receiver,
        )
        .await;
        if loses && !is_set_back {
            // It rewrote its files just then, so it was only killed.
            victims.retain(|victim| !is_second(victim));
            victims.push(Victim::Redis);
        }
        for victim in victims {
            *kills.entry(victim).or_default() += 1;
        }
    }
    callers.allow(size.notifications - share * size.kills);
    let ended = tokio::time::timeout(LONGEST_LOAD, load).await;
    ended.expect("the callers are stuck").expect("no panic");

    let account = Account::settle(&mut stage, &callers, &receiver).await;
    let mut report = format!("{name}, seed {}\n", size.seed);
    for (victim, many) in &kills {
        writeln!(report, "killed {:<28} {many}", victim.name()).expect("text");
    }
    writeln!(report, "  of these, two at a time           {at_once}").expect("text");
    write!(report, "{}", account.counts).expect("text");
    let took = started.elapsed();
    writeln!(report, "time taken                          {took:.1?}").expect("text");
    write!(report, "{}", account.audited).expect("text");
    println!("{report}");
    for line in &account.complaints {
        println!("{line}");
    }
    if size.is_long {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kill-{name}.txt"));
        std::fs::write(&path, &report).expect("written");
        println!("written to {}", path.display());
    }
    account.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded() {
    run(Stores::Embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_and_sqlite() {
    run(Stores::RedisAndSqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_and_postgres() {
    run(Stores::RedisAndPostgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_partitions() {
    run(Stores::PartitionsAndPostgres).await;
}
