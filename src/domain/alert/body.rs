//! The body of an alert.

use super::{Alert, AlertFigures, DestinationFigures, MOST_LISTED};
use crate::domain::duration;
use crate::domain::lane::Lane;
use crate::domain::timestamp;
use serde::Serialize;

/// The body of an alert. Its members are described in `docs/alerts.md`.
#[derive(Serialize)]
pub(super) struct AlertBody<'alert> {
    r#type: &'static str,
    id: &'alert str,
    text: &'alert str,
    at: String,
    since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'alert str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count_is_least: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destinations: Option<Vec<ListedDestination<'alert>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    late_attempts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    late_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<&'alert str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store_state: Option<&'alert str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'alert str>,
}

#[derive(Serialize)]
struct ListedDestination<'alert> {
    lane: &'alert str,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letters: Option<u64>,
}

impl<'alert> ListedDestination<'alert> {
    fn of_lane(lane: &'alert str) -> Self {
        Self {
            lane,
            endpoint: (Lane::from_name(lane).endpoint()).map(|name| name.as_str().to_string()),
            since: None,
            pending: None,
            last_outcome: None,
            last_status: None,
            dead_letters: None,
        }
    }

    fn of(figures: &'alert DestinationFigures) -> Self {
        Self {
            since: Some(timestamp::display_ms(figures.since_ms)),
            pending: Some(figures.pending),
            last_outcome: figures.last.map(|(outcome, _)| outcome.as_str()),
            last_status: figures.last.and_then(|(_, status)| status),
            ..Self::of_lane(&figures.lane)
        }
    }
}

impl Alert {
    /// The body, with this id and this sentence.
    pub(super) fn body<'alert>(
        &'alert self,
        id: &'alert str,
        text: &'alert str,
    ) -> AlertBody<'alert> {
        let mut body = AlertBody {
            r#type: self.kind.as_str(),
            id,
            text,
            at: timestamp::display_ms(self.at_ms),
            since: timestamp::display_ms(self.since_ms),
            server: None,
            count: None,
            count_is_least: None,
            destinations: None,
            attempts: None,
            late_attempts: None,
            late_after: None,
            within: None,
            store: None,
            store_state: None,
            cause: None,
        };
        match &self.figures {
            AlertFigures::Destinations { all, is_least } => {
                body.count = Some(all.len());
                body.count_is_least = Some(*is_least);
                let listed = all.iter().take(MOST_LISTED).map(ListedDestination::of);
                body.destinations = Some(listed.collect());
            }
            AlertFigures::DeadLetters {
                count,
                is_least,
                within_ms,
                lanes,
            } => {
                body.count = usize::try_from(*count).ok();
                body.count_is_least = Some(*is_least);
                body.within = Some(duration::display_ms(*within_ms));
                let listed = lanes.iter().take(MOST_LISTED);
                let listed = listed.map(|(lane, count)| ListedDestination {
                    dead_letters: Some(*count),
                    ..ListedDestination::of_lane(lane)
                });
                body.destinations = Some(listed.collect());
            }
            AlertFigures::Lateness {
                server,
                attempts,
                late,
                late_after_ms,
                within_ms,
            } => {
                body.server = Some(server);
                body.attempts = Some(*attempts);
                body.late_attempts = Some(*late);
                body.late_after = Some(duration::display_ms(*late_after_ms));
                body.within = Some(duration::display_ms(*within_ms));
            }
            AlertFigures::Store {
                server,
                store,
                state,
                cause,
            } => {
                body.server = Some(server);
                body.store = Some(store);
                body.store_state = Some(state);
                body.cause = cause.as_deref();
            }
        }
        body
    }
}
