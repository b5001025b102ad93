//! Carrying out attempts.
//!
//! [`dispatcher`] claims what is due and keeps the number of attempts under way bounded; [`errand`]
//! takes one lease from claim to the call and
//! its aftermath to settlement; [`courier`] makes one HTTP call; [`guard`] says which
//! addresses may be called. What an answer means is not decided here but in `domain::decision`.

mod aftermath;
pub mod courier;
pub mod dispatcher;
pub mod errand;
mod failure;
pub mod guard;
mod resolver;
mod reuse;
mod under_way;
