//! Whether somebody holds the lane to which calls are to be made: what is said beside an answer that does not depend on it.

use super::Service;
use super::timeouts::with_timeout;
use crate::domain::job::JobKind;
use crate::domain::job_filter::JobFilter;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::LaneHold;

impl Service {
    /// Who holds a lane; `None` if nobody does, or if the schedule does not say.
    pub async fn hold_of(&self, lane: &Lane) -> Option<LaneHold> {
        match with_timeout(self.schedule.lane(lane)).await {
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
