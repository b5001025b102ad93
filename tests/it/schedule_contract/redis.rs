//! The Redis schedule under test: two instances on one server of their own, since whoever publishes
//! is heard in every database of a server.

use super::fixture::*;
use crate::support::redis::RedisServer;
use ringback::clock::ManualClock;
use ringback::schedule::Limits;
use ringback::schedule::redis::{Options, RedisSchedule, Time};
use std::sync::Arc;

pub async fn open(limits: Limits) -> Fixture {
    let clock = ManualClock::at(START_MS);
    let server = RedisServer::start(&[]);
    let options = Options {
        url: server.url(0),
        partitions: 1,
        limits,
        time: Time::Clock,
        owner: "none".into(),
    };
    let instance = || {
        let schedule = RedisSchedule::open(&options, Arc::new(clock.clone())).expect("a url");
        Arc::new(schedule)
    };
    let (one, other) = (instance(), instance());
    one.adopt().await.expect("adopted");
    other.adopt().await.expect("adopted");
    Fixture {
        schedule: one,
        other,
        clock,
        guard: Box::new(server),
    }
}
