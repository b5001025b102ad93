//! Keeping the journal and the schedule in step: every kind of disagreement is made by hand, and
//! awaited to be repaired, on each pair of stores.
//!
//! Duties take the time as an argument, so a test says what time it is.

mod auditing;
mod comparing;
mod loading;
mod losing_keys;
mod pruning;
mod rebuilding;
mod reconciling;
mod serving;
mod stage;
mod sweeping;

/// Makes three tests of each function: in memory and SQLite, in Redis and SQLite, in Redis and
/// PostgreSQL.
macro_rules! on_each_pair {
    ($($name:ident),+ $(,)?) => {
        mod memory {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name($crate::maintenance::stage::Stage::memory().await).await;
                }
            )+
        }
        mod redis {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name($crate::maintenance::stage::Stage::redis().await).await;
                }
            )+
        }
        mod postgres {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name($crate::maintenance::stage::Stage::postgres().await).await;
                }
            )+
        }
    };
}
use on_each_pair;
