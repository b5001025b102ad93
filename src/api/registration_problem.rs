//! Why a registration is refused, in an answer.

use crate::api::problem::Problem;
use crate::api::view::NotificationView;
use crate::domain::caller::Caller;
use crate::service::ServiceError;
use serde_json::value::to_raw_value;

/// The problem for a registration that failed. If the notification was cancelled, the document contains all of
/// it, as the answer of a registration that succeeds does. If another notification is in the way, it is named to a caller
/// that may read it.
#[must_use]
pub fn registration_problem(error: ServiceError, caller: &Caller) -> Problem {
    let error = match error {
        ServiceError::OutOfOrder { conflict, other } => ServiceError::OutOfOrder {
            conflict,
            other: other.filter(|other| caller.may_use(other.topic())),
        },
        error => error,
    };
    let cancelled = match &error {
        ServiceError::Cancelled(snapshot) => to_raw_value(&NotificationView::of(snapshot)).ok(),
        _ => None,
    };
    let problem = Problem::of_service(error);
    match cancelled {
        Some(notification) => problem.with_notification(notification),
        None => problem,
    }
}
