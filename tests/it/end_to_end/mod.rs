//! The whole server on real HTTP, the same on every kind of store.
//!
//! `on_stores!` turns each function into a test per kind of store.

mod after_outage;
mod alerts;
mod answers;
mod api_keys;
mod asking;
mod audit_log;
mod away;
mod away_postgres;
mod bare_entries;
mod bulk;
mod changes_by_another;
mod clocks;
mod commands;
mod default_keys;
mod default_keys_in_redis;
mod deferring;
mod endpoint_keys;
mod endpoint_tls;
mod endpoints;
mod endpoints_in_redis;
mod endpoints_of_another;
mod eviction;
mod explained;
mod exporting;
mod failures;
mod fair_shares;
mod finding;
mod floods;
mod gone;
mod hanging_names;
mod hostile;
mod http2;
mod http2_failures;
mod http2_hostile;
mod http2_kept;
mod http2_node;
mod http2_sharing;
mod jobs;
mod kept;
mod ladder;
mod lanes;
mod lifecycle;
mod losing;
mod lost_keys;
mod master_key;
mod memory_bound;
mod metrics;
mod next_steps;
mod order;
mod order_faults;
mod order_two_servers;
mod outages;
mod outgoing_proxy;
mod power_cut;
mod process;
mod receiver_requests;
mod rescheduling;
mod resending;
mod retried_bodies;
mod reused_names;
mod rights;
mod secrets_in_the_clear;
mod set_aside;
mod shared_limits;
mod shares;
mod sharing;
mod tls;
mod trace_export;
mod traces;
mod unreadable_attempts;
mod unreadable_default_keys;
mod unreadable_endpoints;
mod window;
mod window_lanes;

/// Makes one test of each function for each of the stores.
macro_rules! on_stores {
    ($($(#[$note:meta])* $name:ident),+ $(,)?) => {
        on_stores!(@ embedded Embedded $($name)+);
        on_stores!(@ redis Redis $($name)+);
        on_stores!(@ postgres Postgres $($name)+);
        on_stores!(@ redis_only RedisOnly $($name)+);
    };
    (@ $module:ident $stores:ident $($name:ident)+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name($crate::support::ringback::Stores::$stores).await;
                }
            )+
        }
    };
}
pub(crate) use on_stores;

/// Likewise, for the stores that keep attempts.
macro_rules! on_journaled_stores {
    ($($name:ident),+ $(,)?) => {
        $crate::end_to_end::on_stores!(@ embedded Embedded $($name)+);
        $crate::end_to_end::on_stores!(@ redis Redis $($name)+);
        $crate::end_to_end::on_stores!(@ postgres Postgres $($name)+);
    };
}
pub(crate) use on_journaled_stores;

/// Likewise, for more than one Redis.
macro_rules! on_several_redis {
    ($($name:ident),+ $(,)?) => {
        $crate::end_to_end::on_stores!(@ sentinel Sentinel $($name)+);
        $crate::end_to_end::on_stores!(@ cluster Cluster $($name)+);
    };
}
pub(crate) use on_several_redis;
