//! Looking into partitions, without claiming: when there is next something to claim there.

use super::RedisSchedule;
use super::script::Script;
use crate::schedule::ScheduleError;
use futures_util::stream::{self, StreamExt as _};
use tokio::time::timeout;

/// Maximum number of partitions in one script. It takes some microseconds for each.
const MOST_POLLED: usize = 64;
/// Maximum number of calls at a time.
const AT_ONCE: usize = 16;

/// When there is next something to claim in a partition, in milliseconds since 1970; `None` if there is nothing.
pub struct Polled {
    pub number: usize,
    pub next_ms: Option<i64>,
}

/// The script that looks into partitions.
pub fn script() -> Script {
    Script::new(include_str!("lua/poll.lua"))
}

impl RedisSchedule {
    /// Looks into these partitions. In a cluster, those that do not answer are left out.
    ///
    /// # Errors
    /// As any call.
    pub(super) async fn poll(&self, numbers: &[usize]) -> Result<Vec<Polled>, ScheduleError> {
        // A script may name keys of one slot only.
        let most = if self.away.is_some() { 1 } else { MOST_POLLED };
        let calls: Vec<_> = numbers
            .chunks(most)
            .map(|numbers| async move {
                // A failure closes the connection.
                let host = self
                    .away
                    .as_ref()
                    .and_then(|_| self.partitions[numbers[0]].host());
                let polled = self.poll_together(numbers).await;
                (numbers, polled.map_err(|error| (error, host)))
            })
            .collect();
        let mut calls = stream::iter(calls).buffered(AT_ONCE);
        let mut all = Vec::with_capacity(numbers.len());
        while let Some((numbers, polled)) = calls.next().await {
            match (polled, &self.away) {
                (Ok(polled), _) => all.extend(polled),
                (Err((ScheduleError::Unavailable(_), host)), Some(_)) => {
                    self.note_away(numbers[0], host.as_ref());
                }
                (Err((error, _)), _) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Looks into partitions that are at one server.
    async fn poll_together(&self, numbers: &[usize]) -> Result<Vec<Polled>, ScheduleError> {
        if self.is_away(numbers[0]) {
            return Ok(Vec::new());
        }
        let partitions = || numbers.iter().map(|number| &self.partitions[*number]);
        let mut command = self.poll_script.call();
        command.arg(3 * numbers.len());
        for partition in partitions() {
            let keys = &partition.context.keys;
            command
                .arg(keys.lanes())
                .arg(keys.leases())
                .arg(keys.meta());
        }
        let first = &self.partitions[numbers[0]];
        first.context.add_now(&mut command);
        command.arg(first.context.writes.instance());
        for partition in partitions() {
            command.arg(partition.context.writes.seen());
        }
        let asked = first.run_poll(&self.poll_script, &command);
        // A call takes longer only where no server answers.
        let mut reply = match self.away {
            None => asked.await?,
            Some(_) => timeout(self.claim_times.one_partition, asked)
                .await
                .unwrap_or_else(|_| {
                    let late = "Redis did not answer in time".to_string();
                    Err(ScheduleError::Unavailable(late))
                })?,
        };
        let one = |number: &usize| {
            let next_ms = Some(reply.number()?).filter(|next_ms| *next_ms >= 0);
            Ok(Polled {
                number: *number,
                next_ms,
            })
        };
        numbers.iter().map(one).collect()
    }
}
