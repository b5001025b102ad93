//! The calls that keep a schedule in agreement with its journal, and what they answer.

use super::default_keys::ScheduleDefaultKeys;
use super::endpoints::ScheduleEndpoints;
use super::recoverable::Recoverable;
use super::window::LoadedWindow;
use super::{Entry, Scanned, ScheduleError};
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::LaneChanges;
use crate::domain::outage::EndedOutage;
use crate::domain::place::PlaceInLane;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

/// The calls that keep a schedule in agreement with its journal.
#[async_trait]
pub trait ScheduleMaintenance: Send + Sync + 'static {
    /// A part of all entries: about `limit` entries after `cursor`, in no order. An entry that is here
    /// during the whole scan comes at least once.
    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, ScheduleError>;

    /// Adds these pending entries if they are missing, and gives waiting entries their progress. A leased
    /// entry is not changed. For a caller that has just read the entries in the journal; the journal should
    /// be asked again before they are sent ([`Entry::verify`]). No key may come twice.
    async fn restore(&self, entries: &[Entry]) -> Result<Restored, ScheduleError>;

    /// Whether the content of what is restored may be left to the journal ([`Self::restore_places`]).
    fn leaves_content(&self) -> bool {
        false
    }

    /// As [`Self::restore`], of pending notifications that need nothing but a place in their lane: without a place in an
    /// order, and without an attempt that was requested by hand. Of a waiting entry with its content, only when it is due
    /// is compared. A schedule that does not leave content to the journal ([`Self::leaves_content`]) refuses.
    async fn restore_places(&self, places: &[PlaceInLane]) -> Result<Restored, ScheduleError> {
        let _ = places;
        let why = "this schedule holds the content of its entries";
        Err(ScheduleError::Unavailable(why.to_string()))
    }

    /// Some of what was registered minutes ago with its content, which may be left to the journal if that has it still. Empty
    /// at the end, and for a schedule that does not leave content to the journal.
    async fn content_to_leave(&self) -> Result<Vec<ContentToLeave>, ScheduleError> {
        Ok(Vec::new())
    }

    /// Leaves the content of these entries to the journal, but for those that are due soon, or are not as they were
    /// registered. Whoever calls it has just read all of `keys` in the journal.
    async fn leave_content(&self, content: &ContentToLeave) -> Result<(), ScheduleError> {
        let _ = content;
        Ok(())
    }

    /// The part of the schedule that has this lane: a number.
    fn part_of(&self, _lane: &Lane) -> usize {
        0
    }

    /// The parts that do not answer while others do, as far as is known.
    fn out_of_reach(&self) -> BTreeSet<usize> {
        BTreeSet::new()
    }

    /// Whether some parts do not answer and others do, as far as is known.
    fn is_partly_out_of_reach(&self) -> bool {
        false
    }

    /// Up to which due time everything that was pending in the journal was put in, in milliseconds since 1970; `None` if
    /// that is not known. Without the parts in `left_out`. What is pending and due later may be in the journal alone
    /// ([`super::window`]). With [`Window::WHOLE`](super::window::Window::WHOLE) it is `i64::MAX`, unless servers with a
    /// horizon have used the schedule before, or use it now.
    async fn loaded_until(&self, left_out: &BTreeSet<usize>) -> Result<Option<i64>, ScheduleError>;

    /// Notes up to which due time everything that is pending in the journal was put in, but for the parts in `left_out`. The
    /// result is what was noted. It is less than was loaded if this server has no horizon, and one with a horizon may have
    /// left something out since the reading began ([`super::window`]).
    async fn set_loaded_until(
        &self,
        loaded: LoadedWindow,
        left_out: &BTreeSet<usize>,
    ) -> Result<i64, ScheduleError>;

    /// Takes changes of the settings of lanes. What is here already is not changed, so a caller that is late does no
    /// harm. Of changes from a journal, `reached` is what the schedule had before they were read there. Parts that are out of
    /// reach do not get them: what they lack is brought when they are back.
    async fn configure_lanes(
        &self,
        changes: &LaneChanges,
        reached: &SettingsReached,
    ) -> Result<Configured, ScheduleError>;

    /// The next call to the destination of a lane does not wait for the next probe. Does nothing if it is not probed, nor about
    /// to be.
    async fn call_lane_now(&self, lane: &Lane) -> Result<(), ScheduleError>;

    /// Up to which change of the journal the settings are here: those of this lane, or of all lanes in the parts that are in
    /// reach.
    async fn settings_reached(&self, lane: Option<&Lane>)
    -> Result<SettingsReached, ScheduleError>;

    /// Outages of destinations that have ended and that no server has dealt with: some of them, in no order. Those in
    /// `handled` are forgotten first, except one whose lane had another outage since; that one begins when the first of
    /// both began. A schedule that loses its data forgets them too.
    async fn ended_outages(
        &self,
        handled: &[EndedOutage],
    ) -> Result<Vec<EndedOutage>, ScheduleError>;

    /// How a loss of its data is detected and repaired; `None` if the schedule is in this process's memory
    /// alone.
    fn recoverable(&self) -> Option<&dyn Recoverable>;

    /// The endpoints, if it can keep them; used only where there is no journal.
    fn endpoints(&self) -> Option<&dyn ScheduleEndpoints> {
        None
    }

    /// The default keys, if it can keep them; used only where there is no journal.
    fn default_keys(&self) -> Option<&dyn ScheduleDefaultKeys> {
        None
    }
}

/// What [`ScheduleMaintenance::restore`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    /// Number of entries that were missing.
    pub missing: u64,
    /// Number of entries that had other progress.
    pub moved: u64,
}

impl AddAssign for Restored {
    fn add_assign(&mut self, other: Self) {
        self.missing += other.missing;
        self.moved += other.moved;
    }
}

/// Entries whose content may be left to the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentToLeave {
    /// The partition of the schedule.
    pub partition: usize,
    /// Number of reminders that were read there, which are done with after this.
    pub reminders: usize,
    /// Whether there may be more.
    pub has_more: bool,
    /// The notifications.
    pub keys: Vec<Key>,
}

/// Up to which change of the journal the settings of lanes are in a schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsReached {
    /// The number of the change; `None` if they must be brought from the first change on.
    pub number: Option<i64>,
    /// Whether nothing was lost since they were compared with the journal. Otherwise a claim gives nothing until the
    /// changes after that number were brought, even if there are none.
    pub is_confirmed: bool,
    /// Since when each part of the schedule that was asked has its data: changes that are read in the journal after this
    /// was asked are complete for that data.
    pub generations: BTreeMap<usize, i64>,
}

/// What became of changes of the settings of lanes.
#[derive(Debug, Clone)]
pub enum Configured {
    /// Every claim obeys them.
    Obeyed,
    /// Changes before them are missing here: these must be brought first.
    OthersMissing,
    /// One part of the schedule at least could not get them, and must get them later. Claims from the other parts obey them.
    Partly(ScheduleError),
}

impl Configured {
    /// An error unless every claim obeys them. For changes of which the schedule has the only record.
    ///
    /// # Errors
    /// That of a part that could not get them.
    pub fn all(self) -> Result<(), ScheduleError> {
        match self {
            Self::Obeyed => Ok(()),
            Self::Partly(error) => Err(error),
            Self::OthersMissing => Err(ScheduleError::Unavailable(
                "settings of lanes before these are missing".to_string(),
            )),
        }
    }
}
