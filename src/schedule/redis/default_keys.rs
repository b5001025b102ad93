//! The default signing keys in Redis (lua/default_keys_read.lua), in the first partition.

use super::RedisSchedule;
use super::partition::Partition;
use super::script::Script;
use crate::schedule::ScheduleError;
use crate::schedule::default_keys::{DefaultKeysRecord, ScheduleDefaultKeys};
use async_trait::async_trait;
use redis::{Cmd, Value};
use std::sync::PoisonError;

/// The scripts of this module.
pub struct DefaultKeyScripts {
    read: Script,
    write: Script,
}

impl Default for DefaultKeyScripts {
    fn default() -> Self {
        Self {
            read: Script::with_common(include_str!("lua/default_keys_read.lua")),
            write: Script::with_common(include_str!("lua/default_keys_write.lua")),
        }
    }
}

#[async_trait]
impl ScheduleDefaultKeys for RedisSchedule {
    async fn default_keys_record(&self) -> Result<Option<DefaultKeysRecord>, ScheduleError> {
        let (partition, script) = (self.first(), &self.default_key_scripts.read);
        let context = &partition.context;
        let command = context.call(script);
        let mut reply = context.read(&partition.reads, script, &command).await?;
        Ok(from_stored(&reply.bytes()?))
    }

    async fn write_default_keys(
        &self,
        expected: i64,
        text: &str,
    ) -> Result<Option<i64>, ScheduleError> {
        self.write_record(&expected.to_string(), "", text).await
    }

    async fn restore_default_keys(
        &self,
        record: &DefaultKeysRecord,
    ) -> Result<bool, ScheduleError> {
        let number = record.number.to_string();
        let written = self.write_record("", &number, &record.text).await?;
        Ok(written.is_some())
    }

    async fn signed_with(&self) -> Result<Option<String>, ScheduleError> {
        let partition = self.first();
        let signing = Cmd::hget(partition.context.keys.meta(), "signing");
        Ok(match partition.reads.run(&signing).await? {
            Value::BulkString(text) => String::from_utf8(text).ok(),
            _ => None,
        })
    }

    fn sign_with(&self, fingerprint: Option<String>) {
        let mut signing = self.signing.lock().unwrap_or_else(PoisonError::into_inner);
        *signing = fingerprint;
    }
}

impl RedisSchedule {
    fn first(&self) -> &Partition {
        let first = self.partitions.first();
        first.expect("invariant: there is at least one partition")
    }

    /// Returns the number of what was written; `None` if nothing was.
    async fn write_record(
        &self,
        expected: &str,
        number: &str,
        text: &str,
    ) -> Result<Option<i64>, ScheduleError> {
        let (partition, script) = (self.first(), &self.default_key_scripts.write);
        let context = &partition.context;
        let mut command = context.call(script);
        command.arg(expected).arg(number).arg(text);
        let mut reply = context.run(&partition.changes, script, &command).await?;
        match reply.text()?.as_str() {
            "differs" => Ok(None),
            "done" => {
                let number = reply.text()?;
                let number = number.parse().map_err(|_| {
                    let why = format!("`{number}` is not the number of a change of default keys");
                    ScheduleError::Corrupt(why)
                })?;
                Ok(Some(number))
            }
            other => Err(ScheduleError::Corrupt(format!(
                "unknown answer `{other}` of default_keys_write.lua"
            ))),
        }
    }
}

/// Reads a record: its number and its text.
fn from_stored(record: &[u8]) -> Option<DefaultKeysRecord> {
    let (number, text) = std::str::from_utf8(record).ok()?.split_once(' ')?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    let text = text.to_string();
    Some(DefaultKeysRecord { number, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_and_damage_is_none() {
        let read = from_stored(b"17 {\"a b\": 1}").expect("a record");
        assert_eq!((read.number, &*read.text), (17, "{\"a b\": 1}"));
        for damaged in [&b""[..], b"17", b"x {}", b"0 {}", b"-1 {}", b"1 \xff"] {
            assert_eq!(from_stored(damaged), None, "{damaged:?}");
        }
    }
}
