//! The rules of the dispatcher, and nothing else.
//!
//! Owns what a notification is, when its attempts fall due, what an answer means and what follows
//! from it. Pure: no I/O, no clock, no randomness, so nothing in here can fail for a reason that
//! is not in its arguments. Time and chance come in as values.
//!
//! # States of a notification
//! ```text
//!            register                 acknowledged
//!               |                  +--------------------> delivered
//!               v        claim     |
//!           scheduled <--------> in_flight
//!               |        retry     |
//!        cancel |                  +--------------------> dead
//!               v                    ladder_exhausted       |
//!           cancelled <-- discard -- window_closed          | replay: a new series
//!                                    refused, blocked       v
//!                                                        scheduled
//! ```
//! `in_flight` is no stored state: it is `scheduled` with a lease out.

pub mod ack;
pub mod attempt;
pub mod body;
pub mod change;
pub mod decision;
pub mod destination;
pub mod duration;
pub mod headers;
pub mod key;
pub mod ladder;
pub mod lane;
pub mod lane_health;
pub mod lease;
pub mod notification;
pub mod progress;
pub mod signature;
pub mod snapshot;
pub mod state;
pub mod timestamp;
pub mod timetable;
pub mod webhook_id;
