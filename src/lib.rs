//! Ringback, a payment-callback dispatcher. (The codemap follows.)
pub mod api;
pub mod app;
pub mod batch;
pub mod cli;
pub mod clock;
pub mod config;
pub mod delivery;
pub mod domain;
pub mod journal;
pub mod schedule;
pub mod service;
pub mod telemetry;
pub mod upkeep;
