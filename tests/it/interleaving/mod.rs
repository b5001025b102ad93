//! Two servers take one notification, in every order of their calls to the stores and to the merchant.
//!
//! The traits of both stores are the seam: each call is held until the test lets it go, so a server can be
//! stopped between any two steps of what it does, for as long as it takes the other one to do something
//! else, or for a lease to run out. Which call goes next is drawn by chance from a seed; the same again,
//! with one of the servers killed at one of its calls, or one reply lost, or Redis killed and started with
//! what it held one call or a few earlier, alone or together with a server. Afterwards time passes, and then:
//! what was answered is what the merchant saw, nothing accepted is lost, nothing stands still, and the
//! history tells what happened.
//!
//! `RINGBACK_INTERLEAVINGS` says how many orders are tried of each pair; `RINGBACK_INTERLEAVING_SEED` tries
//! the orders of another run.

mod account;
mod gate;
mod jobs;
mod merchant;
mod operations;
mod ordered;
mod play;
mod report;
mod run;
mod stores;
mod world;

use crate::support::chance::{Chance, fresh_seed};
use operations::{Before, Operation};
use run::{Trial, Trouble, run};
use std::collections::HashSet;
use std::sync::Arc;
use world::{Kind, Redis, World};

/// Orders tried of each pair, state and trouble, unless asked for otherwise.
const SHORT: u64 = 3;
/// Likewise where Redis is killed and started in each of them, which takes longer.
const SHORT_OF_REDIS: u64 = 1;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number")),
    )
}

async fn all(kind: Kind, whose: Redis, troubles: &[Trouble]) {
    let short = match whose {
        Redis::Shared => SHORT,
        Redis::Own => SHORT_OF_REDIS,
    };
    let many = number("RINGBACK_INTERLEAVINGS").unwrap_or(short);
    let seed = number("RINGBACK_INTERLEAVING_SEED").unwrap_or_else(fresh_seed);
    let world = Arc::new(World::of(kind, whose).await);
    let (mut tried, mut wrong, mut number) = (HashSet::new(), Vec::new(), 0);
    let mut pairs = 0;
    for (place, one) in Operation::ALL.iter().enumerate() {
        for other in &Operation::ALL[place..] {
            let pair = [*one, *other];
            pairs += 1;
            for before in Before::of(pair) {
                for trouble in troubles {
                    for _ in 0..many {
                        number += 1;
                        let trial = Trial {
                            pair,
                            before: *before,
                            trouble: *trouble,
                        };
                        let chance = Chance::of_one(seed, number);
                        let id = format!("n{number}");
                        let (order, found) = run(&world, trial, &id, chance).await;
                        tried.insert((place, format!("{other:?}{before:?}{trouble:?}"), order));
                        wrong.extend(found);
                    }
                }
            }
        }
    }
    println!(
        "{kind:?}, {troubles:?}, seed {seed}: {number} runs of {pairs} pairs, {} different interleavings, \
         {} wrong",
        tried.len(),
        wrong.len()
    );
    let shown: Vec<String> = wrong.iter().take(12).cloned().collect();
    assert!(
        wrong.is_empty(),
        "seed {seed}: {} are wrong:\n{}",
        wrong.len(),
        shown.join("\n")
    );
}

const OF_SERVERS: &[Trouble] = &[Trouble::Nothing, Trouble::Death, Trouble::LostReply];
const OF_REDIS: &[Trouble] = &[Trouble::SetBack, Trouble::PowerCut];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_memory_with_sqlite() {
    all(Kind::MemoryAndSqlite, Redis::Shared, OF_SERVERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_with_sqlite() {
    all(Kind::RedisAndSqlite, Redis::Shared, OF_SERVERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_with_postgres() {
    all(Kind::RedisAndPostgres, Redis::Shared, OF_SERVERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_that_is_set_back_with_sqlite() {
    all(Kind::RedisAndSqlite, Redis::Own, OF_REDIS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_that_is_set_back_with_postgres() {
    all(Kind::RedisAndPostgres, Redis::Own, OF_REDIS).await;
}
