//! The audit log: who did what, when and why. The filters live in the address.

use super::Page;
use super::frame::PageFrame;
use super::html::{address, document};
use super::language::Language;
use super::notification;
use super::paths::{destination_path, endpoint_path};
use super::problem::PageProblem;
use super::texts::audit_log::AuditTexts;
use super::texts::audit_notes;
use super::times::{TimeTag, parse_time};
use super::visit::Visit;
use crate::domain::duration;
use crate::domain::endpoint::EndpointName;
use crate::domain::job::JobId;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::journal::{AuditEntry, AuditFilter};
use crate::service::AuditRequest;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use std::sync::Arc;

const PATH: &str = "/ui/audit-log";
/// Entries on a page.
const PAGE_SIZE: usize = 50;
/// Maximum length of the name of an actor, in bytes, as in the API.
const LONGEST_ACTOR: usize = 128;
/// Maximum length of a cursor, in bytes.
const LONGEST_CURSOR: usize = 256;

#[derive(Template)]
#[template(path = "audit_log.html")]
struct AuditLogDocument<'a> {
    frame: PageFrame,
    t: &'static AuditTexts,
    filters: AuditFilters,
    entries: Vec<ShownEntry<'a>>,
    first: Option<String>,
    next: Option<String>,
}

/// The filters as they were typed, and what is wrong with each.
#[derive(Debug, Default)]
struct AuditFilters {
    actor: String,
    from: String,
    to: String,
    actor_problem: &'static str,
    from_problem: &'static str,
    to_problem: &'static str,
}

/// An entry in words.
struct ShownEntry<'a> {
    at: TimeTag,
    actor: &'a str,
    actor_href: String,
    act: &'a str,
    kind: &'a str,
    subject: &'a str,
    /// Where the subject is shown, if it has a page.
    subject_href: Option<String>,
    reason: &'a str,
    detail: String,
    /// Whether the detail is in English although the page may not be.
    is_english: bool,
    instance: &'a str,
}

impl AuditFilters {
    fn of(visit: &Visit) -> Self {
        let text = |name| visit.parameter(name).unwrap_or_default();
        Self {
            actor: text("actor"),
            from: text("from"),
            to: text("to"),
            ..Self::default()
        }
    }

    /// The filter of the journal. What is wrong is noted.
    fn read(&mut self, t: &'static AuditTexts, now_ms: i64) -> AuditFilter {
        let mut filter = AuditFilter::default();
        let printable = self.actor.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
        match self.actor.as_str() {
            "" => {}
            actor if printable && actor.len() <= LONGEST_ACTOR => {
                filter.actor = Some(actor.to_string());
            }
            _ => self.actor_problem = t.bad_actor,
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

    fn has_problem(&self) -> bool {
        let all = [self.actor_problem, self.from_problem, self.to_problem];
        all.iter().any(|problem| !problem.is_empty())
    }

    fn is_filtered(&self) -> bool {
        let all = [&self.actor, &self.from, &self.to];
        all.iter().any(|filter| !filter.is_empty())
    }

    /// The address with these filters and this cursor.
    fn address(&self, cursor: &str) -> String {
        let parameters = [
            ("actor", self.actor.as_str()),
            ("from", &self.from),
            ("to", &self.to),
            ("cursor", cursor),
        ];
        address(PATH, &parameters)
    }
}

impl<'a> ShownEntry<'a> {
    fn of(entry: &'a AuditEntry, t: &'static AuditTexts, language: Language) -> Self {
        let detail = audit_notes::in_words(&entry.act, &entry.detail, language);
        Self {
            at: TimeTag(entry.at_ms),
            actor: &entry.actor,
            actor_href: address(PATH, &[("actor", &entry.actor)]),
            act: t.act_in_words(&entry.act),
            kind: t.kind_in_words(&entry.subject_kind),
            subject: &entry.subject,
            subject_href: subject_href(entry),
            reason: &entry.reason,
            is_english: detail.is_none(),
            detail: detail.unwrap_or_else(|| entry.detail.clone()),
            instance: &entry.instance,
        }
    }
}

/// The address of the page that shows the subject of an entry.
fn subject_href(entry: &AuditEntry) -> Option<String> {
    let subject = entry.subject.as_str();
    match entry.subject_kind.as_str() {
        "notification" => {
            let (topic, id) = subject.split_once('/')?;
            let key = Key::new(topic, id).ok()?;
            Some(notification::path_of(&key))
        }
        "lane" => Some(destination_path(&Lane::parse(subject).ok()?)),
        "endpoint" => Some(endpoint_path(&EndpointName::parse(subject).ok()?)),
        "job" => Some(format!("/ui/jobs/{}", JobId::parse(subject).ok()?)),
        "default_key" => Some("/ui/default-keys".to_string()),
        "api_key" => Some("/ui/keys".to_string()),
        _ => None,
    }
}

/// `GET /ui/audit-log`: a page of the entries, newest first.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let t = AuditTexts::of(visit.language);
    let mut filters = AuditFilters::of(&visit);
    let filter = filters.read(t, page.service.clock().now_ms());
    let cursor = visit.parameter("cursor");
    let cursor = cursor.filter(|cursor| cursor.len() <= LONGEST_CURSOR);
    let is_first = cursor.is_none();
    let request = AuditRequest {
        filter,
        limit: PAGE_SIZE,
        cursor,
        asked_by: visit.caller()?.name.clone(),
    };
    let (status, (found, next)) = match filters.has_problem() {
        true => (StatusCode::UNPROCESSABLE_ENTITY, Default::default()),
        false => (StatusCode::OK, page.service.audit_log(&request).await?),
    };
    let shown = AuditLogDocument {
        frame: visit.frame(t.title),
        t,
        entries: (found.iter())
            .map(|entry| ShownEntry::of(entry, t, visit.language))
            .collect(),
        first: (!is_first).then(|| filters.address("")),
        next: next.map(|cursor| filters.address(&cursor)),
        filters,
    };
    document(status, &shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_leads_to_its_page() {
        fn check(kind: &str, subject: &str, expected: Option<&str>) {
            let entry = AuditEntry {
                id: 1,
                at_ms: 0,
                actor: "a".to_string(),
                act: "x".to_string(),
                subject_kind: kind.to_string(),
                subject: subject.to_string(),
                reason: String::new(),
                detail: String::new(),
                instance: String::new(),
            };
            assert_eq!(
                subject_href(&entry).as_deref(),
                expected,
                "{kind} {subject}"
            );
        }
        check("notification", "t/a/b", Some("/ui/notifications/t/a%2Fb"));
        check("notification", "t", None);
        check(
            "lane",
            "https://shop.example",
            Some("/ui/destinations/https%3A%2F%2Fshop.example"),
        );
        check("endpoint", "shop", Some("/ui/endpoints/shop"));
        check("endpoint", "a/b", None);
        check("job", "019aa3f2", Some("/ui/jobs/019aa3f2"));
        check("schedule", "", None);
        check("planet", "x", None);
    }
}
