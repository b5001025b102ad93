//! Values as statements take them: the same for every database.

use crate::domain::notification::Notification;
use bytes::Bytes;
use std::borrow::Cow;

/// No headers of the caller's own, as nearly all notifications have it.
pub(super) const NO_HEADERS: &str = "[]";

/// The headers of a notification's caller, as they are kept.
pub(super) fn headers_text(notification: &Notification) -> Cow<'static, str> {
    let pairs = notification.headers.pairs();
    if pairs.is_empty() {
        return NO_HEADERS.into();
    }
    let text = serde_json::to_string(pairs).expect("invariant: pairs of strings serialise");
    text.into()
}

/// The body of a notification that is to be kept. Only what was just accepted, or what a shared
/// schedule held, is registered, and both have it.
pub(super) fn body_of(notification: &Notification) -> &Bytes {
    let body = notification.body.here();
    body.expect("invariant: what is registered has its body at hand")
}

/// A maximum number of rows as SQL takes it.
pub(super) fn limit_of(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
