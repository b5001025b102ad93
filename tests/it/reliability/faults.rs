//! Lines between servers and stores that fail at random under load, with the same account as after
//! kills. Nobody dies here, so there is no excuse for any second call.

use super::account::Account;
use super::callers::Callers;
use super::receiver::Receiver;
use super::stage::{Stage, Stores};
use crate::support::chance::{Chance, fresh_seed};
use crate::support::proxy::{Cut, Line, Proxy};

/// How many faults come under load, and how many notifications.
const FAULTS: u32 = 8;
const NOTIFICATIONS: u32 = 500;
/// How long a fault lasts, and how long all is well between two.
const LASTS_MS: std::ops::Range<u64> = 100..900;
const BETWEEN_MS: std::ops::Range<u64> = 50..500;

/// A fault of a line, at random; then it passes again.
async fn disturb(line: &Proxy, chance: &mut Chance) {
    let lasts = chance.millis(LASTS_MS);
    let delay = |chance: &mut Chance| chance.millis(1..60);
    let fault = match chance.below(6) {
        0 => Line::Refuses,
        1 => Line::Closes,
        2 => Line::Delays {
            there: delay(chance),
            back: delay(chance),
        },
        3 => Line::Swallows,
        cutting => {
            // Before the reply, or in the middle of it.
            let after = if cutting == 4 { 0 } else { 9 };
            line.cut(Cut::Any, after, 1 + usize::from(chance.percent(50)));
            Line::Passes
        }
    };
    line.set(fault).await;
    tokio::time::sleep(lasts).await;
    line.set(Line::Passes).await;
}

async fn run(stores: Stores) {
    let seed = fresh_seed();
    println!("{}, seed {seed}", stores.name());
    let receiver = Receiver::start(seed).await;
    let mut stage = Stage::start_with_lines(stores, &receiver).await;
    let callers = Callers::new(seed, NOTIFICATIONS, receiver.origins(), stage.urls());
    let load = tokio::spawn(callers.clone().run());
    let mut chance = Chance::of_one(seed, 1 << 40);
    let share = NOTIFICATIONS / (FAULTS + 1);
    for _ in 0..FAULTS {
        callers.allow(share / 2);
        tokio::time::sleep(chance.millis(BETWEEN_MS)).await;
        callers.allow(share - share / 2);
        let line = if stage.has_postgres() && chance.percent(60) {
            stage.postgres_line()
        } else {
            stage.redis_line()
        };
        disturb(line, &mut chance).await;
    }
    callers.allow(NOTIFICATIONS - share * FAULTS);
    load.await.expect("no panic");
    let account = Account::settle(&mut stage, &callers, &receiver).await;
    println!("{}", account.counts);
    for line in &account.complaints {
        println!("{line}");
    }
    account.check();
    assert_eq!(account.counts.duplicates, 0, "nobody was killed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_to_redis_that_fails_at_random_loses_nothing_and_doubles_nothing() {
    run(Stores::RedisAndSqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_to_both_stores_that_fail_at_random_lose_nothing_and_double_nothing() {
    run(Stores::RedisAndPostgres).await;
}
