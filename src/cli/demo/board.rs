//! The output of the demonstration. On a terminal, a table that is redrawn. Elsewhere, one line for each event.

use super::merchant::ArrivedCall;
use super::stories::Story;
use super::story_progress::StoryProgress;
use crate::cli::CommandFailure;
use crate::cli::terminal::{Colours, clean, start_of};
use owo_colors::Style;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Instant;

/// Hides the cursor, and turns line wrapping off, so that each row of the table takes one line.
const OPEN: &str = "\x1b[?25l\x1b[?7l";
const CLOSE: &str = "\x1b[?7h\x1b[?25h";
const CLEAR_LINE: &str = "\r\x1b[2K";

/// The output of the demonstration.
pub struct Board {
    live: bool,
    colours: Colours,
    started: Instant,
    rows: Vec<Row>,
    drawn: bool,
}

struct Row {
    story: &'static Story,
    /// For each attempt, whether the answer was `success`.
    attempts: Vec<bool>,
    attempts_left: u64,
    state: String,
    note: String,
}

impl Board {
    /// Makes the output. Standard output decides whether it is a table or lines.
    pub fn new() -> Self {
        Self {
            live: io::stdout().is_terminal(),
            colours: Colours::of_stdout(),
            started: Instant::now(),
            rows: Vec::new(),
            drawn: false,
        }
    }

    /// Prints the stories that will be shown.
    pub fn open(&mut self, stories: &'static [Story]) -> Result<(), CommandFailure> {
        self.started = Instant::now();
        self.rows = stories.iter().map(Row::new).collect();
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "{} notifications to a simulated merchant; the waits are shortened: 1s 1s 2s instead of \
             4m 10m 10m",
            stories.len()
        )?;
        for story in stories {
            writeln!(out, "  {}  {}", story.id, story.title)?;
        }
        writeln!(out)?;
        if self.live {
            write!(out, "{OPEN}")?;
        }
        out.flush()?;
        Ok(())
    }

    /// Shows an attempt that has arrived at the merchant.
    pub fn attempted(
        &mut self,
        story: &'static Story,
        call: &ArrivedCall,
        late_ms: Option<i64>,
    ) -> Result<(), CommandFailure> {
        let answered = start_of(call.answered, 24);
        let signed = if call.verified {
            ""
        } else {
            ", WRONG SIGNATURE"
        };
        let late = late_ms.map_or(String::new(), |late_ms| format!(", {late_ms} ms after due"));
        if let Some(row) = self.row(story) {
            row.attempts.push(call.answered == "success");
        }
        let attempt = clean(&call.attempt);
        self.note(
            story,
            &format!("attempt {attempt}{late}{signed}: the merchant answered `{answered}`"),
        )
    }

    /// Shows a new state or a new number of future attempts.
    pub fn saw(&mut self, progress: &StoryProgress) -> Result<(), CommandFailure> {
        let Some(row) = self.row(progress.story) else {
            return Ok(());
        };
        row.attempts_left = progress.attempts_left;
        if row.state == progress.state {
            return Ok(());
        }
        row.state.clone_from(&progress.state);
        if self.live {
            return self.draw();
        }
        let cause = progress.cause.as_deref();
        let cause = cause.map_or(String::new(), |cause| format!(" ({})", clean(cause)));
        let state = self.colours.state(&progress.state);
        self.line(progress.story, &format!("{state}{cause}"))
    }

    /// Shows an event in one line.
    pub fn note(&mut self, story: &'static Story, note: &str) -> Result<(), CommandFailure> {
        if let Some(row) = self.row(story) {
            note.clone_into(&mut row.note);
        }
        if self.live {
            self.draw()
        } else {
            self.line(story, note)
        }
    }

    /// Redraws the table, if standard output is a terminal.
    pub fn draw(&mut self) -> Result<(), CommandFailure> {
        if !self.live {
            return Ok(());
        }
        let mut text = String::new();
        if self.drawn {
            text.push_str(&format!("\x1b[{}A", self.rows.len() + 1));
        }
        for row in &self.rows {
            text.push_str(&format!("{CLEAR_LINE}{}\n", row.show(self.colours)));
        }
        let elapsed = format!("{:5.1} s", self.started.elapsed().as_secs_f64());
        text.push_str(&format!("{CLEAR_LINE}{}\n", self.colours.faint(&elapsed)));
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        self.drawn = true;
        Ok(())
    }

    /// Prints the totals, and commands that the user may try next.
    pub fn close(&mut self, progress: &[StoryProgress], well: bool) -> Result<(), CommandFailure> {
        self.draw()?;
        self.restore();
        let count = |states: &[&str]| {
            let among = |progress: &&StoryProgress| states.contains(&progress.state.as_str());
            progress.iter().filter(among).count()
        };
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "\nregistered {} = delivered {} + dead {} + cancelled {} + pending {}",
            progress.len(),
            count(&["delivered"]),
            count(&["dead"]),
            count(&["cancelled"]),
            count(&["scheduled", "in_flight"]),
        )?;
        let late = progress.iter().flat_map(|progress| &progress.late_ms);
        if let Some(latest_ms) = late.max().filter(|_| well) {
            writeln!(
                out,
                "every attempt was signed, and started at most {latest_ms} ms after it was due"
            )?;
        }
        // The commands name the program as the user started it, because a program that was just built is
        // usually not in a directory of PATH.
        let program = std::env::args()
            .next()
            .unwrap_or_else(|| "ringback".to_string());
        writeln!(
            out,
            "\nNext, in three shells:\n  \
             {program} serve --allow-destination 127.0.0.0/8\n  \
             {program} listen --fail-first 2\n  \
             {program} send payment.succeeded http://127.0.0.1:9400/ 'out_trade_no=1' --ladder wechat"
        )?;
        out.flush()?;
        Ok(())
    }

    fn line(&self, story: &Story, text: &str) -> Result<(), CommandFailure> {
        let elapsed = self.started.elapsed().as_secs_f64();
        let mut out = io::stdout().lock();
        writeln!(out, "{elapsed:7.3} s  {}  {text}", story.id)?;
        out.flush()?;
        Ok(())
    }

    fn row(&mut self, story: &Story) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.story.id == story.id)
    }

    /// Restores the settings of the terminal.
    fn restore(&mut self) {
        if std::mem::take(&mut self.live) {
            let mut out = io::stdout().lock();
            let _ = write!(out, "{CLOSE}");
            let _ = out.flush();
        }
    }
}

/// Restores the terminal also after an error or a signal.
impl Drop for Board {
    fn drop(&mut self) {
        self.restore();
    }
}

impl Row {
    fn new(story: &'static Story) -> Self {
        Self {
            story,
            attempts: Vec::new(),
            attempts_left: 0,
            state: String::new(),
            note: String::new(),
        }
    }

    fn show(&self, colours: Colours) -> String {
        let mut dots = String::new();
        for acknowledged in &self.attempts {
            let style = Style::new();
            let style = if *acknowledged {
                style.green()
            } else {
                style.red()
            };
            dots.push_str(&colours.paint("●", style));
        }
        let ahead = usize::try_from(self.attempts_left).unwrap_or(0).min(8);
        dots.push_str(&"○".repeat(ahead));
        // `format!` would count the bytes of the colours too, so the width is computed here.
        let pad = |text: &str, width: usize| " ".repeat(width.saturating_sub(text.chars().count()));
        let dot_count = "●".repeat(self.attempts.len() + ahead);
        format!(
            "  {}  {dots}{}  {}{}  {}",
            self.story.id,
            pad(&dot_count, 6),
            colours.state(&self.state),
            pad(&self.state, 9),
            self.note,
        )
    }
}
