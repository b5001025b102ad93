//! `ringback export` of the day on which the notifications were registered: how long it takes, and how much memory.

use super::Bench;
use super::processor_time::{Processes, ProcessorTime};
use super::server::Setup;
use ringback::domain::timestamp;
use std::process::Stdio;
use std::time::Instant;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

const MINUTE_MS: i64 = 60_000;
/// The minutes of a day.
const DAY: i64 = 24 * 60;

/// Reads the file of the day in both formats, and throws it away.
pub async fn measure(bench: &Bench) {
    for format in ["csv", "json-lines"] {
        export(&bench.setup, bench.fill.registered_from_ms(), format).await;
    }
}

async fn export(setup: &Setup, from_ms: i64, format: &str) {
    let postgres = setup.postgres.as_ref().expect("these stores include it");
    let (day, offset) = day_that_begins(from_ms);
    let begun = Instant::now();
    let mut export = Command::new(env!("CARGO_BIN_EXE_ringback"))
        .args(["export", "--journal", &postgres.url("postgres")])
        .args(["--day", &day, "--format", format])
        .arg(format!("--utc-offset={offset}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    let process = export.id().expect("it runs");
    let mut output = export.stdout.take().expect("piped");
    let mut part = vec![0; 1 << 20];
    let (mut bytes, mut lines, mut processor_s, mut most_mb) = (0, 0, 0.0_f64, 0.0_f64);
    loop {
        let read = output.read(&mut part).await.expect("readable");
        // Of a process that has ended, nothing is told.
        if read == 0 {
            break;
        }
        bytes += read;
        lines += part[..read].iter().filter(|byte| **byte == b'\n').count();
        processor_s = processor_seconds(process).max(processor_s);
        most_mb = most_mb.max(super::resident_mb(process));
    }
    let ended = export.wait_with_output().await.expect("it ends");
    let took = begun.elapsed().as_secs_f64();
    println!(
        "export of {day} ({offset}) as {format}: {took:.1} s, {processor_s:.1} s of processor time of the command, \
         {most_mb:.0} MB at most; {lines} lines, {:.0} MB; {}\n{}",
        bytes as f64 / 1e6,
        ended.status,
        String::from_utf8_lossy(&ended.stderr),
    );
    assert!(ended.status.success(), "the day could not be exported");
}

fn processor_seconds(process: u32) -> f64 {
    let processes = Processes {
        servers: vec![process],
        redis: None,
        postgres: None,
    };
    let taken = ProcessorTime::read(processes).of_each(ProcessorTime::default(), 1);
    taken.server_us / 1e6
}

/// The day that begins in the minute of an instant, in milliseconds since 1970, and the offset from UTC in which it does.
fn day_that_begins(at_ms: i64) -> (String, String) {
    let minute = at_ms.div_euclid(MINUTE_MS);
    let since_midnight = minute.rem_euclid(DAY);
    // The offsets from UTC that exist are less than half a day, or a little more.
    let offset = match since_midnight < DAY / 2 {
        true => -since_midnight,
        false => DAY - since_midnight,
    };
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
    let day = timestamp::display_ms((minute + offset) * MINUTE_MS);
    let day = day.split_once('T').expect("a date and a time").0;
    (day.to_string(), format!("{sign}{hours:02}:{minutes:02}"))
}
