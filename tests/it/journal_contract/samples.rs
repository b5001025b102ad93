//! Notifications, attempts and changes to put into a journal.

use bytes::Bytes;
use ringback::domain::ack::AckRule;
use ringback::domain::attempt::{Answer, Attempt, Outcome};
use ringback::domain::call_trace::CallTrace;
use ringback::domain::change::Change;
use ringback::domain::decision::{EndedAttempt, decide};
use ringback::domain::destination::Destination;
use ringback::domain::headers::Headers;
use ringback::domain::key::Key;
use ringback::domain::ladder::Ladder;
use ringback::domain::lane::KeyInLane;
use ringback::domain::lease::{Expiry, LeaseToken};
use ringback::domain::notification::{Notification, Registration, Start, Target};
use ringback::domain::priority::Priority;
use ringback::domain::progress::Progress;
use ringback::domain::receiver_requests::FollowedRequests;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::webhook_id::WebhookId;
use ringback::journal::{
    Actor, ChangeResult, Changing, JobMatches, Journal, Recorded, Recording, RegisterResult,
    Registering,
};
use std::sync::Arc;
use uuid::Uuid;

/// When the notifications of these tests are registered, unless they say otherwise.
pub const START_MS: i64 = 1_795_163_400_000;

pub fn key(id: &str) -> Key {
    Key::new("payment.succeeded", id).expect("a key")
}

pub fn registration(key: Key) -> Registration {
    Registration {
        key,
        target: Target::Url(Destination::parse("https://shop.example/notify").expect("a url")),
        body: Bytes::from_static(b"out_trade_no=1"),
        content_type: "application/x-www-form-urlencoded".into(),
        headers: Headers::default(),
        start: Start::After(0),
        ladder: Some(Ladder::standard()),
        ack: Some(AckRule::standard()),
        priority: Priority::Normal,
        order: None,
    }
}

/// Where the entry of such a notification is.
pub fn place(key: &Key) -> KeyInLane {
    let registering = registering_at(registration(key.clone()), START_MS);
    registering.notification.key_in_lane()
}

pub fn registering_at(registration: Registration, now_ms: i64) -> Registering {
    let (notification, progress) =
        registration.accept(WebhookId::new(Uuid::now_v7()), now_ms, None);
    Registering {
        notification: Arc::new(notification),
        progress,
        actor: Actor::named("orders"),
    }
}

pub fn registering(id: &str) -> Registering {
    registering_at(registration(key(id)), START_MS)
}

/// Registers one notification that must be new.
pub async fn keep(journal: &dyn Journal, registering: Registering) -> Arc<Notification> {
    let notification = registering.notification.clone();
    let replies = journal.register(&[registering]).await.expect("kept");
    assert_eq!(replies, [RegisterResult::Created]);
    notification
}

/// An attempt that started when it was due and took 20 ms, with what follows from it.
pub fn recording(
    notification: &Notification,
    before: Progress,
    outcome: Outcome,
    status: Option<u16>,
) -> Recording {
    let started_ms = before.next_due_ms();
    let attempt = Attempt {
        series: before.series,
        number: before.next_number(),
        due_ms: started_ms,
        started_ms,
        duration_ms: 20,
        answer: Answer {
            outcome,
            status,
            body: b"\xef\xbb\xbfsuccess\0".to_vec(),
            reason: format!("it was {outcome}"),
        },
        trace: CallTrace::from_text(
            "to=192.0.2.1:443 kept tls=1.3 dns=1 connect=2 handshake=3 first=4 body=5",
        ),
    };
    let ended = EndedAttempt {
        started_ms,
        ended_ms: started_ms + 20,
        outcome,
        status,
        retry_after: None,
    };
    let followed = FollowedRequests {
        retry_after: true,
        gone: true,
    };
    Recording {
        key: notification.key.clone(),
        attempt: Arc::new(attempt),
        before,
        decision: decide(&notification.ladder, followed, &before, &ended, 0.5),
        at_ms: started_ms + 20,
    }
}

pub fn failure(notification: &Notification, before: Progress) -> Recording {
    recording(notification, before, Outcome::HttpStatus, Some(500))
}

pub fn delivery(notification: &Notification, before: Progress) -> Recording {
    recording(notification, before, Outcome::Acknowledged, Some(200))
}

/// The receiver asks to stop: parked at the first attempt.
pub fn refusal(notification: &Notification, before: Progress) -> Recording {
    recording(notification, before, Outcome::HttpStatus, Some(410))
}

pub async fn record(journal: &dyn Journal, recording: Recording) -> Recorded {
    let mut replies = journal.record(&[recording]).await.expect("kept");
    assert_eq!(replies.len(), 1);
    replies.remove(0)
}

/// The number of what a job concerns, all of which it would change.
pub fn all_of(many: u64) -> JobMatches {
    JobMatches {
        many,
        ..JobMatches::default()
    }
}

/// Applies a recording that must be applied.
pub async fn apply(journal: &dyn Journal, recording: Recording) {
    assert_eq!(record(journal, recording).await, Recorded::Applied);
}

/// A change of a notification whose fence was never raised.
pub fn changing(key: &Key, change: Change, at_ms: i64) -> Changing {
    let expiry = Expiry {
        at_ms: at_ms + 1_000,
        number: 0,
    };
    Changing {
        lease: LeaseToken::granted(place(key), expiry),
        fence: 0,
        change,
        series_priority: None,
        actor: Actor::named("support"),
        reason: format!("asked to {change}"),
        at_ms,
    }
}

/// Applies a change that must be allowed.
pub async fn do_change(journal: &dyn Journal, key: &Key, change: Change, at_ms: i64) -> Snapshot {
    let changing = Changing {
        fence: find(journal, key).await.fence,
        ..changing(key, change, at_ms)
    };
    match journal.change(changing).await {
        Ok(ChangeResult::Done(snapshot)) => *snapshot,
        other => panic!("{change}: {other:?}"),
    }
}

/// Raises the fence of one notification, if it is pending.
pub async fn raise_fence(journal: &dyn Journal, key: &Key) -> Option<Snapshot> {
    let raised = journal.fence(std::slice::from_ref(key)).await;
    let [found] = &raised.expect("raised")[..] else {
        panic!("one key has one answer");
    };
    found.clone()
}

pub async fn find(journal: &dyn Journal, key: &Key) -> Snapshot {
    journal.find(key).await.expect("read").expect("it is there")
}

/// The kinds of the lines of its history, oldest first.
pub async fn history(journal: &dyn Journal, key: &Key) -> Vec<String> {
    let transitions = journal.transitions(key).await.expect("read");
    transitions.into_iter().map(|line| line.kind).collect()
}

/// The numbers and outcomes of its attempts, oldest first.
pub fn attempts(snapshot: &Snapshot) -> Vec<(u32, u32, Outcome)> {
    snapshot
        .attempts
        .iter()
        .map(|attempt| (attempt.series, attempt.number, attempt.answer.outcome))
        .collect()
}
