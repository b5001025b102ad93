//! Two servers that share out the partitions of their schedule, one of which hangs.

use super::process::{arguments, start};
use crate::support::merchant::Merchant;
use crate::support::process::Process;
use crate::support::redis::connect;
use crate::support::ringback::{Stores, registration};
use crate::support::signing::GIVEN;
use crate::support::within;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

const PARTITIONS: &str = "16";
/// So many destinations that each server has some, however the partitions are shared out.
const LANES: usize = 48;
/// Another server claims what has been due for a second, and looks once a second, so nothing is more than three seconds late.
/// The rest is for machines that others use too. Not until 15 s after its last sign of life a server counts as gone.
const TAKEN_OVER: Duration = Duration::from_secs(6);

/// Registers one for each merchant, and waits for all calls. How long the last one took.
async fn send(server: &Process, merchants: &mut [Merchant], ids: &str) -> Duration {
    let started = Instant::now();
    for (number, merchant) in merchants.iter().enumerate() {
        let asked = registration(&format!("{ids}{number}"), merchant);
        server.api().register(asked).await;
    }
    for merchant in merchants {
        assert_eq!(merchant.call().await.attempt(), 1);
    }
    started.elapsed()
}

/// Waits until both servers have told that they claim.
async fn until_both_claim(url: &str) {
    let mut redis = connect(url).await;
    within("both to claim", async {
        loop {
            let asked = redis::Cmd::hgetall("{rb:0}:meta");
            let meta: HashMap<String, String> =
                asked.query_async(&mut redis).await.expect("answered");
            if meta
                .keys()
                .filter(|name| name.starts_with("claims:"))
                .count()
                == 2
            {
                return;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_leaves_that_hangs_is_sent_by_the_other() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
    let mut arguments = arguments(Stores::Postgres);
    let url = arguments[1].clone();
    arguments.extend(["--partitions", PARTITIONS, "--signing-secret", GIVEN].map(String::from));
    let one = start(dirs[0].path(), &arguments).await;
    let other = start(dirs[1].path(), &arguments).await;
    until_both_claim(&url).await;
    let mut merchants = Vec::new();
    for _ in 0..LANES {
        merchants.push(Merchant::start().await);
    }
    send(&one, &mut merchants, "both-").await;
    // What it has in flight when it hangs would wait until the lease expires, and a lane that is new with it.
    for number in 0..LANES {
        let id = format!("both-{number}");
        one.api().until_state(&id, "delivered").await;
    }
    other.signal("STOP").await;
    let took = send(&one, &mut merchants, "one-").await;
    println!("the last of {LANES} was called {took:?} after the first was registered");
    assert!(took < TAKEN_OVER, "{took:?}");
    other.signal("CONT").await;
    send(&other, &mut merchants, "again-").await;
    for ids in ["both", "one", "again"] {
        for number in 0..LANES {
            let id = format!("{ids}-{number}");
            let stand = one.api().until_state(&id, "delivered").await;
            assert_eq!(stand["attempts_made"], 1, "{id}");
        }
    }
    for server in [one, other] {
        server.signal("TERM").await;
        assert!(server.ended().await.success());
    }
    let twice: BTreeMap<usize, _> = (merchants.iter_mut().enumerate())
        .filter_map(|(number, merchant)| Some((number, merchant.arrived()?)))
        .collect();
    assert!(twice.is_empty(), "{:?}", twice.keys());
}
