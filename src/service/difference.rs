//! The fields in which a registration differs from the one that was accepted before under its key.
//!
//! Of the accepted one, the notification and a hash of all fields ([`Fingerprint`](crate::domain::notification::Fingerprint))
//! are kept. Not kept are the delay and whether the caller chose the ladder. They follow from the hash: a registration with
//! all that is kept, and with the same delay, has the same hash. Only names of fields are returned, never values.

use crate::domain::destination::Destination;
use crate::domain::ladder::Ladder;
use crate::domain::notification::{Notification, Registration, Start, Target};
use crate::domain::priority::Priority;
use crate::domain::snapshot::Snapshot;
use crate::journal::{Payload, PayloadContent};

/// The fields of a registration that its notification does not show.
#[derive(Debug, Clone, Copy)]
pub(super) struct AskedStart {
    start: Start,
    has_ladder: bool,
}

impl AskedStart {
    pub(super) fn of(registration: &Registration) -> Self {
        Self {
            start: registration.start,
            has_ladder: registration.ladder.is_some(),
        }
    }
}

/// The names of the fields in which `asked` differs from what was registered as `known` with `payload`. A field is not named
/// if it is not kept any more: after the payload was deleted, these are the body, the headers and the delay.
pub(super) fn differing_fields(
    asked: &Notification,
    asked_start: AskedStart,
    known: &Snapshot,
    payload: Option<&Payload>,
) -> Vec<&'static str> {
    let mut differing = Vec::new();
    let mut compare = |name: &'static str, is_same: bool| {
        if !is_same {
            differing.push(name);
        }
    };
    compare("endpoint", asked.lane.endpoint() == known.lane.endpoint());
    compare(
        "url",
        Destination::to_stored(asked.destination.as_ref())
            == Destination::to_stored(known.destination.as_ref()),
    );
    let content = payload.and_then(|payload| payload.content.as_ref());
    if let Some(PayloadContent { headers, body }) = content {
        compare("body", body.here() == asked.body.here());
        compare("headers", headers.pairs() == asked.headers.pairs());
    }
    let kept = payload.and_then(|payload| kept_as(asked_start.start, known, payload));
    let have_endpoints = (
        asked.lane.endpoint().is_some(),
        known.lane.endpoint().is_some(),
    );
    if let Some(payload) = payload {
        compare("content_type", payload.content_type == asked.content_type);
        let is_same = payload.ack == asked.ack;
        // Only what names an endpoint can be without a rule. It is not known whether the other one was given its rule.
        let is_one_without =
            have_endpoints.0 != have_endpoints.1 && (payload.ack.is_none() || asked.ack.is_none());
        compare("ack", is_same || is_one_without);
    }
    let priority = kept.and_then(|(_, priority)| priority);
    // If it is not known, a job may have given the series another one than that of the registration.
    let priority = priority.or((!may_be_of_job(known)).then_some(known.priority));
    compare(
        "priority",
        priority.is_none_or(|priority| asked.priority == priority),
    );
    compare("order", asked.order == known.order);
    let is_same_ladder = asked.ladder == known.ladder;
    let kept = kept.map(|(form, _)| form);
    let is_same_ladder = match (have_endpoints, kept) {
        // The standard ladder may be written out.
        ((false, false), _) => is_same_ladder,
        ((true, true), Some(AcceptedForm::WithLadder)) => asked_start.has_ladder && is_same_ladder,
        ((true, true), Some(AcceptedForm::WithoutLadder)) => !asked_start.has_ladder,
        // It is not known whether the ladder is that of the endpoint at that time.
        (
            _,
            Some(AcceptedForm::WithLadder | AcceptedForm::WithoutLadder | AcceptedForm::OtherStart)
            | None,
        ) => !asked_start.has_ladder || is_same_ladder,
    };
    compare("ladder", is_same_ladder);
    if let Some(AcceptedForm::OtherStart) = kept {
        differing.push(match asked_start.start {
            Start::After(_) => "delay",
            Start::At(_) => "deliver_at",
        });
    }
    differing
}

/// What the hash says about the registration that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcceptedForm {
    /// It had this start, and a ladder of its own.
    WithLadder,
    /// It had this start, and the ladder of its endpoint.
    WithoutLadder,
    /// It had another start.
    OtherStart,
}

/// Whether the priority may be that of a series which a job began, instead of that of the registration.
fn may_be_of_job(known: &Snapshot) -> bool {
    known.progress.series > 1 && known.priority == Priority::Low
}

/// Tries the registrations that may have been accepted. Returns the one that was, with its priority if it was found. `None`
/// if the body is not kept any more.
fn kept_as(
    start: Start,
    known: &Snapshot,
    payload: &Payload,
) -> Option<(AcceptedForm, Option<Priority>)> {
    let content = payload.content.as_ref()?;
    let target = match (known.lane.endpoint(), &known.destination) {
        (Some(name), url) => Target::Endpoint(name, url.clone()),
        (None, url) => Target::Url(url.clone()?),
    };
    let registration = |ladder: Option<Ladder>, priority: Priority| Registration {
        key: known.key.clone(),
        target: target.clone(),
        body: content.body.here().cloned().unwrap_or_default(),
        content_type: payload.content_type.clone(),
        headers: content.headers.clone(),
        start,
        ladder,
        ack: payload.ack.clone(),
        priority,
        order: known.order.as_deref().cloned(),
    };
    content.body.here()?;
    let priorities = match may_be_of_job(known) {
        true => Priority::ALL,
        false => std::slice::from_ref(&known.priority),
    };
    let is_it =
        |ladder, priority| registration(ladder, priority).fingerprint() == known.fingerprint;
    for priority in priorities {
        if is_it(Some(known.ladder.clone()), *priority) {
            return Some((AcceptedForm::WithLadder, Some(*priority)));
        }
        if is_it(None, *priority) {
            return Some((AcceptedForm::WithoutLadder, Some(*priority)));
        }
    }
    Some((AcceptedForm::OtherStart, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ack::AckRule;
    use crate::domain::endpoint::{EndpointName, EndpointSettings};
    use crate::domain::headers::Headers;
    use crate::domain::key::Key;
    use crate::domain::order::{OrderMode, OrderPlace};
    use crate::domain::webhook_id::WebhookId;
    use bytes::Bytes;

    fn registration() -> Registration {
        Registration {
            key: Key::new("payment.succeeded", "1").expect("a key"),
            target: url("https://shop.example/notify"),
            body: Bytes::from_static(b"a=1"),
            content_type: "text/plain".into(),
            headers: Headers::default(),
            start: Start::After(1_000),
            ladder: None,
            ack: None,
            priority: Priority::Normal,
            order: None,
        }
    }

    fn url(text: &str) -> Target {
        Target::Url(Destination::parse(text).expect("a url"))
    }

    fn endpoint(name: &str) -> Target {
        Target::Endpoint(EndpointName::parse(name).expect("a name"), None)
    }

    fn ladder(text: &str) -> Ladder {
        Ladder::from_text(text).expect("a ladder")
    }

    fn accept(registration: Registration, now_ms: i64) -> Notification {
        let settings = r#"{"url":"https://shop.example/n","ladder":"wechat","ack":"exact"}"#;
        let settings = EndpointSettings::from_text(settings).expect("settings");
        let settings = registration.target.endpoint().map(|_| &settings);
        let id = WebhookId::from_bytes([1; 16]);
        registration.accept(id, now_ms, settings).0
    }

    /// The fields that are named if the second of these is registered after the first.
    fn named(first: &Registration, second: &Registration, is_kept: bool) -> Vec<&'static str> {
        named_of(first, second, is_kept, |_| {})
    }

    /// The same after a change of the first one.
    fn named_of(
        first: &Registration,
        second: &Registration,
        is_kept: bool,
        change: impl FnOnce(&mut Snapshot),
    ) -> Vec<&'static str> {
        let known = accept(first.clone(), 1_000);
        let payload = Payload {
            ack: known.ack.clone(),
            content_type: known.content_type.clone(),
            content: is_kept.then(|| PayloadContent {
                headers: known.headers.clone(),
                body: known.body.clone(),
            }),
        };
        let progress = first.clone().accept(known.webhook_id, 1_000, None).1;
        let mut known = Snapshot::of_new(&known, progress);
        change(&mut known);
        let asked_start = AskedStart::of(second);
        let asked = accept(second.clone(), 9_000);
        assert_ne!(asked.fingerprint, known.fingerprint);
        differing_fields(&asked, asked_start, &known, Some(&payload))
    }

    #[test]
    fn every_field_that_differs_is_named_and_no_other() {
        let plain = registration();
        let check = |second: Registration, expected: &[&str], after_deletion: &[&str]| {
            assert_eq!(named(&plain, &second, true), expected);
            assert_eq!(named(&second, &plain, true), expected);
            assert_eq!(named(&plain, &second, false), after_deletion);
        };
        let changed = |change: fn(&mut Registration)| {
            let mut second = registration();
            change(&mut second);
            second
        };
        let url_differs = changed(|one| one.target = url("https://shop.example/n"));
        check(url_differs, &["url"], &["url"]);
        check(changed(|one| one.body = "a=2".into()), &["body"], &[]);
        let header = changed(|one| one.headers.insert("x", "1").expect("a header"));
        check(header, &["headers"], &[]);
        let content_type = changed(|one| one.content_type = "text/x".into());
        check(content_type, &["content_type"], &["content_type"]);
        let other_ladder = changed(|one| one.ladder = Some(ladder("wechat")));
        check(other_ladder, &["ladder"], &["ladder"]);
        let ack = AckRule::from_text("exact").expect("a rule");
        let other_ack = Registration {
            ack: Some(ack),
            ..registration()
        };
        check(other_ack, &["ack"], &["ack"]);
        let priority = changed(|one| one.priority = Priority::High);
        check(priority, &["priority"], &["priority"]);
        let order = changed(|one| {
            one.order = Some(OrderPlace::new("o", 1, OrderMode::Latest).expect("a place"));
        });
        check(order, &["order"], &["order"]);
        let delay = changed(|one| one.start = Start::After(2_000));
        check(delay, &["delay"], &[]);
        let many = changed(|one| {
            one.body = "a=2".into();
            one.content_type = "text/x".into();
            one.start = Start::After(0);
        });
        let three = ["body", "content_type", "delay"];
        check(many, &three, &["content_type"]);
        let at = changed(|one| one.start = Start::At(10_000));
        assert_eq!(named(&plain, &at, true), ["deliver_at"]);
    }

    #[test]
    fn the_priority_of_a_series_that_a_job_began_is_not_that_of_the_registration() {
        let replayed = |known: &mut Snapshot| {
            known.progress.series = 2;
            known.priority = Priority::Low;
        };
        let check = |second: Registration, is_kept: bool, expected: &[&str]| {
            let named = named_of(&registration(), &second, is_kept, replayed);
            assert_eq!(named, expected, "{second:?}");
        };
        let body = Registration {
            body: "a=2".into(),
            ..registration()
        };
        check(body.clone(), true, &["body"]);
        check(body, false, &[]);
        for other in [Priority::Low, Priority::High] {
            let priority = Registration {
                priority: other,
                ..registration()
            };
            check(priority.clone(), true, &["priority"]);
            // The registration is not known any more, and nothing is named by mistake.
            check(priority, false, &[]);
        }
        let later = Registration {
            start: Start::After(2_000),
            ..registration()
        };
        check(later, true, &["delay"]);
    }

    #[test]
    fn the_ladder_of_an_endpoint_is_not_taken_for_one_that_was_given() {
        let plain = Registration {
            target: endpoint("shop-1"),
            ..registration()
        };
        // The ladder of the endpoint, written out, is another registration.
        let written = Registration {
            ladder: Some(ladder("wechat")),
            ..plain.clone()
        };
        let other = Registration {
            ladder: Some(ladder("alipay")),
            ..plain.clone()
        };
        assert_eq!(named(&plain, &written, true), ["ladder"]);
        assert_eq!(named(&written, &plain, true), ["ladder"]);
        assert_eq!(named(&written, &other, true), ["ladder"]);
        assert_eq!(named(&written, &other, false), ["ladder"]);
        assert_eq!(named(&plain, &other, true), ["ladder"]);
        assert!(named(&plain, &written, false).is_empty());
        let later = Registration {
            start: Start::After(5),
            ..plain.clone()
        };
        assert_eq!(named(&plain, &later, true), ["delay"]);
        assert_eq!(named(&written, &later, true), ["delay"]);
        let elsewhere = Registration {
            target: endpoint("shop-2"),
            ..registration()
        };
        assert_eq!(named(&plain, &elsewhere, true), ["endpoint"]);
        let by_url = ["endpoint", "url"];
        assert_eq!(named(&plain, &registration(), true), by_url);
        assert_eq!(named(&registration(), &plain, true), by_url);
    }
}
