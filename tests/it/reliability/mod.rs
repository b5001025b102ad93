//! Nothing accepted is lost, whatever is killed or cut off.
//!
//! `kill` ends real processes with SIGKILL at random moments under load and then settles accounts:
//! what callers were answered, what the receiver got, what the journal says. `docs/reliability.md`
//! says what is proved.

mod account;
mod callers;
mod faults;
mod kill;
mod plan;
mod receiver;
mod stage;
