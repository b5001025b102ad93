//! Signing in with an API key, and signing out.

use super::form::FormFields;
use super::frame::PageFrame;
use super::html::{document, is_own};
use super::problem::PageProblem;
use super::session::SESSION_MS;
use super::texts::sign_in::SignInTexts;
use super::visit::Visit;
use super::{Page, cookies};
use crate::access::NotAdmitted;
use crate::domain::api_key::ApiKeyDigest;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use governor::{DefaultDirectRateLimiter, Quota};
use http::{StatusCode, header};
use std::num::NonZeroU32;
use std::sync::Arc;

/// Attempts to sign in with a wrong key per second, on one server.
const ATTEMPTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(5).expect("invariant: not 0");
/// Attempts to sign in with a wrong key that may come at once.
const ATTEMPTS_AT_ONCE: NonZeroU32 = NonZeroU32::new(20).expect("invariant: not 0");
/// Where one goes from the sign-in.
const OVERVIEW: &str = "/ui/";

/// How many attempts to sign in with a wrong key this server still answers and logs, from all visitors together. A right key is
/// never counted: otherwise whoever sends wrong ones would lock everybody out. The bound on guesses is the length of the keys.
pub(super) struct SignInLimit(DefaultDirectRateLimiter);

impl Default for SignInLimit {
    fn default() -> Self {
        let quota = Quota::per_second(ATTEMPTS_PER_SECOND).allow_burst(ATTEMPTS_AT_ONCE);
        Self(DefaultDirectRateLimiter::direct(quota))
    }
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    frame: PageFrame,
    t: &'static SignInTexts,
    /// Where one goes from here.
    to: String,
    /// What was wrong with the key that was given.
    problem: &'static str,
}

impl SignInPage {
    fn answer(visit: &Visit, to: String, problem: &'static str) -> Self {
        let t = SignInTexts::of(visit.language);
        let mut frame = visit.frame(t.title);
        if visit.parameter("out").is_some() {
            frame.notify(t.signed_out);
        }
        Self {
            frame,
            t,
            to,
            problem,
        }
    }
}

/// `GET /ui/sign-in`: the form. Where no key is needed, leads to the overview.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let to = target(visit.parameter("to"));
    if !page.service.access().needs_key() {
        return Ok(Redirect::to(&to).into_response());
    }
    document(StatusCode::OK, &SignInPage::answer(&visit, to, ""))
}

/// `POST /ui/sign-in`: opens a session.
pub(super) async fn sign_in(
    State(page): State<Arc<Page>>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    let t = SignInTexts::of(visit.language);
    let to = target(Some(form.text("to")));
    let refused =
        |status, problem| document(status, &SignInPage::answer(&visit, to.clone(), problem));
    if !page.service.access().needs_key() {
        return Ok(Redirect::to(&to).into_response());
    }
    let key = form.text("key");
    if key.is_empty() {
        return refused(StatusCode::UNPROCESSABLE_ENTITY, t.none);
    }
    let now_ms = page.service.clock().now_ms();
    let caller = match page.service.access().admit(Some(key.as_bytes()), now_ms) {
        Ok(caller) => caller,
        Err(NotAdmitted::Expired(..)) => return refused(StatusCode::UNAUTHORIZED, t.expired),
        Err(NotAdmitted::TooMany) => return refused(StatusCode::TOO_MANY_REQUESTS, t.too_many),
        Err(NotAdmitted::NoKeyExists) => return refused(StatusCode::UNAUTHORIZED, t.no_key_exists),
        Err(NotAdmitted::NoKey | NotAdmitted::UnknownKey) => {
            if page.sign_ins.0.check().is_err() {
                let response = refused(StatusCode::TOO_MANY_REQUESTS, t.too_many)?;
                return Ok(([(header::RETRY_AFTER, "1")], response).into_response());
            }
            tracing::info!("an attempt to sign in to the page failed: the key is not known");
            return refused(StatusCode::UNAUTHORIZED, t.unknown);
        }
    };
    let signer = page.signer()?;
    let name = caller.name.as_ref().map(ToString::to_string);
    let session = signer.session(name, &ApiKeyDigest::of(key.as_bytes()), now_ms);
    let cookie = cookies::set_session(&signer.cookie(&session), SESSION_MS / 1_000, visit.by_tls);
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response())
}

/// `POST /ui/sign-out`: ends the session in this browser.
pub(super) async fn sign_out(visit: Visit) -> Response {
    let cookie = cookies::delete_session(visit.by_tls);
    let redirect = Redirect::to("/ui/sign-in?out=1");
    ([(header::SET_COOKIE, cookie)], redirect).into_response()
}

fn target(to: Option<String>) -> String {
    to.filter(|to| is_own(to))
        .unwrap_or_else(|| OVERVIEW.to_string())
}
