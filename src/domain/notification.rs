//! Registrations (what callers send) and notifications (what is delivered).

use crate::domain::ack::AckRule;
use crate::domain::body::Body;
use crate::domain::destination::Destination;
use crate::domain::endpoint::{EndpointName, EndpointSettings};
use crate::domain::headers::Headers;
use crate::domain::key::Key;
use crate::domain::ladder::Ladder;
use crate::domain::lane::{KeyInLane, Lane};
use crate::domain::order::OrderPlace;
use crate::domain::priority::Priority;
use crate::domain::progress::Progress;
use crate::domain::webhook_id::WebhookId;
use bytes::Bytes;
use sha2::{Digest, Sha256};

/// Default of the maximum length of a body, in bytes. A setting changes it.
pub const LARGEST_BODY_BYTES: usize = 256 * 1024;
/// Maximum length of a content type, in bytes.
pub const LONGEST_CONTENT_TYPE: usize = 256;
/// Maximum time from a registration to its first attempt, in milliseconds: 30 days.
pub const LONGEST_DELAY_MS: i64 = 30 * 86_400_000;

/// When the first attempt is due, as the caller asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Start {
    /// This many milliseconds after the request. 0 means at once.
    After(i64),
    /// At this instant, in milliseconds since 1970. An instant in the past means at once.
    At(i64),
}

impl Start {
    /// When the first attempt is due if this was requested at `now_ms`, in milliseconds since 1970.
    #[must_use]
    pub fn first_due_ms(self, now_ms: i64) -> i64 {
        match self {
            Self::After(delay_ms) => now_ms + delay_ms,
            Self::At(at_ms) => at_ms.max(now_ms),
        }
    }
}

/// A caller's request to deliver a notification. All fields were checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The notification's topic and id.
    pub key: Key,
    /// What is called.
    pub target: Target,
    /// The bytes to deliver.
    pub body: Bytes,
    /// The content type of the body.
    pub content_type: String,
    /// The headers that the caller adds.
    pub headers: Headers,
    /// When the first attempt is due.
    pub start: Start,
    /// The retry schedule, if the caller chose one.
    pub ladder: Option<Ladder>,
    /// The rule that says which answers acknowledge the notification, if the caller chose one.
    pub ack: Option<AckRule>,
    /// Its priority within its lane.
    pub priority: Priority,
    /// Its place among others of its lane, if the caller gave one.
    pub order: Option<OrderPlace>,
}

/// What a registration says is to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A URL.
    Url(Destination),
    /// An endpoint, by its name; the URL of the registration replaces that of the endpoint.
    Endpoint(EndpointName, Option<Destination>),
}

impl Target {
    /// The name of the endpoint.
    #[must_use]
    pub fn endpoint(&self) -> Option<&EndpointName> {
        match self {
            Self::Url(_) => None,
            Self::Endpoint(name, _) => Some(name),
        }
    }

    /// The URL that the caller gave.
    #[must_use]
    pub fn url(&self) -> Option<&Destination> {
        match self {
            Self::Url(url) => Some(url),
            Self::Endpoint(_, url) => url.as_ref(),
        }
    }

    /// The lane that a notification for it is in.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match self {
            Self::Url(url) => {
                Lane::of(url).expect("invariant: a destination is a URL since it was parsed")
            }
            Self::Endpoint(name, _) => Lane::of_endpoint(name),
        }
    }
}

/// A hash of all fields of a registration except the key, 16 bytes. It is never computed again: after the
/// notification was rescheduled, the registration that made it is still the same one.
pub type Fingerprint = [u8; 16];

/// A notification: the part that never changes. The part that changes is [`Progress`] and the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The topic and id that the caller gave.
    pub key: Key,
    /// The id that the receiver gets in the header `webhook-id`.
    pub webhook_id: WebhookId,
    /// The URL to call; `None` if it is that of the endpoint at the moment of each attempt.
    pub destination: Option<Destination>,
    /// The lane that the notification waits in.
    pub lane: Lane,
    /// The bytes to deliver, or a note that only the journal has them.
    pub body: Body,
    /// The content type of the body.
    pub content_type: String,
    /// The headers that the caller added.
    pub headers: Headers,
    /// The retry schedule.
    pub ladder: Ladder,
    /// The rule that says which answers acknowledge the notification; `None` if it is that of the endpoint at
    /// the moment of each attempt.
    pub ack: Option<AckRule>,
    /// Its priority within its lane.
    pub priority: Priority,
    /// Its place among others of its lane, if it has one.
    pub order: Option<Box<OrderPlace>>,
    /// When the notification was accepted, in milliseconds since 1970.
    pub registered_ms: i64,
    /// The fingerprint of the registration. If a key is registered again, it tells whether the second
    /// registration is the same as the first.
    pub fingerprint: Fingerprint,
}

impl Notification {
    /// The key and the lane, by which a schedule finds the notification.
    #[must_use]
    pub fn key_in_lane(&self) -> KeyInLane {
        KeyInLane {
            key: self.key.clone(),
            lane: self.lane.clone(),
        }
    }
}

impl Registration {
    /// Turns the registration into a notification with the progress at the start of its first series. `endpoint`
    /// is what the registration's endpoint says now: the ladder of a notification is fixed here.
    #[must_use]
    pub fn accept(
        self,
        webhook_id: WebhookId,
        now_ms: i64,
        endpoint: Option<&EndpointSettings>,
    ) -> (Notification, Progress) {
        let fingerprint = self.fingerprint();
        // It means the endpoint that it found, even if the clock of the server that made that one is ahead of ours.
        let made_again_ms = endpoint.and_then(|endpoint| endpoint.made_again_ms);
        let registered_ms = made_again_ms.map_or(now_ms, |made_again_ms| now_ms.max(made_again_ms));
        let of_endpoint = endpoint.and_then(|endpoint| endpoint.ladder.clone());
        let ladder = self.ladder.or(of_endpoint).unwrap_or_else(Ladder::standard);
        let progress = Progress::start(&ladder, self.start.first_due_ms(now_ms));
        let lane = self.target.lane();
        // What names no endpoint gets the standard rule now; else the endpoint's rule is asked at each attempt.
        let (destination, ack) = match self.target {
            Target::Url(url) => (Some(url), self.ack.or_else(|| Some(AckRule::standard()))),
            Target::Endpoint(_, url) => (url, self.ack),
        };
        let notification = Notification {
            key: self.key,
            webhook_id,
            lane,
            destination,
            body: self.body.into(),
            content_type: self.content_type,
            headers: self.headers,
            ladder,
            ack,
            priority: self.priority,
            order: self.order.map(Box::new),
            registered_ms,
            fingerprint,
        };
        (notification, progress)
    }

    /// The hash of every field of the registration except the key. A delay is hashed as the caller wrote
    /// it, not as a due time. So the same request has the same fingerprint if it is sent again later, also if its
    /// endpoint was changed meanwhile.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut digest = Sha256::new();
        let mut part = |bytes: &[u8]| {
            digest.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            digest.update(bytes);
        };
        part(Destination::to_stored(self.target.url()).as_bytes());
        part(&self.body);
        part(self.content_type.as_bytes());
        for (name, value) in self.headers.pairs() {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        let (kind, start_ms) = match self.start {
            Start::After(delay_ms) => (b"after", delay_ms),
            Start::At(at_ms) => (b"at...", at_ms),
        };
        part(kind);
        part(&start_ms.to_be_bytes());
        let (mut ladder, mut ack) = (
            self.ladder.as_ref().map(Ladder::to_text),
            self.ack.as_ref().map(AckRule::to_text),
        );
        if self.target.endpoint().is_none() {
            // Without an endpoint, a default that is written out is the same request.
            ladder.get_or_insert_with(|| Ladder::standard().to_text());
            ack.get_or_insert_with(|| AckRule::standard().to_text());
        }
        part(ladder.unwrap_or_default().as_bytes());
        part(ack.unwrap_or_default().as_bytes());
        if let Some(endpoint) = self.target.endpoint() {
            part(endpoint.as_str().as_bytes());
        }
        // Only what differs from the default, so that the fingerprints of earlier versions stay the same.
        if let Some(priority) = self.priority.to_stored() {
            part(b"priority");
            part(priority.as_bytes());
        }
        if let Some(order) = &self.order {
            part(b"order");
            part(order.key().as_bytes());
            part(&order.number().to_be_bytes());
            part(order.mode().as_str().as_bytes());
        }
        let full = digest.finalize();
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&full[..16]);
        fingerprint
    }
}

#[cfg(test)]
mod tests;
