//! The texts of the plots over time.

super::texts!(PlotsTexts {
    title: "The last hours", "最近几小时";
    range: "Time shown", "时间范围";
    hour: "1 hour", "1 小时";
    six_hours: "6 hours", "6 小时";
    day: "24 hours", "24 小时";
    in_utc: "Times are UTC.", "时间为 UTC。";
    each_bar: "Each bar:", "每格：";
    minutes: "min", "分钟";
    delivered: "Delivered", "已送达";
    failed: "Failed attempts", "投递失败";
    dead: "New dead letters", "新增死信";
    lateness: "Lateness of attempts", "投递延迟";
    lateness_help: "How long after they were due attempts began, without the time for which they waited for their destination. Estimated from counters.", "投递实际开始时间与应投递时间之差，不含因目标受限而等待的时间；由计数估算。";
    half: "half of the attempts, at most (p50)", "半数投递不超过（p50）";
    ninety_nine: "99 of 100, at most (p99)", "99% 的投递不超过（p99）";
    answered: "not answered as agreed", "应答不符合约定";
    timed_out: "time-out", "超时";
    not_reached: "not reached", "无法连接";
    blocked: "address not allowed", "目标地址被禁止";
    interrupted: "interrupted by us", "被我方中断";
    gap: "no data: no server was at work, or none could write", "无数据：没有服务器在运行，或无法写入";
    gap_short: "no data", "无数据";
    nothing_yet: "There are no figures of this time yet.", "该时段尚无数据。";
    no_attempts: "no attempts", "无投递";
    total: "Sum:", "合计：";
    most: "most in one bar:", "单格最多：";
    gaps: "bars without data:", "无数据格数：";
    from: "From", "开始";
    until: "until", "至";
    table: "The figures as a table, several bars in a row", "以表格显示（每行合并数格）";
    part: "counted minutes:", "有数据的分钟数：";
    all_servers: "All servers together. Each adds its counts every 10 seconds; a crash loses the last of them, and nothing else.", "所有服务器合计。每台服务器每 10 秒写入一次计数；崩溃只会丢失最后几秒的计数，不影响通知本身。";
    this_server: "There is no journal, so these are the counts of this server alone, since it was started.", "未启用流水库，此处仅为本服务器自启动以来的计数。";
});
