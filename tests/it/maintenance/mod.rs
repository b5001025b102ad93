//! Keeping the journal and the schedule in step: every kind of disagreement is made by hand, and
//! awaited to be repaired, on each pair of stores.
//!
//! Duties take the time as an argument, so a test says what time it is.

mod arriving;
mod auditing;
mod comparing;
mod exporting;
mod lane_settings;
mod loading;
mod loading_places;
mod losing_keys;
mod pruning;
mod rebuilding;
mod reconciling;
mod serving;
mod stage;
mod sweeping;
mod window;
mod window_beside_recovery;

/// Makes three tests of each function: in memory and SQLite, in Redis and SQLite, in Redis and
/// PostgreSQL.
macro_rules! on_each_pair {
    ($($name:ident),+ $(,)?) => {
        on_each_pair!(@ memory memory $($name)+);
        on_each_pair!(@ redis redis $($name)+);
        on_each_pair!(@ postgres postgres $($name)+);
    };
    (@ $module:ident $stage:ident $($name:ident)+) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name($crate::maintenance::stage::Stage::$stage().await).await;
                }
            )+
        }
    };
}
use on_each_pair;

/// Likewise, where what is due after some time waits in the journal alone.
macro_rules! on_each_pair_with_window {
    ($($name:ident),+ $(,)?) => {
        $crate::maintenance::on_each_pair!(@ memory memory_with_window $($name)+);
        $crate::maintenance::on_each_pair!(@ redis redis_with_window $($name)+);
        $crate::maintenance::on_each_pair!(@ postgres postgres_with_window $($name)+);
    };
}
use on_each_pair_with_window;
