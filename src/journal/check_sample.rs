//! The notification that a check of a journal writes and rolls back.
//!
//! A check that writes to another table proves little: the tables for registering and recording may be locked
//! or damaged, or a trigger may refuse the write. So a check registers a notification and records its last
//! attempt, with the same statements as for all notifications, and then rolls both back.

use super::{Actor, JournalError, Recorded, Recording, RegisterResult, Registering};
use crate::domain::attempt::{Answer, Attempt, GONE, Outcome};
use crate::domain::call_trace::CallTrace;
use crate::domain::decision::{EndedAttempt, decide};
use crate::domain::destination::Destination;
use crate::domain::headers::Headers;
use crate::domain::key::Key;
use crate::domain::notification::{Registration, Start, Target};
use crate::domain::priority::Priority;
use crate::domain::receiver_requests::FollowedRequests;
use crate::domain::webhook_id::WebhookId;
use bytes::Bytes;
use std::sync::Arc;
use uuid::Uuid;

/// Number of bytes that a check writes after a write has failed: the default of the largest body. A disk that
/// is almost full may have room for a small write but not for this one.
pub(super) const PADDING_BYTES: usize = 256 * 1024;
/// A due time in the year 5138, in milliseconds since 1970. No real notification is due so late.
const FAR_MS: i64 = 100_000_000_000_000;

/// A registration and the recording of its only attempt.
pub(super) struct CheckSample {
    pub(super) registering: Registering,
    pub(super) recording: Recording,
}

impl CheckSample {
    /// Creates a sample whose body has `body_bytes` bytes. Each sample has another key, so that servers that
    /// check at the same time do not wait for each other.
    pub(super) fn new(body_bytes: usize) -> Self {
        let id = Uuid::now_v7();
        // The sample is registered in 1970 and due in 5138. The rollback leaves dead rows in PostgreSQL
        // until the next vacuum; with these instants, no query reads the index ranges that contain them.
        let (notification, progress) = Registration {
            key: Key::new("ringback.check", &id.to_string()).expect("invariant: both are short"),
            target: Target::Url(Destination::from_stored("https://check.invalid/")),
            body: Bytes::from(vec![b' '; body_bytes]),
            content_type: "text/plain".to_string(),
            headers: Headers::default(),
            start: Start::After(FAR_MS),
            ladder: None,
            ack: None,
            priority: Priority::Normal,
            order: None,
        }
        .accept(WebhookId::new(id), 0, None);
        let notification = Arc::new(notification);
        // The receiver asks for no more calls, and the notification becomes a dead letter. So the check writes to
        // every table that registering and recording use.
        let gone = EndedAttempt {
            started_ms: 0,
            ended_ms: 0,
            outcome: Outcome::HttpStatus,
            status: Some(GONE),
            retry_after: None,
        };
        let followed = FollowedRequests {
            retry_after: false,
            gone: true,
        };
        let decision = decide(&notification.ladder, followed, &progress, &gone, 0.0);
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
            trace: CallTrace::default(),
        };
        Self {
            recording: Recording {
                key: notification.key.clone(),
                attempt: Arc::new(attempt),
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

    /// Checks that the journal replied as it does to real notifications. A trigger may discard a write
    /// without an error.
    pub(super) fn verify(
        registered: &[RegisterResult],
        recorded: &[Recorded],
    ) -> Result<(), JournalError> {
        match (registered, recorded) {
            ([RegisterResult::Created], [Recorded::Applied]) => Ok(()),
            _ => Err(JournalError::Corrupt(
                "the journal does not keep what is written to it; look for triggers that discard writes".to_string(),
            )),
        }
    }
}
