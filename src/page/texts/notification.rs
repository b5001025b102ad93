//! The texts of the page of a notification.

use crate::domain::change::Change;
use crate::page::language::Language;

super::texts!(NotificationTexts {
    registered: "Registered", "登记时间";
    next_attempt: "Next attempt", "下次投递";
    deadline: "Last attempt at the latest", "最晚投递时间";
    ended: "Ended", "结束时间";
    attempts_made: "Attempts made", "已投递次数";
    attempts_left: "left", "剩余";
    cause: "Cause", "原因";
    series: "Series", "投递轮次";
    webhook_id: "Webhook id", "Webhook ID";
    trace_id: "Trace id", "Trace ID";
    url: "URL", "回调地址";
    lane: "Destination", "目标（lane）";
    priority: "Priority", "优先级";
    order: "Order", "订单序列";
    ladder: "Ladder", "重试策略";
    ack: "Expected answer", "应答规则";
    waits: "It waits", "等待原因";
    note: "Note", "注意";
    set_aside: "Set aside: the journal could not record what happened. Tell the operators.", "已搁置：流水库无法记录投递结果，请联系运维人员。";
    flights_unknown: "Whether an attempt is in flight is not known now, because the schedule does not answer.", "调度存储暂无响应，无法确定当前是否正在投递。";
    says_scheduled: "Another attempt will be made.", "将继续投递。";
    says_in_flight: "An attempt is being made now.", "正在投递。";
    says_delivered: "The receiver has acknowledged it.", "商户已确认收到。";
    says_dead: "It is a dead letter: no attempt follows unless it is replayed.", "已成为死信：除非重放，否则不再投递。";
    says_cancelled: "It was cancelled; nothing more is sent.", "已取消，不再投递。";
    no_attempts: "No attempt has ended yet.", "尚无已完成的投递。";
    attempts: "Attempts", "投递记录";
    history: "History", "操作历史";
    by: "by", "操作人";
    at_instance: "on", "服务器";

    payload: "What is sent", "发送内容";
    payload_masked: "The headers and the body may hold personal data, so they are masked. Showing them is kept in the audit log, with your reason.", "请求头和正文可能包含个人信息，默认隐藏。查看操作及原因将记入审计日志。";
    payload_show: "Show headers and body", "查看请求头和正文";
    payload_gone: "The headers and the body are not kept any more.", "请求头和正文已超过保留期限。";
    content_type: "Content type", "内容类型";
    header_names: "Registered headers", "登记的请求头";
    body_bytes: "Body", "正文长度";
    bytes: "bytes", "字节";
    none: "none", "无";
    curl: "As a command (without the signature)", "curl 命令（不含签名）";
    verify: "How the merchant verifies it", "商户如何验签";
    verify_signed: "Standard Webhooks: the signature covers “{Webhook-Id}.{Webhook-Timestamp}.{body}”, with the very bytes of the body.", "遵循 Standard Webhooks：签名内容为 “{Webhook-Id}.{Webhook-Timestamp}.{正文}”，正文须为原始字节。";
    verify_v1: "With a key whsec_…: the base64 of the HMAC-SHA256 is one of the values after “v1,” in Webhook-Signature. The key is the base64 after whsec_, decoded.", "密钥为 whsec_… 时：计算 HMAC-SHA256 并做 base64，应与 Webhook-Signature 中 “v1,” 之后的某个值一致。密钥为 whsec_ 之后的部分经 base64 解码所得。";
    verify_v1a: "With a key whsk_…: the values after “v1a,” are Ed25519 signatures, which the public key verifies.", "密钥为 whsk_… 时：“v1a,” 之后为 Ed25519 签名，用公钥验证。";
    verify_old: "A Webhook-Timestamp that is more than 5 minutes off is refused. Receivers in five languages are in docs/merchants.md.", "Webhook-Timestamp 偏差超过 5 分钟应拒绝。五种语言的接收示例见 docs/merchants.md。";
    attempts_not_kept: "Attempts were made, and nothing of them is kept.", "已有投递，但未保留投递记录。";
    attempts_left_out: "Earlier attempts that are not shown:", "更早的投递记录未显示，数量：";

    acts: "What you can do", "可执行的操作";
    reason_hint: "For people who read the history later, such as a ticket number", "供日后查阅，例如工单号";
    act_retry: "Attempt now", "立即投递";
    help_retry: "Makes an attempt now. The ladder goes on afterwards.", "立即投递一次，之后仍按重试策略继续。";
    act_cancel: "Cancel", "取消";
    help_cancel: "Ends it: nothing more is sent.", "终止该通知，不再投递。";
    act_reschedule: "Move", "改期";
    help_reschedule: "Moves the first attempt, and the deadline with it.", "调整首次投递时间，截止时间随之顺延。";
    when: "When", "投递时间";
    when_hint: "30m (from now), or 2026-11-20 08:30 in UTC", "如 30m（30 分钟后），或 2026-11-20 08:30（UTC）";
    bad_when: "This is no duration like 30m and no time like 2026-11-20 08:30, or it is more than 30 days ahead.", "请输入时长（如 30m）或时间（如 2026-11-20 08:30），且不超过 30 天。";
    act_resend: "Send again", "重新发送";
    help_resend: "Sends it again under the same webhook id, with its whole ladder. The merchant has acknowledged it before.", "以相同的 Webhook ID 重新发送，并重新开始重试策略。商户此前已确认过该通知。";
    act_replay: "Replay", "重放";
    help_replay: "Starts its whole ladder again, now, under the same webhook id. Has the cause been removed?", "以相同的 Webhook ID 立即重新开始重试策略。请先确认故障已排除。";
    act_discard: "Discard", "作废";
    help_discard: "Gives it up for good. It cannot be replayed afterwards.", "彻底放弃该死信，之后无法重放。";
    bad_reason: "A reason has at most 500 characters, and no control characters.", "原因最多 500 个字符，且不能包含控制字符。";

    done_retry: "An attempt is made now; if one was in flight, none is added.", "已安排立即投递；如正在投递，则不再增加。";
    done_cancel: "It is cancelled.", "已取消。";
    done_reschedule: "It is moved.", "已改期。";
    done_resend: "It is sent again.", "已重新发送。";
    done_replay: "It is replayed.", "已开始重放。";
    done_discard: "It is discarded.", "已作废。";
});

impl NotificationTexts {
    /// A change: its name and what it does.
    pub fn change(&self, change: Change) -> (&'static str, &'static str) {
        match change {
            Change::Retry => (self.act_retry, self.help_retry),
            Change::Cancel => (self.act_cancel, self.help_cancel),
            Change::Reschedule(_) => (self.act_reschedule, self.help_reschedule),
            Change::Resend => (self.act_resend, self.help_resend),
            Change::Replay => (self.act_replay, self.help_replay),
            Change::Discard => (self.act_discard, self.help_discard),
        }
    }

    /// What a state means, by its name in the API.
    pub fn says(&self, state: &str) -> &'static str {
        match state {
            "scheduled" => self.says_scheduled,
            "in_flight" => self.says_in_flight,
            "delivered" => self.says_delivered,
            "dead" => self.says_dead,
            _ => self.says_cancelled,
        }
    }
}

/// What was done, by the code in the address that a form leads to.
pub fn done(language: Language, code: &str) -> Option<&'static str> {
    let t = NotificationTexts::of(language);
    Some(match code {
        "retry" => t.done_retry,
        "cancel" => t.done_cancel,
        "reschedule" => t.done_reschedule,
        "resend" => t.done_resend,
        "replay" => t.done_replay,
        "discard" => t.done_discard,
        _ => return None,
    })
}
