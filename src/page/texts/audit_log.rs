//! The texts of the audit log.

use crate::domain::act::Act;

super::texts!(AuditTexts {
    title: "Audit log", "审计日志";
    intro: "What people and keys have done, newest first. What the servers do by themselves is not in it.", "人员与 Key 的操作记录，从新到旧。服务器自动执行的操作不在其中。";
    actor: "By whom", "操作人";
    actor_hint: "The name of a key also stands for the people that it acts for", "填写 Key 名称时，也包括其代表的人员";
    from: "From (UTC)", "时间起（UTC）";
    to: "Before (UTC)", "时间止（UTC，不含）";
    time_hint: "2026-11-20, 2026-11-20 08:30, 2h (two hours ago)", "如 2026-11-20、2026-11-20 08:30、2h（两小时前）";
    submit: "Show", "查询";
    clear: "Clear filters", "清除筛选";
    bad_actor: "A name has at most 128 printable ASCII characters.", "名称最多 128 个可打印 ASCII 字符。";
    bad_time: "This is no time like 2026-11-20, 2026-11-20 08:30 or 2h.", "时间格式不正确，请使用如 2026-11-20、2026-11-20 08:30 或 2h。";
    nothing: "There is no entry.", "暂无记录。";
    nothing_yet: "None was found so far. There is more to look through.", "暂未找到，后面还有数据可继续查找。";
    look_on: "Look on", "继续查找";
    at: "When", "时间";
    act: "What", "操作";
    subject: "On what", "对象";
    reason: "Reason", "原因";
    no_reason: "none given", "未填写";
    instance: "on", "服务器";

    cancel_notification: "cancelled a notification", "取消通知";
    discard_notification: "discarded a dead letter", "作废死信";
    replay_notification: "replayed a dead letter", "重放死信";
    resend_notification: "sent a notification again", "重新发送通知";
    retry_notification: "asked for an attempt now", "要求立即投递";
    reschedule_notification: "moved a notification", "通知改期";
    read_payload: "saw what is sent", "查看发送内容";
    hold_lane: "held a destination", "暂停目标投递";
    release_lane: "released a destination", "恢复目标投递";
    retry_lane: "had all that is pending sent now", "立即投递目标的全部待投递通知";
    replay_filtered: "replayed many dead letters", "批量重放死信";
    cancel_filtered: "cancelled many notifications", "批量取消通知";
    pause_job: "paused a job", "暂停任务";
    resume_job: "resumed a job", "继续任务";
    stop_job: "stopped a job", "停止任务";
    create_endpoint: "made an endpoint", "创建端点";
    change_endpoint: "changed an endpoint", "修改端点";
    remove_endpoint: "removed an endpoint", "删除端点";
    add_endpoint_key: "added a signing key", "添加签名密钥";
    remove_endpoint_key: "removed a signing key", "移除签名密钥";
    test_endpoint: "made a test call", "发送测试请求";
    add_default_key: "added a default key", "添加默认密钥";
    remove_default_key: "removed a default key", "移除默认密钥";
    add_api_key: "made an API key", "创建 API Key";
    revoke_api_key: "revoked an API key", "吊销 API Key";
    change_master_key: "changed the master key", "更换主密钥";
    rebuild_schedule: "rebuilt the schedule", "重建调度";

    notification: "notification", "通知";
    lane: "destination", "目标";
    job: "job", "任务";
    endpoint: "endpoint", "端点";
    default_key: "default key", "默认密钥";
    api_key: "API key", "API Key";
    master_key: "the master key", "主密钥";
    schedule: "the schedule", "调度";
});

impl AuditTexts {
    /// An act, by its name. One of a later version is shown as it is.
    pub fn act_in_words<'a>(&self, name: &'a str) -> &'a str {
        let Some(act) = Act::from_name(name) else {
            return name;
        };
        match act {
            Act::CancelNotification => self.cancel_notification,
            Act::DiscardNotification => self.discard_notification,
            Act::ReplayNotification => self.replay_notification,
            Act::ResendNotification => self.resend_notification,
            Act::RetryNotification => self.retry_notification,
            Act::RescheduleNotification => self.reschedule_notification,
            Act::ReadPayload => self.read_payload,
            Act::HoldLane => self.hold_lane,
            Act::ReleaseLane => self.release_lane,
            Act::RetryLane => self.retry_lane,
            Act::ReplayFiltered => self.replay_filtered,
            Act::CancelFiltered => self.cancel_filtered,
            Act::PauseJob => self.pause_job,
            Act::ResumeJob => self.resume_job,
            Act::StopJob => self.stop_job,
            Act::CreateEndpoint => self.create_endpoint,
            Act::ChangeEndpoint => self.change_endpoint,
            Act::RemoveEndpoint => self.remove_endpoint,
            Act::AddEndpointKey => self.add_endpoint_key,
            Act::RemoveEndpointKey => self.remove_endpoint_key,
            Act::TestEndpoint => self.test_endpoint,
            Act::AddDefaultKey => self.add_default_key,
            Act::RemoveDefaultKey => self.remove_default_key,
            Act::AddApiKey => self.add_api_key,
            Act::RevokeApiKey => self.revoke_api_key,
            Act::ChangeMasterKey => self.change_master_key,
            Act::RebuildSchedule => self.rebuild_schedule,
        }
    }

    /// A kind of subject. One of a later version is shown as it is.
    pub fn kind_in_words<'a>(&self, kind: &'a str) -> &'a str {
        match kind {
            "notification" => self.notification,
            "lane" => self.lane,
            "job" => self.job,
            "endpoint" => self.endpoint,
            "default_key" => self.default_key,
            "api_key" => self.api_key,
            "master_key" => self.master_key,
            "schedule" => self.schedule,
            other => other,
        }
    }
}
