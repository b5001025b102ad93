//! The filter of dead letters and of jobs, as it is in the address and in forms.

use crate::domain::duration;
use crate::domain::job_filter::JobFilter;
use crate::domain::key::{BadKey, check_id, check_topic};
use crate::domain::lane::Lane;
use crate::domain::state::Cause;
use crate::domain::timestamp::display_ms;
use crate::journal::Filter;
use crate::page::form::FormFields;
use crate::page::html::address;
use crate::page::language::Language;
use crate::page::texts::bulk::BulkTexts;
use crate::page::texts::search::SearchTexts;
use crate::page::texts::states::StateTexts;
use crate::page::times::parse_time;
use crate::page::visit::Visit;

/// The filter as the visitor has typed it, and what is wrong with each part.
#[derive(Debug, Default)]
pub struct BulkFilters {
    pub topic: String,
    pub lane: String,
    pub cause: String,
    pub from: String,
    pub to: String,
    pub id_contains: String,
    pub topic_problem: &'static str,
    pub lane_problem: &'static str,
    pub cause_problem: &'static str,
    pub from_problem: &'static str,
    pub to_problem: &'static str,
    pub id_problem: &'static str,
    /// Whether it is one of dead letters, which have a cause and whose ends are compared.
    pub is_of_dead: bool,
    /// The causes to choose from, in words.
    pub causes: Vec<CauseChoice>,
    /// The topics to which the key is bound.
    pub own_topics: Vec<String>,
}

/// A cause to choose.
#[derive(Debug)]
pub struct CauseChoice {
    pub name: &'static str,
    pub text: &'static str,
    pub is_chosen: bool,
}

impl BulkFilters {
    /// Reads the filter of an address. `None` if a part is wrong.
    pub fn of_address(visit: &Visit, is_of_dead: bool, now_ms: i64) -> (Self, Option<JobFilter>) {
        let part = |name: &str| visit.parameter(name).unwrap_or_default();
        Self::of(part, visit, is_of_dead, now_ms)
    }

    /// Reads the filter of a form. `None` if a part is wrong.
    pub fn of_form(
        form: &FormFields,
        visit: &Visit,
        is_of_dead: bool,
        now_ms: i64,
    ) -> (Self, Option<JobFilter>) {
        Self::of(|name| form.text(name), visit, is_of_dead, now_ms)
    }

    fn of(
        part: impl Fn(&str) -> String,
        visit: &Visit,
        is_of_dead: bool,
        now_ms: i64,
    ) -> (Self, Option<JobFilter>) {
        let mut filters = Self {
            topic: part("topic"),
            lane: part("lane"),
            cause: if is_of_dead {
                part("cause")
            } else {
                String::new()
            },
            from: part("from"),
            to: part("to"),
            id_contains: part("id_contains"),
            is_of_dead,
            ..Self::default()
        };
        let words = StateTexts::of(visit.language);
        let causes = Cause::ALL.iter().filter(|cause| cause.is_of_dead());
        let causes = causes.map(|cause| CauseChoice {
            name: cause.as_str(),
            text: words.cause(*cause),
            is_chosen: cause.as_str() == filters.cause,
        });
        filters.causes = causes.collect();
        let bound = (visit.caller.as_ref()).and_then(|caller| caller.topics.as_ref());
        filters.own_topics = bound.map_or(Vec::new(), |topics| {
            topics.iter().map(ToString::to_string).collect()
        });
        let filter = filters.read(visit.language, now_ms);
        let is_good = !filters.has_problem();
        (filters, is_good.then_some(filter))
    }

    /// Whether a part is wrong.
    pub fn has_problem(&self) -> bool {
        let all = [
            self.topic_problem,
            self.lane_problem,
            self.cause_problem,
            self.from_problem,
            self.to_problem,
            self.id_problem,
        ];
        all.iter().any(|problem| !problem.is_empty())
    }

    /// Whether anything is filtered.
    pub fn is_filtered(&self) -> bool {
        self.parts().iter().any(|(_, value)| !value.is_empty())
    }

    /// The address of a page with this filter, and with further parameters.
    pub fn address(&self, path: &str, more: &[(&str, &str)]) -> String {
        address(path, &[&self.parts()[..], more].concat())
    }

    /// The address of the list of dead letters with this filter and another cause.
    pub fn with_cause(&self, cause: &str) -> String {
        let mut parts = self.parts();
        parts[2].1 = cause;
        address("/ui/dead-letters", &parts)
    }

    fn parts(&self) -> [(&'static str, &str); 6] {
        [
            ("topic", &self.topic),
            ("lane", &self.lane),
            ("cause", &self.cause),
            ("from", &self.from),
            ("to", &self.to),
            ("id_contains", &self.id_contains),
        ]
    }

    /// Reads the parts, and notes what is wrong.
    fn read(&mut self, language: Language, now_ms: i64) -> JobFilter {
        let t = SearchTexts::of(language);
        let mut filter = JobFilter::default();
        if !self.topic.is_empty() {
            match check_topic(&self.topic) {
                Ok(()) => filter.topic = Some(self.topic.clone()),
                Err(_) => self.topic_problem = t.bad_topic,
            }
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
        if !self.id_contains.is_empty() {
            match check_id(&self.id_contains) {
                Ok(()) | Err(BadKey::Dots) => filter.id_contains = Some(self.id_contains.clone()),
                Err(BadKey::Id | BadKey::Topic) => {
                    self.id_problem = BulkTexts::of(language).bad_id;
                }
            }
        }
        for (text, instant, problem) in [
            (&self.from, &mut filter.from_ms, &mut self.from_problem),
            (&self.to, &mut filter.to_ms, &mut self.to_problem),
        ] {
            if !text.is_empty() {
                *instant = match duration::parse_ms(text) {
                    Ok(ago_ms) => now_ms.checked_sub(ago_ms),
                    Err(_) => parse_time(text),
                };
                if instant.is_none() {
                    *problem = t.bad_time;
                }
            }
        }
        filter
    }
}

/// The filter of a list with the same notifications.
pub fn list_filter(filter: &JobFilter) -> Filter {
    let JobFilter {
        topic,
        lane,
        cause,
        from_ms,
        to_ms,
        id_contains,
    } = filter.clone();
    Filter {
        topic,
        lane,
        cause,
        from_ms,
        to_ms,
        id_contains,
        ..Filter::default()
    }
}

/// A filter as the fields of a form that is sent as it is.
pub fn fields_of(filter: &JobFilter) -> Vec<(&'static str, String)> {
    let cause = filter.cause.map(|cause| cause.as_str().to_string());
    let fields = [
        ("topic", filter.topic.clone()),
        ("lane", filter.lane.clone()),
        ("cause", cause),
        ("from", filter.from_ms.map(display_ms)),
        ("to", filter.to_ms.map(display_ms)),
        ("id_contains", filter.id_contains.clone()),
    ];
    let given = fields.into_iter();
    given
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// A filter in words: the label and the value of each part. Empty for all.
pub fn in_words(
    filter: &JobFilter,
    is_of_dead: bool,
    language: Language,
) -> Vec<(&'static str, String)> {
    let (t, states) = (SearchTexts::of(language), StateTexts::of(language));
    let (from, to) = match is_of_dead {
        true => (t.from_ended, t.to_ended),
        false => (t.from, t.to),
    };
    let fields = fields_of(filter).into_iter();
    let words = fields.map(|(name, value)| match name {
        "topic" => (t.topic, value),
        "lane" => (t.lane, value),
        "cause" => {
            let words = filter.cause.map_or("", |cause| states.cause(cause));
            (t.cause, words.to_string())
        }
        "from" => (from, value),
        "to" => (to, value),
        _ => (BulkTexts::of(language).id_contains, value),
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_survives_a_form_and_has_its_parts_in_words() {
        let whole = JobFilter {
            topic: Some("paid".into()),
            lane: Some("https://shop.example".into()),
            cause: Some(Cause::WindowClosed),
            from_ms: Some(1_000),
            to_ms: Some(2_000),
            id_contains: Some("\"x".into()),
        };
        let fields = fields_of(&whole);
        let mut again = BulkFilters::default();
        let value = |wanted: &str| {
            let field = fields.iter().find(|(name, _)| *name == wanted);
            field.map_or(String::new(), |(_, value)| value.clone())
        };
        again.topic = value("topic");
        again.lane = value("lane");
        again.cause = value("cause");
        again.from = value("from");
        again.to = value("to");
        again.id_contains = value("id_contains");
        assert_eq!(again.read(Language::English, 0), whole);
        assert!(!again.has_problem() && again.is_filtered());
        assert_eq!(in_words(&whole, true, Language::Chinese).len(), 6);
        assert!(in_words(&JobFilter::default(), true, Language::English).is_empty());
    }
}
