//! How much processor time the server and its stores take, and how often the server wakes up.

use std::{fmt, fs};

/// The processor time of each process, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessorTime {
    server: u64,
    redis: u64,
    postgres: u64,
}

/// The processes whose time is read.
#[derive(Debug, Clone)]
pub struct Processes {
    /// The servers.
    pub servers: Vec<u32>,
    /// Redis, if it is used.
    pub redis: Option<u32>,
    /// The first process of PostgreSQL, if it is used. Its sessions are processes of their own.
    pub postgres: Option<u32>,
}

/// The processor time of one notification, in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeOfEach {
    /// Of the servers together.
    pub server_us: f64,
    /// Of Redis.
    pub redis_us: f64,
    /// Of PostgreSQL.
    pub postgres_us: f64,
}

impl ProcessorTime {
    /// What these processes have taken so far.
    pub fn read(processes: Processes) -> Self {
        let postgres = processes.postgres.map_or(0, |first| {
            let children = format!("/proc/{first}/task/{first}/children");
            let children = fs::read_to_string(children).unwrap_or_default();
            let children = children
                .split_whitespace()
                .filter_map(|text| text.parse().ok());
            // Without those that have ended, the sum would become smaller when a session ends.
            children.map(of_process).sum::<u64>() + of_process(first) + of_ended_children(first)
        });
        Self {
            server: processes.servers.into_iter().map(of_process).sum(),
            redis: processes.redis.map_or(0, of_process),
            postgres,
        }
    }

    /// What each of `many` notifications took since `before`.
    pub fn of_each(self, before: Self, many: usize) -> TimeOfEach {
        let of_each =
            |after: u64, before: u64| after.saturating_sub(before) as f64 / 1e3 / many as f64;
        TimeOfEach {
            server_us: of_each(self.server, before.server),
            redis_us: of_each(self.redis, before.redis),
            postgres_us: of_each(self.postgres, before.postgres),
        }
    }
}

impl fmt::Display for TimeOfEach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "server {:.1}, Redis {:.1}, PostgreSQL {:.1} microseconds",
            self.server_us, self.redis_us, self.postgres_us
        )
    }
}

/// How many ticks a second of processor time has in `/proc/PID/stat`.
const TICKS_PER_SECOND: u64 = 100;

/// The time of the children of a process that have ended, in nanoseconds; counted in ticks.
fn of_ended_children(id: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The name of the program, in brackets, may have blanks.
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    let ticks = fields.split_whitespace().skip(13).take(2);
    let ticks = ticks.filter_map(|text| text.parse::<u64>().ok());
    ticks.sum::<u64>() * (1_000_000_000 / TICKS_PER_SECOND)
}

/// The time of all threads of a process, in nanoseconds. Finer than the ticks of `/proc/PID/stat`.
fn of_process(id: u32) -> u64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else {
        return 0;
    };
    let time = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    threads.flatten().filter_map(time).sum()
}

/// How often the threads of these processes have given up their core to wait, which is how often they were woken since.
pub fn waits(ids: &[u32]) -> u64 {
    ids.iter().map(|id| waits_of(*id)).sum()
}

fn waits_of(id: u32) -> u64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else {
        return 0;
    };
    let waits = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("status")).ok()?;
        let field = text
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        field.trim().parse::<u64>().ok()
    };
    threads.flatten().filter_map(waits).sum()
}
