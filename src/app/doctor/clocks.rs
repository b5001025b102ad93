//! The clocks of the stores, compared with the clock of this machine.

use super::finding::Finding;
use crate::domain::duration::display_ms;

/// Up to this difference, nobody notices anything. The measurement itself is not more exact on a slow network.
const AGREEING_MS: i64 = 1_000;
/// Receivers refuse signatures that are older or newer than this (Standard Webhooks suggests five minutes).
const LARGEST_MS: i64 = 5 * 60_000;

/// Compares the clock of a store, which is `ahead_ms` ahead.
pub fn compare(subject: &'static str, store: &str, ahead_ms: i64) -> Finding {
    let difference = ahead_ms.saturating_abs();
    if difference <= AGREEING_MS {
        let text = format!("the clocks of {store} and of this machine agree within a second");
        return Finding::ok(subject, text);
    }
    let direction = match ahead_ms > 0 {
        true => "ahead of",
        false => "behind",
    };
    let text = format!(
        "the clock of {store} is {} {direction} that of this machine",
        display_ms(difference)
    );
    let mend =
        "let both follow a time server (`timedatectl`); this machine's clock is in the signatures";
    match difference > LARGEST_MS {
        true => Finding::problem(subject, text, mend),
        false => Finding::warning(subject, text, mend),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::finding::FindingLevel;

    #[test]
    fn differences_are_judged() {
        let check = |ahead_ms: i64, level: FindingLevel, said: &str| {
            let finding = compare("redis", "Redis", ahead_ms);
            assert_eq!(finding.level, level, "{ahead_ms}");
            assert!(finding.text.contains(said), "{}", finding.text);
        };
        check(1_000, FindingLevel::Ok, "agree");
        check(-1_000, FindingLevel::Ok, "agree");
        check(1_001, FindingLevel::Warning, "1s1ms ahead of");
        check(-90_000, FindingLevel::Warning, "1m30s behind");
        check(300_000, FindingLevel::Warning, "5m ahead of");
        check(300_001, FindingLevel::Problem, "ahead of");
    }
}
