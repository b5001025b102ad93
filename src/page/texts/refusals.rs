//! Why the service refuses an act, in Chinese. In English, the service says it itself.

use crate::domain::change::{Change, ChangeRefusal};
use crate::domain::default_keys::BadDefaultKeyChange;
use crate::domain::endpoint::MOST_ENDPOINTS;
use crate::domain::endpoint_keys::{BadKeyChange, MOST_KEYS};
use crate::domain::snapshot::Snapshot;
use crate::journal::JournalError;
use crate::page::language::Language;
use crate::page::texts::api_keys::ApiKeyTexts;
use crate::page::texts::jobs::JobTexts;
use crate::page::texts::notification::NotificationTexts;
use crate::page::texts::states::StateTexts;
use crate::schedule::ScheduleError;
use crate::service::ServiceError;

/// Why the service refuses an act. Empty if there is nothing to add to the kind of the problem, or if no act on the page is
/// refused so.
pub fn in_chinese(error: &ServiceError) -> String {
    let text = match error {
        ServiceError::Refused { change, snapshot } => return of_change(*change, snapshot),
        ServiceError::JobEnded(job) => {
            let state = JobTexts::of(Language::Chinese).state_of(job.state);
            return format!("任务已结束：{state}。");
        }
        ServiceError::JobRuns(job) => {
            let state = JobTexts::of(Language::Chinese).state_of(job.state);
            return format!("任务 {} {state}，同一目标同时只能有一个任务。", job.id);
        }
        ServiceError::TooManyJobs(many) => {
            return format!("未结束的任务已达上限 {many} 个，请等待其中一些结束或先将其停止。");
        }
        ServiceError::MissingLane(lane) => {
            return format!(
                "没有目标 {lane} 的任何记录：没有发往该目标的通知，没有设置，也没有该名称的端点。请检查拼写。"
            );
        }
        ServiceError::TooManyEndpoints => {
            return format!("端点数量已达上限 {MOST_ENDPOINTS} 个，请删除不再使用的端点。");
        }
        ServiceError::EndingKey(id) => {
            return format!("端点已有此密钥（{id}），但它只在一段时间内签名。请先移除该密钥。");
        }
        ServiceError::KeyChange(bad) => return of_keys(bad),
        ServiceError::DefaultKeyChange(bad) => return of_default_keys(bad),
        ServiceError::ApiKeyChange(bad) => ApiKeyTexts::of(Language::Chinese).refusal(bad),
        ServiceError::Superseded(_) => {
            "同一订单序列已登记更大的编号，仅最大编号有效，因此不再发送。"
        }
        ServiceError::EndpointMadeAgain(_) => {
            "登记该通知之后端点已删除并重新创建，现在可能归他人所有，因此不再发送。如需发送，请以其他订单号重新登记。"
        }
        ServiceError::UnreadableEndpoint => {
            "无法读取该端点，因此无法保留其签名密钥。请整体重新设置。"
        }
        ServiceError::EndpointUnsettled => "另一项端点修改正在进行，请稍后再试。",
        ServiceError::TooManyTestCalls => "正在进行的测试请求过多，请稍后再试。",
        ServiceError::TooManyLists => "正在读取的列表过多，请稍后再试。",
        ServiceError::EndpointInUse => "仍有待投递的通知引用该端点。请等待其结束或取消后再删除。",
        ServiceError::PayloadDeleted(_) => {
            "请求正文已超过保留期限（--keep-payloads），无法重新发送。"
        }
        ServiceError::PayloadGone => {
            "请求头和正文已超过保留期限（--keep-payloads）；未启用流水库时，仅待投递的通知和死信保留这些内容。"
        }
        ServiceError::NoMasterKey => {
            "本服务器未设置主密钥，其他服务器无法使用由它加密的签名密钥。请以相同的 --master-key 或 --master-key-file 启动所有服务器后再添加。"
        }
        ServiceError::OtherMasterKey => {
            "各服务器共用的签名密钥由另一主密钥加密。请以其他服务器的主密钥启动本服务器。"
        }
        ServiceError::Sealing(_) => "签名密钥无法加密，详情见服务器日志。",
        ServiceError::Unsettled => "该通知的另一次写入尚未完成，请稍后再试。",
        ServiceError::Full(_) => {
            "待投递内容过多，调度内存已达上限（schedule-memory），未执行任何操作。"
        }
        ServiceError::BadCursor | ServiceError::Schedule(ScheduleError::BadCursor) => {
            "页码（cursor）无效，请从列表首页重新打开。"
        }
        ServiceError::TooManyTopics => "主题过多，无法逐一查找订单号，请指定主题。",
        ServiceError::Schedule(ScheduleError::BeingRegistered) => {
            "相同主题和订单号的通知正在为另一目标登记，请稍后再试。"
        }
        ServiceError::Schedule(ScheduleError::Rebuilding) => {
            "调度存储丢失了数据或正在重新加载，未执行任何操作。"
        }
        ServiceError::Journal(JournalError::Unavailable(_) | JournalError::Refused(_))
        | ServiceError::Schedule(ScheduleError::Unavailable(_) | ScheduleError::Foreign(_)) => {
            "操作可能未执行，请重新提交。"
        }
        ServiceError::Journal(JournalError::Corrupt(_))
        | ServiceError::Schedule(ScheduleError::Corrupt(_)) => "操作未执行，或只执行了一部分。",
        // The kind of the problem says all of it.
        ServiceError::Missing
        | ServiceError::MissingEndpoint
        | ServiceError::MissingJob
        | ServiceError::NoJournal(_) => "",
        // What is wrong with the settings is shown beside the field.
        ServiceError::Tls(_) => "",
        // Only registrations are refused so.
        ServiceError::Mismatch { .. }
        | ServiceError::Cancelled(_)
        | ServiceError::OutOfOrder { .. }
        | ServiceError::UnknownEndpoint(_) => "",
    };
    text.to_string()
}

fn of_change(change: Change, snapshot: &Snapshot) -> String {
    let t = NotificationTexts::of(Language::Chinese);
    let act = |change| format!("“{}”", t.change(change).0);
    match change.refused_because(snapshot) {
        ChangeRefusal::Begun => {
            "本轮已投递过，后续投递时间由重试策略决定，不能改期。可以取消，或立即投递。".to_string()
        }
        ChangeRefusal::SetAside => "通知已搁置，不能改期。立即投递或取消后即解除搁置。".to_string(),
        ChangeRefusal::InFlight => format!(
            "正在投递中，不能执行{}：同一订单序列已有更大的编号，如本次投递被确认则计为已送达。",
            act(change)
        ),
        ChangeRefusal::Cancelled => format!(
            "通知已取消，不能执行{}。如需发送，请以其他订单号重新登记。",
            act(change)
        ),
        ChangeRefusal::Superseded => format!(
            "通知已取消，不能执行{}：同一订单序列已登记更大的编号，仅发送最大编号。",
            act(change)
        ),
        ChangeRefusal::State(instead) => {
            let state = StateTexts::of(Language::Chinese).state(snapshot.state_name());
            let refused = format!("通知的状态为“{state}”，不能执行{}", act(change));
            match instead {
                Some(instead) => format!("{refused}，请改用{}。", act(instead)),
                None => format!("{refused}。"),
            }
        }
    }
}

fn of_keys(bad: &BadKeyChange) -> String {
    match bad {
        BadKeyChange::TooMany => {
            format!("每个端点最多 {MOST_KEYS} 个有效的签名密钥，请先移除一个。")
        }
        BadKeyChange::Unknown => "端点没有此 ID 的签名密钥。".to_string(),
        BadKeyChange::Last => "这是端点最后一个长期有效的签名密钥，请先添加另一个。如需改用默认密钥签名（所有无密钥的接收方共用），请通过 API 将端点的 keys 设为 []。".to_string(),
    }
}

fn of_default_keys(bad: &BadDefaultKeyChange) -> String {
    match bad {
        BadDefaultKeyChange::TooMany => {
            format!("最多 {MOST_KEYS} 个有效的默认密钥，请先移除一个。")
        }
        BadDefaultKeyChange::Unknown => "没有此 ID 的默认密钥。".to_string(),
        BadDefaultKeyChange::Last => "这是最后一个长期有效的默认密钥，请先添加另一个。".to_string(),
        BadDefaultKeyChange::Ending(id) => {
            format!("已有此密钥（默认密钥 {id}），但它只在一段时间内签名。请先移除该密钥。")
        }
        BadDefaultKeyChange::NotBegun => "尚无默认密钥。".to_string(),
    }
}
