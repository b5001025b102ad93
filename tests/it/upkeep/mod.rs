//! Keeping the journal and the schedule in step: every kind of disagreement is made by hand, and
//! awaited to be mended, on SQLite with each schedule.
//!
//! Duties take the time as an argument, so a test says what time it is.

mod auditing;
mod comparing;
mod losing_keys;
mod pruning;
mod rebuilding;
mod reconciling;
mod serving;
mod stage;
mod sweeping;

/// Makes two tests of each function: with the schedule in memory, and in Redis.
macro_rules! on_each_schedule {
    ($($name:ident),+ $(,)?) => {
        mod memory {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name($crate::upkeep::stage::Stage::memory().await).await;
                }
            )+
        }
        mod redis {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name($crate::upkeep::stage::Stage::redis().await).await;
                }
            )+
        }
    };
}
use on_each_schedule;
