//! Keeping the journal and the schedule in step.

pub mod fill;
pub mod probe;
pub mod rebuild;
