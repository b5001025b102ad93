//! What is registered and what is delivered.

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

/// Largest body unless configured otherwise, in bytes.
pub const LARGEST_BODY_BYTES: usize = 256 * 1024;
/// Longest content type, in bytes.
pub const LONGEST_CONTENT_TYPE: usize = 256;
/// How far ahead a first attempt may lie, in milliseconds: 30 days.
pub const LONGEST_DELAY_MS: i64 = 30 * 86_400_000;

/// When the first attempt is due, as the caller asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// So many milliseconds after the registration; 0 is at once.
    After(i64),
    /// At this instant, in milliseconds since 1970; an instant that has passed is at once.
    At(i64),
}

/// A caller's request, checked field by field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Its name.
    pub key: Key,
    /// Where to deliver.
    pub destination: Destination,
    /// The very bytes to deliver.
    pub body: Bytes,
    /// Their type.
    pub content_type: String,
    /// The caller's own headers.
    pub headers: Headers,
    /// When the first attempt is due.
    pub start: Start,
    /// The retry schedule.
    pub ladder: Ladder,
    /// Which answers acknowledge it.
    pub ack: AckRule,
}

/// 16 bytes that differ when two registrations ask for different things.
pub type Fingerprint = [u8; 16];

/// A notification: everything about it that never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Its name towards its owner.
    pub key: Key,
    /// Its name towards the receiver.
    pub webhook_id: WebhookId,
    /// Where it goes.
    pub destination: Destination,
    /// The lane it waits in.
    pub lane: Lane,
    /// The bytes to deliver, or where they are.
    pub body: Body,
    /// Their type.
    pub content_type: String,
    /// The caller's own headers.
    pub headers: Headers,
    /// Its ladder.
    pub ladder: Ladder,
    /// Its ack rule.
    pub ack: AckRule,
    /// When it was accepted, in milliseconds since 1970.
    pub registered_ms: i64,
    /// What tells the same registration from a different one under the same key.
    pub fingerprint: Fingerprint,
}

impl Notification {
    /// Where a schedule finds it.
    #[must_use]
    pub fn key_in_lane(&self) -> KeyInLane {
        KeyInLane {
            key: self.key.clone(),
            lane: self.lane.clone(),
        }
    }
}

impl Registration {
    /// Turns the request into a notification that starts its first series.
    #[must_use]
    pub fn accept(self, webhook_id: WebhookId, now_ms: i64) -> (Notification, Progress) {
        let first_due_ms = match self.start {
            Start::After(delay_ms) => now_ms + delay_ms,
            Start::At(at_ms) => at_ms.max(now_ms),
        };
        let progress = Progress::start(&self.ladder, first_due_ms);
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

    /// Covers every field that the caller gave but the key. A delay counts as it was written: the
    /// same request sent twice is the same registration, although its due time would differ.
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
