//! What a notification sends, as long as it is kept.

use super::Store;
use super::samples::{START_MS, delivery, do_change, keep, key, registering_at, registration};
use bytes::Bytes;
use ringback::domain::ack::AckRule;
use ringback::domain::body::Body;
use ringback::domain::change::Change;
use ringback::domain::endpoint::EndpointName;
use ringback::domain::headers::Headers;
use ringback::domain::key::Key;
use ringback::domain::notification::{Registration, Target};
use ringback::journal::{BodyReading, Journal, Payload, PayloadContent, Prune};

async fn payload(journal: &dyn Journal, key: &Key, body: BodyReading) -> Option<Payload> {
    journal.payload(key, body).await.expect("read")
}

pub async fn a_payload_is_read_as_it_was_registered_whatever_its_state(store: &dyn Store) {
    let journal = store.open().await;
    let journal = journal.as_ref();
    let all_bytes: Vec<u8> = (0..=255).collect();
    let large = Bytes::from(vec![b'x'; 300_000]);
    let mut headers = Headers::default();
    headers.insert("x-b", "2 \t'\"\\").expect("a header");
    headers.insert("x-a", "").expect("a header");
    let bodies = [Bytes::new(), Bytes::from(all_bytes), large];
    for (number, body) in bodies.into_iter().enumerate() {
        let headers = if number == 0 {
            Headers::default()
        } else {
            headers.clone()
        };
        let given = Registration {
            body: body.clone(),
            headers: headers.clone(),
            content_type: "text/x; charset=\"y\"".to_string(),
            ..registration(key(&number.to_string()))
        };
        let given = registering_at(given, START_MS);
        let progress = given.progress;
        let notification = keep(journal, given).await;
        let with_body = |body| {
            Some(Payload {
                ack: Some(AckRule::standard()),
                content_type: "text/x; charset=\"y\"".to_string(),
                content: Some(PayloadContent {
                    headers: headers.clone(),
                    body,
                }),
            })
        };
        let check = async || {
            let key = &notification.key;
            let whole = payload(journal, key, BodyReading::Read).await;
            assert!(whole == with_body(body.clone().into()), "{key}");
            let outline = payload(journal, key, BodyReading::LengthOnly).await;
            assert_eq!(outline, with_body(Body::InJournal(body.len())));
        };
        check().await;
        if number == 1 {
            let delivery = delivery(&notification, progress);
            journal.record(&[delivery]).await.expect("kept");
        } else {
            do_change(journal, &notification.key, Change::Cancel, START_MS + 1).await;
        }
        check().await;
    }
    for body in [BodyReading::Read, BodyReading::LengthOnly] {
        assert_eq!(payload(journal, &key("none"), body).await, None);
    }
}

pub async fn a_payload_that_was_pruned_is_not_made_up(store: &dyn Store) {
    let journal = store.open().await;
    let journal = journal.as_ref();
    let name = EndpointName::parse("shop-1").expect("a name");
    let given = Registration {
        target: Target::Endpoint(name, None),
        ack: None,
        ..registration(key("1"))
    };
    let notification = keep(journal, registering_at(given, START_MS)).await;
    do_change(journal, &notification.key, Change::Cancel, START_MS + 1).await;
    let prune = Prune {
        payloads_before_ms: START_MS + 1_000,
        records_before_ms: 0,
        dead_before_ms: None,
    };
    let pruned = journal.prune(&prune, 10).await.expect("pruned");
    assert_eq!(pruned.payloads, 1);
    for body in [BodyReading::Read, BodyReading::LengthOnly] {
        let expected = Payload {
            ack: None,
            content_type: "application/x-www-form-urlencoded".to_string(),
            content: None,
        };
        let found = payload(journal, &notification.key, body).await;
        assert_eq!(found, Some(expected));
    }
}
