//! What every request to the page goes through: who sends it, whether they may, the form of a `POST`, and the headers of
//! the answer.
//!
//! A `POST` is refused if another site made the browser send it: by `Sec-Fetch-Site`, by `Origin`, and if its form has not
//! the token of the session. A server that needs no key refuses requests for a domain name, as its API does.

use super::form::{FormFields, LARGEST_FORM_BYTES, LARGEST_OPEN_FORM_BYTES};
use super::html::address;
use super::language::Language;
use super::problem::PageProblem;
use super::problem_page::written;
use super::rights::{Access, access_to};
use super::session::{Session, SessionSigner};
use super::visit::Visit;
use super::{Page, cookies};
use crate::access::NotAdmitted;
use crate::api::cross_site::{from_another_site, has_other_origin, is_for_domain};
use crate::domain::caller::Caller;
use axum::RequestExt as _;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderName, HeaderValue, Method, header};
use std::sync::Arc;

/// The content security policy: everything is of this server, and nothing is inline.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// The route of the streams of events. They are no pages: they get no redirect, and last.
const EVENTS: &str = "/ui/events";

/// Checks a request, passes it on and completes its answer.
pub(super) async fn admit(State(page): State<Arc<Page>>, request: Request, next: Next) -> Response {
    let mut response = answer(&page, request, next).await;
    let headers = response.headers_mut();
    let always = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, browsers send `Origin: null` with the forms of the page too (Fetch, section 3.1).
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

/// Why a request is not passed on.
enum Stopped {
    /// It is refused.
    Problem(PageProblem),
    /// Nobody is signed in.
    SignIn,
}

impl From<PageProblem> for Stopped {
    fn from(problem: PageProblem) -> Self {
        Self::Problem(problem)
    }
}

async fn answer(page: &Arc<Page>, mut request: Request, next: Next) -> Response {
    let signer = match page.signer() {
        Ok(signer) => signer,
        Err(problem) => return problem.into_response(),
    };
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("", MatchedPath::as_str).to_string();
    let mut visit = visit_of(page, signer, &request);
    match check(page, signer, &route, &mut visit, &mut request).await {
        Ok(()) => {}
        Err(Stopped::Problem(problem)) => return written(problem.into_response(), &visit),
        Err(Stopped::SignIn) if route == EVENTS => {
            return http::StatusCode::UNAUTHORIZED.into_response();
        }
        Err(Stopped::SignIn) => return to_sign_in(&visit, request.method()),
    }
    if *request.method() == Method::POST {
        let (parts, body) = request.into_parts();
        let largest_bytes = match visit.caller {
            Some(_) => LARGEST_FORM_BYTES,
            None => LARGEST_OPEN_FORM_BYTES,
        };
        let fields = match FormFields::read(&parts.headers, body, largest_bytes).await {
            Ok(fields) => fields,
            Err(problem) => return written(problem.into_response(), &visit),
        };
        if !signer.is_form_token(fields.token(), visit.session.as_ref()) {
            return written(PageProblem::Token.into_response(), &visit);
        }
        request = Request::from_parts(parts, axum::body::Body::empty());
        request.extensions_mut().insert(fields);
    }
    request.extensions_mut().insert(visit.clone());
    let response = run(page, visit.caller.as_deref(), request, next).await;
    written(response, &visit)
}

/// Runs a request in a task of its own, so that a change is completed though the browser goes away, and so that a panic is
/// answered. An API key may have as many requests as there are free permits, and one at least, as under `/v1`.
async fn run(page: &Page, caller: Option<&Caller>, request: Request, next: Next) -> Response {
    let Ok(permit) = page.requests.clone().try_acquire_owned() else {
        return PageProblem::Busy.into_response();
    };
    let name = caller.and_then(|caller| caller.name.clone());
    let most = page.requests.available_permits().max(1);
    let place = name.map(|name| page.requests_by_key.take(Some(name), most));
    let Ok(place) = place.transpose() else {
        return PageProblem::TooMany.into_response();
    };
    let path = request.uri().path().to_string();
    let running = tokio::spawn(async move {
        let response = next.run(request).await;
        drop((permit, place));
        response
    });
    running.await.unwrap_or_else(|error| {
        tracing::error!(path, %error, "a request to the page panicked, which is a bug; the visitor gets an error 500");
        PageProblem::Internal.into_response()
    })
}

/// The visit as far as the request says it. Nobody is admitted yet.
fn visit_of(page: &Page, signer: &SessionSigner, request: &Request) -> Visit {
    let now_ms = page.service.clock().now_ms();
    let headers = request.headers();
    let cookie = cookies::value_of(headers, cookies::SESSION);
    let session = cookie
        .and_then(|cookie| signer.read(cookie, now_ms))
        .filter(|_| page.service.access().needs_key());
    Visit {
        caller: None,
        form_token: signer.form_token(session.as_ref()),
        session,
        language: Language::of(headers),
        by_tls: cookies::is_by_tls(headers),
        uri: request.uri().clone(),
    }
}

async fn check(
    page: &Page,
    signer: &SessionSigner,
    route: &str,
    visit: &mut Visit,
    request: &mut Request,
) -> Result<(), Stopped> {
    if !page.service.access().needs_key() && is_for_domain(request) {
        return Err(PageProblem::Host.into());
    }
    let (headers, uri) = (request.headers(), request.uri());
    let is_foreign = from_another_site(headers, uri) || has_other_origin(headers, uri);
    if !request.method().is_safe() && is_foreign {
        return Err(PageProblem::CrossSite.into());
    }
    let needed = match access_to(request.method(), route) {
        Access::Open => return Ok(()),
        Access::Needs(permission) => permission,
    };
    let caller = match page.caller(signer, visit.session.as_ref(), route != EVENTS) {
        Ok(caller) => caller,
        Err(NotAdmitted::TooMany) => return Err(PageProblem::TooMany.into()),
        Err(_) => return Err(Stopped::SignIn),
    };
    visit.caller = Some(caller.clone());
    if !visit.may(needed) {
        return Err(PageProblem::Forbidden.into());
    }
    if caller.topics.is_some() {
        let params = request.extract_parts::<RawPathParams>().await;
        let params = params.map_err(|_| PageProblem::Route)?;
        let topic = params.iter().find(|(name, _)| *name == "topic");
        if topic.is_some_and(|(_, topic)| !caller.may_use(topic)) {
            return Err(PageProblem::Topic.into());
        }
    }
    Ok(())
}

impl Page {
    /// Signs cookies. The key is made when the first page is asked for.
    ///
    /// # Errors
    /// If the operating system gives no random bytes.
    pub(super) fn signer(&self) -> Result<&SessionSigner, PageProblem> {
        if let Some(signer) = self.signer.get() {
            return Ok(signer);
        }
        let signer = match self.service.session_key() {
            Ok(Some(key)) => Ok(SessionSigner::new(key)),
            // Without a master key, sessions are good for this process.
            Ok(None) => SessionSigner::random(),
            Err(error) => Err(error),
        };
        let signer = signer.map_err(|error| {
            tracing::error!(
                error,
                "no key for the sessions of the page can be made; visitors get an error 500"
            );
            PageProblem::Internal
        })?;
        Ok(self.signer.get_or_init(|| signer))
    }

    /// Who is signed in with this session, or everybody where no key is needed. `is_counted`: it counts for the rate of the
    /// key.
    pub(super) fn caller(
        &self,
        signer: &SessionSigner,
        session: Option<&Session>,
        is_counted: bool,
    ) -> Result<Arc<Caller>, NotAdmitted> {
        let access = self.service.access();
        let Some(session) = session else {
            return access.admit(None, self.service.clock().now_ms());
        };
        let is_key = |digest: &_| signer.is_of(session, digest);
        let now_ms = self.service.clock().now_ms();
        access.caller_of_session(session.key_name.as_deref(), is_key, now_ms, is_counted)
    }
}

/// Leads to the sign-in, and from there back to the page.
fn to_sign_in(visit: &Visit, method: &Method) -> Response {
    let back = visit.uri.path_and_query().map_or("", |back| back.as_str());
    let back = if method.is_safe() && back != "/ui/" {
        back
    } else {
        ""
    };
    Redirect::to(&address("/ui/sign-in", &[("to", back)])).into_response()
}
