use super::*;
use serde_json::{Value, json};

const AT_MS: i64 = 1_795_163_400_000;

fn failing(lanes: &[&str]) -> Alert {
    let all = lanes.iter().map(|lane| DestinationFigures {
        lane: (*lane).to_string(),
        since_ms: AT_MS - 600_000,
        pending: 7,
        last: Some((Outcome::HttpStatus, Some(503))),
    });
    Alert {
        kind: AlertKind::DestinationFailing,
        since_ms: AT_MS - 600_000,
        at_ms: AT_MS,
        figures: AlertFigures::Destinations {
            all: all.collect(),
            is_least: false,
        },
    }
}

fn body(alert: &Alert) -> Value {
    serde_json::from_str(&alert.prepare().body).expect("JSON")
}

#[test]
fn the_alert_of_a_destination_says_all_that_is_known() {
    let alert = failing(&["endpoint:shop-1"]);
    let id = alert.prepare().id;
    assert_eq!(
        body(&alert),
        json!({
            "type": "destination.failing", "id": id, "at": "2026-11-20T08:30:00.000Z",
            "since": "2026-11-20T08:20:00.000Z", "count": 1, "count_is_least": false,
            "text": "endpoint:shop-1 has acknowledged no call since 2026-11-20T08:20:00.000Z; notifications pending \
                     for it: 7. The last call: http_status, status 503.",
            "destinations": [{
                "lane": "endpoint:shop-1", "endpoint": "shop-1", "since": "2026-11-20T08:20:00.000Z", "pending": 7,
                "last_outcome": "http_status", "last_status": 503,
            }],
        })
    );
}

#[test]
fn the_alert_of_many_destinations_names_a_few_and_counts_the_others() {
    let lanes: Vec<String> = (0..950)
        .map(|number| format!("https://s{number}.example"))
        .collect();
    let lanes: Vec<&str> = lanes.iter().map(String::as_str).collect();
    let body = body(&failing(&lanes));
    assert_eq!(body["count"], 950);
    assert_eq!(
        body["destinations"].as_array().map(Vec::len),
        Some(MOST_LISTED)
    );
    assert_eq!(
        body["text"],
        "950 destinations acknowledge no calls, the first since 2026-11-20T08:20:00.000Z: https://s0.example, \
         https://s1.example, https://s2.example and 947 others."
    );
}

#[test]
fn each_kind_has_a_sentence() {
    fn check(kind: AlertKind, figures: AlertFigures, text: &str) {
        let alert = Alert {
            kind,
            since_ms: AT_MS,
            at_ms: AT_MS,
            figures,
        };
        assert_eq!(alert.prepare().text, text);
    }
    let lateness = || AlertFigures::Lateness {
        server: "pay-1".to_string(),
        attempts: 300,
        late: 45,
        late_after_ms: 30_000,
        within_ms: 300_000,
    };
    let store = |cause: Option<&str>| AlertFigures::Store {
        server: "pay-1".to_string(),
        store: "journal".to_string(),
        state: "away".to_string(),
        cause: cause.map(str::to_string),
    };
    let dead = |is_least| AlertFigures::DeadLetters {
        count: 100,
        is_least,
        within_ms: 3_600_000,
        lanes: vec![("https://a".to_string(), 99), ("https://b".to_string(), 1)],
    };
    check(
        AlertKind::LatenessHigh,
        lateness(),
        "45 of the 300 attempts that the server pay-1 has made within 5m began more than 30s late.",
    );
    check(
        AlertKind::LatenessNormal,
        lateness(),
        "The attempts of the server pay-1 begin on time again.",
    );
    check(
        AlertKind::StoreUnavailable,
        store(Some("refused")),
        "The server pay-1 cannot use the journal since 2026-11-20T08:30:00.000Z: it is away (refused).",
    );
    check(
        AlertKind::StoreAvailable,
        store(None),
        "The server pay-1 can use the journal again.",
    );
    check(
        AlertKind::DeadLettersAccumulating,
        dead(true),
        "At least 100 notifications became dead letters within 1h, for https://a, https://b.",
    );
}

#[test]
fn the_id_is_that_of_the_episode_whatever_the_figures_are() {
    let alert = failing(&["https://a"]);
    let id = alert.prepare().id;
    let changed = |change: &dyn Fn(&mut DestinationFigures)| {
        let mut other = alert.clone();
        other.at_ms += 5_000;
        if let AlertFigures::Destinations { all, is_least } = &mut other.figures {
            change(&mut all[0]);
            *is_least = true;
        }
        other.prepare().id
    };
    assert_eq!(changed(&|one| one.pending = 8), id);
    assert_eq!(changed(&|one| one.last = None), id);
    assert_ne!(changed(&|one| one.since_ms += 1), id);
    assert_ne!(failing(&["https://b"]).prepare().id, id);
    let recovered = Alert {
        kind: AlertKind::DestinationRecovered,
        ..alert.clone()
    };
    assert_ne!(recovered.prepare().id, id);
}

#[test]
fn alerts_about_many_destinations_have_the_same_id_for_a_minute() {
    let id_at = |lanes: &[&str], later_ms| {
        let alert = Alert {
            at_ms: AT_MS + later_ms,
            ..failing(lanes)
        };
        alert.prepare().id
    };
    let id = id_at(&["https://a", "https://b"], 0);
    assert_eq!(id, format!("destination.failing:{AT_MS}:many"));
    assert_eq!(id_at(&["https://a", "https://c"], 59_999), id);
    assert_ne!(id_at(&["https://a", "https://b"], 60_000), id);
}

#[test]
fn the_longest_name_of_an_endpoint_makes_an_id() {
    let name = EndpointName::parse(&"n".repeat(64)).expect("a name");
    for kind in AlertKind::ALL {
        let alert = Alert {
            kind,
            since_ms: i64::MAX,
            ..failing(&["https://a"])
        };
        assert_eq!(alert.prepare().key(&name).topic(), ALERT_TOPIC);
    }
}

#[test]
fn the_stored_form_of_a_kind_is_its_name() {
    for kind in AlertKind::ALL {
        assert_eq!(json!(kind), json!(kind.as_str()));
    }
}
