//! (Being written.)
pub mod server;
