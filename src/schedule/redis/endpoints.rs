//! The endpoints in Redis (lua/endpoints.lua). Each is in the partition of its lane.

use super::RedisSchedule;
use super::lane_settings::limits_text;
use super::partition::Partition;
use super::reply::ScriptReply;
use super::script::Script;
use crate::clock::Clock as _;
use crate::domain::endpoint::{EndpointName, MOST_ENDPOINTS};
use crate::domain::lane::Lane;
use crate::schedule::ScheduleError;
use crate::schedule::endpoints::{
    ChangedEndpoints, EndpointRecord, EndpointScan, EndpointWrite, EndpointWritten, PartReached,
    ScheduleEndpoints,
};
use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use redis::{Cmd, Value};

/// Maximum number of endpoints in one reply, or about that. A script must not block Redis for much longer than a
/// millisecond, and an endpoint may take 30 KB.
const PAGE: usize = 100;
/// Maximum number of removed endpoints that are remembered, over all partitions.
const MOST_REMOVED: usize = 50_000;
/// Maximum number of partitions that are asked at a time.
const AT_ONCE: usize = 16;

/// The scripts of this module.
pub struct EndpointScripts {
    write: Script,
    changes: Script,
    page: Script,
}

macro_rules! script {
    ($file:literal) => {
        Script::with_common(concat!(
            include_str!("lua/settings.lua"),
            include_str!("lua/endpoints.lua"),
            include_str!($file)
        ))
    };
}

impl Default for EndpointScripts {
    fn default() -> Self {
        Self {
            write: script!("lua/endpoint_write.lua"),
            changes: script!("lua/endpoint_changes.lua"),
            page: script!("lua/endpoint_page.lua"),
        }
    }
}

#[async_trait]
impl ScheduleEndpoints for RedisSchedule {
    async fn endpoint(&self, name: &EndpointName) -> Result<Option<EndpointRecord>, ScheduleError> {
        let partition = self.partition(&Lane::of_endpoint(name));
        let key = endpoints_key(partition);
        let found = partition.reads.run(&Cmd::hget(key, name.as_str())).await?;
        Ok(match found {
            Value::BulkString(record) => Some(from_stored(name.as_str().to_string(), &record)),
            _ => None,
        })
    }

    async fn write_endpoint(
        &self,
        write: &EndpointWrite,
    ) -> Result<EndpointWritten, ScheduleError> {
        let partition = self.partition(&Lane::of_endpoint(&write.name));
        let context = &partition.context;
        let most_removed = MOST_REMOVED.div_ceil(self.partitions.len());
        let mut command = context.call(&self.endpoint_scripts.write);
        command
            .arg(context.keys.channel())
            .arg(write.name.as_str())
            .arg(write.expected)
            .arg(u8::from(write.is_removed))
            .arg(limits_text(&write.limits))
            .arg(&write.text)
            .arg(MOST_ENDPOINTS)
            .arg(most_removed);
        let script = &self.endpoint_scripts.write;
        let mut reply = context.run(&partition.changes, script, &command).await?;
        context.wake.bring_forward(context.clock.now_ms());
        let verdict = reply.text()?;
        match verdict.as_str() {
            "done" => Ok(EndpointWritten::Done),
            "differs" => Ok(EndpointWritten::Differs),
            "full" => Ok(EndpointWritten::Full),
            "in_use" => Ok(EndpointWritten::InUse),
            other => Err(unknown(other, "endpoint_write.lua")),
        }
    }

    async fn count_endpoints(&self) -> Result<u64, ScheduleError> {
        let counts = self.partitions.iter().map(async |partition: &Partition| {
            let key = changes_key(partition);
            let count = Cmd::zcount(key, "(0", "+inf");
            match partition.reads.run(&count).await? {
                Value::Int(count) => Ok(u64::try_from(count).unwrap_or_default()),
                _ => Err(ScheduleError::Corrupt(
                    "the endpoints cannot be counted".to_string(),
                )),
            }
        });
        let counts: Vec<_> = counts.collect();
        let counts: Vec<u64> = stream::iter(counts).buffered(AT_ONCE).try_collect().await?;
        Ok(counts.into_iter().sum())
    }

    async fn changed_endpoints(
        &self,
        after: &[PartReached],
    ) -> Result<Option<ChangedEndpoints>, ScheduleError> {
        if after.len() != self.partitions.len() {
            return Ok(None);
        }
        let calls = (self.partitions.iter().zip(after))
            .map(|(partition, after)| changed(partition, &self.endpoint_scripts.changes, after));
        let calls: Vec<_> = calls.collect();
        let parts: Vec<_> = stream::iter(calls).buffered(AT_ONCE).try_collect().await?;
        let mut all = ChangedEndpoints::default();
        for part in parts {
            let Some(part) = part else { return Ok(None) };
            all.records.extend(part.records);
            all.reached.extend(part.reached);
            all.has_more |= part.has_more;
        }
        Ok(Some(all))
    }

    async fn scan_endpoints(
        &self,
        scan: &mut EndpointScan,
    ) -> Result<Option<Vec<EndpointRecord>>, ScheduleError> {
        // With a cursor, the last part that was begun goes on, else the next one begins.
        let (number, is_begun) = match scan.cursor {
            Some(_) => (scan.reached.len().saturating_sub(1), true),
            None => (scan.reached.len(), false),
        };
        let Some(partition) = self.partitions.get(number) else {
            return Ok(None);
        };
        let (context, script) = (&partition.context, &self.endpoint_scripts.page);
        let mut command = context.call(script);
        command
            .arg(context.keys.channel())
            .arg(scan.cursor.as_deref().unwrap_or("0"))
            .arg(PAGE);
        let mut reply = context.run(&partition.bulk, script, &command).await?;
        let reached = PartReached {
            generation: reply.text()?,
            number: whole(&reply.text()?)?,
        };
        let cursor = reply.text()?;
        let records = records(&mut reply)?;
        if !is_begun {
            scan.reached.push(reached);
        }
        scan.cursor = (cursor != "0").then_some(cursor);
        Ok(Some(records))
    }
}

/// What has changed in one partition. `None` if it must be read again as a whole.
async fn changed(
    partition: &Partition,
    script: &Script,
    after: &PartReached,
) -> Result<Option<ChangedEndpoints>, ScheduleError> {
    let context = &partition.context;
    let mut command = context.call(script);
    command.arg(&after.generation).arg(after.number).arg(PAGE);
    let mut reply = context.read(&partition.bulk, script, &command).await?;
    let verdict = reply.text()?;
    let has_more = match verdict.as_str() {
        "lost" => return Ok(None),
        "all" => false,
        "more" => true,
        other => return Err(unknown(other, "endpoint_changes.lua")),
    };
    let generation = reply.text()?;
    let records = records(&mut reply)?;
    let number = records.last().map_or(after.number, |last| last.number);
    let reached = PartReached { generation, number };
    Ok(Some(ChangedEndpoints {
        records,
        reached: vec![reached],
        has_more,
    }))
}

fn endpoints_key(partition: &Partition) -> String {
    format!("{}endpoints", partition.context.keys.prefix())
}

fn changes_key(partition: &Partition) -> String {
    format!("{}endpoint_changes", partition.context.keys.prefix())
}

/// The rest of a reply: names and records.
fn records(reply: &mut ScriptReply) -> Result<Vec<EndpointRecord>, ScheduleError> {
    let mut records = Vec::new();
    while !reply.is_empty() {
        let name = String::from_utf8_lossy(&reply.bytes()?).into_owned();
        records.push(from_stored(name, &reply.bytes()?));
    }
    Ok(records)
}

/// Reads a record. One that cannot be read gets no number and no text.
fn from_stored(name: String, record: &[u8]) -> EndpointRecord {
    let parts = std::str::from_utf8(record).ok().and_then(parts);
    let (number, is_removed, text) = parts.unwrap_or_default();
    EndpointRecord {
        name,
        number,
        is_removed,
        text: text.to_string(),
    }
}

/// The number, whether it was removed, and the text. The two words before the text are the limits of the lane.
fn parts(record: &str) -> Option<(i64, bool, &str)> {
    let mut words = record.splitn(5, ' ');
    let number = words.next()?.parse().ok()?;
    let is_removed = match words.next()? {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    Some((number, is_removed, words.nth(2)?))
}

fn whole(text: &str) -> Result<i64, ScheduleError> {
    text.parse().map_err(|_| {
        ScheduleError::Corrupt(format!(
            "`{text}` is not the number of a change of an endpoint"
        ))
    })
}

fn unknown(answer: &str, script: &str) -> ScheduleError {
    ScheduleError::Corrupt(format!("unknown answer `{answer}` of {script}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_and_damage_has_no_number() {
        fn check(record: &str, expected: (i64, bool, &str)) {
            let read = from_stored("shop".to_string(), record.as_bytes());
            assert_eq!(
                (read.number, read.is_removed, &*read.text),
                expected,
                "{record}"
            );
        }
        check("17 0   {\"a\": 1}", (17, false, "{\"a\": 1}"));
        check("17 1 3 500 {}", (17, true, "{}"));
        for damaged in ["", "x", "17", "17 2   {}", "17 0 3"] {
            check(damaged, (0, false, ""));
        }
    }
}
