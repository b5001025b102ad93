//! The sentence of an alert, for people who read it in a chat.

use super::{Alert, AlertFigures, DestinationFigures};
use crate::domain::duration;
use crate::domain::timestamp;

/// Number of destinations that a sentence names.
const MOST_NAMED: usize = 3;

impl Alert {
    /// The alert in a sentence or two.
    pub(super) fn text(&self) -> String {
        let since = timestamp::display_ms(self.since_ms);
        match &self.figures {
            AlertFigures::Destinations { all, is_least } => {
                self.destinations_in_words(all, *is_least)
            }
            AlertFigures::DeadLetters {
                count,
                is_least,
                within_ms,
                lanes,
            } => {
                let least = if *is_least { "At least " } else { "" };
                let within = duration::display_ms(*within_ms);
                let lanes: Vec<&str> = lanes.iter().map(|(lane, _)| lane.as_str()).collect();
                format!(
                    "{least}{count} notifications became dead letters within {within}, for {}.",
                    named(&lanes)
                )
            }
            AlertFigures::Lateness {
                server,
                attempts,
                late,
                late_after_ms,
                within_ms,
            } => {
                let within = duration::display_ms(*within_ms);
                match self.kind.is_recovery() {
                    true => format!("The attempts of the server {server} begin on time again."),
                    false => format!(
                        "{late} of the {attempts} attempts that the server {server} has made within {within} began more than \
                         {} late.",
                        duration::display_ms(*late_after_ms)
                    ),
                }
            }
            AlertFigures::Store {
                server,
                store,
                state,
                cause,
            } => match (self.kind.is_recovery(), cause) {
                (true, _) => format!("The server {server} can use the {store} again."),
                (false, Some(cause)) => format!(
                    "The server {server} cannot use the {store} since {since}: it is {state} ({cause})."
                ),
                (false, None) => {
                    format!(
                        "The server {server} cannot use the {store} since {since}: it is {state}."
                    )
                }
            },
        }
    }

    fn destinations_in_words(&self, all: &[DestinationFigures], is_least: bool) -> String {
        let since = timestamp::display_ms(self.since_ms);
        let lanes: Vec<&str> = all.iter().map(|one| one.lane.as_str()).collect();
        let (named, least) = (named(&lanes), if is_least { "At least " } else { "" });
        match (self.kind.is_recovery(), all) {
            (true, [_]) => {
                format!("{named} acknowledges calls again. It had acknowledged none since {since}.")
            }
            (true, _) => {
                format!(
                    "{} destinations acknowledge calls again: {named}.",
                    all.len()
                )
            }
            (false, [one]) => {
                let last = match one.last {
                    Some((outcome, Some(status))) => {
                        format!(" The last call: {outcome}, status {status}.")
                    }
                    Some((outcome, None)) => format!(" The last call: {outcome}."),
                    None => String::new(),
                };
                format!(
                    "{named} has acknowledged no call since {since}; notifications pending for it: {}.{last}",
                    one.pending
                )
            }
            (false, _) => format!(
                "{least}{} destinations acknowledge no calls, the first since {since}: {named}.",
                all.len()
            ),
        }
    }
}

/// The first names, and how many others there are.
fn named(names: &[&str]) -> String {
    let first = names[..names.len().min(MOST_NAMED)].join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => first,
        1 => format!("{first} and 1 other"),
        others => format!("{first} and {others} others"),
    }
}
