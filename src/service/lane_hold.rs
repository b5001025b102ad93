//! Whether somebody holds the lane to which calls are to be made: what is said beside an answer that does not depend on it.

use super::Service;
use super::timeouts::with_short_timeout;
use crate::domain::job::JobKind;
use crate::domain::job_filter::JobFilter;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::LaneHold;
use crate::domain::timestamp::display_ms;

/// Says that a lane is held, by whom and why, and what that means for the calls to it.
#[must_use]
pub fn calls_wait(hold: &LaneHold) -> String {
    let LaneHold {
        by,
        reason,
        since_ms,
    } = hold;
    let since = display_ms(*since_ms);
    let why = match &**reason {
        "" => String::new(),
        reason => format!(" ({reason})"),
    };
    format!("the lane is held by {by} since {since}{why}, so calls begin when it is released")
}

impl Service {
    /// Who holds a lane; `None` if nobody does, or if the schedule does not say.
    pub async fn hold_of(&self, lane: &Lane) -> Option<LaneHold> {
        match with_short_timeout(self.schedule.lane(lane)).await {
            Ok(status) => status.settings.hold,
            Err(error) => {
                tracing::debug!(%lane, %error, "the schedule could not say whether a destination is held");
                None
            }
        }
    }

    /// Who holds the lane that the filter of a job names, if the job makes calls to it; `None` also if the filter names none.
    /// What a filter without a lane concerns may go to any number of lanes, so these are not looked up.
    pub async fn hold_of_filter(&self, kind: JobKind, filter: &JobFilter) -> Option<LaneHold> {
        if kind != JobKind::Replay {
            return None;
        }
        let lane = Lane::parse(filter.lane.as_deref()?).ok()?;
        self.hold_of(&lane).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_told_with_its_reason_if_it_has_one() {
        fn check(reason: &str, expected: &str) {
            let hold = LaneHold {
                by: "anna".into(),
                reason: reason.into(),
                since_ms: 1_795_163_400_000,
            };
            assert_eq!(calls_wait(&hold), expected);
        }
        check(
            "they move",
            "the lane is held by anna since 2026-11-20T08:30:00.000Z (they move), so calls begin when it is released",
        );
        check(
            "",
            "the lane is held by anna since 2026-11-20T08:30:00.000Z, so calls begin when it is released",
        );
    }
}
