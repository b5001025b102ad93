//! The route `/v1/audit-log`: what people did.

use crate::api::Api;
use crate::api::auth::CalledBy;
use crate::api::problem::Problem;
use crate::api::query::audit_request;
use crate::api::view::json;
use crate::domain::act::NOTIFICATION;
use crate::domain::timestamp::display_ms;
use crate::journal::AuditEntry;
use axum::extract::State;
use axum::response::Response;
use http::{StatusCode, Uri};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// An entry of the audit log.
// Callers rely on the names of the members.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
struct AuditEntryView<'a> {
    id: String,
    #[schema(format = DateTime)]
    at: String,
    /// Who did it.
    actor: &'a str,
    /// What was done, such as `lane.hold`.
    act: &'a str,
    subject: ActSubjectView<'a>,
    #[schema(required)]
    reason: Option<&'a str>,
    /// What else is to be known of it, such as the fields that were changed.
    #[schema(required)]
    detail: Option<&'a str>,
    /// The server that was asked.
    instance: &'a str,
}

/// On what it was done.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditSubject)]
struct ActSubjectView<'a> {
    kind: &'a str,
    /// `null` if there is only one of the kind.
    #[schema(required)]
    name: Option<&'a str>,
    /// The topic and the id, if it is a notification; else they are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

/// A page of the audit log.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditLog)]
pub struct AuditLogView<'a> {
    items: Vec<AuditEntryView<'a>>,
    /// The `cursor` of the next page; `null` on the last one.
    #[schema(required)]
    next_cursor: Option<&'a str>,
}

impl<'a> AuditEntryView<'a> {
    fn of(entry: &'a AuditEntry) -> Self {
        let key = entry.subject.split_once('/');
        let key = key.filter(|_| entry.subject_kind == NOTIFICATION);
        let given = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Self {
            id: entry.id.to_string(),
            at: display_ms(entry.at_ms),
            actor: &entry.actor,
            act: &entry.act,
            subject: ActSubjectView {
                kind: &entry.subject_kind,
                name: given(&entry.subject),
                topic: key.map(|(topic, _)| topic),
                id: key.map(|(_, id)| id),
            },
            reason: given(&entry.reason),
            detail: given(&entry.detail),
            instance: &entry.instance,
        }
    }
}

/// `GET /v1/audit-log`: a page of the audit log, newest first.
pub async fn list(
    State(api): State<Arc<Api>>,
    CalledBy(caller): CalledBy,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut request = audit_request(&uri)?;
    request.asked_by = caller.name.clone();
    let found = api.service.audit_log(&request).await;
    let (entries, next) = found.map_err(Problem::of_service)?;
    let view = AuditLogView {
        items: entries.iter().map(AuditEntryView::of).collect(),
        next_cursor: next.as_deref(),
    };
    Ok(json(StatusCode::OK, &view))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_entry_names_its_subject() {
        let entry = |kind: &str, subject: &str| AuditEntry {
            id: 7,
            at_ms: 0,
            actor: "desk/li.lei".to_string(),
            act: "lane.hold".to_string(),
            subject_kind: kind.to_string(),
            subject: subject.to_string(),
            reason: "down".to_string(),
            detail: String::new(),
            instance: "a".to_string(),
        };
        let lane = entry("lane", "https://shop.example");
        let shown = serde_json::to_value(AuditEntryView::of(&lane)).expect("JSON");
        let expected = json!({
            "id": "7", "at": "1970-01-01T00:00:00.000Z", "actor": "desk/li.lei", "act": "lane.hold",
            "subject": { "kind": "lane", "name": "https://shop.example" },
            "reason": "down", "detail": null, "instance": "a",
        });
        assert_eq!(shown, expected);
        let subject = |kind: &str, name: &str| {
            let entry = entry(kind, name);
            serde_json::to_value(AuditEntryView::of(&entry)).expect("JSON")["subject"].clone()
        };
        assert_eq!(
            subject("notification", "paid/a/b"),
            json!({ "kind": "notification", "name": "paid/a/b", "topic": "paid", "id": "a/b" })
        );
        assert_eq!(
            subject("schedule", ""),
            json!({ "kind": "schedule", "name": null })
        );
    }
}
