//! Changes by hand through another server than the one that a notification was registered with, about when it is due. Without a
//! journal the schedule alone decides whether the change or the attempt comes first.

use super::on_stores;
use crate::support::merchant::Merchant;
use crate::support::ringback::{Server, Stores, registration};
use crate::support::signing::beside;
use crate::support::{short_pause, within};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

on_stores!(@ redis_only RedisOnly a_change_comes_before_the_call_or_is_refused);
on_stores!(@ cluster_only ClusterOnly a_change_comes_before_the_call_or_is_refused);

/// How many notifications are changed.
const ROUNDS: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Move,
    Cancel,
}

async fn change_to(server: &Server, id: &str, body: Value) -> (u16, Value) {
    let path = format!("/v1/notifications/t/{id}");
    server.call(Method::PATCH, &path, Some(body)).await
}

/// Whether the change was made. As callers do, asks again after a 503: on a busy machine Redis may take too long.
async fn is_made(server: &Server, id: &str, change: Change) -> bool {
    let path = format!("/v1/notifications/t/{id}");
    let changing = async {
        loop {
            let (status, view) = match change {
                Change::Move => change_to(server, id, json!({ "delay": "1h" })).await,
                Change::Cancel => server.call(Method::DELETE, &path, None).await,
            };
            match status {
                200 | 204 => return true,
                409 => return false,
                503 => short_pause().await,
                _ => panic!("{change:?} {id}: {status}: {view}"),
            }
        }
    };
    within("a change to be answered", changing).await
}

async fn a_change_comes_before_the_call_or_is_refused(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let one = Server::start(stores).await;
    let (config, dir) = beside(one.config());
    let other = Server::open(config, None, Some(dir)).await;
    let servers = [&one, &other];
    let (mut moved, mut expected) = (Vec::new(), BTreeMap::new());
    for round in 0..ROUNDS {
        let id = format!("n{round}");
        let change = [Change::Move, Change::Cancel][round % 2];
        let (first, second) = (servers[round / 2 % 2], servers[(round / 2 + 1) % 2]);
        let mut asked = registration(&id, &merchant);
        // Some are claimed before the change, some after it, and some at the same moment.
        asked["delay"] = json!(format!("{}ms", 2 * round + 1));
        first.register(asked).await;
        let was_made = is_made(second, &id, change).await;
        let (state, calls): (&str, u64) = match (was_made, change) {
            (true, Change::Move) => ("scheduled", 0),
            (true, Change::Cancel) => ("cancelled", 0),
            (false, Change::Move | Change::Cancel) => ("delivered", 1),
        };
        let view = first.until_state(&id, state).await;
        assert_eq!(view["attempts_made"], calls, "{change:?}: {view}");
        if calls > 0 {
            expected.insert(format!("id={id}").into_bytes(), calls);
        } else if change == Change::Move {
            moved.push(id);
        }
    }
    // What was due until now was called before this one.
    one.register(registration("last", &merchant)).await;
    one.until_state("last", "delivered").await;
    expected.insert(b"id=last".to_vec(), 1);
    let mut seen = BTreeMap::new();
    while let Some(call) = merchant.arrived() {
        *seen.entry(call.body).or_insert(0) += 1;
    }
    assert_eq!(seen, expected, "before what was moved is due");

    // What was moved is called once, when it is due.
    for (number, id) in moved.iter().enumerate() {
        let past = json!({ "deliver_at": "2020-01-01T00:00:00Z" });
        let (status, view) = change_to(servers[number % 2], id, past).await;
        assert_eq!(status, 200, "{view}");
        let call = merchant.call().await;
        assert_eq!(call.body, format!("id={id}").into_bytes());
        assert_eq!(call.attempt(), 1);
        one.until_state(id, "delivered").await;
    }
    for server in [one, other] {
        server.stop().await;
    }
    assert!(merchant.arrived().is_none(), "one call each, or none");
}
