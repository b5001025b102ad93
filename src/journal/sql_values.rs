//! Values in the form in which SQL statements take them: the same for every database.

use crate::domain::notification::Notification;
use bytes::Bytes;
use std::borrow::Cow;

/// The stored text of a notification without headers of the caller. Nearly all notifications have this text.
pub(super) const NO_HEADERS: &str = "[]";

/// The headers that the caller gave with the registration, as a text to store.
pub(super) fn headers_text(notification: &Notification) -> Cow<'static, str> {
    let pairs = notification.headers.pairs();
    if pairs.is_empty() {
        return NO_HEADERS.into();
    }
    let text = serde_json::to_string(pairs).expect("invariant: pairs of strings serialise");
    text.into()
}

/// The body of a notification that is being registered. Such a notification was just accepted, or comes
/// from a schedule and its body was found to be in memory.
pub(super) fn body_of(notification: &Notification) -> &Bytes {
    let body = notification.body.here();
    body.expect("invariant: a notification to be registered has its body in memory")
}

/// A maximum number of rows, in the integer type that SQL takes.
pub(super) fn limit_of(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
