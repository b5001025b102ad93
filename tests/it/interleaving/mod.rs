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
mod late_answer;
mod late_registration;
mod merchant;
mod operations;
mod ordered;
mod play;
mod plot;
mod report;
mod requested;
mod run;
mod stores;
mod world;

use crate::support::chance::Chance;
use operations::{Before, Operation};
use report::Found;
use ringback::schedule::window::Window;
use run::{Trial, Trouble, run};
use std::collections::HashSet;
use std::sync::Arc;
use world::{Kind, LONG_WINDOW, Redis, SHORT_WINDOW, World};

/// Orders tried of each pair, state and trouble, unless asked for otherwise.
const SHORT: u64 = 3;
/// Likewise where Redis is killed and started in each of them, which takes longer.
const SHORT_OF_REDIS: u64 = 1;

async fn all(kind: Kind, whose: Redis, troubles: &[Trouble]) {
    let world = World::of(kind, whose, Window::WHOLE).await;
    all_of(world, kind, whose, Operation::ALL, troubles).await;
}

/// Where what is due in more than some seconds waits in the journal alone.
async fn all_with_window(kind: Kind, whose: Redis, troubles: &[Trouble]) {
    let world = World::of(kind, whose, SHORT_WINDOW).await;
    all_of(world, kind, whose, Operation::ALL_WITH_WINDOW, troubles).await;
}

/// Where what waits for a later attempt, or was loaded, has only its place in its lane in Redis.
async fn all_bare(kind: Kind, whose: Redis, troubles: &[Trouble]) {
    let world = World::of(kind, whose, LONG_WINDOW).await;
    all_of(world, kind, whose, Operation::ALL_WITH_WINDOW, troubles).await;
}

async fn all_of(
    world: World,
    kind: Kind,
    whose: Redis,
    operations: &[Operation],
    troubles: &[Trouble],
) {
    let short = match whose {
        Redis::Shared => SHORT,
        Redis::Own => SHORT_OF_REDIS,
    };
    let many = requested::runs().unwrap_or(short);
    let seed = requested::seed();
    let world = Arc::new(world);
    let (mut tried, mut found) = (HashSet::new(), Found::default());
    let mut pairs = 0;
    for (place, one) in operations.iter().enumerate() {
        for other in &operations[place..] {
            let pair = [*one, *other];
            pairs += 1;
            for before in Before::of(pair) {
                for trouble in troubles {
                    for _ in 0..many {
                        found.runs += 1;
                        let trial = Trial {
                            pair,
                            before: *before,
                            trouble: *trouble,
                        };
                        let chance = Chance::of_one(seed, found.runs);
                        let id = format!("n{}", found.runs);
                        let (order, wrong) = run(&world, trial, &id, chance).await;
                        tried.insert((place, format!("{other:?}{before:?}{trouble:?}"), order));
                        found.wrong.extend(wrong);
                    }
                }
            }
        }
    }
    let different = tried.len();
    let with = format!("of {pairs} pairs, {different} different interleavings, {troubles:?}");
    found.conclude(kind, seed, &with);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_window_in_memory_with_sqlite() {
    all_with_window(Kind::MemoryAndSqlite, Redis::Shared, OF_SERVERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_window_on_redis_with_postgres() {
    all_with_window(Kind::RedisAndPostgres, Redis::Shared, OF_SERVERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_window_on_redis_that_is_set_back_with_postgres() {
    all_with_window(Kind::RedisAndPostgres, Redis::Own, OF_REDIS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_bare_entries_on_redis_with_sqlite() {
    all_bare(Kind::RedisAndSqlite, Redis::Shared, OF_SERVERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_bare_entries_on_redis_with_postgres() {
    all_bare(Kind::RedisAndPostgres, Redis::Shared, OF_SERVERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_bare_entries_on_redis_that_is_set_back_with_postgres() {
    all_bare(Kind::RedisAndPostgres, Redis::Own, OF_REDIS).await;
}
