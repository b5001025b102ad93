//! Carrying out attempts.
//!
//! [`dispatcher`] claims what is due and keeps the number of attempts in flight bounded; [`worker`]
//! takes one lease from claim to the call and its aftermath to settlement; [`courier`] makes one HTTP
//! call, over a connection that `connector` opens or `pool` has kept; [`guard`] says which addresses
//! may be called. What an answer means is not decided here but in `domain::decision`.

mod aftermath;
mod bodies;
mod connector;
pub mod courier;
pub mod dispatcher;
mod exchange;
mod failure;
pub mod guard;
mod in_flight;
mod pool;
mod resolver;
mod reuse;
mod socket;
pub mod worker;
