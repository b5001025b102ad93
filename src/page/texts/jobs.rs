//! The texts of jobs.

use crate::domain::job::{JobKind, JobOrder, JobState};

super::texts!(JobTexts {
    title: "Jobs", "任务";
    says: "What concerns many notifications is done step by step, in the background, by any server.", "涉及大量通知的操作由任意服务器在后台逐步执行。";
    any: "any", "不限";
    state: "State", "状态";
    show: "Show", "查看";
    nothing: "There is no job.", "没有任务。";
    kind: "What", "类型";
    progress: "Progress", "进度";
    about: "Which ones", "范围";
    actor: "By", "操作人";
    created: "Made", "创建时间";
    ended: "Ended", "结束时间";
    id: "Id", "编号";
    rate: "Per second", "每秒条数";
    reason_given: "Reason", "原因";
    problem: "Why it has failed", "失败原因";
    failed_since: "Only those whose last attempt got no answer since", "仅限自此时间起最近一次投递无应答的通知";

    kind_lane_retry: "send pending ones of a destination now", "立即投递某目标的待投递通知";
    kind_after_outage: "after an outage", "故障恢复后补投";
    kind_lane_release: "release of a destination", "解除目标暂停";
    kind_replay: "replay of dead letters", "重放死信";
    kind_cancel: "cancellation", "批量取消";
    state_running: "running", "执行中";
    state_paused: "paused", "已暂停";
    state_done: "done", "已完成";
    state_stopped: "stopped", "已停止";
    state_failed: "failed", "失败";

    matched: "Concerned", "总数";
    done: "Done", "已处理";
    skipped: "Skipped: needed nothing any more", "跳过（无需处理）";
    failed: "Could not be done", "处理失败";
    left: "Left", "剩余";
    of: "of", "/";

    trial: "Trial", "试投";
    trial_says: "The job waits after the first 20 for their attempts, and stops if most of them fail again.", "任务在前 20 条后等待投递结果，若大多数再次失败则停止。";
    trial_replayed: "replayed", "已重放";
    trial_delivered: "delivered", "已送达";
    trial_failed: "failed again", "再次失败";
    trial_waiting: "not attempted yet", "尚未投递";

    outcomes: "What became of them", "处理结果";
    outcomes_says: "In the order of their turns, as they are now.", "按处理顺序排列，显示通知的当前状态。";
    unlisted: "Counted and not listed", "仅计数，未列出";
    turn_at: "At", "处理时间";
    why: "Why", "原因";
    not_kept: "not kept any more, or not readable", "记录已删除或无法读取";
    now_all: "All that it replayed are now:", "已重放的全部通知，当前：";
    now_first: "The first", "最先重放的";
    now_of_first: "that it replayed are now:", "条通知，当前：";
    now_dead: "dead again", "再次成为死信";
    now_cancelled: "cancelled", "已取消";
    now_pending: "pending", "待投递";
    outcomes_none: "There is none yet.", "暂无通知。";
    outcomes_none_ended: "There is none.", "没有通知。";
    outcomes_release: "A release changes no single notification.", "解除暂停不会逐条修改通知。";
    look_on: "Look on", "继续查找";

    acts: "What you can do", "可执行的操作";
    pause: "Pause", "暂停";
    pause_help: "Nothing more is done until it is resumed. What it has sent already goes on.", "在继续之前不再处理，已发出的不受影响。";
    resume: "Resume", "继续";
    resume_help: "It goes on where it was.", "从暂停处继续执行。";
    stop: "Stop", "停止";
    stop_help: "It ends now. What it has done stays.", "立即结束，已处理的保持不变。";
});

impl JobTexts {
    /// What a job does.
    pub fn kind(&self, kind: JobKind) -> &'static str {
        match kind {
            JobKind::LaneRetry => self.kind_lane_retry,
            JobKind::AfterOutage => self.kind_after_outage,
            JobKind::LaneRelease => self.kind_lane_release,
            JobKind::Replay => self.kind_replay,
            JobKind::Cancel => self.kind_cancel,
        }
    }

    /// The state of a job.
    pub fn state_of(&self, state: JobState) -> &'static str {
        match state {
            JobState::Running => self.state_running,
            JobState::Paused => self.state_paused,
            JobState::Done => self.state_done,
            JobState::Stopped => self.state_stopped,
            JobState::Failed => self.state_failed,
        }
    }

    /// An order: its name and what it does.
    pub fn order(&self, order: JobOrder) -> (&'static str, &'static str) {
        match order {
            JobOrder::Pause => (self.pause, self.pause_help),
            JobOrder::Resume => (self.resume, self.resume_help),
            JobOrder::Stop => (self.stop, self.stop_help),
        }
    }
}
