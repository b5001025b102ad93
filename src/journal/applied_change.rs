//! Whether a change by hand was applied whose answer was lost, as when the connection breaks during the commit.

use super::Changing;
use super::effect::{self, Status};
use crate::domain::snapshot::Snapshot;

impl Changing {
    /// Whether this change was applied to a notification. `before` is the notification when its fence was read for the
    /// change, `now` as it is now.
    ///
    /// An applied change raises the fence by one. So does a worker before it sends, and so does another change; but these do not
    /// leave the status that this change makes at its instant. (A move to where it is already, and an attempt that was asked
    /// for before, leave the same status. Then nothing can be missing but lines of the history and of the audit log.) Every
    /// change puts back what is set aside.
    pub(crate) fn is_applied(&self, before: &Snapshot, now: &Snapshot) -> bool {
        let mut after = before.clone();
        effect::change(&mut after, self).is_ok()
            && after.fence == now.fence
            && now.set_aside.is_none()
            && Status::of(&after) == Status::of(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ack::AckRule;
    use crate::domain::change::Change;
    use crate::domain::destination::Destination;
    use crate::domain::headers::Headers;
    use crate::domain::key::Key;
    use crate::domain::ladder::Ladder;
    use crate::domain::lease::{Expiry, LeaseToken};
    use crate::domain::notification::{Registration, Start, Target};
    use crate::domain::priority::Priority;
    use crate::domain::state::{Cause, State};
    use crate::domain::webhook_id::WebhookId;
    use crate::journal::Actor;
    use bytes::Bytes;
    use uuid::Uuid;

    const AT_MS: i64 = 5_000;

    #[test]
    fn a_change_is_recognised_by_the_fence_and_the_status_that_it_leaves() {
        let delivered = Snapshot {
            state: State::Delivered,
            ended_ms: Some(2_000),
            fence: 7,
            ..scheduled()
        };
        let resend = changing(&delivered, Change::Resend);
        let mut resent = delivered.clone();
        effect::change(&mut resent, &resend).expect("it is allowed");
        assert_eq!((resent.fence, resent.progress.series), (8, 2));
        let check = |now: Snapshot, expected| {
            assert_eq!(resend.is_applied(&delivered, &now), expected, "{now:?}");
        };
        check(resent.clone(), true);
        // It was not written.
        check(delivered.clone(), false);
        let fenced = Snapshot {
            fence: 8,
            ..delivered.clone()
        };
        check(fenced, false);
        // Somebody else has resent it, at another instant.
        let mut of_another = delivered.clone();
        let later = Changing {
            at_ms: AT_MS + 1,
            ..resend.clone()
        };
        effect::change(&mut of_another, &later).expect("it is allowed");
        check(of_another, false);
        // It was written, and a worker or another change came after it.
        let attempted = Snapshot {
            fence: 9,
            ..resent.clone()
        };
        check(attempted, false);
        // What was read before belongs to another change.
        assert!(!resend.is_applied(&resent, &resent));
        // A cancellation of what a higher number has ended leaves the state, the cause and the end.
        let superseded = Snapshot {
            state: State::Cancelled,
            cause: Some(Cause::Superseded),
            ended_ms: Some(2_000),
            ..scheduled()
        };
        let cancel = changing(&superseded, Change::Cancel);
        let mut cancelled = superseded.clone();
        effect::change(&mut cancelled, &cancel).expect("it is allowed");
        assert!(cancel.is_applied(&superseded, &cancelled));
        let fenced = Snapshot {
            fence: 1,
            ..superseded.clone()
        };
        assert!(!cancel.is_applied(&superseded, &fenced));
    }

    fn scheduled() -> Snapshot {
        let registration = Registration {
            key: Key::new("t", "1").expect("a key"),
            target: Target::Url(Destination::parse("https://shop.example/").expect("a URL")),
            body: Bytes::new(),
            content_type: String::new(),
            headers: Headers::default(),
            start: Start::After(0),
            ladder: Some(Ladder::standard()),
            ack: Some(AckRule::standard()),
            priority: Priority::Normal,
            order: None,
        };
        let webhook_id = WebhookId::new(Uuid::from_u128(1));
        let (notification, progress) = registration.accept(webhook_id, 1_000, None);
        Snapshot::of_new(&notification, progress)
    }

    fn changing(before: &Snapshot, change: Change) -> Changing {
        let expiry = Expiry {
            at_ms: AT_MS + 1_000,
            number: 0,
        };
        Changing {
            lease: LeaseToken::granted(before.key_in_lane(), expiry),
            fence: before.fence,
            change,
            series_priority: None,
            actor: Actor::named("anna"),
            reason: String::new(),
            at_ms: AT_MS,
        }
    }
}
