//! The filters of the search, as they are in the address.

use crate::domain::duration;
use crate::domain::key::check_topic;
use crate::domain::lane::Lane;
use crate::domain::state::{Cause, State};
use crate::journal::Filter;
use crate::page::html::address;
use crate::page::language::Language;
use crate::page::texts::search::SearchTexts;
use crate::page::texts::states::{STATES, StateTexts};
use crate::page::times::parse_time;
use crate::page::visit::Visit;

/// Maximum length of what is looked for, in characters.
const LONGEST_QUERY: usize = 256;
/// Maximum length of a cursor, in bytes.
const LONGEST_CURSOR: usize = 256;

/// Some filters are wrong; [`Filters`] says which.
#[derive(Debug)]
pub struct FilterProblem;

/// The filters as the visitor has typed them, and what is wrong with each.
#[derive(Debug, Default)]
pub struct Filters {
    pub query: String,
    pub topic: String,
    pub state: String,
    pub lane: String,
    pub cause: String,
    pub from: String,
    pub to: String,
    pub cursor: String,
    /// Of the scheduled ones, only those with or without an attempt in flight.
    pub in_flight: Option<bool>,
    /// Only what is due now, sorted by when it became due.
    pub is_due: bool,
    pub query_problem: &'static str,
    pub topic_problem: &'static str,
    pub state_problem: &'static str,
    pub lane_problem: &'static str,
    pub cause_problem: &'static str,
    pub from_problem: &'static str,
    pub to_problem: &'static str,
    /// The states to choose from, in words.
    pub states: Vec<FilterChoice>,
    /// The causes to choose from, in words.
    pub causes: Vec<FilterChoice>,
    /// The topics to which the key is bound.
    pub own_topics: Vec<String>,
}

/// A value of a filter to choose from.
#[derive(Debug)]
pub struct FilterChoice {
    pub name: &'static str,
    pub text: &'static str,
    pub is_chosen: bool,
}

impl Filters {
    /// Reads the filters of an address.
    pub fn of(visit: &Visit, now_ms: i64) -> (Self, Result<Filter, FilterProblem>) {
        let t = SearchTexts::of(visit.language);
        let text = |name| visit.parameter(name).unwrap_or_default();
        let mut filters = Self {
            query: text("q"),
            topic: text("topic"),
            state: text("state"),
            lane: text("lane"),
            cause: text("cause"),
            from: text("from"),
            to: text("to"),
            cursor: text("cursor"),
            ..Self::default()
        };
        filters.choices(visit);
        let filter = filters.read(t, now_ms);
        let filter = match filters.has_problem() {
            true => Err(FilterProblem),
            false => Ok(filter),
        };
        (filters, filter)
    }

    /// Whether the list is one of dead letters, by their ends.
    pub fn is_by_end(&self) -> bool {
        self.state == State::Dead.as_str() || !self.cause.is_empty()
    }

    /// Whether anything but the text in the box narrows the search.
    pub fn is_filtered(&self) -> bool {
        let all = [
            &self.topic,
            &self.state,
            &self.lane,
            &self.cause,
            &self.from,
            &self.to,
        ];
        all.iter().any(|filter| !filter.is_empty())
    }

    /// Whether a filter is wrong.
    pub fn has_problem(&self) -> bool {
        let all = [
            self.query_problem,
            self.topic_problem,
            self.state_problem,
            self.lane_problem,
            self.cause_problem,
            self.from_problem,
            self.to_problem,
        ];
        all.iter().any(|problem| !problem.is_empty())
    }

    /// The address of the search with these filters, without a cursor, and with further parameters.
    pub fn address(&self, more: &[(&str, &str)]) -> String {
        let own = [
            ("q", self.query.as_str()),
            ("topic", &self.topic),
            ("state", &self.state),
            ("lane", &self.lane),
            ("cause", &self.cause),
            ("from", &self.from),
            ("to", &self.to),
        ];
        address("/ui/search", &[&own[..], more].concat())
    }

    fn choices(&mut self, visit: &Visit) {
        let language: Language = visit.language;
        let words = StateTexts::of(language);
        let states = STATES.iter().map(|name| FilterChoice {
            name,
            text: words.state(name),
            is_chosen: *name == self.state,
        });
        self.states = states.collect();
        let causes = Cause::ALL.iter().filter(|cause| cause.is_of_dead());
        let causes = causes.map(|cause| FilterChoice {
            name: cause.as_str(),
            text: words.cause(*cause),
            is_chosen: cause.as_str() == self.cause,
        });
        self.causes = causes.collect();
        let topics = visit
            .caller
            .as_ref()
            .and_then(|caller| caller.topics.as_ref());
        self.own_topics = topics.map_or(Vec::new(), |topics| {
            topics.iter().map(ToString::to_string).collect()
        });
    }

    /// Reads the filters, and notes what is wrong.
    fn read(&mut self, t: &'static SearchTexts, now_ms: i64) -> Filter {
        let mut filter = Filter::default();
        let is_plain = !self.query.chars().any(char::is_control);
        if self.query.chars().count() > LONGEST_QUERY || !is_plain {
            self.query_problem = t.bad_query;
        }
        if self.cursor.len() > LONGEST_CURSOR {
            self.query_problem = t.bad_query;
        }
        if !self.topic.is_empty() {
            match check_topic(&self.topic) {
                Ok(()) => filter.topic = Some(self.topic.clone()),
                Err(_) => self.topic_problem = t.bad_topic,
            }
        }
        match (self.state.as_str(), State::from_name(&self.state)) {
            ("", _) => {}
            ("pending", _) => filter.state = Some(State::Scheduled),
            ("in_flight", _) => {
                filter.state = Some(State::Scheduled);
                self.in_flight = Some(true);
            }
            ("due", _) => {
                filter.state = Some(State::Scheduled);
                self.in_flight = Some(false);
                self.is_due = true;
            }
            (_, Some(State::Scheduled)) => {
                filter.state = Some(State::Scheduled);
                self.in_flight = Some(false);
            }
            (_, Some(state)) => filter.state = Some(state),
            (_, None) => self.state_problem = t.bad_state,
        }
        if !self.lane.is_empty() {
            match Lane::parse(&self.lane) {
                Ok(lane) => filter.lane = Some(lane.as_str().to_string()),
                Err(_) => self.lane_problem = t.bad_lane,
            }
        }
        if !self.cause.is_empty() {
            match Cause::from_name(&self.cause).filter(|cause| cause.is_of_dead()) {
                Some(cause) => filter.cause = Some(cause),
                None => self.cause_problem = t.bad_cause,
            }
        }
        for (text, instant, problem) in [
            (&self.from, &mut filter.from_ms, &mut self.from_problem),
            (&self.to, &mut filter.to_ms, &mut self.to_problem),
        ] {
            if !text.is_empty() {
                *instant = parse_past(text, now_ms);
                if instant.is_none() {
                    *problem = t.bad_time;
                }
            }
        }
        filter
    }
}

/// Reads a time, or a duration that counts back from now.
fn parse_past(text: &str, now_ms: i64) -> Option<i64> {
    match duration::parse_ms(text) {
        Ok(ago_ms) => now_ms.checked_sub(ago_ms),
        Err(_) => parse_time(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_an_instant_or_counts_back_from_now() {
        fn check(text: &str, expected: Option<i64>) {
            assert_eq!(parse_past(text, 10_000_000), expected, "{text}");
        }
        check("2h", Some(10_000_000 - 7_200_000));
        check("2026-11-20T08:30:00Z", Some(1_795_163_400_000));
        check("yesterday", None);
        check("", None);
    }
}
