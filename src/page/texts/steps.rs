//! The texts of the line of steps.

super::texts!(StepTexts {
    title: "The ladder", "投递进度";
    now: "being made now", "正在投递";
    next: "next", "下一次";
    by_hand: "next, asked for by hand", "下一次（人工要求）";
    later: "if it is needed", "如仍未确认";
    at_deadline: "if it is needed, moved to the deadline", "如仍未确认（提前至截止时间）";
    deadline: "deadline", "截止时间";
    earlier: "earlier ones", "更早的投递";
    further: "further ones", "后续投递";
});
