//! Text for the terminal: colours, tables, times and progress. Control characters from outside are escaped,
//! so that they cannot control the terminal.

use crate::clock::{Clock as _, SystemClock};
use crate::domain::{duration, timestamp};
use console::Term;
use indicatif::{ProgressBar, ProgressStyle};
use owo_colors::{OwoColorize as _, Style};
use std::io::{self, IsTerminal as _, Write};
use unicode_width::UnicodeWidthChar as _;

/// The colours and the width of standard output.
#[derive(Debug, Clone, Copy)]
pub struct Colours {
    /// Whether colours are printed. They are if standard output is a terminal and `NO_COLOR` is not set.
    are_printed: bool,
    /// The number of columns of the terminal; `None` if standard output is none, or if it does not tell.
    columns: Option<usize>,
}

impl Colours {
    /// Decides whether standard output gets colours, and how wide tables may be.
    pub fn of_stdout() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let is_terminal = io::stdout().is_terminal();
        let size = is_terminal.then(|| Term::stdout().size_checked()).flatten();
        Self {
            are_printed: wanted && is_terminal,
            columns: size
                .map(|(_, columns)| columns.into())
                .filter(|columns| *columns > 0),
        }
    }

    /// No colours, and no limit to the width.
    #[cfg(test)]
    pub fn never() -> Self {
        Self {
            are_printed: false,
            columns: None,
        }
    }

    /// Colours, even if standard output is not a terminal.
    #[cfg(test)]
    pub fn always() -> Self {
        Self {
            are_printed: true,
            columns: None,
        }
    }

    /// No colours, on a terminal of this width.
    #[cfg(test)]
    pub fn on_terminal_of(columns: usize) -> Self {
        Self {
            are_printed: false,
            columns: Some(columns),
        }
    }

    /// The number of columns of the terminal, if standard output is one.
    pub fn columns(self) -> Option<usize> {
        self.columns
    }

    /// The text in this style, if colours are on.
    pub fn paint(self, text: &str, style: Style) -> String {
        if self.are_printed {
            text.style(style).to_string()
        } else {
            text.to_string()
        }
    }

    /// The name of a state, in the colour of the state.
    pub fn state(self, state: &str) -> String {
        let style = Style::new().bold();
        let style = match state {
            "delivered" => style.green(),
            "dead" => style.red(),
            "in_flight" => style.cyan(),
            "scheduled" => style.yellow(),
            _ => style,
        };
        self.paint(&clean(state), style)
    }

    /// Text in a weak colour, for less important parts.
    pub fn faint(self, text: &str) -> String {
        self.paint(text, Style::new().dimmed())
    }
}

/// Prints the reason of a failure in one line on standard error.
pub fn complain(problem: &str) {
    let line: Vec<&str> = problem.lines().map(str::trim).collect();
    // If standard error cannot be written to, the error cannot be reported.
    let _ = writeln!(io::stderr(), "ringback: {}", clean(&line.join(" ")));
}

/// Prints the reason of a failure in several lines on standard error. The caller has escaped the lines.
pub fn complain_at_length(lines: &[String]) {
    let _ = writeln!(io::stderr(), "ringback: {}", lines.join("\n"));
}

/// Escapes the characters of a text from outside that are not visible or that control the terminal. Escapes
/// in the text are not escaped again.
pub fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '"' | '\'' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
}

/// The text, or its start and dots if it takes more than `most` columns.
pub fn start_of(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_string();
    }
    let mut left = most.saturating_sub(3);
    let mut kept = String::new();
    for character in text.chars() {
        let wide = width(character);
        if wide > left {
            break;
        }
        left -= wide;
        kept.push(character);
    }
    format!("{kept}...")
}

/// The number of columns of a text on the terminal.
pub fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// The number of columns of a character: two for Chinese, Japanese and Korean characters and for most emoji.
pub fn width(character: char) -> usize {
    character.width().unwrap_or(0)
}

/// An instant with the time until or since it: `2026-11-20T08:30:00.000Z (in 3m58s)`.
pub fn instant(text: &str, now_ms: i64) -> String {
    let text = clean(text);
    match timestamp::parse_ms(&text) {
        Ok(at_ms) => format!("{text} ({})", distance(at_ms - now_ms)),
        Err(_) => text,
    }
}

/// The time until or since an instant, rounded to seconds: `in 3m58s`, `2s ago`. From two days on in days: `in 29d23h`.
pub fn distance(away_ms: i64) -> String {
    let seconds_ms = |ms: i64| duration::display_long_ms(ms.saturating_add(500) / 1_000 * 1_000);
    match away_ms {
        500.. => format!("in {}", seconds_ms(away_ms)),
        ..=-500 => format!("{} ago", seconds_ms(away_ms.saturating_neg())),
        _ => "now".to_string(),
    }
}

/// A progress bar for a long task. It is shown on standard error if that is a terminal.
pub struct ProgressDisplay(ProgressBar);

impl ProgressDisplay {
    /// Makes a progress bar for about `many` items. `what` names them.
    pub fn of(what: &'static str, many: u64) -> Self {
        let bar = if io::stderr().is_terminal() {
            ProgressBar::new(many)
        } else {
            ProgressBar::hidden()
        };
        let style =
            ProgressStyle::with_template("{bar:30} {human_pos} of {human_len} {msg}, {eta} left");
        Self(
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
                .with_message(what),
        )
    }

    /// Shows that `done` items are done. The number may be higher than expected.
    pub fn at(&self, done: u64) {
        let expected = self.0.length().unwrap_or(0);
        self.0.set_length(expected.max(done));
        self.0.set_position(done);
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The current time of this machine, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemClock.now_ms()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_steers_the_terminal() {
        fn check(text: &str, shown: &str) {
            assert_eq!(clean(text), shown);
        }
        check("success", "success");
        check("\u{1b}[2Jx\r\n", "\\u{1b}[2Jx\\r\\n");
        check("\\n \"失败\" \u{feff}", "\\n \"失败\" \\u{feff}");
        check("\u{9b}31m\u{202e}", "\\u{9b}31m\\u{202e}");
    }

    #[test]
    fn wide_characters_count_twice() {
        fn check(text: &str, most: usize, shown: &str) {
            assert_eq!(start_of(text, most), shown, "{text}");
        }
        check("success", 7, "success");
        check("success!", 7, "succ...");
        check("失败了", 6, "失败了");
        check("失败了吗", 7, "失败...");
        check("失败了吗", 6, "失...");
        check("失", 1, "...");
    }

    #[test]
    fn distances_are_told_to_the_second() {
        fn check(away_ms: i64, expected: &str) {
            assert_eq!(distance(away_ms), expected, "{away_ms}");
        }
        check(0, "now");
        check(499, "now");
        check(-499, "now");
        check(500, "in 1s");
        check(237_600, "in 3m58s");
        check(-61_000, "1m1s ago");
        check(172_799_499, "in 47h59m59s");
        check(172_799_500, "in 2d");
        check(2_591_999_000, "in 29d23h59m");
        let longest = duration::display_long_ms(i64::MAX);
        check(i64::MIN, &format!("{longest} ago"));
    }
}
