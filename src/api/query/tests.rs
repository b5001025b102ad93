use super::*;
use crate::domain::webhook_id::WebhookId;
use crate::journal::UrlFilter;

fn uri(query: &str) -> Uri {
    format!("/v1/x?{query}").parse().expect("a uri")
}

fn check_list(query: &str, expected: ListRequest) {
    let request = list_request(&uri(query)).expect(query);
    assert_eq!(request.filter, expected.filter, "{query}");
    assert_eq!(
        (request.in_flight, request.limit, request.cursor),
        (expected.in_flight, expected.limit, expected.cursor),
        "{query}"
    );
}

fn all() -> ListRequest {
    ListRequest {
        limit: 100,
        ..ListRequest::default()
    }
}

fn of(filter: Filter) -> ListRequest {
    ListRequest { filter, ..all() }
}

#[test]
fn lists_are_filtered_by_what_the_query_says() {
    check_list("", all());
    check_list("topic=&state=&lane=&from=&to=&limit=&cursor=", all());
    check_list("limit=1", ListRequest { limit: 1, ..all() });
    check_list(
        "limit=1000",
        ListRequest {
            limit: 1_000,
            ..all()
        },
    );
    check_list(
        "cursor=5-6",
        ListRequest {
            cursor: Some("5-6".into()),
            ..all()
        },
    );
    check_list(
        "topic=a.b&lane=https%3A%2F%2Fshop.example",
        of(Filter {
            topic: Some("a.b".into()),
            lane: Some("https://shop.example".into()),
            ..Filter::default()
        }),
    );
    // Other URLs with the same origin.
    for lane in [
        "https://shop.example/",
        "HTTPS://Shop.Example:443/notify?a=1",
    ] {
        let lane: String = url::form_urlencoded::byte_serialize(lane.as_bytes()).collect();
        check_list(
            &format!("lane={lane}"),
            of(Filter {
                lane: Some("https://shop.example".into()),
                ..Filter::default()
            }),
        );
    }
    for from in [
        "1970-01-01T08:00:00%2B08:00",
        "1970-01-01T08:00:00+08:00",
        "1970-01-01T00:00:00.000Z",
    ] {
        check_list(
            &format!("from={from}&to=1970-01-01T00:00:01Z"),
            of(Filter {
                from_ms: Some(0),
                to_ms: Some(1_000),
                ..Filter::default()
            }),
        );
    }
}

#[test]
fn states_are_told_apart_by_attempts_in_flight() {
    for (name, state, in_flight, is_due) in [
        ("pending", State::Scheduled, None, false),
        ("scheduled", State::Scheduled, Some(false), false),
        ("due", State::Scheduled, Some(false), true),
        ("in_flight", State::Scheduled, Some(true), false),
        ("delivered", State::Delivered, None, false),
        ("dead", State::Dead, None, false),
        ("cancelled", State::Cancelled, None, false),
    ] {
        let filter = Filter {
            state: Some(state),
            ..Filter::default()
        };
        check_list(
            &format!("state={name}"),
            ListRequest {
                in_flight,
                is_due,
                ..of(filter)
            },
        );
    }
}

#[test]
fn wrong_parameters_are_named() {
    fn check(query: &str, expected: &str) {
        let problem = list_request(&uri(query)).expect_err(query);
        assert_eq!(problem.status(), 400, "{query}");
        let detail = problem.detail();
        assert!(detail.contains(expected), "{query}: {detail}");
    }
    check("limit=0", "limit: a limit is a number from 1 to 1000");
    check("limit=1001", "limit: ");
    check("limit=-1", "limit: ");
    check("limit=%2B5", "limit: ");
    check("limit=99999999999999999999999", "limit: ");
    check("limit=1&limit=2", "limit: this parameter is given twice");
    check(
        "limits=1",
        "limits: unknown parameter; known are topic, id, id_prefix",
    );
    check("cause=refused", "cause: unknown parameter");
    check("%ff=1", "\u{fffd}: unknown parameter");
    check("=1", "unknown parameter");
    check("topic=a/b", "topic: a topic is");
    check("state=Dead", "state: a state is");
    check("lane=%00", "lane: a lane is");
    check(
        "lane=shop.example/n",
        "lane: a lane is `endpoint:` and the name of an endpoint, or the origin of a URL, like \
         https://shop.example, or any URL with that \
         origin: not an absolute URL",
    );
    check("lane=shop-1", "write `endpoint:` before it");
    check("lane=https://me@shop.example", "lane: a lane is");
    check("from=yesterday", "from: `yesterday` is not");
    check("cursor=%20", "cursor: invalid cursor");
    check("limit=0&state=x&y=1&z=1", "; and 1 more");
    check(
        "limit=0&state=x",
        "state: a state is pending, scheduled, due, in_flight, delivered, dead or cancelled; limit: ",
    );
}

#[test]
fn notifications_are_looked_for_by_ids_and_urls() {
    fn check(query: &str, filter: Filter) {
        check_list(query, of(filter));
    }
    let text = |text: &str| Some(text.to_string());
    check(
        "id=&id_prefix=&webhook_id=&url_contains=",
        Filter::default(),
    );
    let id: String = (' '..='~').collect();
    let escaped: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    check(
        &format!("id={escaped}&id_prefix={escaped}"),
        Filter {
            id: text(&id),
            id_prefix: text(&id),
            ..Filter::default()
        },
    );
    check(
        "id_prefix=.&topic=t",
        Filter {
            id_prefix: text("."),
            topic: text("t"),
            ..Filter::default()
        },
    );
    check(
        "webhook_id=msg_000000000000000000000000000000FF",
        Filter {
            webhook_id: Some(WebhookId::from_bytes(255_u128.to_be_bytes())),
            ..Filter::default()
        },
    );
    for (part, escaped) in [
        ("Shop%_'\"", "Shop%25_'%22"),
        ("例え", "%E4%BE%8B%E3%81%88"),
    ] {
        let url = UrlFilter {
            contains: part.to_string(),
            ..UrlFilter::default()
        };
        let url = Some(url);
        check(
            &format!("url_contains={escaped}"),
            Filter {
                url,
                ..Filter::default()
            },
        );
    }
    let longest = "x".repeat(128);
    check(
        &format!("id={longest}"),
        Filter {
            id: text(&longest),
            ..Filter::default()
        },
    );
}

#[test]
fn what_no_id_and_no_url_can_contain_is_named() {
    let too_long = ["x".repeat(129), "x".repeat(257)];
    for (query, expected) in [
        ("id=%00", "id: an id is 1 to 128 printable ASCII"),
        ("id=%C3%A4", "id: an id is"),
        ("id=%ff", "id: an id is"),
        ("id=..", "id: `.` and `..` are not accepted"),
        (&*format!("id={}", too_long[0]), "id: an id is"),
        ("id=1&id=2", "id: this parameter is given twice"),
        (
            "id_prefix=%7f",
            "id_prefix: the beginning of an id is 1 to 128",
        ),
        (
            &*format!("id_prefix={}", too_long[0]),
            "id_prefix: the beginning",
        ),
        (
            "webhook_id=msg_1",
            "webhook_id: a webhook id is `msg_` and 32",
        ),
        (
            "webhook_id=0192f0d2c3a87b1f9c4d5e6f70819203",
            "webhook_id: ",
        ),
        (
            "webhook_id=msg_0192f0d2c3a87b1f9c4d5e6f7081920%00",
            "webhook_id: ",
        ),
        (
            "url_contains=%00",
            "url_contains: a part of a URL is at most 256",
        ),
        ("url_contains=a+b", "url_contains: a part"),
        ("url_contains=%C2%85", "url_contains: a part"),
        (
            &*format!("url_contains={}", too_long[1]),
            "url_contains: a part",
        ),
    ] {
        let problem = list_request(&uri(query)).expect_err(query);
        assert_eq!(problem.status(), 400, "{query}");
        let detail = problem.detail();
        assert!(detail.contains(expected), "{query}: {detail}");
    }
    assert!(dead_letters_request(&uri("id=1")).is_err());
}

#[test]
fn lanes_are_filtered_by_state() {
    let request = lanes_request(&uri("state=held&limit=7&cursor=0-lanes-5-x")).expect("valid");
    assert_eq!(request.state, Some(LaneState::Held));
    assert_eq!(
        (request.limit, request.cursor.as_deref()),
        (7, Some("0-lanes-5-x"))
    );
    assert_eq!(lanes_request(&uri("")).expect("valid").limit, 100);
    for query in ["state=closed", "limit=0", "topic=a", "cursor=%20"] {
        assert!(lanes_request(&uri(query)).is_err(), "{query}");
    }
}

#[test]
fn dead_letters_are_filtered_by_cause() {
    let request = dead_letters_request(&uri("cause=window_closed")).expect("valid");
    assert_eq!(request.filter.cause, Some(Cause::WindowClosed));
    for (query, expected) in [
        (
            "cause=bored",
            "ladder_exhausted, window_closed, refused, blocked",
        ),
        // That is a cause of what is cancelled.
        ("cause=superseded", "refused, blocked"),
        ("state=dead", "unknown parameter"),
    ] {
        let problem = dead_letters_request(&uri(query)).expect_err(query);
        let detail = problem.detail();
        assert!(detail.contains(expected), "{query}: {detail}");
        assert!(!detail.contains("superseded"), "{query}: {detail}");
    }
}
