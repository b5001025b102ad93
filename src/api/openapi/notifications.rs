//! The requests about notifications and dead letters.

use super::examples;
use super::route::{LOCATION, NO_STORE, Route};
use super::trace_headers;
use crate::api::ack_rule::AckDocument;
use crate::api::batch::{BatchDocument, BatchView};
use crate::api::ladder::LadderDocument;
use crate::api::order_field::OrderDocument;
use crate::api::payload::PayloadView;
use crate::api::problem::ProblemKind::{
    Cancelled, EndpointMadeAgain, Full, Mismatch, Missing, NoJournal, OutOfOrder, PayloadDeleted,
    PayloadGone, State,
};
use crate::api::query::{dead_letters_parameters, list_parameters};
use crate::api::reason::ReasonDocument;
use crate::api::registration::RegistrationDocument;
use crate::api::reschedule::MoveDocument;
use crate::api::schema::{NoFields, OrderModeName, PriorityName};
use crate::api::view::{FullView, ListView, NotificationView, RequestedView};
use utoipa::openapi::path::HttpMethod::{Delete, Get, Patch, Post};

const NOTIFICATIONS: &str = "notifications";
const DEAD: &str = "dead letters";

/// All of them.
pub(super) fn routes() -> Vec<Route> {
    let one = "/v1/notifications/{topic}/{id}";
    vec![
        register(),
        Route::new(Get, "/v1/notifications", "listNotifications")
            .says(
                NOTIFICATIONS,
                "Lists notifications, newest first",
                "An empty parameter means the same as one that is left out. A key that is bound to several topics has to name \
                 one of them. Answered 503 while the schedule is out of reach, if it asks for `in_flight`, `scheduled` or `due`.",
            )
            .query(list_parameters())
            .answer::<ListView<'_>>(200, "A page.", &[], Some(examples::list()))
            .problems(&[NoJournal]),
        Route::new(Post, "/v1/notifications/batch", "registerNotifications")
            .says(
                NOTIFICATIONS,
                "Registers up to 1,000 notifications",
                "They are independent of each other: each has its own status and result. If the same topic and id is in a \
                 batch twice, the first one counts.",
            )
            .headers(trace_headers::of_request())
            .body::<BatchDocument>(examples::batch())
            .answer::<BatchView<'_>>(200, "The results, in the order of the request.", &[], None),
        Route::new(Get, one, "getNotification")
            .says(NOTIFICATIONS, "Looks one up, with its attempts and its history", "")
            .answer::<FullView<'_>>(200, "The notification.", &[], None)
            .problems(&[Missing]),
        Route::new(Delete, one, "cancelNotification")
            .says(NOTIFICATIONS, "Cancels one that is pending", "Answered 409 while an attempt is in flight.")
            .answer::<NotificationView<'_>>(200, "It is cancelled.", &[], None)
            .problems(&[Missing, State]),
        Route::new(Patch, one, "moveNotification")
            .says(
                NOTIFICATIONS,
                "Moves the first attempt of a pending one",
                "Window and deadline move along. Answered 409 once its ladder has made an attempt, and while one is in flight.",
            )
            .body::<MoveDocument>(examples::moved())
            .answer::<NotificationView<'_>>(200, "It is moved.", &[], None)
            .problems(&[Missing, State, NoJournal]),
        Route::new(Get, "/v1/notifications/{topic}/{id}/payload", "getPayload")
            .says(NOTIFICATIONS, "What is sent: headers and body", "That it was read is kept in the audit log.")
            .answer::<PayloadView<'_>>(200, "What is sent.", &[NO_STORE], Some(examples::payload()))
            .problems(&[Missing, PayloadGone]),
        Route::new(Post, "/v1/notifications/{topic}/{id}/retry", "retryNotification")
            .says(
                NOTIFICATIONS,
                "Makes an attempt now",
                "The ladder goes on afterwards. While an attempt is in flight, none is added.",
            )
            .optional_body::<NoFields>(examples::nothing())
            .answer::<RequestedView<'_>>(200, "An attempt will be made.", &[], None)
            .problems(&[Missing, State]),
        Route::new(Post, "/v1/notifications/{topic}/{id}/resend", "resendNotification")
            .says(
                NOTIFICATIONS,
                "Sends a delivered one again",
                "The ladder from its start, with the same `Webhook-Id`.",
            )
            .optional_body::<ReasonDocument>(examples::reason())
            .answer::<RequestedView<'_>>(200, "The next series has begun.", &[], None)
            .problems(&[Missing, State, EndpointMadeAgain, PayloadDeleted, OutOfOrder, NoJournal, Full]),
        Route::new(Get, "/v1/dead-letters", "listDeadLetters")
            .says(
                DEAD,
                "Lists dead letters, the last parked first",
                "Without a filter, with the `total`.",
            )
            .query(dead_letters_parameters())
            .answer::<ListView<'_>>(200, "A page.", &[], None),
        Route::new(Post, "/v1/dead-letters/{topic}/{id}/replay", "replayDeadLetter")
            .says(DEAD, "Starts the ladder of a dead letter again", "With the same `Webhook-Id`.")
            .optional_body::<ReasonDocument>(examples::reason())
            .answer::<RequestedView<'_>>(200, "The next series has begun.", &[], None)
            .problems(&[Missing, State, EndpointMadeAgain, PayloadDeleted, OutOfOrder, Full]),
        Route::new(Delete, "/v1/dead-letters/{topic}/{id}", "discardDeadLetter")
            .says(DEAD, "Gives a dead letter up", "It counts as cancelled, and cannot be replayed after that.")
            .answer::<NotificationView<'_>>(200, "It is discarded.", &[], None)
            .problems(&[Missing, State]),
    ]
}

fn register() -> Route {
    Route::new(Post, "/v1/notifications", "registerNotification")
        .says(
            NOTIFICATIONS,
            "Registers a notification",
            "Send it again whenever you are in doubt: the same topic and id with the same content answer 200 with the present \
             state, and are never delivered as a second notification.",
        )
        .headers(trace_headers::of_request())
        .body::<RegistrationDocument>(examples::registration())
        .parts::<LadderDocument>()
        .parts::<AckDocument>()
        .parts::<OrderDocument>()
        .parts::<OrderModeName>()
        .parts::<PriorityName>()
        .answer::<NotificationView<'_>>(201, "It is new.", &[LOCATION], Some(examples::notification()))
        .answer::<NotificationView<'_>>(
            200,
            "It was registered before with the same content, and nobody has cancelled it.",
            &[],
            Some(examples::notification()),
        )
        .problems(&[Mismatch, Cancelled, OutOfOrder, Full, NoJournal])
}
