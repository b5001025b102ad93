//! The API keys: the list, making one, which is shown this once, and revoking one.

use super::Page;
use super::form::FormFields;
use super::frame::{PageFrame, role_in_words};
use super::html::{document, encoded};
use super::problem::PageProblem;
use super::shown_once::ShownOnce;
use super::texts::api_keys::ApiKeyTexts;
use super::texts::frame::FrameTexts;
use super::times::{TimeTag, parse_time};
use super::visit::Visit;
use crate::domain::api_key::{ApiKeyName, ApiKeyRecord, KeyTopics};
use crate::domain::duration;
use crate::domain::role::Role;
use crate::domain::timestamp::display_ms;
use crate::journal::ApiKeyRow;
use crate::service::{ApiKeyRequest, ServiceError};
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use std::sync::Arc;

const PATH: &str = "/ui/keys";

#[derive(Template)]
#[template(path = "api_keys.html")]
struct ApiKeysPage<'a> {
    frame: PageFrame,
    t: &'static ApiKeyTexts,
    rows: Vec<ListedKey<'a>>,
    form: NewKeyForm,
    roles: Vec<RoleChoice>,
    revoke_problem: &'static str,
}

/// A key of the list.
struct ListedKey<'a> {
    name: &'a str,
    revoke_href: String,
    /// What is known of it, or why it cannot be read.
    known: Result<ApiKeyFacts<'a>, &'a str>,
}

struct ApiKeyFacts<'a> {
    role: &'static str,
    topics: Option<String>,
    made: TimeTag,
    by: &'a str,
    expires: Option<TimeTag>,
    has_expired: bool,
}

struct RoleChoice {
    name: &'static str,
    text: &'static str,
    is_chosen: bool,
}

/// The form for a new key, as it was typed, and what is wrong with it.
#[derive(Debug, Default)]
struct NewKeyForm {
    name: String,
    role: String,
    topics: String,
    expires: String,
    name_problem: &'static str,
    role_problem: &'static str,
    topics_problem: &'static str,
    expires_problem: &'static str,
    /// Why the key was not made, although the form is right.
    problem: &'static str,
}

impl NewKeyForm {
    fn typed(form: &FormFields) -> Self {
        Self {
            name: form.text("name"),
            role: form.text("role"),
            topics: form.text("topics"),
            expires: form.text("expires"),
            ..Self::default()
        }
    }

    /// What is asked for. `None` if something is wrong; the form says what.
    fn read(&mut self, t: &'static ApiKeyTexts, now_ms: i64) -> Option<ApiKeyRequest> {
        let name = ApiKeyName::parse(&self.name).ok();
        if name.is_none() {
            self.name_problem = t.bad_name;
        }
        let role = Role::from_name(&self.role);
        if role.is_none() {
            self.role_problem = t.bad_role;
        }
        let topics: Vec<&str> = self.topics.split_whitespace().collect();
        let topics = match topics.is_empty() {
            true => Ok(None),
            false => KeyTopics::new(topics).map(Some),
        };
        match (&topics, role) {
            (Err(_), _) => self.topics_problem = t.bad_topics,
            (Ok(Some(_)), Some(Role::Support | Role::Operator)) => {
                self.topics_problem = t.topics_of_producer;
            }
            (Ok(_), _) => {}
        }
        let expires_ms = parse_end(&self.expires, now_ms);
        if expires_ms.is_none() {
            self.expires_problem = t.bad_expires;
        }
        Some(ApiKeyRequest {
            name: name?,
            role: role?,
            topics: topics.ok().filter(|_| self.topics_problem.is_empty())?,
            expires_ms: expires_ms?,
        })
    }
}

/// Reads when a key ends: a duration from now, or an instant; nothing: never. `None` if it is wrong or past.
fn parse_end(text: &str, now_ms: i64) -> Option<Option<i64>> {
    if text.is_empty() {
        return Some(None);
    }
    let end_ms = match duration::parse_ms(text) {
        Ok(after_ms) => now_ms.checked_add(after_ms)?,
        Err(_) => parse_time(text)?,
    };
    (end_ms > now_ms).then_some(Some(end_ms))
}

/// `GET /ui/keys`: the list.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let form = NewKeyForm::default();
    answer(&page, &visit, StatusCode::OK, form, "").await
}

async fn answer(
    page: &Page,
    visit: &Visit,
    status: StatusCode,
    form: NewKeyForm,
    revoke_problem: &'static str,
) -> Result<Response, PageProblem> {
    let t = ApiKeyTexts::of(visit.language);
    let texts = FrameTexts::of(visit.language);
    let rows = page.service.api_keys().await?;
    let now_ms = page.service.clock().now_ms();
    let roles = Role::ALL.into_iter().map(|role| RoleChoice {
        name: role.as_str(),
        text: role_in_words(texts, role),
        is_chosen: role.as_str() == form.role,
    });
    let shown = ApiKeysPage {
        frame: visit.frame(t.title),
        t,
        rows: (rows.iter())
            .map(|row| listed(row, texts, now_ms))
            .collect(),
        roles: roles.collect(),
        form,
        revoke_problem,
    };
    document(status, &shown)
}

fn listed<'a>(row: &'a ApiKeyRow, texts: &'static FrameTexts, now_ms: i64) -> ListedKey<'a> {
    let known = |record: &'a ApiKeyRecord| ApiKeyFacts {
        role: role_in_words(texts, record.role),
        topics: record.topics.as_ref().map(KeyTopics::to_text),
        made: TimeTag(record.created_ms),
        by: &record.created_by,
        expires: record.expires_ms.map(TimeTag),
        has_expired: !record.is_valid_at(now_ms),
    };
    ListedKey {
        name: &row.name,
        revoke_href: format!("{PATH}/{}/revoke", encoded(&row.name)),
        known: match &row.read {
            Ok(record) => Ok(known(record)),
            Err(unreadable) => Err(unreadable),
        },
    }
}

/// `POST /ui/keys`: makes a key, and shows it this once.
pub(super) async fn make(
    State(page): State<Arc<Page>>,
    visit: Visit,
    fields: FormFields,
) -> Result<Response, PageProblem> {
    let t = ApiKeyTexts::of(visit.language);
    let mut form = NewKeyForm::typed(&fields);
    let Some(asked) = form.read(t, page.service.clock().now_ms()) else {
        return answer(&page, &visit, StatusCode::UNPROCESSABLE_ENTITY, form, "").await;
    };
    let made = match page.service.make_api_key(asked, &visit.actor()?).await {
        Ok(made) => made,
        Err(ServiceError::ApiKeyChange(bad)) => {
            form.problem = t.refusal(&bad);
            let status = PageProblem::from(ServiceError::from(bad)).status();
            return answer(&page, &visit, status, form, "").await;
        }
        Err(error) => return Err(error.into()),
    };
    let record = &made.record;
    let role = role_in_words(FrameTexts::of(visit.language), record.role);
    let topics = record.topics.as_ref().map(KeyTopics::to_text);
    let shown = ShownOnce {
        frame: visit.frame(t.made_title),
        lead: t.made_lead,
        warning: if made.is_first { t.made_first } else { "" },
        label: t.key,
        secret: made.key,
        facts: vec![
            (t.name, record.name.to_string()),
            (t.role, role.to_string()),
            (t.topics, topics.unwrap_or(t.all_topics.to_string())),
            (
                t.expires,
                record.expires_ms.map_or(t.never.to_string(), display_ms),
            ),
        ],
        back_href: PATH.to_string(),
        back_text: t.back,
    };
    shown.into_answer()
}

/// `POST /ui/keys/{name}/revoke`: revokes a key at once.
pub(super) async fn revoke(
    State(page): State<Arc<Page>>,
    Path(name): Path<String>,
    visit: Visit,
    fields: FormFields,
) -> Result<Response, PageProblem> {
    let t = ApiKeyTexts::of(visit.language);
    let form = NewKeyForm::default();
    if fields.text("confirm").is_empty() {
        let wrong = StatusCode::UNPROCESSABLE_ENTITY;
        return answer(&page, &visit, wrong, form, t.not_confirmed).await;
    }
    match page.service.revoke_api_key(&name, &visit.actor()?).await {
        Ok(()) => Ok(Redirect::to("/ui/keys?done=key-revoked").into_response()),
        Err(ServiceError::ApiKeyChange(bad)) => {
            let words = t.refusal(&bad);
            let status = PageProblem::from(ServiceError::from(bad)).status();
            answer(&page, &visit, status, form, words).await
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::language::Language;

    #[test]
    fn an_end_is_a_duration_or_an_instant_to_come() {
        const NOW_MS: i64 = 1_795_163_400_000;
        fn check(text: &str, expected: Option<Option<i64>>) {
            assert_eq!(parse_end(text, NOW_MS), expected, "{text}");
        }
        check("", Some(None));
        check("90d", Some(Some(NOW_MS + 90 * 86_400_000)));
        check("2026-11-20 08:30", None);
        check("2026-11-20 08:31", Some(Some(NOW_MS + 60_000)));
        check("0s", None);
        check("soon", None);
    }

    #[test]
    fn a_form_says_what_is_wrong_with_each_field() {
        let t = ApiKeyTexts::of(Language::English);
        let read = |name: &str, role: &str, topics: &str, expires: &str| {
            let mut form = NewKeyForm {
                name: name.to_string(),
                role: role.to_string(),
                topics: topics.to_string(),
                expires: expires.to_string(),
                ..NewKeyForm::default()
            };
            let asked = form.read(t, 0);
            let problems = [
                form.name_problem,
                form.role_problem,
                form.topics_problem,
                form.expires_problem,
            ];
            (asked.is_some(), problems)
        };
        assert_eq!(read("a", "producer", "t u", "1d"), (true, [""; 4]));
        let none = [t.bad_name, t.bad_role, "", ""];
        assert_eq!(read("", "", "", ""), (false, none));
        let bad = ["", "", t.topics_of_producer, ""];
        assert_eq!(read("a", "support", "t", ""), (false, bad));
        let bad = ["", "", t.bad_topics, t.bad_expires];
        assert_eq!(read("a", "producer", "t/u", "x"), (false, bad));
    }
}
