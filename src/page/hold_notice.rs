//! The notice that a destination is held, which is shown where calls to it are expected.

use super::language::Language;
use super::texts::waiting::{HoldTexts, held_by};
use crate::domain::lane_settings::LaneHold;

/// A hold, for the template `hold_notice.html`.
pub struct HoldNotice {
    /// That it is held, and what that means for calls.
    pub says: &'static str,
    /// Who holds it, and since when.
    pub held_by: String,
    /// Why; may be empty.
    pub reason: String,
}

impl HoldNotice {
    /// What is said of this hold.
    pub fn of(hold: &LaneHold, language: Language) -> Self {
        Self {
            says: HoldTexts::of(language).calls_wait,
            held_by: held_by(hold, language),
            reason: hold.reason.to_string(),
        }
    }
}
