//! What is shown of a destination, in the list and on its page.

use crate::domain::call_rate::CallRate;
use crate::domain::lane_settings::LaneHold;
use crate::page::html::encoded;
use crate::page::language::Language;
use crate::page::paths::destination_path;
use crate::page::texts::destinations::DestinationTexts;
use crate::page::texts::outcomes::OutcomeTexts;
use crate::page::times::TimeTag;
use crate::schedule::lane_status::LaneStatus;

/// A destination at one instant.
pub struct LaneFacts<'a> {
    pub href: String,
    pub lane: &'a str,
    /// The name of the endpoint whose lane it is, and the address of its page.
    pub endpoint: Option<(String, String)>,
    /// The name of the state, which is the class of its mark.
    pub state: &'static str,
    pub state_in_words: &'static str,
    pub says: &'static str,
    pub pending: u64,
    /// Whether there may be more.
    pub is_at_least: bool,
    pub due: u64,
    pub in_flight: u64,
    pub cap: usize,
    /// How many calls it may have in flight now, if that is another number.
    pub cap_now: Option<usize>,
    /// Calls per second.
    pub rate: Option<f64>,
    pub oldest_due: Option<TimeTag>,
    pub failing_since: Option<TimeTag>,
    /// How its last calls ended: in words, with the HTTP status, and since when.
    pub last: Option<(&'static str, Option<u16>, TimeTag)>,
    pub hold: Option<HoldFacts<'a>>,
}

/// Who holds a destination, and why.
pub struct HoldFacts<'a> {
    pub since: TimeTag,
    pub by: &'a str,
    pub reason: &'a str,
}

impl<'a> LaneFacts<'a> {
    /// What is shown of this destination.
    pub fn of(status: &'a LaneStatus, language: Language) -> Self {
        let t = DestinationTexts::of(language);
        let outcomes = OutcomeTexts::of(language);
        let state = status.state();
        let endpoint = status.lane.endpoint().map(|name| {
            let href = format!("/ui/endpoints/{}", encoded(name.as_str()));
            (name.to_string(), href)
        });
        Self {
            href: destination_path(&status.lane),
            lane: status.lane.as_str(),
            endpoint,
            state: state.as_str(),
            state_in_words: t.state_name(state),
            says: t.says(state),
            pending: status.pending(),
            is_at_least: status.is_pending_at_least(),
            due: status.due,
            in_flight: status.in_flight,
            cap: status.cap,
            cap_now: Some(status.limit).filter(|limit| *limit != status.cap),
            rate: status.settings.limits.rate.map(CallRate::calls_per_second),
            oldest_due: status.oldest_due_ms.map(TimeTag),
            failing_since: status.failing_since_ms.map(TimeTag),
            last: status.last_outcome.map(|last| {
                let words = outcomes.short(last.call.outcome);
                (words, last.call.status, TimeTag(last.since_ms))
            }),
            hold: status.settings.hold.as_ref().map(HoldFacts::of),
        }
    }
}

impl<'a> HoldFacts<'a> {
    fn of(hold: &'a LaneHold) -> Self {
        Self {
            since: TimeTag(hold.since_ms),
            by: &hold.by,
            reason: &hold.reason,
        }
    }
}
