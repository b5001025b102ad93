use super::*;
use crate::domain::order::OrderMode;

fn registration() -> Registration {
    Registration {
        key: Key::new("payment.succeeded", "1").expect("a key"),
        target: url("https://shop.example/notify"),
        body: Bytes::from_static(b"a=1"),
        content_type: "text/plain".into(),
        headers: Headers::default(),
        start: Start::After(0),
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

fn accept(registration: Registration) -> (Notification, Progress) {
    registration.accept(WebhookId::from_bytes([1; 16]), 1_000, None)
}

#[test]
fn a_default_that_is_written_out_is_the_same_request_without_an_endpoint_alone() {
    for (target, is_same) in [(registration().target, true), (endpoint("shop-1"), false)] {
        let plain = Registration {
            target,
            ..registration()
        };
        let written = Registration {
            ladder: Some(Ladder::standard()),
            ack: Some(AckRule::standard()),
            ..plain.clone()
        };
        assert_eq!(plain.fingerprint() == written.fingerprint(), is_same);
    }
}

#[test]
fn an_endpoint_gives_the_ladder_at_once_and_all_else_at_each_attempt() {
    let settings = r#"{"url":"https://shop.example/n","ladder":"wechat","ack":"exact"}"#;
    let settings = EndpointSettings::from_text(settings).expect("settings");
    let asked = Registration {
        target: endpoint("shop-1"),
        ..registration()
    };
    let accept = |asked: Registration| {
        let id = WebhookId::from_bytes([1; 16]);
        asked.accept(id, 1_000, Some(&settings)).0
    };
    let plain = accept(asked.clone());
    assert_eq!(plain.lane.as_str(), "endpoint:shop-1");
    assert_eq!(plain.ladder, Ladder::by_name("wechat").expect("known"));
    assert_eq!((plain.destination, plain.ack), (None, None));
    let own = accept(Registration {
        ladder: Some(Ladder::standard()),
        ack: Some(AckRule::standard()),
        ..asked
    });
    assert_eq!(own.ladder, Ladder::standard());
    assert_eq!(own.ack, Some(AckRule::standard()));
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
            ack: Some(AckRule::by_name("exact").expect("known")),
            ..registration()
        },
        Registration {
            ladder: Some(Ladder::by_name("wechat").expect("known")),
            ..registration()
        },
        Registration {
            headers: other_header,
            ..registration()
        },
        Registration {
            target: url("https://shop.example/other"),
            ..registration()
        },
        Registration {
            target: endpoint("shop-1"),
            ..registration()
        },
        Registration {
            target: endpoint("shop-2"),
            ..registration()
        },
        Registration {
            priority: Priority::High,
            ..registration()
        },
        Registration {
            priority: Priority::Low,
            ..registration()
        },
        Registration {
            order: OrderPlace::new("o", 1, OrderMode::Latest).ok(),
            ..registration()
        },
        Registration {
            order: OrderPlace::new("o", 2, OrderMode::Latest).ok(),
            ..registration()
        },
        Registration {
            order: OrderPlace::new("o", 1, OrderMode::Strict).ok(),
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
