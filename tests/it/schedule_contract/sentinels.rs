//! The Redis schedule behind sentinels.

use super::fixture::*;
use super::redis::{open_with, options};
use crate::support::redis_shared::fresh_sentinel_database;
use ringback::schedule::Limits;

pub async fn open(limits: Limits) -> Fixture {
    open_with(&options(fresh_sentinel_database(), limits), Box::new(())).await
}
