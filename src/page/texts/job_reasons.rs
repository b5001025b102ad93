//! Why a job has not changed a notification.

use crate::domain::job_result::JobReason;

super::texts!(JobReasonTexts {
    delivered: "acknowledged meanwhile", "期间商户已确认";
    dead: "became a dead letter meanwhile", "期间已成为死信";
    cancelled: "cancelled by its owner, or discarded, meanwhile", "期间已被业务方取消或已废弃";
    superseded: "superseded by a higher number of its order", "已被同一序列中更大的编号取代";
    sent_again: "sent again meanwhile by somebody else", "期间已由他人重新发送";
    registered_again: "deleted, and registered again as another one since the job was made", "原通知已删除，任务创建后又以相同主题和编号重新登记";
    due: "due already, so it is sent without the job", "已到投递时间，无需任务处理";
    in_flight: "being called already", "正在投递中";
    set_aside: "set aside, so a person decides", "已搁置，需人工处理";
    missing: "not kept any more", "记录已删除";
    ended_before: "ended, or sent again, before its turn came (counted only)", "轮到之前已结束或已重新发送（仅计数）";
    payload_deleted: "its body is not kept any more", "请求正文已不再保留";
    endpoint_made_again: "its endpoint was removed and made again, and may belong to somebody else", "所属端点已删除并重新创建，可能已归他人所有";
    leased: "another server has leased it, and has not given it back in time", "被其他服务器占用，未及时释放";
    still_in_flight: "whenever the job came to it, an attempt was in flight", "任务每次处理时都在投递中";
    unreadable: "what a store has of it cannot be read", "存储中的记录无法读取";
    not_written: "the journal cannot write its change", "流水库无法写入变更";
    internal: "the server failed while it prepared the change; its log says why", "服务器处理时出错，详见其日志";
});

impl JobReasonTexts {
    /// A reason in words.
    pub fn words(&self, reason: JobReason) -> &'static str {
        match reason {
            JobReason::Delivered => self.delivered,
            JobReason::Dead => self.dead,
            JobReason::Cancelled => self.cancelled,
            JobReason::Superseded => self.superseded,
            JobReason::SentAgain => self.sent_again,
            JobReason::RegisteredAgain => self.registered_again,
            JobReason::Due => self.due,
            JobReason::InFlight => self.in_flight,
            JobReason::SetAside => self.set_aside,
            JobReason::Missing => self.missing,
            JobReason::EndedBefore => self.ended_before,
            JobReason::PayloadDeleted => self.payload_deleted,
            JobReason::EndpointMadeAgain => self.endpoint_made_again,
            JobReason::Leased => self.leased,
            JobReason::StillInFlight => self.still_in_flight,
            JobReason::Unreadable => self.unreadable,
            JobReason::NotWritten => self.not_written,
            JobReason::Internal => self.internal,
        }
    }
}
