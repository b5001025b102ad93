//! The states of notifications, the causes of their ends, and the reasons to wait, in words.

use crate::domain::deferral::DeferralReason;
use crate::domain::order::OrderMode;
use crate::domain::priority::Priority;
use crate::domain::state::Cause;

super::texts!(StateTexts {
    scheduled: "pending", "待投递";
    pending: "pending or in flight", "待投递或投递中";
    due: "due now", "已到投递时间";
    in_flight: "in flight", "投递中";
    delivered: "delivered", "已送达";
    dead: "dead", "死信";
    cancelled: "cancelled", "已取消";
    ladder_exhausted: "every attempt of the ladder was made", "重试次数已用尽";
    window_closed: "the time window of the ladder has closed", "超出重试时间窗口";
    refused: "the receiver asked for no more calls (410)", "商户要求停止通知（410）";
    blocked: "the address may not be called", "目标地址被禁止访问";
    superseded: "a higher number of its order was registered", "同一订单序列已有更新的通知";
    wait_held: "its destination is held", "目标已被暂停投递";
    wait_probing: "its destination answers no call and is only probed", "目标无响应，仅做探测";
    wait_rate: "the rate of its destination allows no more calls now", "已达到目标的限速";
    wait_concurrency: "its destination has as many calls in flight as it may, or the attempt before has not ended", "目标的并发数已达上限，或上一次投递尚未结束";
    wait_busy: "the servers have no capacity left for it", "服务器暂时没有余力";
    wait_keys: "a signing key of the endpoint could not be opened", "端点的签名密钥无法解密";
    wait_order: "another notification of its order comes first", "等待同一订单序列中靠前的通知";
    wait_proxy: "the proxy of a server failed", "服务器的出口代理故障";
    high: "high: before what is normal", "高（排在普通之前）";
    normal: "normal", "普通";
    low: "low: after what is normal", "低（排在普通之后）";
    latest: "only the highest number counts", "仅最大编号有效";
    strict: "each number waits for the lower ones", "按编号依次投递";
});

impl StateTexts {
    /// A state, by its name in the API.
    pub fn state(&self, name: &str) -> &'static str {
        match name {
            "scheduled" => self.scheduled,
            "pending" => self.pending,
            "due" => self.due,
            "in_flight" => self.in_flight,
            "delivered" => self.delivered,
            "dead" => self.dead,
            _ => self.cancelled,
        }
    }

    /// A cause.
    pub fn cause(&self, cause: Cause) -> &'static str {
        match cause {
            Cause::LadderExhausted => self.ladder_exhausted,
            Cause::WindowClosed => self.window_closed,
            Cause::Refused => self.refused,
            Cause::Blocked => self.blocked,
            Cause::Superseded => self.superseded,
        }
    }

    /// A priority.
    pub fn priority(&self, priority: Priority) -> &'static str {
        match priority {
            Priority::High => self.high,
            Priority::Normal => self.normal,
            Priority::Low => self.low,
        }
    }

    /// What the numbers of an order mean.
    pub fn order_mode(&self, mode: OrderMode) -> &'static str {
        match mode {
            OrderMode::Latest => self.latest,
            OrderMode::Strict => self.strict,
        }
    }

    /// Why something waits or has waited.
    pub fn waiting(&self, reason: DeferralReason) -> &'static str {
        match reason {
            DeferralReason::Held => self.wait_held,
            DeferralReason::Probing => self.wait_probing,
            DeferralReason::Rate => self.wait_rate,
            DeferralReason::Concurrency => self.wait_concurrency,
            DeferralReason::Busy => self.wait_busy,
            DeferralReason::Keys => self.wait_keys,
            DeferralReason::Order => self.wait_order,
            DeferralReason::Proxy => self.wait_proxy,
        }
    }
}

/// The state names that a search can be restricted to.
pub const STATES: [&str; 7] = [
    "pending",
    "scheduled",
    "due",
    "in_flight",
    "delivered",
    "dead",
    "cancelled",
];
