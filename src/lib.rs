//! Ringback, a payment-callback dispatcher.
//!
//! A service registers a notification, which is a URL and a body. Ringback sends it as a signed POST, and
//! repeats that at the intervals of a *ladder* (a retry schedule) until the receiver acknowledges it. If the
//! receiver has not acknowledged it when the ladder or its time window ends, the notification becomes a dead
//! letter.
//!
//! # The modules
//! | module | what it contains |
//! |---|---|
//! | [`domain`] | the rules: ladders, signatures, what an answer means ([`domain::ack`]), what follows from it ([`domain::decision`]) |
//! | [`clock`] | clocks of wall time, and a clock that tests set by hand |
//! | [`batch`] | calls in batches, used for both stores |
//! | [`health`] | the health of both stores: what is an outage, what the log says about it, how workers wait |
//! | [`config`] | the settings of `serve`, from flags, variables and a file |
//! | [`schedule`] | the index of pending notifications by due time, in memory or in Redis (scripts in `schedule/redis/lua` and `redis/recovery`) |
//! | [`journal`] | the record of all notifications, in SQLite or PostgreSQL; all SQL is here |
//! | [`keyring`] | seals the signing keys of endpoints under the master key, and opens them for a call |
//! | [`endpoints`] | the receivers that have a name, as this server knows them |
//! | [`access`] | who may use the API: the API keys as this server knows them |
//! | [`delivery`] | the dispatcher's loop, the worker that handles one lease, the HTTP call, the address filter (against SSRF) |
//! | [`settings_sync`] | brings the settings of lanes from the journal into the schedule |
//! | [`service`] | the operations that callers request: register, cancel, retry, replay, look up |
//! | [`alerts`] | tells the operator's own endpoints when something is wrong with the service, and when it is well again |
//! | [`maintenance`] | keeps the schedule in agreement with the journal, and deletes old records |
//! | [`api`] | the HTTP API for services and support staff |
//! | [`page`] | the page under `/ui/` |
//! | [`cli`] | the commands |
//! | [`telemetry`] | the log, the metrics and the traces |
//! | [`tls_roots`] | the certificate authorities that TLS trusts |
//! | [`redis_tls`] | the certificates for TLS connections to Redis, read from their files |
//! | [`tls_profile`] | the TLS configuration of an endpoint with own authorities or a client certificate |
//! | [`app`] | starts and stops the parts of a server, in order |
//!
//! The modules form layers: `domain`, `health` <- `schedule`, `journal`, `keyring` <- `endpoints`, `settings_sync`, `access` <-
//! `delivery`, `maintenance`, `service` <- `alerts`, `api` <- `page` <- `app` <- `cli`. A module may name only modules to its left, and files
//! do not name each other in a circle. The
//! test `tests/it/layers` has the full table and checks it.
//!
//! # What Ringback promises, and where
//! * Accepted notifications are not lost: [`service`] writes to the journal, then to the schedule, and then answers.
//! * Notifications are rarely delivered twice: a worker whose lease has expired cannot change the schedule
//!   ([`schedule`]), and after a crash the journal is asked before a notification is sent again ([`delivery::worker`]).
//! * Attempts are on time: [`domain::ladder`] is exact, and the dispatcher sleeps until the next due time
//!   ([`schedule::wake`]).
//! * A slow or failing merchant does not delay others: lanes are served in turn, and each has a cap ([`schedule`]).

pub mod access;
pub mod alerts;
pub mod api;
pub mod app;
pub mod batch;
pub mod cli;
pub mod clock;
pub mod config;
pub mod delivery;
pub mod domain;
pub mod endpoints;
pub mod health;
pub mod journal;
pub mod keyring;
pub mod maintenance;
pub mod page;
pub mod redis_tls;
pub mod schedule;
pub mod service;
pub mod settings_sync;
pub mod telemetry;
pub mod tls_profile;
pub mod tls_roots;
