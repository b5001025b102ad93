//! How much time a hypervisor gave to other machines while this one had work to do ("steal", proc_stat(5)).
//!
//! While that happens nothing here runs, so calls are late for a reason that no program on this machine can change.

/// The time that has passed on all processors since the machine started, in ticks.
#[derive(Clone, Copy)]
pub struct ProcessorTime {
    all: u64,
    stolen: u64,
}

impl ProcessorTime {
    /// Now. `None` if the operating system does not say.
    pub fn now() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?;
        // user nice system idle iowait irq softirq steal; what follows is a part of the first two.
        let ticks: Vec<u64> = (ticks.split_whitespace().take(8))
            .map_while(|ticks| ticks.parse().ok())
            .collect();
        Some(Self {
            all: ticks.iter().sum(),
            stolen: *ticks.get(7)?,
        })
    }

    /// The share of the time since then that was stolen, from 0 to 1.
    pub fn stolen_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.stolen.saturating_sub(before.stolen) as f64 / all as f64
    }
}
