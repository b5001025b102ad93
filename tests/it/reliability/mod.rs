//! Nothing accepted is lost, whatever is killed or cut off.
//!
//! `kill` ends real processes with SIGKILL at random moments under load and then settles accounts:
//! what callers were answered, what the receiver got, what the journal says. `faults` does the same
//! with the lines between servers and stores, `kill_primary` with primaries whose replicas take over, and `cuts` has a single reply get lost at a time. `replay` kills
//! servers while a job replays dead letters.
//! `docs/reliability.md` says what is proved.

mod account;
mod by_hand;
mod callers;
mod complaints;
mod counts;
mod cuts;
mod faults;
mod kill;
mod kill_primary;
mod leases;
mod plan;
mod receiver;
mod replay;
mod stage;
mod stands;
