//! Values in the form in which SQL statements take them: the same for every database.

use super::UrlFilter;
use crate::domain::lane::Lane;
use crate::domain::later::LATER_MS;
use crate::domain::notification::Notification;
use crate::domain::order::OrderPlace;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::{Cause, State};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The stored text of a notification without headers of the caller. Nearly all notifications have this text.
pub(super) const NO_HEADERS: &str = "[]";

/// The headers that the caller gave with the registration, and its trace context, as a text to store.
pub(super) fn headers_text(notification: &Notification) -> Cow<'static, str> {
    let own = notification.headers.pairs();
    let trace = notification.headers.stored_trace();
    if own.is_empty() && trace.is_empty() {
        return NO_HEADERS.into();
    }
    let trace = trace.iter().map(|(name, value)| (*name, value));
    let own = own.iter().map(|(name, value)| (name.as_str(), value));
    let pairs: Vec<(&str, &String)> = trace.chain(own).collect();
    let text = serde_json::to_string(&pairs).expect("invariant: pairs of strings serialise");
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

/// The lanes of a filter, as the names of the members of a JSON object. Both databases look a name up in it fast.
pub(super) fn lanes_text(url: &UrlFilter) -> String {
    let lanes: BTreeMap<&str, u8> = url.lanes.iter().map(|lane| (lane.as_str(), 1)).collect();
    serde_json::to_string(&lanes).expect("invariant: names and numbers serialise")
}

/// A count, in the integer type that SQL takes.
pub(super) fn count_of(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The column `cause`. It has causes of dead notifications only; [`superseded`] is the other column.
pub(super) fn stored_cause(snapshot: &Snapshot) -> Option<Cause> {
    snapshot.cause.filter(|cause| *cause != Cause::Superseded)
}

/// The column `superseded`: null if no higher number has ended the notification, else whether the acknowledgement of an
/// attempt that was in flight makes it delivered. So it is false from a cancellation by hand on.
pub(super) fn superseded(snapshot: &Snapshot) -> Option<bool> {
    (snapshot.cause == Some(Cause::Superseded)).then_some(snapshot.takes_late_delivery())
}

/// The column `later_lane` of PostgreSQL.
pub(super) fn later_lane(snapshot: &Snapshot) -> Option<&str> {
    let later_from_ms = snapshot.registered_ms.saturating_add(LATER_MS);
    let is_later =
        snapshot.state == State::Scheduled && snapshot.progress.next_due_ms() > later_from_ms;
    is_later.then(|| snapshot.lane.as_str())
}

/// A number for an order key of a lane: the same on every server. Different keys may have the same number by chance,
/// once in many thousand million.
pub(super) fn order_group(lane: &Lane, place: &OrderPlace) -> i64 {
    let mut digest = Sha256::new();
    digest.update(lane.as_str().as_bytes());
    digest.update(b"\n");
    digest.update(place.key().as_bytes());
    let mut start = [0; 8];
    start.copy_from_slice(&digest.finalize()[..8]);
    i64::from_be_bytes(start)
}
