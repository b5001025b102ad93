use super::*;
use crate::api::problem::Problem;

const LONGEST: Duration = Duration::from_secs(15);
const PLAIN: &str = r#"{"url":"https://shop.example/n"}"#;
const FULL: &str = r#"{"url":"https://shop.example/n","ladder":"wechat","ack":{"status":"2xx"},"timeout":"5s",
    "concurrency":3,"rate":0.5,"retry_after":true,"gone":"hold","after_outage_rate":20,"headers":{"X-Shop":"1"},"user_agent":"Pay/1","signature_headers":{"id":"X-Id"},"http":"2","metadata":{"a":[1]}}"#;

fn summary(invalid: InvalidRequest) -> String {
    Problem::invalid(invalid).detail().to_string()
}

#[test]
fn an_endpoint_is_shown_as_it_was_set() {
    fn check(text: &str, expected: &str) {
        let settings = parse(text, LONGEST).map_err(summary).expect(text).settings;
        let shown = serde_json::to_string(&SettingsView::of(&settings)).expect("JSON");
        assert_eq!(shown, expected);
        let again = parse(&shown, LONGEST)
            .map_err(summary)
            .expect("what is shown can be set");
        assert_eq!(again.settings, settings);
    }
    check(
        PLAIN,
        r#"{"url":"https://shop.example/n","ladder":null,"ack":null,"timeout":null,"concurrency":null,"rate":null,"retry_after":null,"gone":null,"after_outage_rate":null,"headers":{},"user_agent":null,"signature_headers":{"id":"webhook-id","timestamp":"webhook-timestamp","signature":"webhook-signature"},"http":null,"ca":null,"client_certificate":null,"metadata":null}"#,
    );
    check(
        FULL,
        r#"{"url":"https://shop.example/n","ladder":"wechat","ack":{"status":"2xx"},"timeout":"5s","concurrency":3,"rate":0.5,"retry_after":true,"gone":"hold","after_outage_rate":20.0,"headers":{"x-shop":"1"},"user_agent":"Pay/1","signature_headers":{"id":"x-id","timestamp":"webhook-timestamp","signature":"webhook-signature"},"http":"2","ca":null,"client_certificate":null,"metadata":{"a":[1]}}"#,
    );
}

#[test]
fn wrong_fields_are_named() {
    fn check(members: &str, expected: &str) {
        let text = format!(r#"{{"url":"https://shop.example/n",{members}}}"#);
        let found = summary(parse(&text, LONGEST).expect_err(members));
        assert!(found.contains(expected), "{members}: {found}");
    }
    check(
        r#""rates":1"#,
        "/rates: unknown field; known are url, ladder",
    );
    check(
        r#""url":"https://b.example""#,
        "/url: this field is given twice",
    );
    check(r#""ladder":"x""#, "/ladder: unknown ladder `x`");
    check(r#""ack":"x""#, "/ack: unknown ack rule `x`");
    check(
        r#""timeout":"99ms""#,
        "/timeout: a time-out is from 100ms to 15s",
    );
    check(
        r#""timeout":"16s""#,
        "/timeout: a time-out is from 100ms to 15s",
    );
    check(
        r#""retry_after":"yes""#,
        "/retry_after: true or false is expected",
    );
    check(r#""gone":"stop""#, "/gone: `park` or `hold` is expected");
    check(
        r#""after_outage_rate":1001"#,
        "/after_outage_rate: a number of notifications per second, above 0 and at most 1000, is expected",
    );
    for bad in ["0", "4097", "1.5", "-1", "\"3\""] {
        check(
            &format!(r#""concurrency":{bad}"#),
            "/concurrency: a number of calls at a time",
        );
    }
    for bad in ["0", "-1", "10001", "0.00001", "\"3\""] {
        check(
            &format!(r#""rate":{bad}"#),
            "/rate: a rate is a number of calls per second",
        );
    }
    check(r#""timeout":5"#, "/timeout: a string is expected");
    check(r#""headers":{"host":"a"}"#, "/headers/host: ");
    check(
        r#""headers":{"x-id":"a"},"signature_headers":{"id":"X-Id"}"#,
        "/headers/x-id: ",
    );
    check(
        r#""user_agent":"""#,
        "/user_agent: a user agent is 1 to 256",
    );
    check(r#""user_agent":"a\nb""#, "/user_agent: a user agent is");
    check(r#""http":"3""#, "/http: a version of HTTP is");
    check(r#""http":2"#, "/http: a string is expected");
    check(
        r#""signature_headers":{"id":"Host"}"#,
        "/signature_headers/id: ",
    );
    check(
        r#""signature_headers":{"x":"a"}"#,
        "/signature_headers/x: unknown field",
    );
    check(
        r#""signature_headers":{"id":"x","timestamp":"X"}"#,
        "/signature_headers: the three headers",
    );
    check(
        r#""metadata":[]"#,
        "/metadata: an object is expected, not an array",
    );
    check(
        &format!(r#""metadata":{{"a":"{}"}}"#, "x".repeat(8_192)),
        "/metadata: metadata is at most",
    );
    check(
        r#""metadata":{"a":"\ud800"}"#,
        "/metadata: this value cannot be kept",
    );
    let missing = summary(parse("{}", LONGEST).expect_err("no url"));
    assert_eq!(missing, "/url: this field is missing");
}

#[test]
fn a_patch_replaces_removes_and_merges() {
    fn check(patch: &str, expected: Result<&str, &str>) {
        let before = parse(FULL, LONGEST).expect("valid").settings;
        let after = patched(&before, patch, LONGEST)
            .map(|request| request.settings)
            .map_err(summary);
        let expected = expected.map(|text| parse(text, LONGEST).expect(text).settings);
        match (&after, &expected) {
            (Err(found), Err(expected)) => {
                assert!(found.contains(expected), "{patch}: {found}")
            }
            (after, expected) => {
                assert_eq!(after.as_ref().ok(), expected.as_ref().ok(), "{patch}")
            }
        }
    }
    check("{}", Ok(FULL));
    check(r#"{"timeout":"7s"}"#, Ok(&FULL.replace("5s", "7s")));
    check(
        r#"{"ladder":null,"ack":null,"timeout":null,"concurrency":null,"rate":null,"retry_after":null,"gone":null,"after_outage_rate":null,"headers":null,"user_agent":null,"signature_headers":null,
            "http":null,"metadata":null}"#,
        Ok(PLAIN),
    );
    check(
        r#"{"headers":{"x-shop":null,"y":"2"},"metadata":{"b":{"c":null,"d":1}}}"#,
        Ok(&FULL
            .replace(r#""X-Shop":"1""#, r#""y":"2""#)
            .replace("[1]", r#"[1],"b":{"d":1}"#)),
    );
    // The names of headers are the same in any spelling.
    check(
        r#"{"headers":{"X-SHOP":"2"}}"#,
        Ok(&FULL.replace(r#""X-Shop":"1""#, r#""x-shop":"2""#)),
    );
    check(
        r#"{"headers":{"X-Shop":null,"x-other":null}}"#,
        Ok(&FULL.replace(r#""X-Shop":"1""#, "")),
    );
    for twice in [
        r#"{"headers":{"X-Shop":null,"x-shop":"2"}}"#,
        r#"{"headers":{"y":"1","Y":"1"}}"#,
    ] {
        check(twice, Err("this header is given twice"));
    }
    // A name that is not known is an error, also if it is to be removed.
    for (patch, expected) in [
        (r#"{"ladder":{"x":null}}"#, "/ladder/x: unknown field"),
        (
            r#"{"ack":{"x":null}}"#,
            "/ack/x: unknown field; known are text",
        ),
        (
            r#"{"ack":{"json":{"x":null}}}"#,
            "/ack/json/x: unknown field",
        ),
        (r#"{"ack":{"xml":{"x":null}}}"#, "/ack/xml/x: unknown field"),
        (
            r#"{"signature_headers":{"ID":null}}"#,
            "/signature_headers/ID: unknown field",
        ),
        (
            r#"{"metadata":{"b":1,"b":null}}"#,
            "/metadata/b: this field is given twice",
        ),
        (
            r#"{"ack":{"status":null,"status":"2xx"}}"#,
            "/ack/status: this field is given twice",
        ),
    ] {
        check(patch, Err(expected));
    }
    check(
        r#"{"ack":{"status":null,"text":"OK","json":null,"xml":null,"exact":null}}"#,
        Ok(&FULL.replace(r#"{"status":"2xx"}"#, r#"{"text":"OK"}"#)),
    );
    check(r#"{"ack":{"text":"OK"}}"#, Err("exactly one of"));
    check(r#"{"url":null}"#, Err("/url: this field is missing"));
    check(r#"{"nmae":null}"#, Err("/nmae: unknown field"));
    check(r#"{"url":"x","url":"y"}"#, Err("given twice"));
    check("[]", Err("an object is expected"));
    check("{", Err("not JSON"));
}

#[test]
fn a_patch_of_the_metadata_rewrites_nothing_else_in_it() {
    let with = |metadata: &str| {
        let text = format!(r#"{{"url":"https://shop.example/n","metadata":{metadata}}}"#);
        parse(&text, LONGEST).expect("valid").settings
    };
    let before = with(r#"{"n": 12345678901234567890123, "f":{"x": 1.10}}"#);
    let patch = r#"{"metadata":{"f":{"y":9007199254740993}}}"#;
    let after = patched(&before, patch, LONGEST).map_err(summary);
    assert_eq!(
        after.expect("valid").settings.metadata.as_deref(),
        Some(r#"{"n":12345678901234567890123,"f":{"x":1.10,"y":9007199254740993}}"#)
    );
}

#[test]
fn keys_are_kept_unless_they_are_given() {
    const KEYS: &str = r#"[{"secret":"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}]"#;
    let count = |request: EndpointRequest| request.keys.map(|keys| keys.len());
    let set = |keys: &str| {
        let text = format!(r#"{{"url":"https://shop.example/n"{keys}}}"#);
        count(parse(&text, LONGEST).map_err(summary).expect("valid"))
    };
    assert_eq!(set(""), None);
    assert_eq!(set(r#","keys":null"#), None);
    assert_eq!(set(r#","keys":[]"#), Some(0));
    assert_eq!(set(&format!(r#","keys":{KEYS}"#)), Some(1));
    let before = parse(PLAIN, LONGEST).expect("valid").settings;
    let change = |patch: &str| {
        count(
            patched(&before, patch, LONGEST)
                .map_err(summary)
                .expect("valid"),
        )
    };
    assert_eq!(change(r#"{"timeout":"1s"}"#), None);
    let refused = patched(&before, r#"{"keys":null}"#, LONGEST).expect_err("null");
    assert!(summary(refused).contains("/keys: null removes no keys"));
    assert_eq!(change(r#"{"keys":[]}"#), Some(0));
    assert_eq!(change(&format!(r#"{{"keys":{KEYS}}}"#)), Some(1));
}
