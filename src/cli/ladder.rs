//! `ringback ladder`: prints the named ladders (retry schedules), or the attempt times of one ladder.

use super::CommandFailure;
use super::table::table;
use super::terminal::Colours;
use crate::domain::ack::AckRule;
use crate::domain::duration::display_ms;
use crate::domain::ladder::Ladder;
use crate::domain::ladder::named::{self, Source};
use crate::domain::receiver_requests::FollowedRequests;
use crate::domain::state::Cause;
use crate::domain::timetable::{Planned, Timetable};
use clap::Args;
use serde_json::{Value, json};
use std::io::{self, Write as _};

#[derive(Args)]
pub struct LadderArguments {
    /// The name of a ladder, or a custom ladder as JSON: {"intervals": ["10s", "1m"], "window": "1h"}
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One attempt of a series in which all attempts start on time.
struct Rung {
    /// The wait since the previous attempt; `None` for the first attempt.
    interval_ms: Option<i64>,
    /// The time since the first attempt.
    offset_ms: i64,
    /// The full interval, if the end of the window made it shorter.
    cut_ms: Option<i64>,
}

/// Prints all ladders or one.
pub fn run(arguments: &LadderArguments) -> Result<(), CommandFailure> {
    let text = match (&arguments.name, arguments.json) {
        (None, false) => all_as_text(Colours::of_stdout()),
        (None, true) => {
            let all = named::all().iter();
            pretty(
                &all.map(|(ladder, source)| describe(ladder, source))
                    .collect(),
            )
        }
        (Some(name), json) => {
            let ladder = Ladder::from_text(name)
                .map_err(|error| CommandFailure::Usage(error.to_string()))?;
            let source = ladder
                .name()
                .and_then(named::find)
                .map_or("the command line", |(_, source)| source);
            if json {
                pretty(&describe(&ladder, source))
            } else {
                one_as_text(&ladder, source, Colours::of_stdout())
            }
        }
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// The attempts of a series if each one starts on time and fails, and the cause that ends the series.
fn climb(ladder: &Ladder) -> (Vec<Rung>, Cause) {
    let Timetable {
        attempts,
        ends_with,
    } = Timetable::of(ladder);
    let intervals = ladder.intervals_ms();
    let mut rungs: Vec<Rung> = Vec::with_capacity(attempts.len());
    for Planned { due_ms, clamped } in attempts {
        let before = rungs.last();
        // There is no interval before the first attempt. The last interval may repeat.
        let index = rungs.len().saturating_sub(1);
        let nominal_ms = intervals.get(index).or(intervals.last());
        rungs.push(Rung {
            interval_ms: before.map(|before| due_ms - before.offset_ms),
            offset_ms: due_ms,
            cut_ms: nominal_ms.copied().filter(|_| clamped),
        });
    }
    (rungs, ends_with)
}

fn all_as_text(colours: Colours) -> String {
    let rows: Vec<Vec<String>> = named::all()
        .iter()
        .map(|(ladder, source)| {
            vec![
                ladder.to_text(),
                climb(ladder).0.len().to_string(),
                display_ms(ladder.window_ms()),
                (*source).to_string(),
            ]
        })
        .collect();
    table(colours, &["name", "attempts", "window", "source"], &rows)
}

fn one_as_text(ladder: &Ladder, source: Source, colours: Colours) -> String {
    let (rungs, cause) = climb(ladder);
    let rows: Vec<Vec<String>> = rungs
        .iter()
        .zip(1..)
        .map(|(rung, number): (_, usize)| {
            let interval = rung.interval_ms.map_or("-".to_string(), display_ms);
            let note = rung.cut_ms.map_or(String::new(), |cut_ms| {
                format!(
                    "at the end of the window, instead of {} later",
                    display_ms(cut_ms)
                )
            });
            vec![
                number.to_string(),
                interval,
                display_ms(rung.offset_ms),
                note,
            ]
        })
        .collect();
    let ends = match cause {
        Cause::LadderExhausted => "when the last attempt has failed (ladder_exhausted)",
        Cause::WindowClosed => "with the attempt at the end of the window (window_closed)",
        Cause::Refused | Cause::Blocked | Cause::Superseded => cause.as_str(),
    };
    let requests = if may_be_delayed(ladder) {
        "Retry-After of a 429 or 503 may delay the next attempt, and a 410 ends the series (refused)\n"
    } else {
        ""
    };
    format!(
        "{}\n{}\n{}\n{} attempts; the window is {}; the series ends {ends}\n{requests}",
        ladder.to_text(),
        colours.faint(source),
        table(colours, &["attempt", "interval", "offset", ""], &rows),
        rungs.len(),
        display_ms(ladder.window_ms()),
    )
}

fn describe(ladder: &Ladder, source: Source) -> Value {
    let (rungs, cause) = climb(ladder);
    let intervals = ladder.intervals_ms().iter();
    json!({
        "name": ladder.name(),
        "source": source,
        "intervals": intervals.map(|ms| display_ms(*ms)).collect::<Vec<_>>(),
        "repeat_last": ladder.repeats_last(),
        "window": display_ms(ladder.window_ms()),
        "attempts": rungs.len(),
        "offsets_ms": rungs.iter().map(|rung| rung.offset_ms).collect::<Vec<_>>(),
        "ends_with": cause.as_str(),
        "retry_after": may_be_delayed(ladder),
    })
}

/// Whether receivers may delay attempts on this ladder.
fn may_be_delayed(ladder: &Ladder) -> bool {
    FollowedRequests::of(ladder, &AckRule::standard()).retry_after
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
