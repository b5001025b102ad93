//! Registrations (what callers send) and notifications (what is delivered).

use crate::domain::ack::AckRule;
use crate::domain::body::Body;
use crate::domain::destination::Destination;
use crate::domain::headers::Headers;
use crate::domain::key::Key;
use crate::domain::ladder::Ladder;
use crate::domain::lane::{KeyInLane, Lane};
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
    /// The URL to call.
    pub destination: Destination,
    /// The bytes to deliver.
    pub body: Bytes,
    /// The content type of the body.
    pub content_type: String,
    /// The headers that the caller adds.
    pub headers: Headers,
    /// When the first attempt is due.
    pub start: Start,
    /// The retry schedule.
    pub ladder: Ladder,
    /// The rule that says which answers acknowledge the notification.
    pub ack: AckRule,
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
    /// The URL to call.
    pub destination: Destination,
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
    /// The rule that says which answers acknowledge the notification.
    pub ack: AckRule,
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
    /// Turns the registration into a notification with the progress at the start of its first series.
    #[must_use]
    pub fn accept(self, webhook_id: WebhookId, now_ms: i64) -> (Notification, Progress) {
        let progress = Progress::start(&self.ladder, self.start.first_due_ms(now_ms));
        let fingerprint = self.fingerprint();
        let lane = Lane::of(&self.destination)
            .expect("invariant: a destination is a URL since it was parsed");
        let notification = Notification {
            key: self.key,
            webhook_id,
            lane,
            destination: self.destination,
            body: self.body.into(),
            content_type: self.content_type,
            headers: self.headers,
            ladder: self.ladder,
            ack: self.ack,
            registered_ms: now_ms,
            fingerprint,
        };
        (notification, progress)
    }

    /// The hash of every field of the registration except the key. A delay is hashed as the caller wrote
    /// it, not as a due time. So the same request has the same fingerprint if it is sent again later.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut digest = Sha256::new();
        let mut part = |bytes: &[u8]| {
            digest.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            digest.update(bytes);
        };
        part(self.destination.as_str().as_bytes());
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
        part(self.ladder.to_text().as_bytes());
        part(self.ack.to_text().as_bytes());
        let full = digest.finalize();
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&full[..16]);
        fingerprint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registration() -> Registration {
        Registration {
            key: Key::new("payment.succeeded", "1").expect("a key"),
            destination: Destination::parse("https://shop.example/notify").expect("a url"),
            body: Bytes::from_static(b"a=1"),
            content_type: "text/plain".into(),
            headers: Headers::default(),
            start: Start::After(0),
            ladder: Ladder::standard(),
            ack: AckRule::standard(),
        }
    }

    fn accept(registration: Registration) -> (Notification, Progress) {
        registration.accept(WebhookId::from_bytes([1; 16]), 1_000)
    }

    #[test]
    fn the_first_attempt_is_due_as_asked_and_never_in_the_past() {
        let due = |start| {
            accept(Registration {
                start,
                ..registration()
            })
            .1
            .first_due_ms
        };
        assert_eq!(due(Start::After(0)), 1_000);
        assert_eq!(due(Start::After(1_800_000)), 1_801_000);
        assert_eq!(due(Start::At(5_000)), 5_000);
        assert_eq!(due(Start::At(10)), 1_000);
    }

    #[test]
    fn the_fingerprint_tells_every_field_apart() {
        let mut other_header = Headers::default();
        other_header.insert("x", "1").expect("a header");
        let variants = [
            registration(),
            Registration {
                body: Bytes::from_static(b"a=2"),
                ..registration()
            },
            Registration {
                content_type: "text/html".into(),
                ..registration()
            },
            Registration {
                start: Start::After(1),
                ..registration()
            },
            Registration {
                start: Start::At(0),
                ..registration()
            },
            Registration {
                ack: AckRule::by_name("exact").expect("known"),
                ..registration()
            },
            Registration {
                ladder: Ladder::by_name("wechat").expect("known"),
                ..registration()
            },
            Registration {
                headers: other_header,
                ..registration()
            },
            Registration {
                destination: Destination::parse("https://shop.example/other").expect("a url"),
                ..registration()
            },
        ];
        for (index, one) in variants.iter().enumerate() {
            for (other_index, other) in variants.iter().enumerate() {
                let same = one.fingerprint() == other.fingerprint();
                assert_eq!(same, index == other_index, "{index} {other_index}");
            }
        }
    }
}
