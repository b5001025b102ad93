//! Reads the query of `GET /v1/audit-log`.

use super::{DEFAULT_ITEMS, parse_cursor, parse_limit, parse_time, parsed, read};
use crate::api::field_errors::FieldErrors;
use crate::api::problem::Problem;
use crate::journal::AuditFilter;
use crate::service::AuditRequest;
use http::Uri;

/// Maximum length of the name of an actor, in bytes: that of a key, a slash, and that of a person.
pub(super) const LONGEST_ACTOR: usize = 128;

pub(super) const AUDIT_LOG: [&str; 5] = ["actor", "from", "to", "limit", "cursor"];

/// Reads the query of `GET /v1/audit-log`.
///
/// # Errors
/// The problem that lists every wrong parameter.
pub fn audit_request(uri: &Uri) -> Result<AuditRequest, Problem> {
    let mut errors = FieldErrors::default();
    let [actor, from, to, limit, cursor] = read(uri, &AUDIT_LOG, &mut errors);
    let request = AuditRequest {
        filter: AuditFilter {
            actor: parsed("actor", actor, &mut errors, parse_actor),
            from_ms: parsed("from", from, &mut errors, parse_time),
            to_ms: parsed("to", to, &mut errors, parse_time),
        },
        limit: parsed("limit", limit, &mut errors, parse_limit).unwrap_or(DEFAULT_ITEMS),
        cursor: parsed("cursor", cursor, &mut errors, parse_cursor),
        asked_by: None,
    };
    if errors.is_empty() {
        Ok(request)
    } else {
        Err(Problem::parameters(errors))
    }
}

fn parse_actor(text: &str) -> Result<String, String> {
    let printable = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    if text.len() > LONGEST_ACTOR || !printable {
        return Err(format!(
            "an actor is at most {LONGEST_ACTOR} printable ASCII characters"
        ));
    }
    Ok(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_parameter_of_the_audit_log_is_named() {
        fn check(query: &str, expected: Result<AuditRequest, &str>) {
            let uri: Uri = format!("/v1/audit-log?{query}").parse().expect("a URI");
            let found = audit_request(&uri).map_err(|problem| problem.detail().to_string());
            assert_eq!(found, expected.map_err(str::to_string), "{query}");
        }
        let all = AuditRequest {
            limit: DEFAULT_ITEMS,
            ..AuditRequest::default()
        };
        check("", Ok(all.clone()));
        check("actor=&from=&cursor=", Ok(all.clone()));
        check(
            "actor=desk%2Fli.lei&from=1970-01-01T00:00:01Z&to=1970-01-01T00:00:02Z&limit=5&cursor=1-2",
            Ok(AuditRequest {
                filter: AuditFilter {
                    actor: Some("desk/li.lei".to_string()),
                    from_ms: Some(1_000),
                    to_ms: Some(2_000),
                },
                limit: 5,
                cursor: Some("1-2".to_string()),
                asked_by: None,
            }),
        );
        let longest = "a".repeat(LONGEST_ACTOR);
        check(
            &format!("actor={longest}"),
            Ok(AuditRequest {
                filter: AuditFilter {
                    actor: Some(longest.clone()),
                    ..AuditFilter::default()
                },
                ..all
            }),
        );
        check(
            &format!("actor={longest}a"),
            Err("actor: an actor is at most 128 printable ASCII characters"),
        );
        check("limit=0", Err("limit: a limit is a number from 1 to 1000"));
        check(
            "act=x",
            Err("act: unknown parameter; known are actor, from, to, limit, cursor"),
        );
    }
}
