use super::*;
use crate::journal::JournalError;
use crate::schedule::ScheduleError;
use crate::service::ServiceError;

#[test]
fn errors_of_the_stores_become_a_status_and_keep_their_secrets() {
    fn check(error: ServiceError, status: u16, named: &str, retry_after: Option<&str>) {
        let problem = Problem::of_service(error);
        let text = serde_json::to_string(&problem.view()).expect("JSON");
        assert!(text.contains(named), "{text}");
        assert!(!text.contains("10.0.0.7"), "{text}");
        let response = problem.into_response();
        assert_eq!(response.status().as_u16(), status);
        let header = response.headers().get(header::RETRY_AFTER);
        assert_eq!(header.and_then(|value| value.to_str().ok()), retry_after);
    }
    let why = || "connection to 10.0.0.7 refused".to_string();
    use ServiceError::{BadCursor, Journal, Missing, NoJournal, Schedule};
    check(Missing, 404, "problem:missing", None);
    check(NoJournal("x"), 501, "problem:no-journal", None);
    check(BadCursor, 400, r#""parameter":"cursor""#, None);
    check(
        Journal(JournalError::Unavailable(why())),
        503,
        "the journal is",
        Some("1"),
    );
    check(
        Journal(JournalError::Refused(why())),
        503,
        "the journal is",
        Some("1"),
    );
    check(
        Journal(JournalError::Corrupt(why())),
        500,
        "problem:internal",
        None,
    );
    check(
        Schedule(ScheduleError::Unavailable(why())),
        503,
        "the schedule is",
        Some("1"),
    );
    check(
        Schedule(ScheduleError::Foreign(why())),
        503,
        "the schedule is",
        Some("1"),
    );
    check(
        Schedule(ScheduleError::BeingRegistered),
        503,
        "is being registered for another destination",
        Some("1"),
    );
    check(
        Schedule(ScheduleError::Corrupt(why())),
        500,
        "problem:internal",
        None,
    );
}

#[test]
fn a_problem_has_the_members_of_rfc_9457_and_the_faults() {
    let mut errors = FieldErrors::default();
    errors.add("/url", "this field is missing");
    let problem = Problem::fields(errors);
    assert_eq!(
        serde_json::to_string(&problem.view()).expect("JSON"),
        r#"{"type":"urn:ringback:problem:fields","title":"Some fields are wrong","status":422,"detail":"/url: this field is missing","errors":[{"pointer":"/url","detail":"this field is missing"}]}"#
    );
}
