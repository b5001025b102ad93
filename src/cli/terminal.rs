//! Text for people: colour only on a terminal, tables, times, and nothing that could steer
//! the terminal.

use crate::clock::{Clock as _, SystemClock};
use crate::domain::{duration, timestamp};
use indicatif::{ProgressBar, ProgressStyle};
use owo_colors::{OwoColorize as _, Style};
use std::io::{self, IsTerminal as _, Write};

/// Whether standard output shows colours: it is a terminal, and `NO_COLOR` is not set.
#[derive(Debug, Clone, Copy)]
pub struct Colours(bool);

impl Colours {
    /// Decides for standard output.
    pub fn of_stdout() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self(wanted && io::stdout().is_terminal())
    }

    /// Shows none, wherever the text goes.
    #[cfg(test)]
    pub fn never() -> Self {
        Self(false)
    }

    /// Shows them wherever the text goes.
    #[cfg(test)]
    pub fn always() -> Self {
        Self(true)
    }

    /// The text in this style, or as it is.
    pub fn paint(self, text: &str, style: Style) -> String {
        if self.0 {
            text.style(style).to_string()
        } else {
            text.to_string()
        }
    }

    /// A state in its colour.
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

    /// Text of less weight.
    pub fn faint(self, text: &str) -> String {
        self.paint(text, Style::new().dimmed())
    }
}

/// Prints in one line on standard error why a command fails.
pub fn complain(problem: &str) {
    let line: Vec<&str> = problem.lines().map(str::trim).collect();
    // If this fails, there is nowhere left to report it.
    let _ = writeln!(io::stderr(), "ringback: {}", clean(&line.join(" ")));
}

/// Prints it in several lines, which are clean already.
pub fn complain_at_length(lines: &[String]) {
    let _ = writeln!(io::stderr(), "ringback: {}", lines.join("\n"));
}

/// Text from outside, with everything escaped that the eye would miss or the terminal would obey.
/// What is escaped already stays as it is.
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

/// The start of a text, with dots if there is more than so many columns.
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

/// How many columns a text takes up.
pub fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// Chinese, Japanese and Korean characters are twice as wide; they begin about here, and to take
/// others for wide too only makes a text look longer than it is.
pub fn width(character: char) -> usize {
    if character >= '\u{1100}' { 2 } else { 1 }
}

/// Rows under a heading, each column as wide as its widest cell. Every cell is cleaned.
pub fn table(colours: Colours, heading: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| clean(cell)).collect())
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
            .max(heading[column].chars().count())
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (cell, width) in cells.zip(&widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        line.trim_end().to_string()
    };
    let mut text = colours.faint(&line(&mut heading.iter().copied()));
    text.push('\n');
    for row in &rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
        text.push('\n');
    }
    text
}

/// An instant with its distance from now: `2026-11-20T08:30:00.000Z (in 3m58s)`.
pub fn instant(text: &str, now_ms: i64) -> String {
    let text = clean(text);
    match timestamp::parse_ms(&text) {
        Ok(at_ms) => format!("{text} ({})", distance(at_ms - now_ms)),
        Err(_) => text,
    }
}

/// How far away an instant is, to the second.
pub fn distance(away_ms: i64) -> String {
    let seconds_ms = |ms: i64| duration::display_ms(ms.saturating_add(500) / 1_000 * 1_000);
    match away_ms {
        500.. => format!("in {}", seconds_ms(away_ms)),
        ..=-500 => format!("{} ago", seconds_ms(away_ms.saturating_neg())),
        _ => "now".to_string(),
    }
}

/// The progress of a long task; shown on standard error if that is a terminal.
pub struct ProgressDisplay(ProgressBar);

impl ProgressDisplay {
    /// Nothing of about so many is done yet.
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

    /// So many are done; there may have been more than expected.
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

/// What time it is on this machine, in milliseconds since 1970.
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
        check(
            i64::MIN,
            &format!("{} ago", duration::display_ms(i64::MAX / 1_000 * 1_000)),
        );
    }

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["1".to_string(), "\n".to_string()],
            vec!["222".to_string(), "b".to_string()],
        ];
        let text = table(Colours(false), &["#", "answer"], &rows);
        assert_eq!(text, "#    answer\n1    \\n\n222  b\n");
    }
}
