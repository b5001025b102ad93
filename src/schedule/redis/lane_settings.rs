//! The settings of lanes in Redis: how they are written, and the calls that bring them.

use super::partition::Partition;
use super::{RedisSchedule, slot};
use crate::clock::Clock as _;
use crate::domain::call_rate::CallRate;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::{
    LaneChange, LaneChanges, LaneHold, LaneLimits, LaneSetting, LaneSettings,
};
use crate::schedule::{Configured, ScheduleError, SettingsReached};
use futures_util::stream::{self, StreamExt as _};
use redis::{Cmd, Value};
use std::sync::atomic::Ordering;

/// Maximum number of changes in one script.
const MOST_CONFIGURED: usize = 200;
/// Maximum number of partitions that are asked at a time.
const AT_ONCE: usize = 16;

/// See [`crate::schedule::ScheduleMaintenance::configure_lanes`]. Every partition gets every number, so that it
/// knows that it misses none.
pub async fn configure(
    schedule: &RedisSchedule,
    changes: &LaneChanges,
    reached: &SettingsReached,
) -> Result<Configured, ScheduleError> {
    let partitions = &schedule.partitions;
    let is_kept_elsewhere = changes.range.is_some();
    if !is_kept_elsewhere {
        schedule.confirm_server()?;
    }
    let mut calls = Vec::new();
    for (number, partition) in partitions.iter().enumerate() {
        let own = |change: &&LaneChange| slot(change.lane.as_str(), partitions.len()) == number;
        let own: Vec<&LaneChange> = changes.changes.iter().filter(own).collect();
        if own.is_empty() && !is_kept_elsewhere || is_kept_elsewhere && is_away(schedule, number) {
            continue;
        }
        let generation = reached.generations.get(&number).copied();
        calls.push(configure_partition(partition, changes, own, generation));
    }
    // One that fails does not keep the others from it.
    let taken: Vec<_> = stream::iter(calls).buffered(AT_ONCE).collect().await;
    let (mut is_any_taken, mut are_others_missing, mut failure) = (false, false, None);
    for taken in taken {
        match taken {
            Ok(true) => is_any_taken = true,
            Ok(false) => are_others_missing = true,
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        _ if are_others_missing => Ok(Configured::OthersMissing),
        Some(error) if is_any_taken => Ok(Configured::Partly(error)),
        Some(error) => Err(error),
        None => Ok(Configured::Obeyed),
    }
}

/// Brings the changes of one partition, part by part. If a part is not brought, the number in Redis is that of the
/// part before.
async fn configure_partition(
    partition: &Partition,
    changes: &LaneChanges,
    own: Vec<&LaneChange>,
    generation: Option<i64>,
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
            .arg(if is_last {
                generation.unwrap_or(0).to_string()
            } else {
                String::new()
            });
        for change in part {
            let (limits, hold) = texts(&change.setting);
            command.arg(change.lane.as_str()).arg(change.number);
            command.arg(limits).arg(hold);
        }
        // What the journal has need not wait for replicas.
        let connection = match changes.range {
            Some(_) => &partition.reads,
            None => &partition.changes,
        };
        let running = context.run(connection, &partition.configure, &command);
        let mut reply = running.await?;
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

/// See [`crate::schedule::ScheduleMaintenance::call_lane_now`].
pub async fn call_now(partition: &Partition, lane: &Lane) -> Result<(), ScheduleError> {
    let context = &partition.context;
    let mut command = context.call(&partition.call_now);
    command.arg(context.channel()).arg(lane.as_str());
    let calling = context.run(&partition.changes, &partition.call_now, &command);
    let next_ms = calling.await?.number()?;
    if next_ms >= 0 {
        context.wake.bring_forward(next_ms);
    }
    Ok(())
}

/// Whether a partition of a cluster is known not to answer.
fn is_away(schedule: &RedisSchedule, number: usize) -> bool {
    let away = schedule.away.as_ref();
    away.is_some_and(|away| away.has(number))
}

/// See [`crate::schedule::ScheduleMaintenance::settings_reached`].
pub async fn reached(
    schedule: &RedisSchedule,
    lane: Option<&Lane>,
) -> Result<SettingsReached, ScheduleError> {
    let asked: Vec<usize> = match lane {
        Some(lane) => vec![slot(lane.as_str(), schedule.partitions.len())],
        None => (0..schedule.partitions.len()).collect(),
    };
    let in_reach = asked
        .into_iter()
        .filter(|number| !is_away(schedule, *number));
    let calls: Vec<_> = in_reach
        .map(async |number| {
            (
                number,
                PartSettings::read(&schedule.partitions[number]).await,
            )
        })
        .collect();
    let answers: Vec<_> = stream::iter(calls).buffered(AT_ONCE).collect().await;
    let (mut parts, mut failure) = (Vec::new(), None);
    for (number, answer) in answers {
        match answer {
            Ok(part) => parts.push((number, part)),
            // It is out of reach too, though no claim has noticed that.
            Err(error @ ScheduleError::Unavailable(_)) if schedule.away.is_some() => {
                failure = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    if parts.is_empty() {
        let away = "its part of the Redis cluster does not answer".to_string();
        return Err(failure.unwrap_or(ScheduleError::Unavailable(away)));
    }
    // `None` if it is missing in any.
    let numbers: Option<Vec<i64>> = parts.iter().map(|(_, part)| part.number).collect();
    Ok(SettingsReached {
        number: numbers.and_then(|numbers| numbers.into_iter().min()),
        is_confirmed: parts.iter().all(|(_, part)| part.is_confirmed),
        generations: (parts.into_iter())
            .map(|(number, part)| (number, part.generation))
            .collect(),
    })
}

/// What a partition says of the settings that it has.
struct PartSettings {
    /// Up to which change it has them.
    number: Option<i64>,
    /// The generation of its data that this instance has inspected.
    generation: i64,
    /// Whether they were compared with the journal in that generation.
    is_confirmed: bool,
}

impl PartSettings {
    async fn read(partition: &Partition) -> Result<Self, ScheduleError> {
        let keys = &partition.context.keys;
        // First: if it changes meanwhile, what is brought after this does not confirm the later one.
        let generation = partition.context.writes.count().generation;
        let number = Cmd::hget(keys.settings(), "number");
        let number = partition.reads.run(&number).await?;
        let confirmed = &partition.settings_confirmed;
        if confirmed.load(Ordering::Relaxed) != generation {
            let known = Cmd::hget(keys.meta(), "settings");
            let known = number_of(&partition.reads.run(&known).await?);
            // They stay confirmed as long as the data has this generation.
            if known == Some(generation) {
                confirmed.store(generation, Ordering::Relaxed);
            }
        }
        Ok(Self {
            // While it is loading, the text ends with a word.
            number: number_of(&number),
            generation,
            is_confirmed: generation > 0 && confirmed.load(Ordering::Relaxed) == generation,
        })
    }
}

/// The number that is stored as this text; `None` if none is.
fn number_of(stored: &Value) -> Option<i64> {
    let Value::BulkString(text) = stored else {
        return None;
    };
    std::str::from_utf8(text).ok()?.parse().ok()
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
