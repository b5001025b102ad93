use super::*;
use crate::domain::attempt::Answer;
use crate::domain::call_durations::CallDurations;
use crate::domain::call_trace::CallTrace;
use crate::domain::deferral::Deferral;
use crate::telemetry::store_readings::{
    HealthReading, JobsReading, JournalReading, LanesReading, MemoryReading, ScheduleReading,
    WindowReading,
};

fn attempt(outcome: Outcome, late_ms: i64, duration_ms: i64) -> Attempt {
    Attempt {
        series: 1,
        number: 1,
        due_ms: 1_000,
        started_ms: 1_000 + late_ms,
        duration_ms,
        answer: Answer {
            outcome,
            status: None,
            body: Vec::new(),
            reason: String::new(),
        },
        trace: CallTrace::default(),
    }
}

fn process() -> ProcessReading {
    ProcessReading {
        cpu_seconds: 1.25,
        resident_bytes: 4_096,
        threads: 3,
        open_files: 12,
        most_files: Some(1_024),
        started_at: 1.5,
    }
}

fn durations() -> CallDurations {
    let mut durations = CallDurations::default();
    durations.observe(5_000);
    durations
}

fn readings() -> StoreReadings {
    StoreReadings {
        journal: Some(JournalReading {
            registered: 10,
            pending: 4,
            delivered: 3,
            dead: 2,
            cancelled: 1,
            set_aside: 2,
            oldest_due_ms: Some(61_500),
        }),
        jobs: Some(JobsReading {
            running: 2,
            paused: 1,
        }),
        schedule: Some(ScheduleReading {
            pending: 4,
            in_flight: 1,
            lanes: Some(LanesReading {
                open: 5,
                probing: 3,
                held: 1,
            }),
            window: Some(WindowReading {
                horizon_ms: 3_600_000,
                loaded_ahead_ms: 1_799_500,
                expected: Some(3),
            }),
        }),
        memory: Some(MemoryReading {
            taken: 1_500,
            bodies: 500,
            limit: 4_000,
        }),
        health: vec![
            HealthReading {
                store: "journal",
                up: true,
                failed_calls: 0,
                durations: vec![("reading", durations())],
            },
            HealthReading {
                store: "schedule",
                up: false,
                failed_calls: 7,
                durations: Vec::new(),
            },
        ],
        unusable_endpoints: 3,
        partitions_away: 2,
    }
}

#[test]
fn counts_and_readings_are_in_the_text() {
    let metrics = Metrics::new();
    metrics.attempt(&attempt(Outcome::Acknowledged, 3, 40));
    metrics.attempt(&attempt(Outcome::Timeout, -5, 15_000));
    metrics.attempt(&attempt(Outcome::Interrupted, 9_000_000, 0));
    let mut held = attempt(Outcome::HttpStatus, 3_600_004, 40);
    held.trace.deferral = Some(Deferral {
        by: DeferralReason::Held,
        ms: 3_600_000,
    });
    metrics.attempt(&held);
    let mut late = attempt(Outcome::Acknowledged, 60_000, 40);
    late.trace.deferral = Some(Deferral {
        by: DeferralReason::Proxy,
        ms: 60_000,
    });
    metrics.attempt(&late);
    let in_flight = metrics.begin(LaneClass::Idle);
    drop(metrics.begin(LaneClass::Probing));
    metrics.limit_concurrency(16);
    let took = Duration::from_millis(3);
    metrics.request("GET", "/v1/lanes/{lane}", 404, took);
    metrics.job_step(3, 2, 0);
    let text = metrics.text(readings(), Some(process()));
    for line in [
        r#"ringback_job_notifications_total{result="done"} 3"#,
        r#"ringback_job_notifications_total{result="failed"} 0"#,
        r#"ringback_attempts_total{outcome="acknowledged"} 2"#,
        r#"ringback_attempts_total{outcome="interrupted"} 1"#,
        r#"ringback_attempts_total{outcome="dns"} 0"#,
        r#"ringback_attempt_duration_seconds_bucket{le="0.05"} 3"#,
        r#"ringback_attempt_duration_seconds_bucket{le="15.0"} 4"#,
        "ringback_attempt_duration_seconds_count 4",
        r#"ringback_attempts_deferred_total{by="held"} 1"#,
        r#"ringback_attempts_deferred_total{by="rate"} 0"#,
        r#"ringback_attempt_lateness_seconds_bucket{le="0.005"} 3"#,
        r#"ringback_attempt_lateness_seconds_bucket{le="0.002"} 1"#,
        r#"ringback_attempt_lateness_seconds_bucket{le="30.0"} 3"#,
        r#"ringback_attempt_lateness_seconds_bucket{le="+Inf"} 4"#,
        r#"ringback_leases_in_flight{class="idle"} 1"#,
        r#"ringback_leases_in_flight{class="probing"} 0"#,
        "ringback_concurrency_limit 16",
        r#"ringback_api_requests_total{method="GET",route="/v1/lanes/{lane}",status="404"} 1"#,
        r#"ringback_api_request_duration_seconds_bucket{le="0.005",method="GET",route="/v1/lanes/{lane}"} 1"#,
        r#"ringback_schedule_memory_bytes{of="entries"} 1000"#,
        r#"ringback_schedule_memory_bytes{of="bodies"} 500"#,
        "ringback_schedule_memory_limit_bytes 4000",
        "ringback_registered 10",
        r#"ringback_notifications{state="pending"} 4"#,
        r#"ringback_notifications{state="cancelled"} 1"#,
        "ringback_set_aside 2",
        "ringback_oldest_due_seconds 61.5",
        r#"ringback_lanes{state="probing"} 3"#,
        r#"ringback_lanes{state="held"} 1"#,
        "ringback_schedule_horizon_seconds 3600.0",
        "ringback_schedule_loaded_ahead_seconds 1799.5",
        "ringback_schedule_expected_entries 3",
        r#"ringback_store_call_duration_seconds_bucket{le="0.01",store="journal",work="reading"} 1"#,
        "process_open_fds 12.0",
        "process_cpu_seconds_total 1.25",
        r#"ringback_jobs{state="running"} 2"#,
        r#"ringback_jobs{state="paused"} 1"#,
        r#"ringback_store_up{store="journal"} 1"#,
        r#"ringback_store_up{store="schedule"} 0"#,
        r#"ringback_store_failed_calls_total{store="schedule"} 7"#,
        "# EOF",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
    }
    drop(in_flight);
    let text = metrics.text(StoreReadings::default(), None);
    assert!(!text.contains("ringback_registered "), "{text}");
    let idle = "ringback_leases_in_flight{class=\"idle\"} 0\n";
    assert!(text.contains(idle) && !text.contains("process_"), "{text}");
}
