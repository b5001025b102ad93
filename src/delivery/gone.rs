//! Holds the lane of an endpoint whose receiver answered 410, if the endpoint says so.
//!
//! The lane is held before the outcome is recorded. Dying in between leaves the lane held, and a notification whose
//! attempt is made again when somebody releases the lane. The other way round, dying in between would leave the lane
//! open.

use super::worker::Worker;
use crate::domain::key::Key;
use crate::domain::lane_settings::{LaneChange, LaneChanges, LaneHold, LaneSetting};
use crate::health::{Backoff, Store};
use crate::journal::{Actor, LaneOrder};
use crate::schedule::{Lease, SettingsReached};
use crate::settings_sync::{SettingsSyncError, bring_settings};
use std::pin::pin;

/// How far the hold of a lane has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldProgress {
    /// It is not known whether a store has kept it.
    Unknown,
    /// The journal has kept it. Any server may have brought it into the schedule since then, and a person may have released
    /// the lane. So it is not written again.
    InJournal,
}

impl Worker {
    /// Holds the lane of a leased notification whose receiver asked for no more calls, however long that takes. A lane
    /// that is held already stays as it is.
    pub(super) async fn hold_gone_lane(&self, lease: &mut Lease) {
        let notification = lease.entry.notification.clone();
        let hold = LaneHold {
            by: Actor::dispatcher().name().into(),
            // Without the notification: whoever asks why another one waits reads this, and may not know its topic.
            reason: "the receiver answered a call with 410: it asks for no more calls".into(),
            since_ms: self.clock.now_ms(),
        };
        let order = LaneOrder {
            lane: notification.lane.clone(),
            reason: hold.reason.to_string(),
            at_ms: hold.since_ms,
            setting: LaneSetting::Hold(Some(hold)),
            actor: Actor::dispatcher(),
        };
        let holding = pin!(self.hold_lane(&order, &notification.key));
        self.hold(lease, holding).await;
    }

    /// `answered` is the notification that was answered with 410.
    async fn hold_lane(&self, order: &LaneOrder, answered: &Key) {
        let lane = &order.lane;
        let mut backoff = Backoff::new(&self.health, Store::Journal);
        let mut progress = HoldProgress::Unknown;
        loop {
            match self.try_to_hold(order, &mut progress).await {
                Ok(is_held) => {
                    if is_held {
                        tracing::warn!(
                            %lane,
                            notification = %answered,
                            reason = order.reason,
                            "a lane is held, because its receiver asks for no more calls; release it when the receiver is \
                             back"
                        );
                    }
                    return;
                }
                Err(error) if error.may_pass() => {
                    tracing::debug!(%lane, %error, "a lane cannot be held now; trying again");
                }
                Err(error) => {
                    tracing::error!(
                        %lane,
                        %error,
                        "a lane cannot be held although its receiver asks for no more calls; hold it by hand"
                    );
                    return;
                }
            }
            let waiting = self.abandon.run_until_cancelled(backoff.wait());
            if waiting.await.is_none() {
                return;
            }
        }
    }

    /// Returns whether the lane is held in the end: a person may have released it meanwhile.
    ///
    /// If the answer of the store that keeps the hold is lost, the next try writes it once more, unless the schedule has it. If a
    /// person has released the lane between the two, it is held again.
    async fn try_to_hold(
        &self,
        order: &LaneOrder,
        progress: &mut HoldProgress,
    ) -> Result<bool, SettingsSyncError> {
        if *progress == HoldProgress::Unknown {
            let status = self.schedule.lane(&order.lane).await?;
            if status.settings.hold.is_some() {
                return Ok(true);
            }
        }
        let Some(recorder) = &self.recorder else {
            let change = LaneChange {
                lane: order.lane.clone(),
                setting: order.setting.clone(),
                number: 0,
            };
            let changes = LaneChanges {
                changes: vec![change],
                range: None,
            };
            let none = SettingsReached::default();
            let configured = self.schedule.configure_lanes(&changes, &none).await?;
            configured.all()?;
            return Ok(true);
        };
        if *progress == HoldProgress::Unknown {
            recorder.journal().change_lane(order).await?;
            *progress = HoldProgress::InJournal;
        }
        // Dying here leaves it in the journal; every server brings it from there.
        bring_settings(
            recorder.journal(),
            self.schedule.as_ref(),
            Some(&order.lane),
        )
        .await?;
        let status = self.schedule.lane(&order.lane).await?;
        Ok(status.settings.hold.is_some())
    }
}
