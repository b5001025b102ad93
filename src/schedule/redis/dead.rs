//! Reading the dead entries page by page, last parked first, over all partitions.

use super::partition::Partition;
use crate::domain::key::Key;
use crate::schedule::envelope;
use crate::schedule::{DeadPage, ScheduleError};
use bytes::Bytes;
use redis::Value;

/// The end of a page: the last entry's instant and key. The next page begins right after it, even if that
/// entry was removed.
struct DeadPosition {
    at_ms: i64,
    key: String,
}

/// One page: candidates are read from each partition, and the latest of all are returned.
pub async fn page(
    partitions: &[Partition],
    cursor: Option<&str>,
    limit: usize,
) -> Result<DeadPage, ScheduleError> {
    let after = cursor
        .map(|text| parse(text).ok_or_else(bad_cursor))
        .transpose()?;
    let mut candidates = Vec::new();
    for (number, partition) in partitions.iter().enumerate() {
        // One more than the limit, to know whether there is a next page.
        for place in behind(partition, after.as_ref(), limit + 1).await? {
            candidates.push((place, number));
        }
    }
    candidates
        .sort_by(|(one, _), (other, _)| (other.at_ms, &other.key).cmp(&(one.at_ms, &one.key)));
    let more = candidates.len() > limit;
    candidates.truncate(limit);
    let next = match candidates.last() {
        Some((place, _)) if more => Some(format!("{}-{}", place.at_ms, place.key)),
        _ => None,
    };
    let mut entries = Vec::with_capacity(candidates.len());
    for (place, number) in candidates {
        let partition = &partitions[number];
        let command = redis::Cmd::hget(partition.context.keys.jobs(), &place.key);
        // Removed meanwhile: replayed or discarded.
        let Value::BulkString(bytes) = partition.reads.run(&command).await? else {
            continue;
        };
        let key = Key::parse(&place.key).map_err(|_| unreadable())?;
        entries.push(envelope::decode(key.as_str(), &Bytes::from(bytes))?);
    }
    Ok(DeadPage { entries, next })
}

/// The positions in one partition after `after`, latest first.
async fn behind(
    partition: &Partition,
    after: Option<&DeadPosition>,
    limit: usize,
) -> Result<Vec<DeadPosition>, ScheduleError> {
    let key = partition.context.keys.dead();
    let mut rank = match after {
        None => 0,
        Some(after) => {
            let mut command = redis::cmd("ZCOUNT");
            command
                .arg(key)
                .arg(format!("({}", after.at_ms))
                .arg("+inf");
            match partition.reads.run(&command).await? {
                Value::Int(later) => usize::try_from(later).unwrap_or(0),
                _ => return Err(unreadable()),
            }
        }
    };
    let mut places = Vec::new();
    while places.len() < limit {
        let mut command = redis::cmd("ZREVRANGE");
        command
            .arg(key)
            .arg(rank)
            .arg(rank + limit - 1)
            .arg("WITHSCORES");
        let Value::Array(items) = partition.reads.run(&command).await? else {
            return Err(unreadable());
        };
        let read = items.len() / 2;
        rank += read;
        for pair in items.chunks_exact(2) {
            let place = DeadPosition {
                at_ms: instant(&pair[1])?,
                key: text(&pair[0])?,
            };
            let seen =
                after.is_some_and(|after| (place.at_ms, &place.key) >= (after.at_ms, &after.key));
            if !seen && places.len() < limit {
                places.push(place);
            }
        }
        if read < limit {
            break;
        }
    }
    Ok(places)
}

fn parse(cursor: &str) -> Option<DeadPosition> {
    let (at_ms, key) = cursor.split_once('-')?;
    Some(DeadPosition {
        at_ms: at_ms.parse().ok()?,
        key: key.to_string(),
    })
}

fn text(value: &Value) -> Result<String, ScheduleError> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).map_err(|_| unreadable()),
        _ => Err(unreadable()),
    }
}

fn instant(value: &Value) -> Result<i64, ScheduleError> {
    text(value)?.parse().map_err(|_| unreadable())
}

fn bad_cursor() -> ScheduleError {
    ScheduleError::BadCursor
}

fn unreadable() -> ScheduleError {
    ScheduleError::Corrupt("the dead entries are not a sorted set of instants".to_string())
}
