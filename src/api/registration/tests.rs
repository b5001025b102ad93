mod bodies;

use super::*;
use crate::api::problem::Problem;
use crate::domain::ack::AckRule;
use crate::domain::endpoint::EndpointName;
use crate::domain::headers::Headers;
use crate::domain::ladder::Ladder;
use crate::domain::priority::Priority;

/// 2026-11-20T08:30:00Z.
const NOW_MS: i64 = 1_795_163_400_000;
const MEASURE: RegistrationContext = RegistrationContext {
    largest_body_bytes: 20,
    now_ms: NOW_MS,
};

/// The text of a registration with a key, a URL and these members.
fn with(members: &str) -> String {
    format!(r#"{{"topic":"t","id":"1","url":"https://shop.example/n",{members}}}"#)
}

fn parsed(text: &str) -> Registration {
    parse(text, MEASURE).unwrap_or_else(|invalid| panic!("{text}: {invalid:?}"))
}

/// Checks that a text is refused, with this status and these errors.
fn refused(text: &str, status: u16, expected: &[(&str, &str)]) {
    let problem = Problem::invalid(parse(text, MEASURE).expect_err(text));
    assert_eq!(problem.status(), status, "{text}: {}", problem.detail());
    let view = serde_json::to_value(problem.view()).expect("JSON");
    let errors = view["errors"].as_array().cloned().unwrap_or_default();
    let listed: Vec<(&str, &str)> = errors
        .iter()
        .map(|error| {
            let text = |name: &str| error[name].as_str().unwrap_or("none");
            (text("pointer"), text("detail"))
        })
        .collect();
    assert_eq!(listed.len(), expected.len(), "{text}: {listed:?}");
    for ((pointer, detail), (expected_pointer, expected_detail)) in listed.iter().zip(expected) {
        assert_eq!(pointer, expected_pointer, "{text}");
        assert!(detail.contains(expected_detail), "{text}: {detail}");
    }
}

#[test]
fn the_smallest_registration_gets_the_defaults() {
    let registration = parsed(&with(r#""body":"a=1""#));
    assert_eq!(
        registration,
        Registration {
            key: Key::new("t", "1").expect("a key"),
            target: Target::Url(Destination::parse("https://shop.example/n").expect("a url")),
            body: Bytes::from_static(b"a=1"),
            content_type: "text/plain; charset=utf-8".into(),
            headers: Headers::default(),
            start: Start::After(0),
            ladder: None,
            ack: None,
            priority: Priority::Normal,
            order: None,
        }
    );
}

#[test]
fn null_says_the_same_as_leaving_out() {
    let nulls = r#""body":"a=1","body_base64":null,"content_type":null,"headers":null,"delay":null,"deliver_at":null,"ladder":null,"ack":null"#;
    assert_eq!(parsed(&with(nulls)), parsed(&with(r#""body":"a=1""#)));
}

#[test]
fn every_field_is_taken_as_given() {
    let registration = parsed(
        r#"{"ack":"exact","ladder":"wechat","delay":"30m","headers":{"X-Request-Id":"42","a":""},
            "content_type":"application/x-www-form-urlencoded","body_base64":"YT0x","url":"https:\/\/shop.example\/n",
            "id":"a\/b \"c\"","topic":"payment.succeeded"}"#,
    );
    assert_eq!(registration.key.as_str(), "payment.succeeded/a/b \"c\"");
    let url = Destination::parse("https://shop.example/n").expect("a url");
    assert_eq!(registration.target, Target::Url(url));
    assert_eq!(registration.body, &b"a=1"[..]);
    assert_eq!(
        registration.content_type,
        "application/x-www-form-urlencoded"
    );
    assert_eq!(
        registration.headers.pairs(),
        [
            ("a".to_string(), String::new()),
            ("x-request-id".to_string(), "42".to_string())
        ]
    );
    assert_eq!(registration.start, Start::After(1_800_000));
    assert_eq!(
        registration.ladder,
        Some(Ladder::by_name("wechat").expect("known"))
    );
    assert_eq!(
        registration.ack,
        Some(AckRule::by_name("exact").expect("known"))
    );
}

#[test]
fn what_is_called_is_an_endpoint_or_a_url_or_both() {
    fn check(members: &str, expected: Target) {
        let text = format!(r#"{{"topic":"t","id":"1","body":"",{members}}}"#);
        assert_eq!(parsed(&text).target, expected, "{members}");
    }
    let url = || Destination::parse("https://shop.example/n").expect("a url");
    let name = || EndpointName::parse("shop-1").expect("a name");
    check(
        r#""url":"https://shop.example/n","endpoint":null"#,
        Target::Url(url()),
    );
    check(r#""endpoint":"shop-1""#, Target::Endpoint(name(), None));
    check(
        r#""endpoint":"shop-1","url":"https://shop.example/n""#,
        Target::Endpoint(name(), Some(url())),
    );
    let neither = r#"{"topic":"t","id":"1","body":""}"#;
    refused(neither, 422, &[("/url", "give `url` or `endpoint`")]);
    let bad = r#"{"topic":"t","id":"1","body":"","endpoint":"a/b"}"#;
    refused(bad, 422, &[("/endpoint", "an endpoint's name is 1 to 64")]);
}

#[test]
fn an_id_is_made_when_there_is_none() {
    let made = |text: &str| parsed(text).key.id().to_string();
    let text = r#"{"topic":"t","url":"https://shop.example/n","body":""}"#;
    let (one, other) = (made(text), made(text));
    assert_ne!(one, other);
    assert_eq!(
        uuid::Uuid::try_parse(&one).map(|id| id.get_version_num()),
        Ok(7)
    );
    assert_eq!(made(&text.replace("{", "{\"id\":null,")).len(), 36);
}

#[test]
fn the_start_is_now_after_a_delay_or_at_an_instant() {
    fn check(members: &str, expected: Start) {
        let text = with(&format!(r#""body":"",{members}"#));
        assert_eq!(parsed(&text).start, expected, "{members}");
    }
    check(r#""delay":"0s""#, Start::After(0));
    check(r#""delay":"30d""#, Start::After(LONGEST_DELAY_MS));
    check(
        r#""deliver_at":"2026-11-20T08:30:01.5Z""#,
        Start::At(NOW_MS + 1_500),
    );
    check(
        r#""deliver_at":"2026-12-20T08:30:00Z""#,
        Start::At(NOW_MS + LONGEST_DELAY_MS),
    );
    check(r#""deliver_at":"1970-01-01T00:00:00Z""#, Start::At(0));
    check(
        r#""delay":null,"deliver_at":"1970-01-01T00:00:00Z""#,
        Start::At(0),
    );
}

#[test]
fn starts_out_of_reach_are_refused() {
    fn check(members: &str, expected: &[(&str, &str)]) {
        refused(&with(&format!(r#""body":"",{members}"#)), 422, expected);
    }
    check(r#""delay":"720h1ms""#, &[("/delay", "at most 30 days")]);
    check(r#""delay":"-1s""#, &[("/delay", "`-1s` is not a duration")]);
    check(r#""delay":"""#, &[("/delay", "is not a duration")]);
    check(
        r#""delay":30"#,
        &[("/delay", "a string is expected, not a number")],
    );
    check(
        r#""delay":99999999999999999999999"#,
        &[("/delay", "not a number")],
    );
    check(
        r#""deliver_at":"2026-12-20T08:30:00.001Z""#,
        &[("/deliver_at", "30 days ahead")],
    );
    check(
        r#""deliver_at":"9999-12-30T00:00:00Z""#,
        &[("/deliver_at", "30 days ahead")],
    );
    check(
        r#""deliver_at":"tomorrow""#,
        &[("/deliver_at", "`tomorrow` is not")],
    );
    check(
        r#""deliver_at":1795163400"#,
        &[("/deliver_at", "not a number")],
    );
    check(
        r#""delay":"1s","deliver_at":"2026-11-20T08:30:00Z""#,
        &[("/deliver_at", "not both")],
    );
}

#[test]
fn content_types_and_headers_must_fit_into_http() {
    fn check(members: &str, expected: &[(&str, &str)]) {
        refused(&with(&format!(r#""body":"",{members}"#)), 422, expected);
    }
    let of_length = |length| format!(r#""body":"","content_type":"{}""#, "x".repeat(length));
    assert_eq!(parsed(&with(&of_length(256))).content_type.len(), 256);
    refused(
        &with(&of_length(257)),
        422,
        &[("/content_type", "1 to 256 printable")],
    );
    for bad in ["", " ", "a ", "a\\r\\nX: 1", "é", "\\u0000"] {
        check(
            &format!(r#""content_type":"{bad}""#),
            &[("/content_type", "printable")],
        );
    }
    check(
        r#""headers":{"x":5}"#,
        &[("/headers/x", "a string is expected, not a number")],
    );
    check(r#""headers":{"x":null}"#, &[("/headers/x", "not null")]);
    check(
        r#""headers":{"x":"\ud800"}"#,
        &[("/headers/x", "surrogate")],
    );
    check(r#""headers":{"\ud800":"x"}"#, &[("/headers", "surrogate")]);
    check(
        r#""headers":[]"#,
        &[("/headers", "an object is expected, not an array")],
    );
    check(
        r#""headers":"x: 1""#,
        &[("/headers", "an object is expected, not a string")],
    );
    check(r#""headers":{"":"x"}"#, &[("/headers/", "a header name")]);
    check(
        r#""headers":{"a/b~c":"x"}"#,
        &[("/headers/a~1b~0c", "a header name")],
    );
    check(
        r#""headers":{"Host":"x","x":"a\r\nb: c","y":"1","Y":"2"}"#,
        &[
            ("/headers/Host", "set by the dispatcher"),
            ("/headers/x", "printable ASCII"),
            ("/headers/Y", "given twice"),
        ],
    );
}

#[test]
fn every_wrong_field_is_named_at_once() {
    refused(
        "{}",
        422,
        &[
            ("/topic", "missing"),
            ("/url", "missing"),
            ("/body", "missing"),
        ],
    );
    refused(
        r#"{"topic":"a/b","id":"","url":"ftp://x","body":"","body":"","colour":"red","content_type":1,
            "headers":{"host":"x"},"delay":"soon","ladder":"alipya","ack":"maybe"}"#,
        422,
        &[
            ("/body", "given twice"),
            (
                "/colour",
                "unknown field; known are topic, id, endpoint, url",
            ),
            ("/topic", "a topic is"),
            ("/id", "an id is"),
            ("/url", "https or http"),
            ("/content_type", "a string is expected"),
            ("/headers/host", "set by the dispatcher"),
            ("/delay", "`soon` is not a duration"),
            ("/ladder", "unknown ladder `alipya`"),
            ("/ack", "unknown ack rule `maybe`"),
        ],
    );
    refused(
        r#"{"topic":null,"id":7,"url":null,"body":""}"#,
        422,
        &[
            ("/topic", "not null"),
            ("/id", "not a number"),
            ("/url", "give `url` or `endpoint`"),
        ],
    );
    refused(
        &format!(r#"{{"body":"{}","x":1}}"#, "x".repeat(21)),
        413,
        &[
            ("/x", "unknown field"),
            ("/topic", "missing"),
            ("/url", "missing"),
            ("/body", "at most 20 bytes"),
        ],
    );
    refused(
        &with(r#""body":"","endpoints":"shop-1""#),
        422,
        &[("/endpoints", "unknown field")],
    );
}

#[test]
fn what_is_no_object_is_refused_as_a_whole() {
    for text in ["[]", "null", "\"x\"", "7", "true"] {
        refused(text, 422, &[("", "an object is expected, not ")]);
    }
    for text in [
        "",
        "{",
        "{]",
        "{}{}",
        "{\"a\":NaN}",
        "{\"a\":\"\u{1}\"}",
        "nul",
        "\u{feff}{}",
    ] {
        refused(text, 400, &[]);
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = parse(&text, MEASURE);
    }
}
