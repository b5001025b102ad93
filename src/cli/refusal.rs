//! What a server answers instead of doing what it was asked for, as lines for people and as JSON for programs.

use super::exit_status::ExitStatus;
use super::terminal::clean;
use crate::api::problem::ProblemKind;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// An answer that says why a request was not done.
#[derive(Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub http_status: StatusCode,
    /// The explanation, escaped for the terminal.
    pub lines: Vec<String>,
    /// The problem document that the server sent (RFC 9457). If it sent none, one that says so.
    pub document: Map<String, Value>,
}

/// A problem document (RFC 9457). Any member may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProblemDetails {
    title: String,
    detail: String,
    errors: Vec<FieldProblem>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FieldProblem {
    /// A JSON pointer into the body, or the name of a query parameter or header.
    #[serde(alias = "parameter", alias = "header")]
    pointer: String,
    detail: String,
}

impl Refusal {
    /// Reads an answer that has this status. `retry_after` is the header of this name.
    pub fn of(http_status: StatusCode, retry_after: Option<&str>, answer: &[u8]) -> Self {
        let reason = http_status.canonical_reason().unwrap_or("Refused");
        let document: Option<Map<String, Value>> = serde_json::from_slice(answer).ok();
        let problem = document.clone().map(Value::Object);
        let problem = problem.and_then(|problem| serde_json::from_value(problem).ok());
        let problem: ProblemDetails = problem.unwrap_or_default();
        let mut lines = vec![http_status.to_string()];
        if !problem.title.is_empty() && problem.title != reason {
            lines[0].push_str(&format!(": {}", clean(&problem.title)));
        }
        // If there are errors of fields, the detail is only a summary of them.
        if !problem.detail.is_empty() && problem.errors.is_empty() {
            lines[0].push_str(&format!(": {}", clean(&problem.detail)));
        }
        for FieldProblem { pointer, detail } in &problem.errors {
            lines.push(format!("  {}: {}", clean(pointer), clean(detail)));
        }
        if let Some(seconds) = retry_after {
            lines.push(format!("  try again in {} s", clean(seconds)));
        }
        Self {
            http_status,
            lines,
            document: document.unwrap_or_else(|| not_ours(http_status, reason)),
        }
    }

    /// Whether the server has nothing there.
    pub fn is_missing(&self) -> bool {
        self.http_status == StatusCode::NOT_FOUND
    }

    /// Whether the server says that it is a problem of this kind.
    pub fn is(&self, kind: ProblemKind) -> bool {
        let said = self.document.get("type").and_then(Value::as_str);
        said == Some(kind.urn())
    }

    /// Whether the request may have been done nevertheless.
    pub fn is_uncertain(&self) -> bool {
        self.http_status.is_server_error()
    }

    /// Adds what the user can do about it.
    pub fn advise(&mut self, advice: &str) {
        self.lines.push(format!("  {advice}"));
        self.document.insert("advice".to_string(), json!(advice));
    }

    /// The refusal of a search that found nothing. `document` has the members of an empty list.
    pub fn nothing_found(lines: Vec<String>, mut document: Map<String, Value>) -> Self {
        let title = ExitStatus::NotFound.title();
        document.insert("title".to_string(), json!(title));
        let detail: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        document.insert("detail".to_string(), json!(detail.join("; ")));
        Self {
            http_status: StatusCode::NOT_FOUND,
            lines,
            document,
        }
    }
}

/// The document for an answer that is no problem document, for example one of a proxy.
fn not_ours(http_status: StatusCode, reason: &str) -> Map<String, Value> {
    let detail = "the answer is not JSON, so it may not come from a Ringback server";
    let members = [
        ("title", json!(reason)),
        ("status", json!(http_status.as_u16())),
        ("detail", json!(detail)),
    ];
    members
        .map(|(name, value)| (name.to_string(), value))
        .into_iter()
        .collect()
}
