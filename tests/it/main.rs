//! All integration tests, in one binary: linking once is what a two-core machine can afford.

mod api;
mod by_hand;
mod cli;
mod documents;
mod end_to_end;
mod endpoint_contract;
mod fail_over;
mod interleaving;
mod journal_contract;
mod ladder_tables;
mod layers;
mod openapi;
mod receivers;
mod reliability;

mod maintenance;
mod page;
mod schedule_contract;
mod signature_judge;
mod support;
