//! The bodies of registrations: what is sent of them, and which are refused.

use super::*;

#[test]
fn a_body_is_sent_as_it_was_given() {
    fn check(members: &str, bytes: &[u8], content_type: &str) {
        let registration = parsed(&with(members));
        assert_eq!(registration.body, bytes, "{members}");
        assert_eq!(registration.content_type, content_type, "{members}");
    }
    check(r#""body":"""#, b"", TEXT);
    check(
        r#""body":"\u0000\ud83d\ude00\/""#,
        "\0\u{1f600}/".as_bytes(),
        TEXT,
    );
    check(r#""body":"a=1","content_type":"x/y""#, b"a=1", "x/y");
    check(
        r#""body" : { "b": 1.0,"a":[ ]} "#,
        br#"{ "b": 1.0,"a":[ ]}"#,
        JSON,
    );
    check("\"body\":[1,\n2]", b"[1,\n2]", JSON);
    check(r#""body":null"#, b"null", JSON);
    check(r#""body":1E400"#, b"1E400", JSON);
    check(r#""body":-0"#, b"-0", JSON);
    check(r#""body":true"#, b"true", JSON);
    check(r#""body":{"a":1,"a":2}"#, br#"{"a":1,"a":2}"#, JSON);
    check(r#""body":["\ud800"]"#, br#"["\ud800"]"#, JSON);
    check(
        r#""body":[[[[[[[[[[]]]]]]]]]]"#,
        b"[[[[[[[[[[]]]]]]]]]]",
        JSON,
    );
    check(r#""body_base64":"""#, b"", JSON);
    check(r#""body_base64":"\/w==""#, b"\xff", JSON);
}

#[test]
fn bodies_that_cannot_be_sent_are_refused() {
    fn check(members: &str, pointer: &str, detail: &str) {
        refused(&with(members), 422, &[(pointer, detail)]);
    }
    check(r#""delay":"0s""#, "/body", "missing");
    check(r#""body_base64":null"#, "/body", "missing");
    check(r#""body":"","body_base64":"""#, "/body_base64", "not both");
    check(
        r#""body":null,"body_base64":"""#,
        "/body_base64",
        "not both",
    );
    check(r#""body":"\ud800""#, "/body", "half a surrogate pair");
    check(r#""body_base64":"YQ""#, "/body_base64", "base64");
    check(r#""body_base64":"YR==""#, "/body_base64", "base64");
    check(r#""body_base64":"Y Q==""#, "/body_base64", "base64");
    check(r#""body_base64":"_w==""#, "/body_base64", "base64");
    check(r#""body_base64":[1]"#, "/body_base64", "not an array");
}

#[test]
fn a_body_may_be_as_large_as_the_bound_and_no_larger() {
    fn fits(members: &str) {
        assert_eq!(parsed(&with(members)).body.len(), 20, "{members}");
    }
    fn too_large(members: &str, pointer: &str) {
        refused(&with(members), 413, &[(pointer, "at most 20 bytes")]);
    }
    let x = |count| "x".repeat(count);
    fits(&format!(r#""body":"{}""#, x(20)));
    fits(&format!(r#""body":"{}""#, r"\u0041".repeat(20)));
    fits(&format!(r#""body":["{}"]"#, x(16)));
    fits(&format!(r#""body_base64":"{}""#, STANDARD.encode(x(20))));
    too_large(&format!(r#""body":"{}""#, x(21)), "/body");
    too_large(&format!(r#""body":"{}""#, "é".repeat(11)), "/body");
    too_large(&format!(r#""body":["{}"]"#, x(17)), "/body");
    too_large(
        &format!(r#""body_base64":"{}""#, STANDARD.encode(x(21))),
        "/body_base64",
    );
}

proptest::proptest! {
    #[test]
    fn any_string_body_arrives_byte_for_byte(body in ".{0,30}") {
        let text = with(&format!("\"body\":{}", serde_json::to_string(&body).expect("JSON")));
        let measure = RegistrationContext { largest_body_bytes: 1_000, ..MEASURE };
        let registration = parse(&text, measure).expect("valid");
        proptest::prop_assert_eq!(&registration.body[..], body.as_bytes());
    }
}
