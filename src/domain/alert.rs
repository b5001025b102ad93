//! Alerts: what an operator is told about the service itself, and the notification that carries it.
//!
//! The id of an alert is made of its kind, the start of the episode and what it concerns; that of one about many
//! destinations, of its kind and the minute. So whichever server finds it registers the same notification. The figures in the body may differ from server to server; they are no part of
//! the identity.

mod body;
mod text;

use crate::domain::ack::AckRule;
use crate::domain::attempt::Outcome;
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::domain::headers::Headers;
use crate::domain::key::Key;
use crate::domain::ladder::Ladder;
use crate::domain::notification::{Registration, Start, Target};
use crate::domain::priority::Priority;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// The topic of all alerts. Callers of the API cannot register under it: a notification of theirs could have the id of an
/// alert, which would then not be sent.
pub const ALERT_TOPIC: &str = "ringback.alert";
/// Maximum number of destinations that an alert lists. Others are counted.
pub const MOST_LISTED: usize = 10;
const MINUTE_MS: i64 = 60_000;
/// The ladder of alerts to an endpoint that has none: an alert is worth little after a few hours.
const LADDER: &str = r#"{"intervals":["10s","30s","1m","5m","15m","1h"]}"#;
/// The ack rule of alerts to an endpoint that has none: chat and paging systems do not answer `success`.
const ACK: &str = r#"{"status":"2xx"}"#;

/// What an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AlertKind {
    /// No call to a destination was acknowledged for the set time.
    #[serde(rename = "destination.failing")]
    DestinationFailing,
    /// It acknowledges calls again.
    #[serde(rename = "destination.recovered")]
    DestinationRecovered,
    /// Many notifications became dead letters within an hour.
    #[serde(rename = "dead_letters.accumulating")]
    DeadLettersAccumulating,
    /// Many attempts of a server begin late.
    #[serde(rename = "lateness.high")]
    LatenessHigh,
    /// They begin on time again.
    #[serde(rename = "lateness.normal")]
    LatenessNormal,
    /// A server could not use a store for the set time.
    #[serde(rename = "store.unavailable")]
    StoreUnavailable,
    /// It can use it again.
    #[serde(rename = "store.available")]
    StoreAvailable,
}

impl AlertKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::DestinationFailing,
        Self::DestinationRecovered,
        Self::DeadLettersAccumulating,
        Self::LatenessHigh,
        Self::LatenessNormal,
        Self::StoreUnavailable,
        Self::StoreAvailable,
    ];

    /// The `type` in the body of the alert.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DestinationFailing => "destination.failing",
            Self::DestinationRecovered => "destination.recovered",
            Self::DeadLettersAccumulating => "dead_letters.accumulating",
            Self::LatenessHigh => "lateness.high",
            Self::LatenessNormal => "lateness.normal",
            Self::StoreUnavailable => "store.unavailable",
            Self::StoreAvailable => "store.available",
        }
    }

    /// Whether it says that something is well again.
    #[must_use]
    pub fn is_recovery(self) -> bool {
        match self {
            Self::DestinationRecovered | Self::LatenessNormal | Self::StoreAvailable => true,
            Self::DestinationFailing
            | Self::DeadLettersAccumulating
            | Self::LatenessHigh
            | Self::StoreUnavailable => false,
        }
    }
}

/// An alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// What it is about.
    pub kind: AlertKind,
    /// When the episode began, in milliseconds since 1970. The alert of its end has the same.
    pub since_ms: i64,
    /// When the alert was made, in milliseconds since 1970.
    pub at_ms: i64,
    /// The figures.
    pub figures: AlertFigures,
}

/// The figures of an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlertFigures {
    /// Of destinations that fail or have recovered.
    Destinations {
        /// All of them, one or more.
        all: Vec<DestinationFigures>,
        /// Whether there may be more that were not counted.
        is_least: bool,
    },
    /// Of dead letters.
    DeadLetters {
        /// How many there are.
        count: u64,
        /// Whether there are more.
        is_least: bool,
        /// Within how long they came, in milliseconds.
        within_ms: i64,
        /// The lanes with how many each has, most first.
        lanes: Vec<(String, u64)>,
    },
    /// Of the attempts of one server.
    Lateness {
        /// The server.
        server: String,
        /// How many began.
        attempts: u64,
        /// How many of these began late.
        late: u64,
        /// From when on an attempt counts as late, in milliseconds.
        late_after_ms: i64,
        /// Within how long these attempts began, in milliseconds.
        within_ms: i64,
    },
    /// Of a store as one server sees it.
    Store {
        /// The server.
        server: String,
        /// The name of the store.
        store: String,
        /// The name of its state.
        state: String,
        /// Why.
        cause: Option<String>,
    },
}

/// One destination in an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationFigures {
    /// The name of the lane.
    pub lane: String,
    /// Since when no call was acknowledged, in milliseconds since 1970.
    pub since_ms: i64,
    /// How many notifications are pending for it.
    pub pending: u64,
    /// How the last call ended, and its HTTP status.
    pub last: Option<(Outcome, Option<u16>)>,
}

/// An alert as it is sent, and kept until it is registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedAlert {
    /// What it is about.
    pub kind: AlertKind,
    /// Its identity: the same for the same episode on every server.
    pub id: String,
    /// The sentence in the body, for the log.
    pub text: String,
    /// The body: JSON.
    pub body: String,
}

impl Alert {
    /// The alert as it is sent.
    ///
    /// # Panics
    /// Never: strings and numbers can be written as JSON.
    #[must_use]
    pub fn prepare(&self) -> PreparedAlert {
        let (id, text) = (self.id(), self.text());
        let body = serde_json::to_string(&self.body(&id, &text))
            .expect("invariant: strings and numbers serialise");
        PreparedAlert {
            kind: self.kind,
            id,
            text,
            body,
        }
    }

    fn id(&self) -> String {
        let kind = self.kind.as_str();
        if let AlertFigures::Destinations { all, .. } = &self.figures
            && all.len() > 1
        {
            // There is one in a minute, whichever server makes it: two servers seldom see exactly the same destinations.
            return format!("{kind}:{}:many", self.at_ms / MINUTE_MS * MINUTE_MS);
        }
        let mut digest = Sha256::new();
        let mut part = |text: &str| {
            digest.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            digest.update(text);
        };
        match &self.figures {
            AlertFigures::Destinations { all, .. } => {
                for one in all {
                    part(&one.lane);
                    part(&one.since_ms.to_string());
                }
            }
            AlertFigures::DeadLetters { .. } => {}
            AlertFigures::Lateness { server, .. } => part(server),
            AlertFigures::Store { server, store, .. } => {
                part(server);
                part(store);
            }
        }
        let digest = digest.finalize();
        let mut id = format!("{kind}:{}:", self.since_ms);
        for byte in &digest[..8] {
            let _ = write!(id, "{byte:02x}");
        }
        id
    }
}

impl PreparedAlert {
    /// The notification that tells an endpoint of the alert. An endpoint without a ladder or an ack rule gets those of
    /// alerts.
    ///
    /// # Panics
    /// Never: ids of alerts and names of endpoints are short.
    #[must_use]
    pub fn registration(&self, endpoint: &Endpoint) -> Registration {
        let settings = &endpoint.settings;
        let ladder = || Ladder::from_text(LADDER).expect("invariant: a right ladder");
        let ack = || AckRule::from_text(ACK).expect("invariant: a right rule");
        Registration {
            key: self.key(&endpoint.name),
            target: Target::Endpoint(endpoint.name.clone(), None),
            body: Bytes::from(self.body.clone()),
            content_type: "application/json".to_string(),
            headers: Headers::default(),
            start: Start::After(0),
            ladder: settings.ladder.is_none().then(ladder),
            ack: settings.ack.is_none().then(ack),
            // If other notifications wait in the lane too, they go first.
            priority: Priority::Low,
            order: None,
        }
    }

    fn key(&self, endpoint: &EndpointName) -> Key {
        // The longest type, an instant, the hash and the longest name are less than an id may have.
        Key::new(ALERT_TOPIC, &format!("{}:{endpoint}", self.id))
            .expect("invariant: ids of alerts and names of endpoints are short")
    }
}

#[cfg(test)]
mod tests;
