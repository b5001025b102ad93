//! The rules of the dispatcher: what a notification is, when its attempts are due, which answers
//! acknowledge it, and which state follows an attempt.
//!
//! The code here is pure: it has no I/O, no clock and no randomness. The time and random numbers are
//! arguments. So a result depends on nothing but the arguments.
//!
//! # States of a notification
//! ```text
//!            register                 acknowledged           resend: a new series
//!               |                  +--------------------> delivered -----> scheduled
//!               v        claim     |
//!  reschedule, scheduled <--------> in_flight
//!  retry        |                  |
//!        cancel |                  +--------------------> dead
//!               v                    ladder_exhausted       |
//!           cancelled <-- discard -- window_closed          | replay: a new series
//!                                    refused, blocked       v
//!                                                        scheduled
//! ```
//! `in_flight` is not a stored state. A notification is shown as `in_flight` if its state is `scheduled`
//! and its entry in the schedule is leased.
//!
//! An acknowledgement that is recorded late makes a dead letter of the same series delivered (`journal/effect.rs`): the
//! attempt was made again by another server, and failed there. A discarded one stays cancelled.

pub mod ack;
pub mod act;
pub mod activity;
pub mod alert;
pub mod api_key;
pub mod attempt;
pub mod attempt_reason;
pub mod audit_note;
pub mod body;
pub mod call_durations;
pub mod call_rate;
pub mod call_trace;
pub mod caller;
pub mod certificates;
pub mod change;
pub mod client_key;
pub mod decision;
pub mod default_keys;
pub mod deferral;
pub mod destination;
pub mod duration;
pub mod endpoint;
pub mod endpoint_differences;
pub mod endpoint_keys;
pub mod endpoint_name;
pub mod endpoint_tls;
pub mod headers;
pub mod history_note;
pub mod http_version;
pub mod job;
pub mod job_filter;
pub mod job_result;
pub mod key;
pub mod ladder;
pub mod lane;
pub mod lane_health;
pub mod lane_settings;
pub mod later;
pub mod lease;
pub mod master_key;
pub mod notification;
pub mod order;
pub mod outage;
mod pem;
pub mod place;
pub mod priority;
pub mod progress;
pub mod proxy_url;
pub mod receiver_requests;
pub mod redaction;
pub mod redis_url;
pub mod responsibility;
pub mod retry_after;
pub mod role;
pub mod sentence;
pub mod signature;
pub mod signers;
pub mod signing_key;
pub mod snapshot;
pub mod state;
pub mod timestamp;
pub mod timetable;
pub mod trace_context;
pub mod url_parts;
pub mod verifying_key;
pub mod webhook_id;
