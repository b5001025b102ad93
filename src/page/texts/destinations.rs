//! The texts of destinations: the list, and the page of one.

use crate::domain::lane_settings::LaneState;
use crate::page::language::Language;

super::texts!(DestinationTexts {
    title: "Destinations", "目标";
    intro: "Each destination is a lane of its own: a host, or an endpoint. What waits for one never delays another. The list is in no order.", "每个目标（主机或端点）各占一个通道（lane），互不影响。列表不按特定顺序排列。";
    state: "State", "状态";
    any: "any", "不限";
    filter: "Show", "筛选";
    go_to: "Open a destination", "打开目标";
    go_to_hint: "A URL, or endpoint: and the name of an endpoint", "URL，或 endpoint: 加端点名称";
    open_it: "Open", "打开";
    bad_state: "There is no such state.", "没有此状态。";
    bad_lane: "A destination is a URL, or endpoint: and the name of an endpoint.", "目标应为 URL，或 endpoint: 加端点名称。";
    nothing: "There is no such destination now. One is listed while something is pending for it or it has settings.", "当前没有符合条件的目标。有待投递通知或有设置的目标才会列出。";
    nothing_yet: "None was found so far. There is more to look through.", "暂未找到，后面还有数据可继续查找。";
    look_on: "Look on", "继续查找";
    destination: "Destination", "目标";
    endpoint: "Endpoint", "端点";
    pending: "Pending", "待投递";
    due: "Due", "已到期";
    in_flight: "In flight", "投递中";
    cap: "Most calls at once", "最大并发数";
    cap_now: "now", "当前";
    rate: "Rate", "限速";
    per_second: "per second", "次/秒";
    no_rate: "none", "不限速";
    oldest_due: "Oldest due since", "最早到期时间";
    nothing_due: "nothing is due", "无到期通知";
    failing_since: "No answer since", "无应答开始时间";
    not_failing: "it answers, or was not called lately", "应答正常，或近期无投递";
    last_outcome: "Last calls", "最近投递结果";
    since: "since", "自";

    state_open: "open", "正常";
    state_probing: "probing", "探测中";
    state_held: "held", "已暂停";
    says_open: "Calls are made as they become due.", "到期后正常投递。";
    says_probing: "The last calls got no answer, so one call is made now and then, until one is answered. What waits spends no attempt.", "最近的请求无应答，目前仅定期探测，恢复应答后继续投递。等待期间不消耗重试次数。";
    says_held: "Somebody holds it: no calls are made until it is released. What waits spends no attempt.", "已被人工暂停，恢复之前不再投递。等待期间不消耗重试次数。";
    held_by: "Held by", "暂停操作人";
    held_since: "since", "暂停时间";
    no_reason: "no reason was given", "未填写原因";

    links: "Its notifications", "相关通知";
    see_pending: "Pending ones", "待投递的通知";
    see_dead: "Dead letters", "死信";
    see_all: "All", "全部通知";
    answers: "Its newest notifications, and how their last attempts ended", "最新通知及其最近一次投递结果";
    answers_none: "None is kept.", "暂无记录。";
    not_attempted: "no attempt yet", "尚未投递";
    id: "Id", "订单号";
    registered: "Registered", "登记时间";
    last_attempt: "Last attempt", "最近一次投递";

    acts: "What you can do", "可执行的操作";
    reason_hint: "For people who read the history later, such as a ticket number", "供日后查阅，例如工单号";
    act_hold: "Hold", "暂停投递";
    help_hold: "No call is made to it until it is released. Attempts in flight end as always. What waits spends no attempt.", "恢复之前不再向该目标投递。正在进行的投递会正常结束，等待期间不消耗重试次数。";
    act_release: "Release", "恢复投递";
    help_release: "Calls are made again. What is due is sent, the longest due first.", "恢复投递。已到期的通知按到期先后发送。";
    act_retry: "Send pending now", "立即投递待投递通知";
    help_retry: "Makes an attempt of each pending notification now, at this rate, as a job. What fails goes on with its ladder. A destination that is held stays held.", "以任务方式按此速率立即投递全部待投递通知。失败的通知仍按重试策略继续。已暂停的目标仍保持暂停。";
    job_rate: "Notifications per second", "每秒通知数";
    rate_hint: "Above 0 and at most 1000", "大于 0，最大 1000";
    bad_rate: "A rate is a number above 0, at most 1000.", "速率应为大于 0 且不超过 1000 的数字。";
    bad_reason: "A reason has at most 500 characters, and no control characters.", "原因最多 500 个字符，且不能包含控制字符。";
    count_first: "Count first", "先统计数量";
    would_send: "Pending notifications that would be sent now:", "将立即投递的通知数：";
    or_more: "or more", "或更多";
    job_runs: "Another job of this destination has not ended. Wait for its end, or stop it.", "该目标已有未结束的任务，请等待其结束或先将其停止。";
    job: "Job", "任务";

    done_hold: "It is held.", "已暂停投递。";
    done_hold_again: "It was held already. It stays held since then, with the new reason added.", "此前已暂停，现仍保持暂停，并补充了原因。";
    done_release: "It is released.", "已恢复投递。";
    done_not_held: "Nobody held it, so nothing has changed.", "该目标并未暂停，无任何变化。";
    done_retry: "A job sends what is pending.", "已创建任务，正在投递待投递通知。";
    done_retry_held: "A job makes due what is pending. The destination is held, so calls begin when it is released.", "已创建任务，使待投递通知到期。目标已被暂停投递，恢复后才会投递。";
});

impl DestinationTexts {
    /// A state in a word.
    pub fn state_name(&self, state: LaneState) -> &'static str {
        match state {
            LaneState::Open => self.state_open,
            LaneState::Probing => self.state_probing,
            LaneState::Held => self.state_held,
        }
    }

    /// A state in a sentence.
    pub fn says(&self, state: LaneState) -> &'static str {
        match state {
            LaneState::Open => self.says_open,
            LaneState::Probing => self.says_probing,
            LaneState::Held => self.says_held,
        }
    }
}

/// What was done, by the code in the address that a form leads to.
pub fn done(language: Language, code: &str) -> Option<&'static str> {
    let t = DestinationTexts::of(language);
    Some(match code {
        "lane-hold" => t.done_hold,
        "lane-hold-again" => t.done_hold_again,
        "lane-release" => t.done_release,
        "lane-not-held" => t.done_not_held,
        "lane-retry" => t.done_retry,
        "lane-retry-held" => t.done_retry_held,
        _ => return None,
    })
}
