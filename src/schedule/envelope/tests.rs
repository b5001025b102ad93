use super::*;
use crate::domain::body::Body;
use crate::domain::deferral::Lacked;
use crate::domain::headers::Headers;
use crate::domain::notification::{Registration, Start, Target};
use crate::domain::state::Cause;
use crate::domain::trace_context::TraceContext;
use crate::domain::trace_context::state::TraceState;
use crate::domain::webhook_id::WebhookId;

fn entry() -> Entry {
    let mut headers = Headers::default();
    headers.insert("x-request-id", "42").expect("a header");
    let registration = Registration {
        key: Key::new("payment.succeeded", "order/1").expect("a key"),
        target: Target::Url(Destination::parse("https://shop.example/notify").expect("a url")),
        body: Bytes::from_static(b"a=1&b=\xff\x00"),
        content_type: "application/x-www-form-urlencoded".into(),
        headers,
        start: Start::After(0),
        ladder: None,
        ack: None,
        priority: Priority::Normal,
        order: None,
    };
    let (notification, progress) =
        registration.accept(WebhookId::from_bytes([7; 16]), 1_795_163_400_123, None);
    Entry::scheduled(Arc::new(notification), progress)
}

/// An entry with a trace context.
fn traced(state: Option<&str>) -> Entry {
    let parent = format!("00-{}-{}-01", "ab".repeat(16), "cd".repeat(8));
    let trace = TraceContext::parse(&parent).expect("right");
    let trace = trace.with_state(state.and_then(|state| TraceState::parse([state])));
    let mut notification = (*entry().notification).clone();
    notification.headers = notification.headers.with_trace(Some(trace));
    Entry {
        notification: Arc::new(notification),
        ..entry()
    }
}

#[test]
fn an_entry_survives_the_round_trip() {
    let mut variants = vec![entry()];
    for state in State::ALL {
        variants.push(Entry {
            state: *state,
            ..entry()
        });
    }
    for cause in Cause::ALL {
        variants.push(Entry {
            cause: Some(*cause),
            ended_ms: Some(5),
            ..entry()
        });
    }
    let progress = Progress {
        series: 2,
        step: 3,
        attempts: u32::MAX,
        retry_at_ms: Some(9),
        clamped: true,
        ..entry().progress
    };
    variants.push(Entry {
        progress,
        verify: true,
        interrupted_ms: Some(8),
        raise_fence: true,
        was_put_off: true,
        ..entry()
    });
    for lacked in [Lacked::Proxy, Lacked::Capacity] {
        variants.push(Entry {
            was_put_off: true,
            lacked: Some(lacked),
            ..entry()
        });
    }
    variants.extend([None, Some("a=1")].map(traced));
    let mut of_endpoint = (*entry().notification).clone();
    of_endpoint.lane = Lane::from_name("endpoint:shop-1");
    (of_endpoint.destination, of_endpoint.ack) = (None, None);
    variants.push(Entry {
        notification: Arc::new(of_endpoint),
        ..entry()
    });
    for mode in OrderMode::ALL {
        let order = OrderPlace::new("order-1", 1 << 40, *mode).expect("valid");
        variants.push(Entry {
            notification: Arc::new(Notification {
                priority: Priority::High,
                order: Some(Box::new(order)),
                ..(*entry().notification).clone()
            }),
            ..entry()
        });
    }
    for priority in Priority::ALL {
        variants.push(Entry {
            notification: Arc::new(Notification {
                priority: *priority,
                ..(*entry().notification).clone()
            }),
            verify: true,
            ..entry()
        });
    }
    let mut elsewhere = (*entry().notification).clone();
    elsewhere.lane = Lane::from_name("endpoint:shop-1");
    elsewhere.content_type = "application/xml; charset=GBK".into();
    variants.push(Entry {
        notification: Arc::new(elsewhere),
        ..entry()
    });
    for content_type in ["application/json", "text/plain; charset=utf-8"] {
        let mut of_type = (*entry().notification).clone();
        of_type.content_type = content_type.into();
        variants.push(Entry {
            notification: Arc::new(of_type),
            ..entry()
        });
    }
    for entry in variants {
        let bytes = Bytes::from(encode(&entry, BodyWriting::Whole));
        let without_body = left_to_journal(&entry);
        for (body, of) in [
            (BodyWriting::LengthOnly, &entry),
            (BodyWriting::LengthOnly, &without_body),
            (BodyWriting::Whole, &without_body),
        ] {
            let bytes = Bytes::from(encode(of, body));
            let read = decode("payment.succeeded/order/1", &bytes);
            assert_eq!(read.as_ref(), Ok(&without_body));
        }
        assert_eq!(decode("payment.succeeded/order/1", &bytes), Ok(entry));
    }
}

/// The same entry with its body in the journal alone.
fn left_to_journal(entry: &Entry) -> Entry {
    let mut notification = (*entry.notification).clone();
    notification.body = Body::InJournal(notification.body.len());
    Entry {
        notification: Arc::new(notification),
        ..entry.clone()
    }
}

#[test]
fn an_entry_without_its_body_is_small() {
    let bytes = encode(&entry(), BodyWriting::LengthOnly);
    // Header 56, lane 2 + 20, webhook id 16, rest of the URL 9, content type 1, length of the body 1, a header 17,
    // ladder 7, ack rule 8, when it was registered 6, fingerprint 16.
    assert_eq!(bytes.len(), 159);
    assert_eq!(bytes[0], VERSION_WITHOUT_BODY);
}

#[test]
fn what_is_only_remembered_has_no_body() {
    let bytes = Bytes::from(encode(&entry(), BodyWriting::Nothing));
    let read = decode("payment.succeeded/order/1", &bytes).expect("readable");
    assert!(read.notification.body.is_empty());
    assert_eq!(
        read.notification.fingerprint,
        entry().notification.fingerprint
    );
}

#[test]
fn a_new_header_replaces_the_old_one() {
    let mut bytes = encode(&entry(), BodyWriting::Whole);
    let later = Entry {
        state: State::Dead,
        cause: Some(Cause::Refused),
        ..entry()
    };
    bytes.splice(..HEADER_BYTES, encode_header(&later));
    assert_eq!(
        decode("payment.succeeded/order/1", &Bytes::from(bytes)),
        Ok(later)
    );
}

#[test]
fn damaged_envelopes_are_errors_and_never_panics() {
    let whole = encode(&entry(), BodyWriting::Whole);
    let body = entry().notification.body.len();
    for len in 0..whole.len() - body {
        let cut = Bytes::copy_from_slice(&whole[..len]);
        assert!(decode("a/b", &cut).is_err(), "{len}");
    }
    let without_body = encode(&entry(), BodyWriting::LengthOnly);
    for len in 0..without_body.len() {
        let cut = Bytes::copy_from_slice(&without_body[..len]);
        assert!(decode("a/b", &cut).is_err(), "{len}");
    }
    let mut with_more = without_body;
    with_more.push(0);
    assert!(decode("a/b", &Bytes::from(with_more)).is_err());
    let mut other_version = whole.clone();
    other_version[0] = 9;
    let error = decode("a/b", &Bytes::from(other_version)).expect_err("another version");
    assert!(
        error.to_string().contains("another format version"),
        "{error}"
    );
    assert!(decode("no key", &Bytes::from(whole)).is_err());
}

/// It sends headers as it reads them, and one that comes later replaces an earlier one of the same name.
#[test]
fn a_server_of_the_version_before_reads_a_trace_as_headers() {
    let bytes = encode(&traced(Some("a=1")), BodyWriting::Whole);
    assert_eq!(bytes[0], VERSION);
    let lane_len = usize::from(u16::from_be_bytes([bytes[56], bytes[57]]));
    let fixed =
        postcard::from_bytes::<fixed::FixedWithBody<'_>>(&bytes[HEADER_BYTES + 2 + lane_len..]);
    let headers = fixed.expect("readable").rest.headers.into_iter();
    let headers: Vec<(http::HeaderName, &str)> = headers
        .map(|(name, value)| (name.parse().expect("a name"), value))
        .collect();
    let parent = format!("00-{}-{}-01", "ab".repeat(16), "cd".repeat(8));
    let expected = [
        ("traceparent", parent.as_str()),
        ("tracestate", "a=1"),
        ("x-request-id", "42"),
    ];
    assert_eq!(
        headers,
        expected.map(|(name, value)| (name.parse().expect("a name"), value))
    );
}
