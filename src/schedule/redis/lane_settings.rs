//! The settings of lanes in Redis: how they are written, and the calls that bring them.

use super::partition::Partition;
use super::{RedisSchedule, slot};
use crate::clock::Clock as _;
use crate::domain::lane_settings::{
    CallRate, LaneChange, LaneChanges, LaneHold, LaneLimits, LaneSetting, LaneSettings,
};
use crate::schedule::ScheduleError;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use redis::Value;

/// Maximum number of changes in one script.
const MOST_CONFIGURED: usize = 200;
/// Maximum number of partitions that are asked at a time.
const AT_ONCE: usize = 16;

/// See [`crate::schedule::ScheduleMaintenance::configure_lanes`]. Every partition gets every number, so that it
/// knows that it misses none.
pub async fn configure(
    schedule: &RedisSchedule,
    changes: &LaneChanges,
) -> Result<bool, ScheduleError> {
    let partitions = &schedule.partitions;
    let mut calls = Vec::new();
    for (number, partition) in partitions.iter().enumerate() {
        let own = |change: &&LaneChange| slot(change.lane.as_str(), partitions.len()) == number;
        let own: Vec<&LaneChange> = changes.changes.iter().filter(own).collect();
        if !own.is_empty() || changes.range.is_some() {
            calls.push(configure_partition(partition, changes, own));
        }
    }
    // One that fails does not keep the others from it.
    let taken: Vec<_> = stream::iter(calls).buffered(AT_ONCE).collect().await;
    let taken: Vec<bool> = taken.into_iter().collect::<Result<_, _>>()?;
    Ok(taken.into_iter().all(|taken| taken))
}

/// Brings the changes of one partition, part by part. If a part is not brought, the number in Redis is that of the
/// part before.
async fn configure_partition(
    partition: &Partition,
    changes: &LaneChanges,
    own: Vec<&LaneChange>,
) -> Result<bool, ScheduleError> {
    let mut rest = &own[..];
    let mut after = changes.range.map(|range| range.after);
    loop {
        let (part, later) = rest.split_at(rest.len().min(MOST_CONFIGURED));
        rest = later;
        let until = match (changes.range, part.last()) {
            (Some(range), _) if rest.is_empty() => range.until,
            (_, Some(last)) => last.number,
            (_, None) => 0,
        };
        let is_last = rest.is_empty() && changes.range.is_some_and(|range| range.is_last);
        let context = &partition.context;
        let mut command = context.call(&partition.configure);
        command
            .arg(context.keys.channel())
            .arg(after.map(|after| after.to_string()).unwrap_or_default())
            .arg(until)
            .arg(u8::from(is_last));
        for change in part {
            let (limits, hold) = texts(&change.setting);
            command.arg(change.lane.as_str()).arg(change.number);
            command.arg(limits).arg(hold);
        }
        let mut reply = context
            .run(&partition.changes, &partition.configure, &command)
            .await?;
        if reply.number()? == 0 {
            return Ok(false);
        }
        context.wake.bring_forward(context.clock.now_ms());
        if rest.is_empty() {
            return Ok(true);
        }
        after = after.map(|_| until);
    }
}

/// See [`crate::schedule::ScheduleMaintenance::settings_reached`].
pub async fn reached(schedule: &RedisSchedule) -> Result<Option<i64>, ScheduleError> {
    let calls: Vec<_> = schedule.partitions.iter().map(reached_partition).collect();
    let reached: Vec<Option<i64>> = stream::iter(calls).buffered(AT_ONCE).try_collect().await?;
    // `None` if it is missing in any.
    let reached: Option<Vec<i64>> = reached.into_iter().collect();
    Ok(reached.and_then(|reached| reached.into_iter().min()))
}

async fn reached_partition(partition: &Partition) -> Result<Option<i64>, ScheduleError> {
    let command = redis::Cmd::hget(partition.context.keys.settings(), "number");
    let Value::BulkString(text) = partition.reads.run(&command).await? else {
        return Ok(None);
    };
    // While it is loading, the text ends with a word.
    let number = std::str::from_utf8(&text).ok();
    Ok(number.and_then(|text| text.parse().ok()))
}

/// The two texts that the script gets of a change: the limits and the hold. A text that is empty does not change
/// anything.
fn texts(setting: &LaneSetting) -> (String, String) {
    match setting {
        LaneSetting::All(LaneSettings { limits, hold }) => {
            (limits_text(limits), hold_text(hold.as_ref()))
        }
        LaneSetting::Limits(limits) => (limits_text(limits), String::new()),
        LaneSetting::Hold(hold) => (String::new(), hold_text(hold.as_ref())),
    }
}

/// The limits as the scripts get and keep them.
pub fn limits_text(limits: &LaneLimits) -> String {
    let concurrency = limits.concurrency.map(|most| most.to_string());
    let rate = limits.rate.map(|rate| rate.to_stored().to_string());
    let (concurrency, rate) = (concurrency.unwrap_or_default(), rate.unwrap_or_default());
    format!("{concurrency} {rate}")
}

/// Since when, by whom and why, in lines. The reason may have several lines, so it is the last.
fn hold_text(hold: Option<&LaneHold>) -> String {
    match hold {
        None => "0".to_string(),
        Some(LaneHold {
            by,
            reason,
            since_ms,
        }) => format!("1 {since_ms}\n{by}\n{reason}"),
    }
}

/// Reads the settings of a lane. A text that cannot be read holds the lane, as the scripts see it.
pub fn from_text(text: &str) -> LaneSettings {
    let mut parts = text.splitn(3, ' ');
    let (concurrency, rate) = (parts.next(), parts.next());
    let rate = rate.and_then(|rate| CallRate::from_stored(rate.parse().ok()?));
    let limits = LaneLimits {
        concurrency: concurrency.and_then(|most| most.parse().ok()),
        rate,
    };
    let hold = parts.next().unwrap_or_default();
    if hold == "0" {
        return LaneSettings { limits, hold: None };
    }
    let hold = hold.strip_prefix("1 ").unwrap_or_default();
    let mut lines = hold.splitn(3, '\n');
    let since_ms = lines.next().and_then(|since_ms| since_ms.parse().ok());
    let hold = LaneHold {
        since_ms: since_ms.unwrap_or_default(),
        by: lines.next().unwrap_or_default().into(),
        reason: lines.next().unwrap_or_default().into(),
    };
    LaneSettings {
        limits,
        hold: Some(hold),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_were_written() {
        fn check(settings: LaneSettings, text: &str) {
            let (limits, hold) = texts(&LaneSetting::All(settings.clone()));
            let written = format!("{limits} {hold}");
            assert_eq!(written, text);
            assert_eq!(from_text(&written), settings);
        }
        let rate = CallRate::per_second(0.5).expect("a rate");
        let hold = LaneHold {
            by: "anna".into(),
            reason: "moving\nto Frankfurt".into(),
            since_ms: 17,
        };
        let limits = LaneLimits {
            concurrency: std::num::NonZeroU32::new(3),
            rate: Some(rate),
        };
        check(LaneSettings::default(), "  0");
        check(LaneSettings { limits, hold: None }, "3 500 0");
        let held = LaneSettings {
            limits: LaneLimits::default(),
            hold: Some(hold),
        };
        check(held, "  1 17\nanna\nmoving\nto Frankfurt");
    }

    #[test]
    fn what_cannot_be_read_holds_the_lane() {
        for text in ["", "x", "3 500", "3 500 2"] {
            assert!(from_text(text).hold.is_some(), "{text}");
        }
    }
}
