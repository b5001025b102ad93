//! Making attempts.
//!
//! [`dispatcher`] claims what is due and keeps the number of attempts in flight bounded; [`worker`]
//! takes one lease from claim to the call, the record of it and the settlement; [`http_client`] makes one HTTP
//! call, over a connection that `connector` opens or `pool` has kept; [`address_filter`] says which addresses
//! may be called. What an answer means is not decided here but in `domain::decision`.

pub mod address_filter;
mod bodies;
mod connector;
pub mod dispatcher;
mod exchange;
mod failure;
pub mod http_client;
mod in_flight;
mod permits;
mod pool;
mod record_and_settle;
mod resolver;
mod reuse;
mod socket;
pub mod worker;
