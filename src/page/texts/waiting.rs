//! What is known of why a notification waits.

use crate::domain::lane_settings::LaneHold;
use crate::page::language::Language;
use crate::page::times::TimeTag;
use crate::service::WaitingBecause;

super::texts!(HoldTexts {
    calls_wait: "The destination is held, so calls begin when it is released.", "目标已被暂停投递，恢复后才会投递。";
});

/// What is known of why a notification waits, in a sentence; empty if that says no more than the reason itself. What a
/// person gave as a reason for a hold is shown beside it.
pub fn in_words(because: &WaitingBecause, language: Language) -> String {
    let of = |ms: &i64| TimeTag(*ms).words();
    match (because, language) {
        (WaitingBecause::LowerNumber, Language::English) => {
            "A lower number has not ended, and goes first.".to_string()
        }
        (WaitingBecause::LowerNumber, Language::Chinese) => {
            "较小编号的通知尚未结束，应先投递。".to_string()
        }
        (WaitingBecause::Held(hold), language) => held_by(hold, language),
        (WaitingBecause::Unanswered(Some(since_ms)), Language::English) => format!(
            "It has answered no call since {}. It is called once in a while until it answers.",
            of(since_ms)
        ),
        (WaitingBecause::Unanswered(Some(since_ms)), Language::Chinese) => {
            format!("自 {} 起无应答，定期探测直至恢复应答。", of(since_ms))
        }
        (WaitingBecause::Unanswered(None), Language::English) => {
            "It is called once in a while until it answers.".to_string()
        }
        (WaitingBecause::Unanswered(None), Language::Chinese) => {
            "定期探测直至恢复应答。".to_string()
        }
        (WaitingBecause::UnusableKey, _) => String::new(),
        (WaitingBecause::Rate(rate, due), Language::English) => {
            format!("The rate is {rate} calls per second, and {due} notifications are due.")
        }
        (WaitingBecause::Rate(rate, due), Language::Chinese) => {
            format!("限速为每秒 {rate} 次，已到期 {due} 条。")
        }
        (WaitingBecause::Concurrency(in_flight, limit, due), Language::English) => {
            format!("{in_flight} of {limit} calls are in flight, and {due} notifications are due.")
        }
        (WaitingBecause::Concurrency(in_flight, limit, due), Language::Chinese) => {
            format!("并发请求 {in_flight}/{limit}，已到期 {due} 条。")
        }
    }
}

/// Who holds a destination, and since when, in a sentence.
pub fn held_by(hold: &LaneHold, language: Language) -> String {
    let (by, since) = (&hold.by, TimeTag(hold.since_ms).words());
    match language {
        Language::English => format!("{by} holds it since {since}."),
        Language::Chinese => format!("{by} 于 {since} 暂停。"),
    }
}
