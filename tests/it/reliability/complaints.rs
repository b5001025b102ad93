//! What the servers of a run say that an operator should look at.

use serde_json::Value;

/// Lines that are kept to be shown.
const MOST_LINES: usize = 20;

/// What was heard so far.
#[derive(Debug, Default)]
pub struct Complaints {
    /// How many lines of the level `ERROR`.
    pub errors: u64,
    /// How many lines of panics.
    pub panics: u64,
    /// The first of them.
    pub lines: Vec<String>,
}

impl Complaints {
    /// Hears one line. That a store is away is what an operator should hear of, but here it is no
    /// news. What is no line of the log is a panic.
    pub fn hear(&mut self, line: &str) {
        let parsed: Option<Value> = serde_json::from_str(line).ok();
        let is_news = parsed
            .as_ref()
            .is_none_or(|line| line["level"] == "ERROR" && line["target"] != "ringback::health");
        self.panics += u64::from(parsed.is_none());
        self.errors += u64::from(is_news);
        if is_news && self.lines.len() < MOST_LINES {
            self.lines.push(line.to_string());
        }
    }
}
