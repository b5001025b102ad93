//! More than one Redis: Sentinel and Cluster, with primaries that die, hang and come back, and slots that move.
//!
//! `tests/it/reliability/kill_primary.rs` has the same under load, with an account at the end.

mod cluster;
mod composed;
mod finding;
mod parts_away;
mod resizing;
mod rights;
mod scene;
mod sentinels;
mod servers;
mod settings;
mod tls;
