//! What is logged: a level for everything, levels for single modules, or both.
//!
//! Stricter than the filter that does the work (`tracing_subscriber::EnvFilter`): that one takes a word
//! it does not know for the name of a module, so that `warning` would log nothing at all.

use super::values::quoted;
use std::fmt;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// From what level on is logged what no part of a filter covers. A module whose name is mistyped must
/// not silence all others.
const REST: &str = "warn";

/// A checked filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// Reads parts separated by commas: a level, or a module and a level.
    ///
    /// # Errors
    /// Half a sentence that names the first part that is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts: Vec<&str> = text.split(',').map(str::trim).collect();
        for part in &parts {
            let well = match part.split_once('=') {
                Some((module, level)) => is_module(module) && is_level(level),
                None => is_level(part),
            };
            if !well {
                return Err(format!(
                    "{} is neither a level ({}) nor a module with one, like ringback=debug",
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

    /// As `tracing` filter directives.
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

/// A path such as `ringback::health`.
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
        // Whatever is not covered is logged where it needs attention.
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
