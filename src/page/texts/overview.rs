//! The texts of the overview.

use crate::domain::lane_settings::LaneState;
use crate::health::{Store, StoreState};

super::texts!(OverviewTexts {
    title: "Overview", "总览";
    pending: "pending", "待投递";
    due: "due now", "已到投递时间";
    in_flight: "in flight", "投递中";
    delivered: "delivered", "已送达";
    dead: "dead letters", "死信";
    cancelled: "cancelled", "已取消";
    numbers: "Notifications", "通知数量";
    search_help: "Find a notification by what the merchant tells you.", "根据商户提供的信息查找通知。";
    oldest: "Overdue for longest since", "最早的逾期通知应投递于";

    trouble: "Destinations in trouble", "异常目标";
    no_trouble: "None of them is held, probing or failing.", "没有被暂停、探测中或故障的目标。";
    no_trouble_seen: "None was found among those that were looked at. There are too many to look at all.", "目标数量过多，仅检查了一部分，其中未发现异常。";
    only_some: "There are more than are shown here.", "此处仅显示一部分。";
    lane: "Destination", "目标";
    state: "State", "状态";
    waiting: "Pending", "待投递";
    due_in_lane: "Due", "已到时间";
    since: "Since", "开始时间";
    last: "Last call", "最近一次调用";
    held_by: "held by", "暂停人";
    open: "failing", "故障";
    probing: "probing", "探测中";
    held: "held", "已暂停";

    stores: "Stores", "存储状态";
    journal: "Journal", "流水库（journal）";
    schedule: "Schedule", "调度（schedule）";
    up: "works", "正常";
    away: "does not answer", "无响应";
    refusing: "refuses some work", "部分拒绝";
    rebuilding: "is being loaded again", "正在重新加载";
    for_long: "for", "已持续";
    stalled: "This server has claimed nothing for too long although its stores work. Its attempts may be stuck.", "本服务器长时间未领取到期通知，但存储正常，投递可能已卡住。";
    unusable: "Endpoints to which this server sends nothing, because it cannot open one of their keys:", "因无法解密签名密钥，本服务器不向以下端点投递：";
});

impl OverviewTexts {
    /// The trouble of a lane. One that is open is here because its calls fail.
    pub fn lane_state(&self, state: LaneState) -> &'static str {
        match state {
            LaneState::Open => self.open,
            LaneState::Probing => self.probing,
            LaneState::Held => self.held,
        }
    }

    /// A store.
    pub fn store(&self, store: Store) -> &'static str {
        match store {
            Store::Journal => self.journal,
            Store::Schedule => self.schedule,
        }
    }

    /// How a store is.
    pub fn store_state(&self, state: StoreState) -> &'static str {
        match state {
            StoreState::Up => self.up,
            StoreState::Away => self.away,
            StoreState::Refusing => self.refusing,
            StoreState::Rebuilding => self.rebuilding,
        }
    }
}
