//! The page of an endpoint: its settings, its keys, and what can be done with it.

pub(super) mod acts;
pub(super) mod edit;
mod form;

use super::Page;
use super::frame::PageFrame;
use super::html::{address, document};
use super::live::LiveSubject;
use super::notification::attempts::AttemptCard;
use super::paths::{destination_path, endpoint_path};
use super::problem::PageProblem;
use super::signing_keys::{RotateForm, SigningKeyRow};
use super::texts::attempts::AttemptTexts;
use super::texts::endpoint_fields::EndpointFieldTexts;
use super::texts::endpoints::EndpointTexts;
use super::texts::signing_keys::SigningKeyTexts;
use super::times::TimeTag;
use super::visit::Visit;
use crate::domain::attempt::Attempt;
use crate::domain::certificates::Certificates;
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::domain::endpoint_tls::EndpointTls;
use crate::domain::lane::Lane;
use crate::domain::role::Permission;
use crate::service::ServiceError;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use form::SettingTexts;
use http::StatusCode;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "endpoint.html")]
struct EndpointPageDocument<'a> {
    frame: PageFrame,
    t: &'static EndpointTexts,
    f: &'static EndpointFieldTexts,
    k: &'static SigningKeyTexts,
    may_operate: bool,
    name: &'a str,
    path: String,
    version: u32,
    created: TimeTag,
    changed: TimeTag,
    is_unusable: bool,
    settings: Vec<ShownSetting>,
    /// The names of its headers, and those of the headers of the signature.
    headers: String,
    signature_headers: String,
    /// When the last of its own certificate authorities expires, if it has some; the first certificate it shows, if any.
    ca: Option<Option<TimeTag>>,
    client_certificate: Option<Option<TimeTag>>,
    metadata: Option<&'a str>,
    see_destination: String,
    see_pending: String,
    see_dead: String,
    keys: Vec<SigningKeyRow>,
    keys_path: String,
    keys_problem: String,
    default_until: Option<TimeTag>,
    rotate: RotateForm,
    remove_problem: String,
    test_problem: String,
    /// A test call that was made just now.
    tested: Option<AttemptCard<'a>>,
    attempt_texts: &'static AttemptTexts,
    /// The ack rule that has judged the test call.
    ack: String,
    series: u32,
}

/// A setting in words.
struct ShownSetting {
    label: &'static str,
    /// Empty if it is not set.
    value: String,
    words: &'static str,
}

/// What a request shows beside the endpoint.
#[derive(Default)]
struct BesideEndpoint {
    rotate: Option<RotateForm>,
    keys_problem: String,
    remove_problem: String,
    test_problem: String,
    tested: Option<Attempt>,
}

impl BesideEndpoint {
    fn is_empty(&self) -> bool {
        let problems = [&self.keys_problem, &self.remove_problem, &self.test_problem];
        let is_silent = problems.iter().all(|problem| problem.is_empty());
        is_silent && self.rotate.is_none() && self.tested.is_none()
    }
}

/// The name in the path.
///
/// # Errors
/// If no endpoint can have it.
fn name_of(text: &str) -> Result<EndpointName, PageProblem> {
    EndpointName::parse(text).map_err(|_| ServiceError::MissingEndpoint.into())
}

/// `GET /ui/endpoints/{name}`: the page.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    Path(name): Path<String>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let name = name_of(&name)?;
    answer(
        &page,
        &visit,
        &name,
        StatusCode::OK,
        BesideEndpoint::default(),
    )
    .await
}

/// Reads an endpoint and writes its page.
async fn answer(
    page: &Page,
    visit: &Visit,
    name: &EndpointName,
    status: StatusCode,
    beside: BesideEndpoint,
) -> Result<Response, PageProblem> {
    let endpoint = page.service.stored_endpoint(name).await?;
    let frame = visit.frame(name.as_str());
    let frame = match beside.is_empty() {
        true => frame.with_live(&LiveSubject::Endpoint(name.clone()).to_text()),
        false => frame,
    };
    let f = EndpointFieldTexts::of(visit.language);
    let lane = Lane::of_endpoint(name);
    let search = |state| {
        let lane = ("lane", lane.as_str());
        address("/ui/search", &[lane, ("state", state)])
    };
    let settings = &endpoint.settings;
    let tls = settings.tls.as_ref();
    let identity = tls.and_then(EndpointTls::identity);
    let certificate = identity.map(|identity| &identity.certificate);
    let names = settings.headers.pairs().iter();
    let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
    let path = endpoint_path(name);
    let keys_path = format!("{path}/keys");
    let tested = beside.tested.as_ref();
    let shown = EndpointPageDocument {
        t: EndpointTexts::of(visit.language),
        k: SigningKeyTexts::of(visit.language),
        may_operate: visit.may(Permission::Operate),
        name: name.as_str(),
        version: endpoint.version,
        created: TimeTag(endpoint.created_ms),
        changed: TimeTag(endpoint.changed_ms),
        is_unusable: page.service.unusable_endpoints().contains(&lane),
        settings: settings_of(&endpoint, f),
        headers: names.join(", "),
        signature_headers: settings.signature_headers.names().join(", "),
        ca: (tls.and_then(EndpointTls::ca)).map(|ca| ca.last_expires_ms().map(TimeTag)),
        client_certificate: certificate
            .map(Certificates::first_expires_ms)
            .map(|expires| expires.map(TimeTag)),
        metadata: settings.metadata.as_deref(),
        see_destination: destination_path(&lane),
        see_pending: search("scheduled"),
        see_dead: search("dead"),
        keys: rows_of(page, visit, &endpoint, &keys_path),
        default_until: endpoint.keys.default_until_ms().map(TimeTag),
        rotate: (beside.rotate).unwrap_or_else(|| RotateForm::empty(visit)),
        keys_problem: beside.keys_problem,
        remove_problem: beside.remove_problem,
        test_problem: beside.test_problem,
        tested: tested.map(|attempt| AttemptCard::of(0, attempt, visit.language)),
        attempt_texts: AttemptTexts::of(visit.language),
        ack: (settings.ack.as_ref()).map_or(String::new(), |ack| ack.to_text().into_owned()),
        series: 1,
        f,
        path,
        keys_path,
        frame,
    };
    document(status, &shown)
}

fn rows_of(page: &Page, visit: &Visit, endpoint: &Endpoint, path: &str) -> Vec<SigningKeyRow> {
    let now_ms = page.service.clock().now_ms();
    let keys = endpoint.keys.list().iter();
    keys.map(|key| SigningKeyRow::of(key, path, visit, now_ms))
        .collect()
}

/// The settings that the form has, in its order.
fn settings_of(endpoint: &Endpoint, f: &'static EndpointFieldTexts) -> Vec<ShownSetting> {
    let texts = SettingTexts::of(&endpoint.settings);
    let shown = texts.iter().map(|(name, kind, value)| ShownSetting {
        label: f.field(name).0,
        value: value.to_string(),
        words: match kind {
            form::FieldKind::Flag | form::FieldKind::Choice(_) => f.choice(value),
            form::FieldKind::Text | form::FieldKind::Rule | form::FieldKind::Number => "",
        },
    });
    shown.collect()
}
