//! What a check of a journal goes through: the life of a notification that is never kept.
//!
//! A check that writes to some other table proves little: the tables that registering and recording
//! need may be locked, damaged, or refused by a trigger. So a check registers a
//! notification and records its last attempt by the statements that do it for all others, and rolls
//! that back.

use super::{Actor, JournalError, Recorded, Recording, RegisterResult, Registering};
use crate::domain::ack::AckRule;
use crate::domain::attempt::{Answer, Attempt, Outcome};
use crate::domain::decision::decide;
use crate::domain::destination::Destination;
use crate::domain::headers::Headers;
use crate::domain::key::Key;
use crate::domain::ladder::Ladder;
use crate::domain::notification::{Registration, Start};
use crate::domain::webhook_id::WebhookId;
use bytes::Bytes;
use std::sync::Arc;
use uuid::Uuid;

/// What a check writes at least after a write has failed, in bytes: as much as the largest body that is
/// taken unless set otherwise. A disk that is almost full has room for little writes and not for these.
pub(super) const PADDING_BYTES: usize = 256 * 1024;
/// By which a receiver asks never to be called again: the notification is parked, so that every table
/// is written to.
const GONE: u16 = 410;
/// Later than anything real is due, in milliseconds since 1970: in the year 5138.
const FAR_MS: i64 = 100_000_000_000_000;

/// A registration and the recording of its only attempt.
pub(super) struct CheckSample {
    pub(super) registering: Registering,
    pub(super) recording: Recording,
}

impl CheckSample {
    /// With a body of so many bytes. No two have the same key, so that servers which check at the same
    /// time do not wait for each other.
    pub(super) fn new(body_bytes: usize) -> Self {
        let id = Uuid::now_v7();
        // Registered long ago and due far ahead: the dead rows that it leaves in PostgreSQL until the
        // next vacuum lie where nobody reads.
        let (notification, progress) = Registration {
            key: Key::new("ringback.check", &id.to_string()).expect("invariant: both are short"),
            destination: Destination::from_stored("https://check.invalid/"),
            body: Bytes::from(vec![b' '; body_bytes]),
            content_type: "text/plain".to_string(),
            headers: Headers::default(),
            start: Start::After(FAR_MS),
            ladder: Ladder::standard(),
            ack: AckRule::standard(),
        }
        .accept(WebhookId::new(id), 0);
        let notification = Arc::new(notification);
        let decision = decide(
            &notification.ladder,
            &progress,
            0,
            Outcome::HttpStatus,
            Some(GONE),
            0.0,
        );
        let attempt = Attempt {
            series: progress.series,
            number: progress.next_number(),
            due_ms: progress.due_ms,
            started_ms: 0,
            duration_ms: 0,
            answer: Answer {
                outcome: Outcome::HttpStatus,
                status: Some(GONE),
                body: Vec::new(),
                reason: String::new(),
            },
        };
        Self {
            recording: Recording {
                key: notification.key.clone(),
                attempt,
                before: progress,
                decision,
                at_ms: 0,
            },
            registering: Registering {
                notification,
                progress,
                actor: Actor::maintenance(),
            },
        }
    }

    /// Whether it went as it does for all others. A trigger may swallow what is written.
    pub(super) fn verify(
        registered: &[RegisterResult],
        recorded: &[Recorded],
    ) -> Result<(), JournalError> {
        match (registered, recorded) {
            ([RegisterResult::Created], [Recorded::Applied]) => Ok(()),
            _ => Err(JournalError::Corrupt(
                "what is written does not stay as it was written".to_string(),
            )),
        }
    }
}
