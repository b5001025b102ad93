//! Checks the log filter: a level for all modules, levels for single modules, or both.
//!
//! This check is stricter than `tracing_subscriber::EnvFilter`, which applies the filter. `EnvFilter` takes
//! an unknown word as the name of a module, so `warning` instead of `warn` would log nothing at all.

use super::values::quoted;
use std::fmt;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// The level of all modules that no part of the filter names. So a mistyped module name does not silence
/// the other modules.
const REST: &str = "warn";

/// A checked filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// Parses parts separated by commas. Each part is a level, or a module and a level.
    ///
    /// # Errors
    /// Names the first part that is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts: Vec<&str> = text.split(',').map(str::trim).collect();
        for part in &parts {
            let well = match part.split_once('=') {
                Some((module, level)) => is_module(module) && is_level(level),
                None => is_level(part),
            };
            if !well {
                return Err(format!(
                    "{} is neither a level ({}) nor a module with a level, like ringback=debug",
                    quoted(part),
                    LEVELS.join(", ")
                ));
            }
        }
        if !parts.iter().any(|part| is_level(part)) {
            parts.push(REST);
        }
        Ok(Self(parts.join(",")))
    }

    /// The filter as `tracing` filter directives.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self("info".to_string())
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

fn is_level(text: &str) -> bool {
    LEVELS.iter().any(|level| level.eq_ignore_ascii_case(text))
}

/// Whether a text is the path of a module, such as `ringback::health`.
fn is_module(text: &str) -> bool {
    text.split("::").all(|name| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(known)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::EnvFilter;

    #[test]
    fn levels_and_modules_with_levels_pass() {
        fn check(text: &str, expected: &str) {
            let filter = LogFilter::parse(text).expect(text);
            assert_eq!(filter.as_str(), expected, "{text}");
            let taken = EnvFilter::builder().parse(filter.as_str());
            assert!(taken.is_ok(), "{text}");
        }
        for level in LEVELS {
            check(level, level);
        }
        check("WARN", "WARN");
        check("ringback=debug,warn", "ringback=debug,warn");
        check(
            " warn , ringback::health=Trace ",
            "warn,ringback::health=Trace",
        );
        check("off,h2=info", "off,h2=info");
        // The modules that the filter does not name get the level `warn`.
        check("ringback=debug", "ringback=debug,warn");
        check("rinback=debug", "rinback=debug,warn");
        assert_eq!(LogFilter::parse("info"), Ok(LogFilter::default()));
    }

    #[test]
    fn anything_else_is_named() {
        fn check(text: &str, named: &str) {
            let error = LogFilter::parse(text).expect_err(text);
            assert!(
                error.starts_with(&format!("`{named}` is neither")),
                "{error}"
            );
        }
        check("warning", "warning");
        check("ringback", "ringback");
        check("ringback=warning", "ringback=warning");
        check("ringback=loud", "ringback=loud");
        check("info,ringback=", "ringback=");
        check("info,=debug", "=debug");
        check("foo bar", "foo bar");
        check("info debug", "info debug");
        check("info;debug", "info;debug");
        check("ringback:debug", "ringback:debug");
        check("ringback::=debug", "ringback::=debug");
        check("info,", "");
        check("", "");
        check(" ", "");
        check("3", "3");
        check("[span]=debug", "[span]=debug");
        check("info,re\nd", "re\\nd");
    }
}
