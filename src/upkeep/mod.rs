//! Keeping the two stores in step, beside the traffic: one file per duty.

pub mod restore;
