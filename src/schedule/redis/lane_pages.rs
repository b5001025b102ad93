//! Reading lanes, without a change.
//!
//! A page is a part of a scan of one partition. First come the lanes that have settings, from `settings`; then those
//! that have none, from `lanes`. Lanes that are in neither are found in `health` if their last call was not acknowledged. A scan may give more lanes than a page has. Then the cursor also has the name of the
//! last lane of the page, and the same part is scanned again.

use super::claimed_lane::lane_pauses;
use super::partition::Partition;
use super::reply::ScriptReply;
use super::{RedisSchedule, lane_settings};
use crate::domain::deferral::LanePauses;
use crate::domain::lane::Lane;
use crate::domain::lane_health::{CallOutcome, LaneHealth, LastOutcome};
use crate::schedule::ScheduleError;
use crate::schedule::lane_status::{LanePage, LaneSelection, LaneStatus};
use crate::schedule::window::Window;

/// Maximum number of lanes on a page: a script must not block Redis for much longer than a millisecond.
const MOST_LANES: usize = 100;
/// How many lanes are scanned for each that fails and is wanted.
const FAILING_SCAN: usize = 5;
/// Length of the state of a lane, as lanes.lua writes it: five counts, four instants, the number of the last
/// outcome and its instant.
const HEALTH_BYTES: usize = 64;
/// Length of the pauses of a lane behind that: four instants.
const PAUSES_BYTES: usize = 32;

/// Where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LaneCursor {
    partition: usize,
    source: LaneSource,
    scan: String,
    /// The name of the last lane of the page before, if it ended in the middle of a part.
    after: String,
}

/// What is scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneSource {
    Settings,
    Lanes,
    Failing,
}

impl LaneSource {
    /// What is scanned first of each partition.
    fn first(selection: LaneSelection) -> Self {
        match selection {
            LaneSelection::All | LaneSelection::Configured => Self::Settings,
            LaneSelection::Failing => Self::Failing,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Lanes => "lanes",
            Self::Failing => "failing",
        }
    }
}

impl LaneCursor {
    fn first(selection: LaneSelection) -> Self {
        Self::at(0, LaneSource::first(selection))
    }

    fn at(partition: usize, source: LaneSource) -> Self {
        Self {
            partition,
            source,
            scan: "0".to_string(),
            after: String::new(),
        }
    }

    /// Reads a cursor; `None` if it is not one.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '-');
        let partition = parts.next()?.parse().ok()?;
        let source = match parts.next()? {
            "settings" => LaneSource::Settings,
            "lanes" => LaneSource::Lanes,
            "failing" => LaneSource::Failing,
            _ => return None,
        };
        let scan: u64 = parts.next()?.parse().ok()?;
        Some(Self {
            partition,
            source,
            scan: scan.to_string(),
            after: parts.next()?.to_string(),
        })
    }

    fn to_text(&self) -> String {
        let Self {
            partition,
            source,
            scan,
            after,
        } = self;
        format!("{partition}-{}-{scan}-{after}", source.name())
    }
}

/// See [`crate::schedule::ScheduleReads::lanes`].
pub async fn page(
    schedule: &RedisSchedule,
    selection: LaneSelection,
    cursor: Option<&str>,
    limit: usize,
) -> Result<LanePage, ScheduleError> {
    let place = match cursor {
        Some(text) => LaneCursor::parse(text).ok_or(ScheduleError::BadCursor)?,
        None => LaneCursor::first(selection),
    };
    let partition = schedule.partitions.get(place.partition);
    let partition = partition.ok_or(ScheduleError::BadCursor)?;
    let limit = limit.clamp(1, MOST_LANES);
    let mut reply = ask(
        partition,
        place.source.name(),
        &place.scan,
        limit,
        &place.after,
    )
    .await?;
    let (scan, has_more) = (reply.text()?, reply.number()? == 1);
    let lanes = read(partition, &mut reply)?;
    let next = match lanes.last() {
        Some(last) if has_more => Some(LaneCursor {
            after: last.lane.as_str().to_string(),
            ..place
        }),
        _ => following(place, scan, selection, schedule.partitions.len()),
    };
    Ok(LanePage {
        lanes,
        next: next.map(|cursor| cursor.to_text()),
    })
}

/// What comes after a part whose scan gave this cursor.
fn following(
    place: LaneCursor,
    scan: String,
    selection: LaneSelection,
    partitions: usize,
) -> Option<LaneCursor> {
    if scan != "0" {
        let after = String::new();
        return Some(LaneCursor {
            scan,
            after,
            ..place
        });
    }
    match (place.source, selection) {
        (LaneSource::Settings, LaneSelection::All) => {
            Some(LaneCursor::at(place.partition, LaneSource::Lanes))
        }
        (LaneSource::Settings, LaneSelection::Configured | LaneSelection::Failing)
        | (LaneSource::Lanes | LaneSource::Failing, _) => {
            let next = place.partition + 1;
            (next < partitions).then(|| LaneCursor::at(next, LaneSource::first(selection)))
        }
    }
}

/// See [`crate::schedule::ScheduleReads::lane`].
pub async fn one(schedule: &RedisSchedule, lane: &Lane) -> Result<LaneStatus, ScheduleError> {
    let partition = schedule.partition(lane);
    let mut reply = ask(partition, "one", lane.as_str(), 1, "").await?;
    let _ = (reply.text()?, reply.number()?);
    let lanes = read(partition, &mut reply)?;
    let missing = || ScheduleError::Corrupt("lane_page.lua left the lane out".to_string());
    lanes.into_iter().next().ok_or_else(missing)
}

async fn ask(
    partition: &Partition,
    source: &str,
    cursor: &str,
    limit: usize,
    after: &str,
) -> Result<ScriptReply, ScheduleError> {
    let context = &partition.context;
    let mut command = context.call(&partition.lane_page);
    // Few of the lanes that were called fail.
    let scanned = match source == LaneSource::Failing.name() {
        true => FAILING_SCAN * limit,
        false => limit,
    };
    command.arg(source).arg(cursor).arg(scanned).arg(limit);
    let is_whole = context.limits.window == Window::WHOLE;
    command.arg(after).arg(i32::from(is_whole));
    context
        .read(&partition.reads, &partition.lane_page, &command)
        .await
}

fn read(partition: &Partition, reply: &mut ScriptReply) -> Result<Vec<LaneStatus>, ScheduleError> {
    let limits = &partition.context.limits;
    let held_until = reply.text()?;
    let held_until_ms = match held_until.as_str() {
        "" => i64::MAX,
        text => text.parse().map_err(|_| {
            ScheduleError::Corrupt(format!("`{text}` of lane_page.lua is not an instant"))
        })?,
    };
    let mut lanes = Vec::new();
    while !reply.is_empty() {
        let name = reply.bytes()?;
        let number = |number: i64| number.unsigned_abs();
        let (waiting, due) = (number(reply.number()?), number(reply.number()?));
        let later = number(reply.number()?);
        let in_flight = number(reply.number()?);
        let first_ms = Some(reply.number()?).filter(|_| due > 0);
        let health = lane_health(&reply.bytes()?, limits.lane_start);
        let settings = reply.bytes()?;
        let settings = String::from_utf8_lossy(&settings);
        let settings = (!settings.is_empty()).then(|| lane_settings::from_text(&settings));
        // A lane whose name is not text was written by somebody else.
        let Ok(name) = std::str::from_utf8(&name) else {
            continue;
        };
        let lane = Lane::from_name(name);
        lanes.push(LaneStatus {
            waiting,
            due,
            in_flight,
            held_until_ms,
            later,
            oldest_due_ms: first_ms,
            ..LaneStatus::of(lane, &health, limits.lane_cap, settings)
        });
    }
    Ok(lanes)
}

/// Reads what lanes.lua keeps of the state of a lane. What cannot be read counts as unknown.
fn lane_health(field: &[u8], start: usize) -> LaneHealth {
    let unknown = LaneHealth::unknown(start);
    let has_pauses = field.len() == HEALTH_BYTES + PAUSES_BYTES;
    if field.len() != HEALTH_BYTES && !has_pauses {
        return unknown;
    }
    let (counts, rest) = field.split_at(20);
    let (instants, rest) = rest.split_at(32);
    let (outcome, rest) = rest.split_at(4);
    let instants = [instants, rest].concat();
    let counts: Vec<u32> = counts
        .chunks_exact(4)
        .map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap_or_default()))
        .collect();
    let instants: Vec<i64> = instants
        .chunks_exact(8)
        .map(|bytes| i64::from_be_bytes(bytes.try_into().unwrap_or_default()))
        .collect();
    let (
        [allowed, failures, proven, answer_ms, wait_ms],
        [
            at_ms,
            since_ms,
            used_ms,
            arrival_us,
            outcome_ms,
            pauses @ ..,
        ],
    ) = (&counts[..], &instants[..])
    else {
        return unknown;
    };
    let outcome = u32::from_be_bytes(outcome.try_into().unwrap_or_default());
    let last_outcome = CallOutcome::from_number(outcome).map(|call| LastOutcome {
        call,
        since_ms: *outcome_ms,
    });
    LaneHealth {
        allowed: usize::try_from(*allowed).unwrap_or(usize::MAX),
        failures: u16::try_from(*failures).unwrap_or(u16::MAX),
        is_proven: *proven == 1,
        answer_ms: i64::from(*answer_ms),
        probe_wait_ms: i64::from(*wait_ms),
        probe_at_ms: *at_ms,
        failing_since_ms: *since_ms,
        used_ms: *used_ms,
        arrival_us: *arrival_us,
        last_outcome,
        pauses: pauses
            .try_into()
            .map_or_else(|_| LanePauses::default(), lane_pauses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        fn check(cursor: &LaneCursor) {
            let text = cursor.to_text();
            assert_eq!(LaneCursor::parse(&text).as_ref(), Some(cursor), "{text}");
        }
        for selection in [
            LaneSelection::All,
            LaneSelection::Configured,
            LaneSelection::Failing,
        ] {
            check(&LaneCursor::first(selection));
        }
        check(&LaneCursor {
            partition: 17,
            source: LaneSource::Lanes,
            scan: "18446744073709551615".to_string(),
            after: "https://my-shop.example".to_string(),
        });
        for text in ["", "1", "1-2-3-4", "x-lanes-0-", "0-lanes-x-", "0-lanes-0"] {
            assert_eq!(LaneCursor::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_state_that_cannot_be_read_is_unknown() {
        for field in [&b""[..], b"x", &[0; 19], &[0; 44], &[0; 52], &[0; 65]] {
            assert_eq!(lane_health(field, 3), LaneHealth::unknown(3));
        }
        let mut field = [0; 64];
        field[3] = 7;
        assert_eq!(lane_health(&field, 3).allowed, 7);
    }
}
