//! What can be done with a notification by hand: the forms, and what they do.
//!
//! The service decides whether a change is allowed, as for a request of the API. After a change the browser is led back to
//! the page; what was not done is shown beside its form, with what was typed.

use super::{Beside, answer, key_of, path_of};
use crate::api::reason::check_reason;
use crate::domain::change::Change;
use crate::domain::duration;
use crate::domain::key::Key;
use crate::domain::notification::{LONGEST_DELAY_MS, Start};
use crate::domain::snapshot::Snapshot;
use crate::page::Page;
use crate::page::form::FormFields;
use crate::page::problem::PageProblem;
use crate::page::rights::{Access, access_to};
use crate::page::texts::notification::NotificationTexts;
use crate::page::times::parse_time;
use crate::page::visit::Visit;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::{Method, StatusCode};
use std::sync::Arc;

/// A form on the page.
pub struct ActForm {
    /// The name of the change, which is the end of the address of the form.
    pub name: &'static str,
    pub title: &'static str,
    pub help: &'static str,
    /// Whether the form asks for an instant.
    pub asks_when: bool,
    pub when: String,
    pub reason: String,
    pub problem: String,
    /// Whether the change ends something for good.
    pub is_grave: bool,
}

/// A form that was not done.
#[derive(Debug, Default)]
pub struct FailedAct {
    name: &'static str,
    when: String,
    reason: String,
    problem: String,
}

/// All changes, in the order in which they are shown. The instant of the move is filled in later.
const CHANGES: [Change; 6] = [
    Change::Replay,
    Change::Resend,
    Change::Retry,
    Change::Reschedule(Start::After(0)),
    Change::Cancel,
    Change::Discard,
];

/// The forms that the state of the notification, its endpoint and the role of the visitor allow.
pub fn forms(
    visit: &Visit,
    snapshot: &Snapshot,
    t: &'static NotificationTexts,
    is_endpoint_made_again: bool,
    failed: Option<&FailedAct>,
) -> Vec<ActForm> {
    let is_shown = |change: &&Change| {
        let was_tried = failed.is_some_and(|failed| failed.name == change.as_str());
        let is_possible =
            change.is_allowed(snapshot) && !(is_endpoint_made_again && change.needs_payload());
        may(visit, **change) && (is_possible || was_tried)
    };
    let forms = CHANGES.iter().filter(is_shown).map(|change| {
        let (title, help) = t.change(*change);
        let failed = failed.filter(|failed| failed.name == change.as_str());
        ActForm {
            name: change.as_str(),
            title,
            help,
            asks_when: matches!(change, Change::Reschedule(_)),
            when: failed.map_or(String::new(), |failed| failed.when.clone()),
            reason: failed.map_or(String::new(), |failed| failed.reason.clone()),
            problem: failed.map_or(String::new(), |failed| failed.problem.clone()),
            is_grave: matches!(change, Change::Cancel | Change::Discard),
        }
    });
    forms.collect()
}

fn may(visit: &Visit, change: Change) -> bool {
    let route = format!("/ui/notifications/{{topic}}/{{id}}/{}", change.as_str());
    match access_to(&Method::POST, &route) {
        Access::Open => true,
        Access::Needs(permission) => visit.may(permission),
    }
}

type KeyInPath = Path<(String, String)>;

/// Makes the handler of a change.
macro_rules! handler {
    ($(#[$note:meta])* $name:ident, $change:expr) => {
        $(#[$note])*
        pub async fn $name(
            State(page): State<Arc<Page>>,
            path: KeyInPath,
            visit: Visit,
            form: FormFields,
        ) -> Result<Response, PageProblem> {
            let key = key_of(path)?;
            make(&page, &visit, &key, $change, &form).await
        }
    };
}

handler!(
    /// `POST .../retry`: makes an attempt now.
    retry, Change::Retry
);
handler!(
    /// `POST .../cancel`: ends a pending notification.
    cancel, Change::Cancel
);
handler!(
    /// `POST .../resend`: sends a delivered notification again.
    resend, Change::Resend
);
handler!(
    /// `POST .../replay`: starts the ladder of a dead letter again.
    replay, Change::Replay
);
handler!(
    /// `POST .../discard`: gives up a dead letter.
    discard, Change::Discard
);
handler!(
    /// `POST .../reschedule`: moves the first attempt.
    reschedule, Change::Reschedule(Start::After(0))
);

async fn make(
    page: &Page,
    visit: &Visit,
    key: &Key,
    change: Change,
    form: &FormFields,
) -> Result<Response, PageProblem> {
    let t = NotificationTexts::of(visit.language);
    let typed = FailedAct {
        name: change.as_str(),
        when: form.text("when"),
        reason: form.text("reason"),
        problem: String::new(),
    };
    let failed = |problem: &str| Beside {
        failed: Some(FailedAct {
            problem: problem.to_string(),
            name: typed.name,
            when: typed.when.clone(),
            reason: typed.reason.clone(),
        }),
        ..Beside::default()
    };
    let wrong = StatusCode::UNPROCESSABLE_ENTITY;
    let Ok(reason) = check_reason(&typed.reason) else {
        return answer(page, visit, key, wrong, failed(t.bad_reason)).await;
    };
    let change = match change {
        Change::Reschedule(_) => match parse_start(&typed.when, page.service.clock().now_ms()) {
            Some(start) => Change::Reschedule(start),
            None => return answer(page, visit, key, wrong, failed(t.bad_when)).await,
        },
        change => change,
    };
    let actor = visit.actor()?;
    match page
        .service
        .change_for_reason(key, change, actor, &reason)
        .await
    {
        Ok(_) => {
            let done = format!("{}?done={}", path_of(key), change.as_str());
            Ok(Redirect::to(&done).into_response())
        }
        Err(error) => {
            let problem = PageProblem::from(error);
            if matches!(problem, PageProblem::Missing) {
                return Err(problem);
            }
            let words = problem.in_full(visit.language);
            answer(page, visit, key, problem.status(), failed(&words)).await
        }
    }
}

/// Reads to when the first attempt is moved: a duration from now, or an instant. At most 30 days ahead.
fn parse_start(text: &str, now_ms: i64) -> Option<Start> {
    if let Ok(delay_ms) = duration::parse_ms(text) {
        return (delay_ms <= LONGEST_DELAY_MS).then_some(Start::After(delay_ms));
    }
    let at_ms = parse_time(text)?;
    (at_ms <= now_ms.saturating_add(LONGEST_DELAY_MS)).then_some(Start::At(at_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_given_as_a_duration_or_an_instant() {
        const NOW_MS: i64 = 1_795_163_400_000;
        fn check(text: &str, expected: Option<Start>) {
            assert_eq!(parse_start(text, NOW_MS), expected, "{text}");
        }
        check("30m", Some(Start::After(1_800_000)));
        check("30d", Some(Start::After(LONGEST_DELAY_MS)));
        check("30d1ms", None);
        check("2026-11-20 08:30", Some(Start::At(NOW_MS)));
        check(
            "2026-12-20T08:30:00Z",
            Some(Start::At(NOW_MS + LONGEST_DELAY_MS)),
        );
        check("2026-12-20T08:30:00.001Z", None);
        check("", None);
        check("soon", None);
    }
}
