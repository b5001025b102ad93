//! Every named ladder against its table in `fixtures/ladders`, which a separate script computed.

use ringback::domain::ack::AckRule;
use ringback::domain::attempt::Outcome;
use ringback::domain::decision::{EndedAttempt, decide};
use ringback::domain::duration;
use ringback::domain::ladder::{Failed, LATE_MS, Ladder, Next, named};
use ringback::domain::progress::Progress;
use ringback::domain::receiver_requests::FollowedRequests;
use ringback::domain::state::{Cause, State};
use ringback::domain::timetable::Timetable;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// When the first attempt of the walked series is due. Not 0, so that offsets and instants differ.
const FIRST_DUE_MS: i64 = 1_800_000_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    source: String,
    intervals: Vec<String>,
    repeat_last: bool,
    window: String,
    offsets_ms: Vec<i64>,
    ends_with: Cause,
}

fn tables() -> Vec<Table> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/ladders");
    let files = std::fs::read_dir(&dir).expect("the tables");
    files
        .map(|file| {
            let path = file.expect("a file").path();
            let text = std::fs::read_to_string(&path).expect("readable");
            let table: Table = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            assert_eq!(
                stem,
                Some(table.name.as_str()),
                "a file is named as its ladder"
            );
            table
        })
        .collect()
}

fn ladder(table: &Table) -> Ladder {
    Ladder::by_name(&table.name).expect("a named ladder")
}

/// Fails every attempt of a series. An attempt starts `late_ms` after it is due. Gives when the
/// attempts were due after the first, and how the series ended.
fn walk(ladder: &Ladder, late_ms: i64) -> (Vec<i64>, Cause) {
    let deadline_ms = FIRST_DUE_MS + ladder.window_ms();
    let (mut step, mut due_ms, mut clamped) = (1, FIRST_DUE_MS, false);
    let mut offsets_ms = vec![0];
    loop {
        let failed = Failed {
            step,
            due_ms,
            started_ms: due_ms + late_ms,
            deadline_ms,
            clamped,
        };
        // The draw must not matter: named ladders have no jitter.
        match ladder.next_attempt(failed, f64::from(step % 2)) {
            Next::Attempt {
                due_ms: next_ms,
                clamped: next_clamped,
            } => {
                offsets_ms.push(next_ms - FIRST_DUE_MS);
                (step, due_ms, clamped) = (step + 1, next_ms, next_clamped);
            }
            Next::End(cause) => return (offsets_ms, cause),
        }
    }
}

#[test]
fn every_ladder_has_a_table_and_every_table_a_ladder() {
    let tables = tables();
    let of_tables: BTreeSet<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    let of_ladders: BTreeSet<&str> = named::names().into_iter().collect();
    assert_eq!(of_tables, of_ladders);
    assert_eq!(tables.len(), named::all().len());
}

#[test]
fn each_ladder_is_written_as_in_its_table() {
    for table in tables() {
        let ladder = ladder(&table);
        let interval_ms = |text: &String| duration::parse_ms(text).expect("a duration");
        let intervals_ms: Vec<i64> = table.intervals.iter().map(interval_ms).collect();
        assert_eq!(ladder.intervals_ms(), intervals_ms, "{}", table.name);
        assert_eq!(
            ladder.window_ms(),
            interval_ms(&table.window),
            "{}",
            table.name
        );
        assert_eq!(ladder.repeats_last(), table.repeat_last, "{}", table.name);
        assert!(!table.source.is_empty(), "{}", table.name);
    }
}

#[test]
fn each_attempt_is_due_when_its_table_says() {
    for table in tables() {
        let ladder = ladder(&table);
        let timetable = Timetable::of(&ladder);
        let offsets_ms = timetable.attempts.iter().map(|attempt| attempt.due_ms);
        let planned = (offsets_ms.collect(), timetable.ends_with);
        let expected = (table.offsets_ms, table.ends_with);
        assert_eq!(planned, expected, "{}", table.name);
        // Up to five seconds late is on time and moves nothing.
        for late_ms in [0, 1, LATE_MS] {
            let walked = walk(&ladder, late_ms);
            assert_eq!(walked, expected, "{} {late_ms} ms late", table.name);
        }
    }
}

#[test]
fn a_series_that_nobody_answers_makes_the_attempts_of_its_table_and_is_parked() {
    for table in tables() {
        let ladder = ladder(&table);
        let mut progress = Progress::start(&ladder, FIRST_DUE_MS);
        for (made, offset_ms) in table.offsets_ms.iter().enumerate() {
            let name = &table.name;
            let left = table.offsets_ms.len() - made;
            let ahead = Timetable::ahead(&ladder, &progress).attempts;
            assert_eq!(ahead.len(), left, "{name} after {made}");
            assert_eq!(progress.next_due_ms(), FIRST_DUE_MS + offset_ms, "{name}");
            let started_ms = progress.next_due_ms() + 3;
            let attempt = EndedAttempt {
                started_ms,
                ended_ms: started_ms + 7,
                outcome: Outcome::Timeout,
                status: None,
                retry_after: None,
            };
            let followed = FollowedRequests::of(&ladder, &AckRule::standard());
            let decision = decide(&ladder, followed, &progress, &attempt, 0.9);
            let expected = match left {
                1 => (State::Dead, Some(table.ends_with)),
                _ => (State::Scheduled, None),
            };
            assert_eq!((decision.state, decision.cause), expected, "{name} {made}");
            progress = decision.progress;
        }
        let made = usize::try_from(progress.attempts).expect("few");
        assert_eq!(made, table.offsets_ms.len(), "{}", table.name);
    }
}
