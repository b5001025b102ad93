//! What the stores of a run hold in the end.

use super::{HORIZON, Stage};
use crate::reliability::plan::{BY_HAND, LATER, Plan};
use crate::reliability::receiver::Try;
use crate::support::postgres;
use crate::support::redis::connect;
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// How long it may take until journal and schedule agree, once every notification has ended.
const DRAINED: Duration = Duration::from_secs(120);

/// One attempt as the journal has it.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Whose attempt.
    pub this: Try,
    /// Which server wrote it.
    pub instance: String,
    /// Its series.
    pub series: i64,
    /// When it began and when it was recorded, by the servers' clocks.
    pub at_ms: (i64, i64),
}

impl fmt::Display for Recorded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            this,
            instance,
            series,
            at_ms: (started_ms, at_ms),
        } = self;
        let attempt = this.attempt;
        write!(
            out,
            "attempt {attempt} of series {series} by {instance}, begun at {started_ms}, recorded at {at_ms}"
        )
    }
}

/// Whether a key is of this topic.
fn is_of(key: &str, topic: &str) -> bool {
    key.split_once('/').is_some_and(|(of, _)| of == topic)
}

impl Stage {
    /// Waits until Redis holds these and no more, and no lease is out. What is due much later waits in the journal alone; one of
    /// which an attempt was made by hand may be in Redis until it is settled. The audit tells whether Redis lacks any that it must
    /// hold. The reconciler gets its minute for what a kill left between the stores.
    pub async fn drained(&self, pending: &BTreeSet<String>) {
        let partitions = self.places().await;
        if partitions.is_empty() {
            return;
        }
        let ended = Instant::now() + DRAINED;
        loop {
            let (mut leases, mut held) = (BTreeSet::new(), BTreeSet::new());
            for (url, partition) in &partitions {
                let mut pipe = redis::pipe();
                pipe.zrange(format!("{{rb:{partition}}}:leases"), 0, -1)
                    .hkeys(format!("{{rb:{partition}}}:jobs"));
                let there: (Vec<String>, Vec<String>) =
                    (pipe.query_async(&mut connect(url).await).await).expect("answered");
                leases.extend(there.0);
                held.extend(there.1);
            }
            let more = held
                .iter()
                .filter(|key| !pending.contains(*key) || is_of(key, LATER));
            let more: Vec<_> = more.collect();
            let missing = pending.difference(&held);
            let missing = missing.filter(|key| !is_of(key, LATER) && !is_of(key, BY_HAND));
            let missing: Vec<_> = missing.collect();
            if leases.is_empty() && more.is_empty() && missing.is_empty() {
                return;
            }
            assert!(
                Instant::now() < ended,
                "missing in Redis: {missing:?}; in Redis, and should not be: {more:?}; leased: {leases:?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Has `ringback audit` compare everything; what it printed, and whether all is accounted for.
    /// Without Redis the servers are stopped first, since what they hold cannot be looked at from
    /// outside.
    pub async fn audited(&mut self) -> (String, bool) {
        let mut audit = Command::new(env!("CARGO_BIN_EXE_ringback"));
        let journal = match &self.postgres {
            Some((server, database)) => server.url(database),
            None => format!("sqlite://{}", self.journal().display()),
        };
        audit.args(["audit", "--deep", "--journal", &journal]);
        let is_embedded = self.redis.is_none() && self.several.is_none();
        match self.redis.as_ref().map(|redis| redis.url(0)) {
            Some(url) => {
                audit.args(["--redis", &url]);
            }
            None if is_embedded => self.stop().await,
            None => {
                let url = self.redis_url().expect("there are several");
                audit.args(["--redis", &url]);
            }
        }
        if !is_embedded {
            audit.args(["--partitions", &self.partitions.to_string()]);
            audit.args(["--horizon", HORIZON]);
        }
        let output = audit.output().await.expect("the program");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        (text, output.status.success())
    }

    /// Every attempt that the journal has the outcome of.
    pub async fn recorded(&self) -> Vec<Recorded> {
        let query = "SELECT n.id, CAST(a.number AS BIGINT), a.instance, CAST(a.series AS BIGINT),
                a.started_ms, a.at_ms
             FROM attempts a JOIN notifications n ON n.row_id = a.notification
             WHERE a.outcome <> 'interrupted'";
        let rows: Vec<(String, i64, String, i64, i64, i64)> = match &self.postgres {
            Some((server, database)) => {
                let mut connection = postgres::connect(&server.url(database)).await;
                sqlx::query_as(query).fetch_all(&mut connection).await
            }
            None => {
                let options = SqliteConnectOptions::new().filename(self.journal());
                let mut connection = options.connect().await.expect("a journal");
                sqlx::query_as(query).fetch_all(&mut connection).await
            }
        }
        .expect("attempts");
        rows.into_iter()
            .map(
                |(id, attempt, instance, series, started_ms, at_ms)| Recorded {
                    this: Try {
                        number: Plan::number_of(&id).expect("one of ours"),
                        attempt: u32::try_from(attempt).expect("a number"),
                    },
                    instance,
                    series,
                    at_ms: (started_ms, at_ms),
                },
            )
            .collect()
    }
}
