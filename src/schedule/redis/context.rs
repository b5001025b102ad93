//! What all calls to one partition share: the names of its keys, and how the start of a reply is read.

use super::Time;
use super::connection::Connection;
use super::connector::{Connector, PartitionServer};
use super::lane_score::{lane_score, place_score};
use super::partition_wakes::PartitionWake;
use super::recovery::write_counters::WriteCounter;
use super::reply::ScriptReply;
use super::script::Script;
use crate::clock::{Clock, OffsetClock};
use crate::domain::lane::Lane;
use crate::domain::place::PlaceInLane;
use crate::domain::priority::Priority;
use crate::schedule::envelope::{self, BodyWriting};
use crate::schedule::window::CONTENT_NEEDED_MS;
use crate::schedule::{CLAIMED_EARLY_MS, Entry, Limits, ScheduleError};
use redis::Cmd;
use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

/// Where an entry waits in its lane.
pub struct WaitingPlace {
    /// Its score there.
    pub score: i64,
    /// When it is to be claimed, in milliseconds since 1970.
    pub claimed_ms: i64,
    /// Whether it has another than the usual priority.
    pub is_ranked: bool,
}

impl WaitingPlace {
    /// Of what was read in the journal without its content, so that the journal is asked before it is sent.
    pub fn of(place: &PlaceInLane) -> Self {
        Self {
            score: place_score(place) - CLAIMED_EARLY_MS,
            claimed_ms: place.due_ms - CLAIMED_EARLY_MS,
            is_ranked: place.priority != Priority::Normal,
        }
    }
}

/// The `meta` hash of a partition.
pub fn meta_key(partition: usize) -> String {
    format!("{{rb:{partition}}}:meta")
}

/// The names of a partition's keys.
pub struct PartitionKeys {
    fixed: [String; 10],
    prefix: String,
    rebuild: String,
    claim: String,
    channel: String,
    directory: String,
    absent: Option<String>,
}

impl PartitionKeys {
    pub fn of(partition: usize, connector: &Connector, instance: &str) -> Self {
        let database = connector.database();
        let key = |name: &str| format!("{{rb:{partition}}}:{name}");
        Self {
            fixed: [
                "jobs", "lanes", "leases", "changing", "dead", "ended", "meta", "epoch", "health",
                "settings",
            ]
            .map(key),
            prefix: key(""),
            rebuild: key("rebuild"),
            claim: key(&format!("claim:{instance}")),
            channel: key(&format!("wake:{database}")),
            directory: key("directory"),
            absent: connector.is_cluster().then(|| key("absent")),
        }
    }

    pub fn jobs(&self) -> &str {
        &self.fixed[0]
    }

    pub fn lanes(&self) -> &str {
        &self.fixed[1]
    }

    pub fn leases(&self) -> &str {
        &self.fixed[2]
    }

    pub fn dead(&self) -> &str {
        &self.fixed[4]
    }

    pub fn ended(&self) -> &str {
        &self.fixed[5]
    }

    /// The keys that every script gets.
    pub fn fixed(&self) -> &[String] {
        &self.fixed
    }

    /// In a cluster, a key that is never there. Each script that uses keys that it cannot name beforehand gets it too. So a
    /// node refuses the script (`TRYAGAIN`) while the slot is on its way to another node: otherwise it would run until it
    /// meets the first key that is not there any more, and stop in the middle.
    pub fn absent(&self) -> Option<&str> {
        self.absent.as_deref()
    }

    /// What the names of all keys begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key with the leases of one lane.
    pub fn leased(&self, lane: &Lane) -> String {
        format!("{}leased:{}", self.prefix, lane.as_str())
    }

    pub fn meta(&self) -> &str {
        &self.fixed[6]
    }

    pub fn epoch(&self) -> &str {
        &self.fixed[7]
    }

    /// The list of what has its content here for some minutes.
    pub fn contents(&self) -> String {
        format!("{}contents", self.prefix)
    }

    pub fn settings(&self) -> &str {
        &self.fixed[9]
    }

    pub fn rebuild(&self) -> &str {
        &self.rebuild
    }

    /// The key that stores this instance's last claim.
    pub fn claim(&self) -> &str {
        &self.claim
    }

    /// The key of the directory (directory.rs).
    pub fn directory(&self) -> &str {
        &self.directory
    }

    pub fn channel(&self) -> &str {
        &self.channel
    }
}

/// What the calls of all kinds share.
pub struct Context {
    pub keys: PartitionKeys,
    pub limits: Limits,
    pub clock: Arc<OffsetClock>,
    pub wake: PartitionWake,
    pub writes: WriteCounter,
    pub time: Time,
    pub server: PartitionServer,
    /// Whether there is a journal, which remembers what has ended. So entries may be bare: another instance may have put them in
    /// that has a horizon.
    pub has_journal: bool,
    /// Whether the bodies of what waits for a later attempt are left to the journal.
    pub leaves_bodies: bool,
}

/// What becomes of the content of an entry that waits for another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentAgain {
    /// It is written as [`Context::encode`] says, or stays as it is if it was registered a moment ago.
    Written,
    /// It stays in Redis until the attempt.
    Kept,
    /// It stays in Redis for some minutes (`contents`).
    KeptForNow,
    /// The entry is bare at once.
    Left,
}

impl Context {
    /// The start of a script call: the shared keys and arguments of `common.lua`.
    pub fn call(&self, script: &Script) -> Cmd {
        let mut command = script.call();
        let absent = self.keys.absent();
        command.arg(self.keys.fixed.len() + usize::from(absent.is_some()));
        for key in &self.keys.fixed {
            command.arg(key);
        }
        if let Some(absent) = absent {
            command.arg(absent);
        }
        self.add_now(&mut command);
        command
            .arg(&self.keys.prefix)
            .arg(format!(
                "{} {} {}",
                self.limits.lane_start,
                self.limits.lane_cap,
                u8::from(self.has_journal)
            ))
            .arg(self.writes.instance())
            .arg(self.writes.seen());
        command
    }

    /// Writes an envelope. With a journal and a horizon, the body of what waits for a later attempt of its series is not in
    /// Redis, unless it was registered a moment ago: it waits for minutes or an hour, and an attempt reads it from the
    /// journal. Nor are the bodies of what was loaded from the journal. The first attempt after a registration comes soon,
    /// and most notifications need no other, so reading their bodies would only cost. Without a horizon, Redis has
    /// everything that a journal may lose when it is set back to an older copy.
    pub fn encode(&self, entry: &Entry) -> Vec<u8> {
        let is_later = entry.progress.step > 0;
        let body = match self.leaves_bodies && is_later && !self.is_new(entry) {
            true => BodyWriting::LengthOnly,
            false => BodyWriting::Whole,
        };
        envelope::encode(entry, body)
    }

    /// What becomes of the content of an entry that waits for another attempt: of a later one of its series, it is left to
    /// the journal. But not if it was registered a moment ago: a journal may lose that, with the attempt before. What was
    /// read in the journal is no such copy.
    pub fn content_again(&self, entry: &Entry) -> ContentAgain {
        if entry.progress.step == 0 || !self.may_be_bare(entry) {
            return ContentAgain::Written;
        }
        let waits_ms = entry.progress.next_due_ms() - self.clock.now_ms();
        if !self.is_new(entry) || entry.notification.body.here().is_none() {
            ContentAgain::Left
        } else if waits_ms > self.limits.window.content_kept_ms() + CONTENT_NEEDED_MS {
            ContentAgain::KeptForNow
        } else {
            ContentAgain::Kept
        }
    }

    /// Whether it was registered so lately that a journal may lose it, as when a primary fails.
    pub fn is_new(&self, entry: &Entry) -> bool {
        let age_ms = self.clock.now_ms() - entry.notification.registered_ms;
        age_ms < self.limits.window.content_kept_ms()
    }

    /// Whether an entry that is in the journal like this may be bare.
    fn may_be_bare(&self, entry: &Entry) -> bool {
        self.leaves_bodies && !entry.is_needed_whole()
    }

    /// Adds the arguments for an entry that was registered: key, lane, its score in the lane, when it was accepted, envelope. It
    /// has its content: most first attempts come soon, and a journal that loses what it has accepted last, as to a primary that
    /// fails, gets it back from here. Returns when it is to be claimed.
    pub fn add_registered(&self, command: &mut Cmd, entry: &Entry) -> i64 {
        let notification = &entry.notification;
        let place = self.place(entry, false);
        command
            .arg(notification.key.as_str())
            .arg(notification.lane.as_str())
            .arg(place.score)
            .arg(notification.registered_ms)
            .arg(self.encode(entry));
        place.claimed_ms
    }

    /// Where an entry waits that was read in the journal.
    pub fn place_of_recorded(&self, entry: &Entry) -> WaitingPlace {
        self.place(entry, self.may_be_bare(entry))
    }

    /// The envelope of an entry that was read in the journal; of one that may be bare, only the header.
    pub fn envelope_of_recorded(&self, entry: &Entry) -> Vec<u8> {
        match self.may_be_bare(entry) {
            true => envelope::encode_header(entry).to_vec(),
            false => self.encode(entry),
        }
    }

    fn place(&self, entry: &Entry, is_bare: bool) -> WaitingPlace {
        // The journal is asked first.
        let early_ms = match is_bare || entry.verify {
            true => CLAIMED_EARLY_MS,
            false => self.limits.early_ms,
        };
        WaitingPlace {
            score: lane_score(&entry.notification, &entry.progress) - early_ms,
            claimed_ms: entry.progress.next_due_ms() - early_ms,
            is_ranked: entry.notification.priority != Priority::Normal,
        }
    }

    /// The channel as an argument of a script that places lanes: `publish_if_first` in `lane_turns.lua`.
    pub fn channel(&self) -> Cow<'_, str> {
        match self.wake.is_claimed() {
            true => Cow::Borrowed(self.keys.channel()),
            false => Cow::Owned(format!("!{}", self.keys.channel())),
        }
    }

    /// Adds the time that a script uses.
    pub fn add_now(&self, command: &mut Cmd) {
        match self.time {
            Time::Server => command.arg(""),
            Time::Clock => command.arg(self.clock.now_ms()),
        };
    }

    /// Runs a script that changes something. Reads the server's time and the write count of the change from
    /// the first items of its reply.
    pub async fn run(
        &self,
        connection: &Connection,
        script: &Script,
        command: &Cmd,
    ) -> Result<ScriptReply, ScheduleError> {
        self.take_in(self.read(connection, script, command).await)
    }

    /// Runs a script as [`Context::run`]. If the command is sent a second time, its argument at `place` is set
    /// to 0, which tells the script that it is a repetition (see [`Connection::run_script_marking_repeat`]).
    pub async fn run_marking_repeat(
        &self,
        connection: &Connection,
        script: &Script,
        command: &Cmd,
        place: usize,
    ) -> Result<ScriptReply, ScheduleError> {
        let running = connection.run_script_marking_repeat(script, command, place);
        self.take_in(self.timed(running).await)
    }

    fn take_in(
        &self,
        result: Result<ScriptReply, ScheduleError>,
    ) -> Result<ScriptReply, ScheduleError> {
        if matches!(result, Err(ScheduleError::Rebuilding)) {
            self.writes.report_loss();
        }
        let mut reply = result?;
        self.writes.observe(reply.number()?);
        Ok(reply)
    }

    /// Runs a script that only reads. Reads the server's time from the first item of its reply.
    pub async fn read(
        &self,
        connection: &Connection,
        script: &Script,
        command: &Cmd,
    ) -> Result<ScriptReply, ScheduleError> {
        self.timed(connection.run_script(script, command)).await
    }

    async fn timed(
        &self,
        running: impl Future<Output = Result<ScriptReply, ScheduleError>>,
    ) -> Result<ScriptReply, ScheduleError> {
        let sent_ms = self.clock.base().now_ms();
        let mut reply = running.await?;
        let there_ms = reply.number()?;
        if self.time == Time::Server {
            self.clock
                .observe(sent_ms, there_ms, self.clock.base().now_ms());
        }
        Ok(reply)
    }
}
