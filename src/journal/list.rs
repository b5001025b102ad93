//! Lists of notifications: the filter, the order, and a page of the result.

use super::UnreadableNotification;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::{Cause, State};
use crate::domain::webhook_id::WebhookId;

/// Which notifications to list. A field that is `None` does not restrict the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only notifications of this topic.
    pub topic: Option<String>,
    /// Only notifications with this id. Each topic may have one.
    pub id: Option<String>,
    /// Only notifications whose ids begin with this text.
    pub id_prefix: Option<String>,
    /// Only notifications whose ids contain this text.
    pub id_contains: Option<String>,
    /// Only the notification with this webhook id. It is found if it was registered within an hour of the instant in
    /// the id, and at most 25,000 others between the two.
    pub webhook_id: Option<WebhookId>,
    /// Only notifications to these URLs.
    pub url: Option<UrlFilter>,
    /// Only notifications in this state.
    pub state: Option<State>,
    /// Only notifications of this lane.
    pub lane: Option<String>,
    /// Only dead letters with this cause.
    pub cause: Option<Cause>,
    /// Only notifications that were registered at or after this instant, in milliseconds since 1970. With
    /// [`Order::Ended`], the end of the notification is compared instead, and with [`Order::Due`] when it is due.
    pub from_ms: Option<i64>,
    /// Only notifications that were registered before this instant. With another order, as for `from_ms`.
    pub to_ms: Option<i64>,
}

/// A part of a URL that is looked for. Upper-case and lower-case ASCII letters are the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UrlFilter {
    /// The part.
    pub contains: String,
    /// The lanes of the endpoints whose URLs contain the part. Notifications without a URL of their own pass if they
    /// are in one of these lanes.
    pub lanes: Vec<String>,
}

impl UrlFilter {
    /// Whether a URL contains the part.
    #[must_use]
    pub fn is_in(&self, url: &str) -> bool {
        let part = self.contains.to_ascii_lowercase();
        url.to_ascii_lowercase().contains(&part)
    }
}

impl Filter {
    /// The first and the last id that may pass, in the order of their bytes. `None` if every id may.
    pub(super) fn ids(&self) -> Option<(String, String)> {
        match (&self.id, &self.id_prefix) {
            (Some(id), _) => Some((id.clone(), id.clone())),
            // No id has a byte above `~`, so this one is behind all that begin with the prefix.
            (None, Some(prefix)) => Some((prefix.clone(), format!("{prefix}\u{7f}"))),
            (None, None) => None,
        }
    }

    /// Whether a notification passes. The times are compared with the instant that `order` sorts by.
    #[must_use]
    pub fn passes(&self, snapshot: &Snapshot, order: Order) -> bool {
        let Self {
            topic,
            id,
            id_prefix,
            id_contains,
            webhook_id,
            url,
            state,
            lane,
            cause,
            from_ms,
            to_ms,
        } = self;
        let key = &snapshot.key;
        let has_ended = snapshot.state != State::Scheduled;
        let at_ms = order.at_ms(snapshot);
        let passes_url = |filter: &UrlFilter| match &snapshot.destination {
            Some(url) => filter.is_in(url.as_str()),
            None => filter
                .lanes
                .iter()
                .any(|lane| lane == snapshot.lane.as_str()),
        };
        let is_listed = match order {
            Order::Registered => true,
            Order::Ended => has_ended,
            Order::Due => !has_ended,
        };
        is_listed
            && topic.as_deref().is_none_or(|topic| topic == key.topic())
            && id.as_deref().is_none_or(|id| id == key.id())
            && id_prefix
                .as_deref()
                .is_none_or(|prefix| key.id().starts_with(prefix))
            && id_contains
                .as_deref()
                .is_none_or(|part| key.id().contains(part))
            && webhook_id.is_none_or(|webhook_id| webhook_id == snapshot.webhook_id)
            && url.as_ref().is_none_or(passes_url)
            && state.is_none_or(|state| state == snapshot.state)
            && lane
                .as_deref()
                .is_none_or(|lane| lane == snapshot.lane.as_str())
            && cause.is_none_or(|cause| Some(cause) == snapshot.cause)
            && from_ms.is_none_or(|from_ms| at_ms >= from_ms)
            && to_ms.is_none_or(|to_ms| at_ms < to_ms)
    }
}

/// The instant by which a list is sorted, newest first. A filter compares its times with the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// When the notification was registered.
    Registered,
    /// When the notification ended.
    Ended,
    /// When the next attempt is due. Only pending notifications are in such a list.
    Due,
}

impl Order {
    /// The instant by which a notification is sorted, in milliseconds since 1970. One that has none is the oldest.
    pub(super) fn at_ms(self, snapshot: &Snapshot) -> i64 {
        match self {
            Self::Registered => snapshot.registered_ms,
            Self::Ended => snapshot.ended_ms.unwrap_or(i64::MIN),
            Self::Due => snapshot.next_due_ms().unwrap_or(i64::MIN),
        }
    }
}

/// A place in a list: directly after the row that has this sorting instant and this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The sorting instant of the row, in milliseconds since 1970.
    pub at_ms: i64,
    /// The number of the row.
    pub row: i64,
}

/// A page of a list. Its notifications are without their attempts.
#[derive(Debug, Clone, Default)]
pub struct SnapshotPage {
    /// The notifications.
    pub items: Vec<Snapshot>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
    /// Whether nothing was looked for, because the filter has an id and no topic, and there are more than
    /// [`MOST_TOPICS`] topics.
    pub too_many_topics: bool,
    /// Those whose rows cannot be read: they are left out of the items. A search for an id only logs them.
    pub unreadable: Vec<UnreadableNotification>,
}

/// Maximum number of topics in which an id is looked for.
pub const MOST_TOPICS: usize = 1_000;
