use super::*;
use crate::domain::ack::AckRule;
use crate::domain::attempt::{Answer, Attempt, Outcome};
use crate::domain::call_trace::CallTrace;
use crate::domain::destination::Destination;
use crate::domain::headers::Headers;
use crate::domain::key::Key;
use crate::domain::ladder::{CustomLadder, Ladder};
use crate::domain::notification::{Registration, Start, Target};
use crate::domain::priority::Priority;
use crate::domain::state::Cause;
use crate::domain::webhook_id::WebhookId;
use bytes::Bytes;

fn snapshot(ladder: Ladder) -> Snapshot {
    let registration = Registration {
        key: Key::new("payment.succeeded", "a/\"b\"").expect("a key"),
        target: Target::Url(Destination::parse("https://shop.example/notify").expect("a url")),
        body: Bytes::from_static(b"x"),
        content_type: "text/plain".into(),
        headers: Headers::default(),
        start: Start::After(1_800_000),
        ladder: Some(ladder),
        ack: Some(AckRule::standard()),
        priority: Priority::Normal,
        order: None,
    };
    let (notification, progress) =
        registration.accept(WebhookId::from_bytes([1; 16]), 1_795_163_400_000, None);
    Snapshot::of_new(&notification, progress)
}

fn attempt(status: Option<u16>, body: &[u8], outcome: Outcome, reason: &str) -> Attempt {
    Attempt {
        series: 1,
        number: 1,
        due_ms: 0,
        started_ms: 3,
        duration_ms: 250,
        answer: Answer {
            outcome,
            status,
            body: body.to_vec(),
            reason: reason.to_string(),
        },
        trace: CallTrace::default(),
    }
}

fn written(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("JSON")
}

#[test]
fn a_new_notification_has_the_members_of_the_contract() {
    assert_eq!(
        written(&NotificationView::of(&snapshot(Ladder::standard()))),
        concat!(
            r#"{"topic":"payment.succeeded","id":"a/\"b\"","#,
            r#""webhook_id":"msg_01010101010101010101010101010101","#,
            r#""lane":"https://shop.example","url":"https://shop.example/notify","#,
            r#""state":"scheduled","series":1,"attempts_made":0,"attempts_left":8,"#,
            r#""registered_at":"2026-11-20T08:30:00.000Z","#,
            r#""next_attempt_at":"2026-11-20T09:00:00.000Z","#,
            r#""deadline_at":"2026-11-21T09:22:00.000Z","#,
            r#""ended_at":null,"cause":null,"priority":"normal","order":null,"attempts":[]}"#
        )
    );
}

#[test]
fn an_ended_notification_shows_its_attempts_ladder_and_history() {
    let ladder = Ladder::custom(&CustomLadder {
        intervals: vec!["1m".into()],
        window: None,
        repeat_last: false,
        jitter: 0.0,
    })
    .expect("valid");
    let snapshot = Snapshot {
        state: State::Dead,
        cause: Some(Cause::LadderExhausted),
        ended_ms: Some(60_250),
        attempts: vec![
            attempt(Some(200), b"", Outcome::WrongAnswer, "empty"),
            Attempt {
                trace: CallTrace::from_text(
                    "to=192.0.2.1:443 kept tls=1.3 http=2 endpoint=3 retry-after=30 keys=key_1,default deferred=held:7200000 first=8120 body=0",
                ),
                ..attempt(None, b"", Outcome::Connect, "refused")
            },
            attempt(Some(200), b"\xefsuccess\n", Outcome::Acknowledged, ""),
        ],
        ..snapshot(ladder)
    };
    let transitions = [Transition {
        kind: "registered".into(),
        at_ms: 0,
        actor: "api".into(),
        instance: "one".into(),
        detail: String::new(),
    }];
    let text = written(&FullView::of(
        &snapshot,
        Flights::Unknown,
        &transitions,
        None,
    ));
    for part in [
        r#""state":"dead","#,
        r#""attempts_left":0,"#,
        r#""next_attempt_at":null,"#,
        r#""ended_at":"1970-01-01T00:01:00.250Z","cause":"ladder_exhausted","#,
        r#"{"series":1,"number":1,"due_at":"1970-01-01T00:00:00.000Z","started_at":"1970-01-01T00:00:00.003Z","duration_ms":250,"deferred_ms":null,"deferred_by":null,"outcome":"wrong_answer","status":200,"answer":"","reason":"empty","address":null,"connection":null,"tls":null,"http":null,"phases":null,"endpoint_version":null,"key_ids":null,"retry_after":null}"#,
        r#""deferred_ms":7200000,"deferred_by":"held","outcome":"connect","status":null,"answer":null,"reason":"refused","address":"192.0.2.1:443","connection":"kept","tls":"1.3","http":"2","phases":{"dns_ms":null,"connect_ms":null,"tls_ms":null,"first_byte_ms":8.12,"body_ms":0.0},"endpoint_version":3,"key_ids":["key_1","default"],"retry_after":"30s"}"#,
        r#""status":200,"answer":"\\xefsuccess\\n","reason":null,"address":null,"#,
        r#""ladder":{"intervals":["1m"],"window":"1m"},"#,
        r#""transitions":[{"kind":"registered","at":"1970-01-01T00:00:00.000Z","actor":"api","instance":"one","detail":null}],"#,
        r#""timeline":[{"at":"1970-01-01T00:00:00.000Z","kind":"registered","actor":"api","detail":null},"#,
        r#"{"at":"1970-01-01T00:00:00.003Z","kind":"attempt","series":1,"number":1,"outcome":"wrong_answer","status":200,"index":0},"#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(
        written(&FullView::of(
            &self::snapshot(Ladder::standard()),
            Flights::Known,
            &[],
            None
        ))
        .ends_with(r#""set_aside":null,"ladder":"alipay","ack":null,"content_type":null,"header_names":null,"trace_id":null,"body_bytes":null,"transitions":[],"timeline":[]}"#)
    );
}

#[test]
fn warnings_are_one_text_and_left_out_if_there_is_none() {
    fn check(warnings: &[&str], expected: &str) {
        let snapshot = snapshot(Ladder::standard());
        let view = FullView::of(&snapshot, Flights::Known, &[], None);
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let text = written(&view.with_warnings(&warnings));
        let expected = format!(r#""set_aside":null,{expected}"ladder":"alipay","#);
        assert!(text.contains(&expected), "{expected} in {text}");
    }
    check(&[], "");
    check(&["it is held"], r#""warning":"it is held","#);
    check(
        &["it is gone", "it is held"],
        r#""warning":"it is gone; it is held","#,
    );
}

#[test]
fn the_path_of_a_notification_leads_to_it() {
    fn check(id: &str, expected: &str) {
        let key = Key::new("a.b", id).expect("a key");
        assert_eq!(path_of(&key), format!("/v1/notifications/a.b/{expected}"));
    }
    check("order-1_0~.", "order-1_0~.");
    check("a/b c?d#e%f+g", "a%2Fb%20c%3Fd%23e%25f%2Bg");
    check("~\"\\", "~%22%5C");
}
