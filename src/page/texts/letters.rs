//! The texts of the dead letters.

use crate::domain::responsibility::Responsibility;

super::texts!(LetterTexts {
    title: "Dead letters", "死信";
    says: "Nobody acknowledged these, and no attempt follows. Have the cause removed, then replay them, or discard them.", "以下通知未被商户确认，且不会再投递。请先排除故障，再重放或作废。";
    total: "in all", "条（总计）";
    groups: "Groups", "分组";
    groups_of_all: "All that match, by whose fault they are and how their last attempts ended.", "按责任方和最近一次投递结果，对全部符合条件的死信分组。";
    groups_of_last: "The last ones that match, by whose fault they are and how their last attempts ended. So many were looked at, and there are more:", "按责任方和最近一次投递结果，对最近的死信分组。还有更多未统计，已统计条数：";
    fault: "Whose fault", "责任方";
    cause: "Cause", "死信原因";
    last_attempt: "Last attempt", "最近一次投递";
    many: "How many", "数量";
    repeated: "Died again", "再次失败";
    last_died: "The last one", "最近时间";
    fault_merchant: "the merchant", "商户侧";
    fault_ours: "us", "我方";
    fault_policy: "policy: what may be called", "访问策略";
    fault_unknown: "not known", "未知";
    list: "The list, last died first", "列表（最近的在前）";
    select: "Select", "选择";
    died: "Died", "成为死信时间";
    series: "died again after a replay, series", "重放后再次失败，投递轮次";
    cannot_replay: "cannot be replayed: its endpoint was made again", "无法重放：所属端点已删除并重新创建";
    none_made: "none was made", "未投递";
    plan_all: "Plan a replay of all that match", "预览：重放全部符合条件的死信";
    plan_selected: "Go on with the selected ones", "继续处理所选死信";
    nothing: "No dead letter matches.", "没有符合条件的死信。";

    selected: "Selected dead letters", "所选死信";
    selected_says: "can be replayed now, of so many selected:", "条可以重放，所选总数：";
    selected_repeated: "of them have died again after a replay. Look at those first.", "条在重放后再次失败，请先检查。";
    would_skip: "Not dead any more: it would be skipped", "已不是死信，将跳过";
    some_cannot: "cannot be replayed: their endpoint was removed and made again, and may belong to somebody else. Register them again for the present endpoint, or discard them.", "条无法重放：所属端点已删除并重新创建，可能已归他人所有。请为现有端点重新登记，或作废这些死信。";
    gone: "There is none any more: it would be skipped", "该通知已不存在，将跳过";
    result: "Result", "结果";
    replay: "Replay the selected ones", "重放所选死信";
    replay_help: "Starts the whole ladder of each again, now and one by one, under the same webhook id. Has the cause been removed?", "以相同的 Webhook ID 逐条立即重新开始重试策略。请先确认故障已排除。";
    discard: "Discard the selected ones", "作废所选死信";
    discard_help: "Gives them up for good. They cannot be replayed afterwards.", "彻底放弃这些死信，之后无法重放。";
    back: "Back to the list", "返回列表";
    none_selected: "Nothing is selected.", "尚未选择任何死信。";
    some_failed: "Not all could be done. What became of each is below.", "部分操作未成功，结果见下表。";
    was_replayed: "replayed", "已开始重放";
    was_discarded: "discarded", "已作废";
    not_tried: "Not tried, because a store is out of reach.", "存储不可用，未执行。";
});

impl LetterTexts {
    /// Whose fault something is.
    pub fn fault(&self, fault: Option<Responsibility>) -> &'static str {
        match fault {
            Some(Responsibility::Merchant) => self.fault_merchant,
            Some(Responsibility::Ours) => self.fault_ours,
            Some(Responsibility::Policy) => self.fault_policy,
            None => self.fault_unknown,
        }
    }
}
