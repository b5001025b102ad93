//! The page under `/ui/`, for support staff and operators: written by the server, in English and Chinese.
//!
//! It calls the same [`crate::service`] as the handlers of the API do, with the same rights, and under the same name in the
//! audit log. Every request goes through `admission`, which checks who sends it and what the row of its route in
//! [`rights`] needs, reads and checks the form of a `POST`, and adds the headers that keep foreign content out. So a handler
//! cannot forget any of it.
//!
//! The page works without its script. The script, the stylesheet and the templates are compiled into the program, and
//! nothing is loaded from another host. Templates escape what they show, so no stored text can become markup.
//!
//! Bounds: requests at once (`MOST_REQUESTS`), of which one API key may have as many as are free; the length of a form;
//! streams of events (`live`); attempts to sign in.

mod admission;
mod api_keys;
mod assets;
mod audit_log;
mod bulk;
mod cookies;
mod default_keys;
mod destination;
mod destinations;
mod endpoint;
mod endpoints;
mod form;
mod frame;
mod hold_notice;
mod html;
mod jobs;
mod language;
mod language_choice;
mod letters;
mod listed;
mod live;
mod notification;
mod overview;
mod paths;
mod plots;
mod problem;
mod problem_page;
mod reason;
pub mod rights;
mod search;
mod session;
mod shown_once;
mod sign_in;
mod signing_keys;
mod texts;
mod times;
mod visit;

use crate::api::key_places::KeyPlaces;
use crate::service::Service;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use live::LiveVersions;
use overview::LastOverview;
use session::SessionSigner;
use sign_in::SignInLimit;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Maximum number of requests to the page that run at once. Others are answered 503. Streams of events are counted
/// elsewhere.
const MOST_REQUESTS: usize = 128;

/// The state that all handlers share.
pub(crate) struct Page {
    service: Arc<Service>,
    signer: OnceLock<SessionSigner>,
    sign_ins: SignInLimit,
    requests: Arc<Semaphore>,
    /// The requests that run of each API key.
    requests_by_key: KeyPlaces,
    streams: Arc<Semaphore>,
    /// The streams of events of each API key.
    streams_by_key: KeyPlaces,
    versions: LiveVersions,
    overview: LastOverview,
    /// The longest time-out that an endpoint may have.
    longest_timeout: Duration,
    /// Ends the streams of events.
    stop: CancellationToken,
}

/// Makes the router with all routes of the page. A call to an endpoint may take at most `longest_timeout`. Streams of events
/// end when `stop` is cancelled.
pub fn router(service: Arc<Service>, longest_timeout: Duration, stop: CancellationToken) -> Router {
    let page = Arc::new(Page {
        service,
        signer: OnceLock::new(),
        sign_ins: SignInLimit::default(),
        requests: Arc::new(Semaphore::new(MOST_REQUESTS)),
        requests_by_key: KeyPlaces::default(),
        streams: Arc::new(Semaphore::new(live::MOST_STREAMS)),
        streams_by_key: KeyPlaces::default(),
        versions: LiveVersions::default(),
        overview: LastOverview::default(),
        longest_timeout,
        stop,
    });
    Router::new()
        .route("/ui", get(overview::to_overview))
        .route("/ui/", get(overview::show))
        .route("/ui/assets/{name}", get(assets::show))
        .route("/ui/language", get(language_choice::choose))
        .route("/ui/sign-in", get(sign_in::show).post(sign_in::sign_in))
        .route("/ui/sign-out", post(sign_in::sign_out))
        .route("/ui/events", get(live::events))
        .route("/ui/search", get(search::show))
        .route("/ui/notifications/{topic}/{id}", get(notification::show))
        .route(
            "/ui/notifications/{topic}/{id}/payload",
            post(notification::payload::unveil),
        )
        .route(
            "/ui/notifications/{topic}/{id}/retry",
            post(notification::acts::retry),
        )
        .route(
            "/ui/notifications/{topic}/{id}/cancel",
            post(notification::acts::cancel),
        )
        .route(
            "/ui/notifications/{topic}/{id}/reschedule",
            post(notification::acts::reschedule),
        )
        .route(
            "/ui/notifications/{topic}/{id}/resend",
            post(notification::acts::resend),
        )
        .route(
            "/ui/notifications/{topic}/{id}/replay",
            post(notification::acts::replay),
        )
        .route(
            "/ui/notifications/{topic}/{id}/discard",
            post(notification::acts::discard),
        )
        .route("/ui/destinations", get(destinations::show))
        .route("/ui/destinations/{lane}", get(destination::show))
        .route(
            "/ui/destinations/{lane}/hold",
            post(destination::acts::hold),
        )
        .route(
            "/ui/destinations/{lane}/release",
            post(destination::acts::release),
        )
        .route(
            "/ui/destinations/{lane}/retry",
            post(destination::acts::retry),
        )
        .route("/ui/endpoints", get(endpoints::show))
        .route(
            "/ui/new-endpoint",
            get(endpoint::edit::show_new).post(endpoint::edit::make),
        )
        .route("/ui/endpoints/{name}", get(endpoint::show))
        .route(
            "/ui/endpoints/{name}/edit",
            get(endpoint::edit::show).post(endpoint::edit::change),
        )
        .route("/ui/endpoints/{name}/remove", post(endpoint::acts::remove))
        .route("/ui/endpoints/{name}/test", post(endpoint::acts::test))
        .route("/ui/endpoints/{name}/keys", post(endpoint::acts::add_key))
        .route(
            "/ui/endpoints/{name}/keys/{id}/remove",
            post(endpoint::acts::remove_key),
        )
        .route(
            "/ui/default-keys",
            get(default_keys::show).post(default_keys::add),
        )
        .route("/ui/default-keys/{id}/remove", post(default_keys::remove))
        .route("/ui/keys", get(api_keys::show).post(api_keys::make))
        .route("/ui/keys/{name}/revoke", post(api_keys::revoke))
        .route("/ui/audit-log", get(audit_log::show))
        .route("/ui/dead-letters", get(letters::show))
        .route("/ui/dead-letters/plan", get(bulk::plan_replay))
        .route("/ui/dead-letters/replay", post(bulk::start_replay))
        .route("/ui/dead-letters/selected", post(letters::selected::plan))
        .route(
            "/ui/dead-letters/selected/replay",
            post(letters::selected::replay),
        )
        .route(
            "/ui/dead-letters/selected/discard",
            post(letters::selected::discard),
        )
        .route(
            "/ui/cancel",
            get(bulk::plan_cancel).post(bulk::start_cancel),
        )
        .route("/ui/jobs", get(jobs::list))
        .route("/ui/jobs/{id}", get(jobs::show))
        .route("/ui/jobs/{id}/pause", post(jobs::orders::pause))
        .route("/ui/jobs/{id}/resume", post(jobs::orders::resume))
        .route("/ui/jobs/{id}/stop", post(jobs::orders::stop))
        .route("/ui/{*rest}", get(problem_page::unknown_page))
        .method_not_allowed_fallback(problem_page::unknown_method)
        .layer(from_fn_with_state(page.clone(), admission::admit))
        .with_state(page)
}
