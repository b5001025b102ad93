//! The texts of plans, and of what was done with many notifications.

use crate::page::language::Language;

super::texts!(BulkTexts {
    plan_replay: "Replay dead letters", "批量重放死信";
    plan_cancel: "Cancel pending notifications", "批量取消待投递通知";
    id_contains: "Id contains", "订单号包含";
    bad_id: "A part of an id is 1 to 128 printable ASCII characters.", "订单号的一部分应为 1 至 128 个可打印 ASCII 字符。";
    show_plan: "Show the plan", "查看预览";
    apply: "Filter", "筛选";
    plan: "The plan", "预览";
    concerns: "Which ones", "范围";
    all_dead: "all dead letters", "全部死信";
    all_pending: "all pending notifications", "全部待投递通知";
    matched: "How many", "数量";
    at_least: "at least; there may be more", "条以上，可能还有更多";
    nothing: "Nothing matches, so there is nothing to do.", "没有符合条件的通知，无需处理。";
    sample: "Those that come first", "最先处理的通知";
    sample_repeated: "of these have died again after a replay. Look at them first.", "条在重放后再次失败，请先检查。";
    died_again: "died again after a replay", "重放后再次失败";
    not_changed: "Of these, not replayed", "其中不会重放";
    counts_failed: "counts as failed", "计为处理失败";
    counts_skipped: "is skipped", "将跳过";
    none_changeable: "None of them can be replayed, so there is no job to start. Register again for the present endpoint what is still wanted, and discard the rest.", "全部无法重放，不能启动任务。仍需投递的请为现有端点重新登记，其余请作废。";
    skips: "What would be skipped", "将跳过的通知";
    skips_replay: "What somebody replays or discards before its turn comes. What dies later does not join. What cannot be replayed, because its endpoint was made again or its body is not kept any more, counts as failed.", "轮到之前已被重放或作废的死信。之后新产生的死信不在范围内。端点已删除重建或正文已过期的，计为处理失败。";
    skips_cancel: "What has ended before its turn comes. What is registered later does not join. An attempt in flight is completed first, and if it is acknowledged, the notification counts as delivered.", "轮到之前已结束的通知。之后新登记的通知不在范围内。正在进行的投递会先完成，如商户已确认则算作已送达。";
    trial: "After the first 20, the job waits for their attempts. It stops by itself if most of them fail again.", "先重放 20 条并等待结果；若大多数再次失败，任务将自动停止。";
    start_replay: "Replay all that match", "重放全部符合条件的死信";
    start_cancel: "Cancel all that match", "取消全部符合条件的通知";
    rate: "Notifications per second", "每秒处理条数";
    rate_hint: "From 0.001 to 1000. The limits of each destination hold too.", "0.001 至 1000。各目标自身的限速同样有效。";
    reason_hint: "For people who read the history later, such as a ticket number", "供日后查阅，例如工单号";
    bad_reason: "A reason has at most 500 characters, and no control characters.", "原因最多 500 个字符，且不能包含控制字符。";
    bad_rate: "The rate is a number from 0.001 to 1000, with at most three decimals.", "速率应为 0.001 至 1000 的数字，最多三位小数。";
    no_filter: "The filter is wrong or missing, so nothing was started.", "筛选条件缺失或不正确，任务未启动。";
    cancel_all: "Cancel all that match…", "取消全部符合条件的通知…";

    done_made: "The job was made.", "任务已创建。";
    done_runs: "The same was asked for before: this is its job. No other one was made.", "相同的任务已在执行，未重复创建。";
    done_pause: "The job is paused.", "任务已暂停。";
    done_resume: "The job goes on.", "任务已继续。";
    done_stop: "The job is stopped.", "任务已停止。";
    done_replayed: "The selected ones are replayed.", "所选死信已开始重放。";
    done_discarded: "The selected ones are discarded.", "所选死信已作废。";
});

/// What was done, by the code in the address that a form leads to.
pub fn done(language: Language, code: &str) -> Option<&'static str> {
    let t = BulkTexts::of(language);
    Some(match code {
        "job-made" => t.done_made,
        "job-runs" => t.done_runs,
        "job-pause" => t.done_pause,
        "job-resume" => t.done_resume,
        "job-stop" => t.done_stop,
        "letters-replayed" => t.done_replayed,
        "letters-discarded" => t.done_discarded,
        _ => return None,
    })
}
