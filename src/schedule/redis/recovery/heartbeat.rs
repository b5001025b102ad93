//! Heartbeats: this instance tells the others that it is alive and whether it claims, learns which others do, and takes its
//! share of the partitions.

use crate::clock::Clock as _;
use crate::schedule::ScheduleError;
use crate::schedule::redis::RedisSchedule;
use crate::schedule::redis::partition::Partition;
use crate::schedule::redis::reply::ScriptReply;
use crate::schedule::redis::script::Script;
use crate::schedule::redis::shares::{CLAIMS_FOR_MS, INSTANCES_CHANGED, owned_by};
use futures_util::stream::{self, StreamExt as _};
use std::collections::BTreeSet;
use tokio::join;

/// Maximum number of partitions in one script. It takes some microseconds for each.
const MOST_TOGETHER: usize = 64;
/// Maximum number of calls at a time.
const AT_ONCE: usize = 16;

impl RedisSchedule {
    /// See [`crate::schedule::recoverable::Recoverable::heartbeat`].
    pub(super) async fn send_heartbeat(&self) -> Result<(), ScheduleError> {
        let claims = self.instances.claims(self.clock.now_ms());
        let calls: Vec<_> = self
            .together()
            .map(|partitions| self.heartbeat_in(partitions, claims))
            .collect();
        // One that fails does not keep the others from it.
        let beats: Vec<_> = stream::iter(calls).buffered(AT_ONCE).collect().await;
        let (mut others, mut failure) = (BTreeSet::new(), None);
        for beat in beats {
            match beat {
                Ok(names) => others.extend(names),
                Err(error) => failure = Some(error),
            }
        }
        let own = self.instance();
        // An instance that claims finds itself, unless it has to inspect the partitions first.
        let is_entered = !others.is_empty() || (failure.is_none() && !claims);
        if is_entered {
            self.instances.learnt();
            self.wakes
                .own(&owned_by(own, &others, self.partitions.len()));
        } else if self.instances.is_outdated() {
            self.wakes.own(&vec![true; self.partitions.len()]);
        }
        if is_entered && self.instances.announced(claims) {
            self.tell_others().await;
        }
        failure.map_or(Ok(()), Err)
    }

    async fn heartbeat_in(
        &self,
        partitions: &[Partition],
        claims: bool,
    ) -> Result<Vec<String>, ScheduleError> {
        let mut command = call_of(&self.scripts.heartbeat, partitions);
        partitions[0].context.add_now(&mut command);
        command.arg(self.instance()).arg(u8::from(claims));
        command.arg(CLAIMS_FOR_MS);
        let mut reply = run(&self.scripts.heartbeat, partitions, &command).await?;
        let mut names = Vec::new();
        while !reply.is_empty() {
            names.push(reply.text()?);
        }
        Ok(names)
    }

    /// See [`crate::schedule::recoverable::Recoverable::deregister`].
    pub(super) async fn send_deregistration(&self) {
        let leaves = self.together().map(|partitions| async move {
            let mut command = call_of(&self.scripts.deregister, partitions);
            command.arg(self.instance());
            let left = run(&self.scripts.deregister, partitions, &command).await;
            if let Err(error) = left {
                tracing::debug!(
                    %error,
                    "Redis could not be told that this instance has stopped; the instance may count as running for 30 s \
                     after its last claim or heartbeat"
                );
            }
        });
        let leaves: Vec<_> = leaves.collect();
        stream::iter(leaves).buffered(AT_ONCE).collect::<()>().await;
        if self.instances.announced(false) {
            self.tell_others().await;
        }
    }

    /// Tells the other instances that this one has begun or stopped to claim. If none of two servers of a cluster passes that
    /// on, the others learn it with their next heartbeats.
    async fn tell_others(&self) {
        let tell = async |partition: &Partition| {
            let mut command = redis::cmd("PUBLISH");
            command
                .arg(partition.context.keys.channel())
                .arg(INSTANCES_CHANGED);
            let _ = partition.reads.run(&command).await;
        };
        let (first, last) = (
            &self.partitions[0],
            &self.partitions[self.partitions.len() - 1],
        );
        match self.away {
            Some(_) => join!(tell(first), tell(last)).0,
            None => tell(first).await,
        }
    }

    /// The name of this instance.
    fn instance(&self) -> &str {
        self.partitions[0].context.writes.instance()
    }

    /// The partitions in groups that one script may name.
    fn together(&self) -> std::slice::Chunks<'_, Partition> {
        let many = if self.away.is_some() {
            1
        } else {
            MOST_TOGETHER
        };
        self.partitions.chunks(many)
    }
}

/// The start of a call of a script about these partitions.
fn call_of(script: &Script, partitions: &[Partition]) -> redis::Cmd {
    let mut command = script.call();
    command.arg(partitions.len());
    for partition in partitions {
        command.arg(partition.context.keys.meta());
    }
    command
}

async fn run(
    script: &Script,
    partitions: &[Partition],
    command: &redis::Cmd,
) -> Result<ScriptReply, ScheduleError> {
    partitions[0].reads.run_script(script, command).await
}
