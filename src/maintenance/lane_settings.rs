//! Every server brings changed settings of lanes into the schedule, whoever made the change.

use crate::journal::JournalMaintenance;
use crate::schedule::Schedule;
use crate::settings_sync::bring_settings;
use std::sync::Arc;
use std::time::Duration;

/// How often the journal is asked for changes. A change that another server made, and died before it brought it,
/// holds within this time.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Brings changes for ever. An error that does not pass is logged once until a call succeeds; `health` logs
/// outages.
pub(super) async fn follow(journal: Arc<dyn JournalMaintenance>, schedule: Arc<dyn Schedule>) {
    let mut logged = false;
    loop {
        match bring_settings(journal.as_ref(), schedule.as_ref(), None).await {
            Ok(()) => logged = false,
            Err(error) if logged || error.may_pass() => {
                tracing::debug!(%error, "changed settings of lanes could not be brought into the schedule");
            }
            Err(error) => {
                logged = true;
                tracing::error!(
                    %error,
                    "changed settings of lanes cannot be brought into the schedule; a hold or release may have no \
                     effect, and after a loss of data nothing is sent until this succeeds; trying again"
                );
            }
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::call_rate::CallRate;
    use crate::domain::lane::Lane;
    use crate::domain::lane_settings::{LaneLimits, LaneSetting};
    use crate::journal::sqlite::SqliteJournal;
    use crate::journal::timeless::TimelessJournal;
    use crate::journal::{Actor, Journal, LaneOrder};
    use crate::schedule::memory::MemorySchedule;
    use crate::schedule::window::Window;
    use crate::schedule::{Limits, SettingsSource};
    use tokio::time::Instant;

    const MS: Duration = Duration::from_millis(1);
    /// Half a second, and the steps of the timers. The calls themselves take none of the paused time.
    const MISSING_FOR: Duration = Duration::from_millis(505);
    const LIMITS: Limits = Limits {
        lane_start: 1,
        lane_cap: 1,
        lease_ms: 20_000,
        remember_ms: None,
        settings_source: SettingsSource::Journal,
        window: Window::WHOLE,
        early_ms: 0,
    };

    /// The change of another server, which has died before it brought it into the schedule.
    async fn change_rate(journal: &dyn Journal, calls_per_second: u32) -> i64 {
        let order = LaneOrder {
            lane: Lane::from_name("https://shop.example"),
            setting: LaneSetting::Limits(LaneLimits {
                concurrency: None,
                rate: CallRate::per_second(f64::from(calls_per_second)).ok(),
            }),
            actor: Actor::named("ops"),
            reason: String::new(),
            at_ms: 0,
        };
        journal.change_lane(&order).await.expect("kept")
    }

    #[tokio::test]
    async fn what_another_server_has_not_brought_is_brought_after_half_a_second() {
        let dir = tempfile::tempdir().expect("a directory");
        let inner = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
        let inner = Arc::new(inner.expect("it opens"));
        let journal: Arc<dyn Journal> = Arc::new(TimelessJournal::over(inner));
        let clock = Arc::new(ManualClock::at(0));
        let schedule: Arc<dyn Schedule> = Arc::new(MemorySchedule::new(clock, LIMITS));
        tokio::time::pause();
        let following = tokio::spawn(follow(journal.clone(), schedule.clone()));
        for rate in 1..=5 {
            // At another moment between two questions each time.
            tokio::time::sleep(170 * MS).await;
            let number = change_rate(journal.as_ref(), rate).await;
            let changed = Instant::now();
            let reached = async || {
                let reached = schedule.settings_reached(None).await;
                reached.expect("in memory").number
            };
            while reached().await < Some(number) {
                tokio::time::sleep(MS).await;
                let missing = changed.elapsed();
                assert!(missing <= MISSING_FOR, "{rate}: {missing:?}");
            }
        }
        following.abort();
    }
}
