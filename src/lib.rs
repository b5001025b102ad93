//! Ringback, a payment-callback dispatcher.
//!
//! A service registers a notification (a URL and a body); Ringback POSTs it, signed, on a ladder of
//! intervals until the receiver acknowledges it, and parks it as a dead letter when the ladder or
//! its window is used up.
//!
//! # Where to find what
//! | module | what it owns |
//! |---|---|
//! | [`domain`] | the rules: ladder, signature, [`domain::ack`], what an answer means, and [`domain::decision`], what follows |
//! | [`clock`] | wall time, and a hand-turned clock for tests |
//! | [`batch`] | natural batching, used before both stores |
//! | [`health`] | how the stores are doing: what is an outage, what the log says of it, who waits |
//! | [`config`] | settings of `serve`, from flags, variables and a file |
//! | [`schedule`] | what is due when: in memory or in Redis (scripts in `schedule/redis/lua` and `redis/recovery`) |
//! | [`journal`] | what happened: the only SQL |
//! | [`delivery`] | the dispatcher's loop, the worker that handles one lease, the HTTP call, the address filter (against SSRF) |
//! | [`service`] | what callers ask for, over both stores: register, cancel, retry, replay, look up |
//! | [`maintenance`] | keeping the two stores in step, and from growing for ever |
//! | [`api`] | HTTP for services and support staff |
//! | [`cli`] | the commands |
//! | [`telemetry`] | the log and the metrics |
//! | [`tls_roots`] | which certificate authorities TLS trusts |
//! | [`app`] | puts the parts together; start and stop order |
//!
//! `domain`, `health` <- `schedule`, `journal` <- `delivery`, `maintenance`, `service` <- `api` <- `app` <- `cli`,
//! and never the other way, nor do files name each other in a circle. The full table is in `tests/it/layers`, which
//! checks it.
//!
//! # What holds the promises
//! * Nothing accepted is lost: [`service`] writes the journal, then the schedule, then answers.
//! * Rarely twice: a lease is told by its expiry, and a lost one changes nothing ([`schedule`]), and after a crash the journal is
//!   asked before anything is sent again ([`delivery::worker`]).
//! * On time: [`domain::ladder`] is exact, and [`schedule::wake`] sleeps until the next due time.
//! * One merchant's trouble is its own: lanes take turns and have a cap ([`schedule`]).

pub mod api;
pub mod app;
pub mod batch;
pub mod cli;
pub mod clock;
pub mod config;
pub mod delivery;
pub mod domain;
pub mod health;
pub mod journal;
pub mod maintenance;
pub mod schedule;
pub mod service;
pub mod telemetry;
pub mod tls_roots;
