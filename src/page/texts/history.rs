//! The lines of histories in words.

use crate::domain::history_note::HistoryNote;
use crate::page::language::Language;

super::texts!(HistoryTexts {
    registered: "registered", "登记";
    delivered: "delivered", "送达";
    parked: "became a dead letter", "成为死信";
    cancelled: "cancelled", "取消";
    discarded: "discarded", "作废";
    replayed: "replayed", "重放";
    resent: "sent again", "重新发送";
    retried: "attempt asked for", "要求立即投递";
    rescheduled: "moved", "改期";
    restored: "restored into the schedule", "恢复到调度";
    set_aside: "set aside", "搁置";
});

impl HistoryTexts {
    /// A kind of line. One of a later version is shown as it is.
    pub fn kind<'a>(&self, kind: &'a str) -> &'a str {
        match kind {
            "registered" => self.registered,
            "delivered" => self.delivered,
            "parked" => self.parked,
            "cancelled" => self.cancelled,
            "discarded" => self.discarded,
            "replayed" => self.replayed,
            "resent" => self.resent,
            "retried" => self.retried,
            "rescheduled" => self.rescheduled,
            "restored" => self.restored,
            "set_aside" => self.set_aside,
            other => other,
        }
    }
}

/// What the servers have written beside a line.
pub fn note_in_words(note: &HistoryNote, language: Language) -> String {
    match language {
        Language::English => note.to_string(),
        Language::Chinese => match note {
            HistoryNote::SupersededBy { number } => {
                format!("已被同一订单序列的编号 {number} 取代")
            }
            HistoryNote::MovedAndDropped { from, to } => {
                format!("由 {from} 改为 {to}；人工要求的立即投递已作废")
            }
            HistoryNote::Moved { from, to } => format!("由 {from} 改为 {to}"),
            HistoryNote::LostData => "调度存储丢失了数据".to_string(),
            HistoryNote::SomethingMissing => "调度存储中缺少数据".to_string(),
            HistoryNote::UnfinishedRebuild => "之前的重建未完成".to_string(),
            HistoryNote::RebuildAsked => "应要求重建".to_string(),
            HistoryNote::OtherStep => "调度中的投递步骤与流水库不一致".to_string(),
            HistoryNote::NotInSchedule => "调度中没有该通知".to_string(),
            HistoryNote::NotInJournal => "流水库中没有该通知，而调度中有".to_string(),
        },
    }
}
