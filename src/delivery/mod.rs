//! Makes the delivery attempts.
//!
//! * [`dispatcher`] claims due notifications and bounds the number of attempts in flight.
//! * [`worker`] works on one lease: it makes the call, records the outcome and settles the lease.
//! * [`http_client`] makes one HTTP call, over a connection that `connector` opens or that `pool` has kept. Calls over
//!   HTTP/2 share connections (`http2`).
//! * [`reach`] finds out whether a receiver can be reached, without a call.
//! * [`address_filter`] says which addresses may be called.
//!
//! `domain::ack` decides what an answer means, and `domain::decision` what follows from it.

pub mod address_filter;
mod attempt_log;
mod attempt_span;
mod bare;
mod bodies;
pub mod call_recorder;
pub mod call_target;
mod confirm;
mod connector;
pub mod dispatcher;
mod exchange;
mod failure;
mod gone;
mod http2;
pub mod http_client;
mod in_flight;
mod judging;
mod lease_endpoint;
pub mod lookups;
mod permits;
mod pool;
mod proxy;
mod proxy_health;
pub mod reach;
mod record;
mod request;
mod resolver;
mod reuse;
mod settle;
mod signing;
mod socket;
mod start_rate;
mod tcp;
mod tls_failure;
pub mod tls_profiles;
mod tunnel;
mod unusable_keys;
pub mod worker;
mod working_time;
