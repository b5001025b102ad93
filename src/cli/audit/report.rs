//! The report of an audit, as text or as JSON.

use super::ScheduleTotals;
use crate::cli::table::table;
use crate::cli::terminal::Colours;
use crate::config::StoresConfig;
use crate::domain::key::Key;
use crate::domain::progress::Progress;
use crate::domain::snapshot::SetAside;
use crate::domain::timestamp::display_ms;
use crate::journal::{AllSetAside, Fault, JournalCounts};
use crate::maintenance::audit::{Compared, JournalTotals, MOST_NAMED, balanced};
use crate::maintenance::difference::{Difference, DifferenceKind};
use crate::schedule::HeldProgress;
use crate::schedule::recoverable::ScheduleStatus;
use owo_colors::Style;
use serde_json::{Value, json};

/// The result of an audit.
pub struct AuditReport {
    /// The URL of the journal, without secrets.
    pub journal: String,
    /// The URL of Redis, without secrets.
    pub schedule: Option<String>,
    /// The totals of the journal, if there is one.
    pub totals: Option<JournalTotals>,
    /// The totals of the schedule, if it is in Redis.
    pub held: Option<ScheduleTotals>,
    /// The result of comparing both stores; without Redis, of reading what is pending in the journal.
    pub compared: Option<Compared>,
}

impl AuditReport {
    /// An empty report for these stores.
    pub fn new(config: &StoresConfig) -> Self {
        Self {
            journal: config.journal.to_string(),
            schedule: config.schedule.redis.as_ref().map(ToString::to_string),
            totals: None,
            held: None,
            compared: None,
        }
    }

    /// Whether no notification is missing and no difference was found.
    pub fn is_sound(&self) -> bool {
        let totals = self.totals.as_ref().is_none_or(JournalTotals::are_right);
        let compared = self.compared.as_ref().is_none_or(Compared::is_right);
        totals && compared && !self.is_unowned()
    }

    /// Whether notifications are pending, but Redis does not say which journal its data belongs to.
    fn is_unowned(&self) -> bool {
        let is_new = (self.held.as_ref()).is_some_and(|held| held.peeked == ScheduleStatus::New);
        is_new && self.to_compare() > 0
    }

    /// About how many notifications are compared: those of the journal and those of the schedule.
    pub fn to_compare(&self) -> u64 {
        let pending = self.totals.as_ref().map_or(0, |it| it.counters.scheduled);
        pending + self.held.as_ref().map_or(0, |held| held.counts.pending)
    }

    /// The report as text.
    pub fn as_text(&self, colours: Colours) -> String {
        let mut text = String::new();
        let mut line = |line: String| {
            text.push_str(&line);
            text.push('\n');
        };
        line(format!("journal   {}", self.journal));
        if let Some(totals) = &self.totals {
            say_totals(totals, &mut line);
            say_set_aside(&totals.set_aside, colours, &mut line);
        }
        match &self.schedule {
            Some(redis) => line(format!("schedule  {redis}")),
            None => line(
                "schedule  in the server's memory; only the running server can compare it, and does so automatically"
                    .to_string(),
            ),
        }
        if let Some(held) = &self.held {
            say_held(held, &mut line);
        }
        if let Some(compared) = &self.compared {
            if self.schedule.is_some() {
                say_compared(compared, colours, &mut line);
            }
            say_unreadable(compared, colours, &mut line);
        }
        line(if self.is_sound() {
            let style = Style::new().green();
            colours.paint("everything is accounted for", style)
        } else {
            colours.paint("not everything is accounted for", Style::new().red())
        });
        text
    }

    /// The report as JSON.
    pub fn as_json(&self) -> String {
        let totals = self.totals.as_ref();
        let examined = totals.and_then(|totals| totals.examined.as_ref());
        let held = self.held.as_ref();
        let compared = self.compared.as_ref();
        let unreadable = compared.map(|compared| &compared.unreadable);
        let report = json!({
            "sound": self.is_sound(),
            "journal": totals.map(|totals| json!({
                "at": self.journal,
                "counters": counts_as_json(&totals.counters),
                "balanced": balanced(&totals.counters),
                "counted": examined.map(|examined| counts_as_json(&examined.rows)),
                "faults": examined.map(|examined| json!({
                    "total": examined.faulty,
                    "named": examined.faults.iter().map(fault_as_json).collect::<Vec<_>>(),
                })),
                "set_aside": {
                    "total": totals.set_aside.total,
                    "named": totals.set_aside.named.iter().map(set_aside_as_json).collect::<Vec<_>>(),
                },
                "unreadable": unreadable.map(|found| json!({
                    "total": found.len(),
                    "named": found.iter().take(MOST_NAMED).map(unreadable_as_json).collect::<Vec<_>>(),
                })),
            })),
            "schedule": held.map(|held| json!({
                "at": self.schedule,
                "status": status(held.peeked),
                "pending": held.counts.pending,
                "in_flight": held.counts.in_flight,
                "dead": held.counts.dead,
            })),
            "compared": compared.filter(|_| held.is_some()).map(|compared| json!({
                "journal": compared.journal,
                "later": compared.later,
                "schedule": compared.schedule,
                "complete": !compared.cut_short,
                "differences": {
                    "total": compared.different,
                    "named": compared.differences.iter().map(difference_as_json).collect::<Vec<_>>(),
                },
            })),
        });
        format!("{report:#}\n")
    }
}

fn say_totals(totals: &JournalTotals, line: &mut impl FnMut(String)) {
    line(format!("  {}", counts_in_words(&totals.counters)));
    let Some(examined) = &totals.examined else {
        return;
    };
    if examined.rows == totals.counters {
        line("  counted one by one: the same".to_string());
    } else {
        line(format!(
            "  counted one by one: {}",
            counts_in_words(&examined.rows)
        ));
    }
    for (key, fault) in &examined.faults {
        line(format!("  {key} is {}", fault_text(*fault)));
    }
    say_more(examined.faulty, examined.faults.len(), line);
}

fn say_set_aside(set_aside: &AllSetAside, colours: Colours, line: &mut impl FnMut(String)) {
    let AllSetAside { total, named } = set_aside;
    if *total == 0 {
        return;
    }
    line(format!(
        "  set aside {total}: the journal refused to record their outcomes, so they are not sent; \
         `ringback retry` releases one"
    ));
    let row = |(key, SetAside { at_ms, reason }): &(Key, SetAside)| {
        vec![key.to_string(), display_ms(*at_ms), reason.clone()]
    };
    let rows: Vec<Vec<String>> = named.iter().map(row).collect();
    let heading = ["notification", "set aside", "reason"];
    line(table(colours, &heading, &rows).trim_end().to_string());
    say_more(*total, named.len(), line);
}

fn say_held(held: &ScheduleTotals, line: &mut impl FnMut(String)) {
    let counts = &held.counts;
    line(format!(
        "  pending {}, of these in flight {}{}",
        counts.pending,
        counts.in_flight,
        match counts.dead {
            0 => String::new(),
            dead => format!("; dead letters {dead}"),
        }
    ));
    match held.peeked {
        ScheduleStatus::Whole => {}
        ScheduleStatus::New if counts.pending + counts.dead > 0 => line(
            "  Redis does not say which journal its data belongs to; a server compares it with the journal \
             when it starts, and so does `ringback rebuild`"
                .to_string(),
        ),
        ScheduleStatus::New => line(
            "  Redis has no data of this journal; a server loads it when it starts, and so does \
             `ringback rebuild`"
                .to_string(),
        ),
        ScheduleStatus::Loading => line("  Redis is being loaded from the journal at this moment".to_string()),
    }
}

fn say_compared(compared: &Compared, colours: Colours, line: &mut impl FnMut(String)) {
    let Compared {
        journal,
        later,
        schedule,
        different,
        differences,
        cut_short,
        unreadable: _,
    } = compared;
    line(format!(
        "compared  {journal} of the journal, {schedule} of the schedule: {}",
        match different {
            0 => "no difference".to_string(),
            1 => "1 difference".to_string(),
            many => format!("{many} differences"),
        }
    ));
    if *later > 0 {
        line(format!(
            "          {later} of the journal are due later, and may wait there until they are loaded (--horizon)"
        ));
    }
    if differences.is_empty() {
        return;
    }
    let rows: Vec<Vec<String>> = differences.iter().map(row).collect();
    let heading = ["notification", "what is wrong", "journal", "schedule"];
    line(table(colours, &heading, &rows).trim_end().to_string());
    if *cut_short {
        line("and more: the rest was not compared".to_string());
    } else {
        say_more(*different as u64, differences.len(), line);
    }
}

fn say_unreadable(compared: &Compared, colours: Colours, line: &mut impl FnMut(String)) {
    let unreadable = &compared.unreadable;
    if unreadable.is_empty() {
        return;
    }
    line(format!(
        "cannot be read  {} of the journal, so they are not sent; repair their rows in `notifications`, `payloads` and, \
         in PostgreSQL, `statuses`",
        unreadable.len()
    ));
    let named = unreadable.iter().take(MOST_NAMED);
    let rows: Vec<Vec<String>> = named
        .map(|(name, problem)| vec![name.clone(), problem.clone()])
        .collect();
    let heading = ["notification", "what is wrong"];
    line(table(colours, &heading, &rows).trim_end().to_string());
    if compared.cut_short {
        line("and more: the rest was not read".to_string());
    } else {
        say_more(unreadable.len() as u64, rows.len(), line);
    }
}

fn say_more(all: u64, named: usize, line: &mut impl FnMut(String)) {
    match all.saturating_sub(named as u64) {
        0 => {}
        more => line(format!("and {more} more")),
    }
}

fn row(difference: &Difference) -> Vec<String> {
    let journal = difference
        .journal
        .as_ref()
        .map_or("unknown".to_string(), |recorded| {
            format!("{}, {}", recorded.state, step(&recorded.progress))
        });
    let schedule = difference
        .schedule
        .map_or("no entry".to_string(), |held| match held.progress {
            HeldProgress::Whole(progress) => step(&progress),
            HeldProgress::Due(due_ms) => format!("due {}", display_ms(due_ms)),
        });
    let wrong = match difference.kind {
        DifferenceKind::Missing => "would not be delivered",
        DifferenceKind::Elsewhere => "at another step",
        DifferenceKind::Ended => "ended, but scheduled",
        DifferenceKind::SetAside => "set aside, but scheduled",
        DifferenceKind::OtherLane => "in another lane",
        DifferenceKind::Unknown => "not in the journal",
    };
    vec![
        difference.entry.key.to_string(),
        wrong.to_string(),
        journal,
        schedule,
    ]
}

fn step(progress: &Progress) -> String {
    format!(
        "series {}, {} made, due {}",
        progress.series,
        progress.attempts,
        display_ms(progress.next_due_ms())
    )
}

/// The sum that must be right, with what it is of.
pub fn counts_in_words(counts: &JournalCounts) -> String {
    let JournalCounts {
        registered,
        scheduled,
        delivered,
        dead,
        cancelled,
    } = counts;
    let equals = if balanced(counts) { "=" } else { "is not" };
    format!(
        "registered {registered} {equals} delivered {delivered} + dead {dead} + cancelled \
         {cancelled} + pending {scheduled}"
    )
}

fn fault_text(fault: Fault) -> &'static str {
    match fault {
        Fault::NoBody => "pending without a body",
        Fault::NoAcknowledgement => "delivered without an acknowledged attempt",
    }
}

/// The numbers by state.
pub fn counts_as_json(counts: &JournalCounts) -> Value {
    json!({
        "registered": counts.registered,
        "delivered": counts.delivered,
        "dead": counts.dead,
        "cancelled": counts.cancelled,
        "pending": counts.scheduled,
    })
}

fn status(peeked: ScheduleStatus) -> &'static str {
    match peeked {
        ScheduleStatus::New => "new",
        ScheduleStatus::Whole => "whole",
        ScheduleStatus::Loading => "loading",
    }
}

fn fault_as_json((key, fault): &(Key, Fault)) -> Value {
    let fault = match fault {
        Fault::NoBody => "no_body",
        Fault::NoAcknowledgement => "no_acknowledgement",
    };
    json!({ "topic": key.topic(), "id": key.id(), "fault": fault })
}

fn set_aside_as_json((key, SetAside { at_ms, reason }): &(Key, SetAside)) -> Value {
    json!({ "topic": key.topic(), "id": key.id(), "at": display_ms(*at_ms), "reason": reason })
}

fn unreadable_as_json((name, problem): (&String, &String)) -> Value {
    json!({ "notification": name, "problem": problem })
}

fn difference_as_json(difference: &Difference) -> Value {
    let kind = match difference.kind {
        DifferenceKind::Missing => "missing",
        DifferenceKind::Elsewhere => "elsewhere",
        DifferenceKind::Ended => "ended",
        DifferenceKind::SetAside => "set_aside",
        DifferenceKind::OtherLane => "other_lane",
        DifferenceKind::Unknown => "unknown",
    };
    let step = |progress: &Progress| {
        json!({
            "series": progress.series,
            "attempts_made": progress.attempts,
            "next_attempt_at": display_ms(progress.next_due_ms()),
        })
    };
    json!({
        "topic": difference.entry.key.topic(),
        "id": difference.entry.key.id(),
        "difference": kind,
        "journal": difference.journal.as_ref().map(|recorded| {
            let mut shown = step(&recorded.progress);
            shown["state"] = recorded.state.as_str().into();
            shown
        }),
        "schedule": difference.schedule.map(|held| match held.progress {
            HeldProgress::Whole(progress) => step(&progress),
            HeldProgress::Due(due_ms) => json!({ "next_attempt_at": display_ms(due_ms) }),
        }),
    })
}
