use super::*;
use crate::domain::notification::{Registration, Start, Target};

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
    variants.push(Entry {
        was_put_off: true,
        awaited_proxy: true,
        ..entry()
    });
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
    for entry in variants {
        let bytes = Bytes::from(encode(&entry, true));
        assert_eq!(decode("payment.succeeded/order/1", &bytes), Ok(entry));
    }
}

#[test]
fn what_is_only_remembered_has_no_body() {
    let bytes = Bytes::from(encode(&entry(), false));
    let read = decode("payment.succeeded/order/1", &bytes).expect("readable");
    assert!(read.notification.body.is_empty());
    assert_eq!(
        read.notification.fingerprint,
        entry().notification.fingerprint
    );
}

#[test]
fn a_new_header_replaces_the_old_one() {
    let mut bytes = encode(&entry(), true);
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
    let whole = encode(&entry(), true);
    let body = entry().notification.body.len();
    for len in 0..whole.len() - body {
        let cut = Bytes::copy_from_slice(&whole[..len]);
        assert!(decode("a/b", &cut).is_err(), "{len}");
    }
    let mut other_version = whole.clone();
    other_version[0] = 9;
    let error = decode("a/b", &Bytes::from(other_version)).expect_err("another version");
    assert!(
        error.to_string().contains("another format version"),
        "{error}"
    );
    assert!(decode("no key", &Bytes::from(whole)).is_err());
}
