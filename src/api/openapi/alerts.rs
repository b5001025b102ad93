//! The alert that an operator's endpoint receives, as a webhook of the description.

use crate::api::schema::{DURATION, NAME, array_of, names, text};
use crate::domain::alert::{AlertKind, MOST_LISTED};
use crate::domain::attempt::Outcome;
use crate::health::{Store, StoreState};
use serde_json::{Value, json};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type};

/// What the operator's endpoint should know.
pub(super) const DESCRIPTION: &str = "A notification with the topic `ringback.alert`, which the server itself registers for the \
    endpoints that `--alert-endpoint` names: it is signed, made again and recorded like all others. Without a ladder of the \
    endpoint it is made up to seven times within 81 minutes, and without an ack rule any status 2xx acknowledges it. Alerts \
    may get new types and new members: ignore those that you do not know.";

/// The schema of the body.
pub(super) fn body() -> ObjectBuilder {
    let kinds: Vec<&str> = AlertKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let stores = [Store::Journal, Store::Schedule].map(Store::as_str);
    let states = [
        StoreState::Up,
        StoreState::Away,
        StoreState::Refusing,
        StoreState::Rebuilding,
    ];
    let states = states.map(StoreState::as_str);
    let destinations = array_of(destination())
        .max_items(Some(MOST_LISTED))
        .description(Some(
            "Of alerts about destinations and dead letters: some of them, those with most at stake first.",
        ));
    let boolean = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Boolean));
    ObjectBuilder::new()
        .property("type", said(names(&kinds), "What the alert is about."))
        .property("id", said(text(), "Names the alert. It is the beginning of the id of the notification."))
        .property("text", said(text(), "The alert in a sentence, as chat systems show it."))
        .property("at", said(time(), "When the alert was made."))
        .property("since", said(time(), "When the episode began. The alert of its end has the same."))
        .property("server", said(text(), "The server that tells what it alone sees: its attempts, its connection to a store."))
        .property("count", said(number(), "How many destinations, or dead letters."))
        .property("count_is_least", boolean.description(Some("Whether there may be more.")))
        .property("destinations", destinations)
        .property("attempts", said(number(), "Attempts of the server."))
        .property("late_attempts", said(number(), "How many of them began late."))
        .property("late_after", said(duration(), "How late that is."))
        .property("within", said(duration(), "Within how long the attempts, or the dead letters, came."))
        .property("store", said(names(&stores), "The store."))
        .property("store_state", said(names(&states), "How the store is."))
        .property("cause", said(text(), "Why it cannot be used, in words, without addresses."))
        .required("type")
        .required("id")
        .required("text")
        .required("at")
        .required("since")
}

fn destination() -> ObjectBuilder {
    let outcomes: Vec<&str> = Outcome::ALL
        .iter()
        .map(|outcome| outcome.as_str())
        .collect();
    ObjectBuilder::new()
        .property("lane", said(text(), "Its lane."))
        .property(
            "endpoint",
            said(text().pattern(Some(NAME)), "Its endpoint, if it is one."),
        )
        .property("since", said(time(), "Since when it acknowledged no call."))
        .property(
            "pending",
            said(number(), "Notifications that are pending for it."),
        )
        .property(
            "last_outcome",
            said(names(&outcomes), "How its last call ended."),
        )
        .property(
            "last_status",
            said(number(), "The HTTP status of that, if there was one."),
        )
        .property(
            "dead_letters",
            said(number(), "How many of the dead letters are for it."),
        )
        .required("lane")
}

/// An alert.
pub(super) fn example() -> Value {
    json!({
        "type": "destination.failing",
        "id": "destination.failing:1795163400000:6f1ed002ab559585",
        "text": "https://shop.example has acknowledged no call since 2026-11-20T08:30:00.000Z; notifications pending for it: \
                 214. The last call: http_status, status 503.",
        "at": "2026-11-20T08:40:02.417Z",
        "since": "2026-11-20T08:30:00.000Z",
        "count": 1,
        "count_is_least": false,
        "destinations": [{
            "lane": "https://shop.example", "since": "2026-11-20T08:30:00.000Z", "pending": 214,
            "last_outcome": "http_status", "last_status": 503,
        }],
    })
}

fn said(schema: ObjectBuilder, words: &str) -> ObjectBuilder {
    schema.description(Some(words))
}

fn time() -> ObjectBuilder {
    text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
}

fn duration() -> ObjectBuilder {
    text().pattern(Some(DURATION))
}

fn number() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::Integer))
        .minimum(Some(0))
}
