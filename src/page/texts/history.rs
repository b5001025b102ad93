//! The lines of histories in words.

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
