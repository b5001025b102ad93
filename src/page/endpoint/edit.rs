//! The forms that make and change an endpoint.
//!
//! A form says for which version of the endpoint it was written. If somebody has changed the endpoint since, nothing is
//! saved, and the form is shown again with what was typed.

use super::form::{BadJson, FIELDS, FieldKind, SettingTexts};
use super::name_of;
use crate::api::endpoint_document;
use crate::api::field_errors::{FieldError, FieldErrors, FieldLocation};
use crate::api::problem::Problem;
use crate::api::registration::InvalidRequest;
use crate::domain::ack;
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::domain::ladder;
use crate::page::Page;
use crate::page::form::FormFields;
use crate::page::frame::PageFrame;
use crate::page::html::document;
use crate::page::paths::endpoint_path;
use crate::page::problem::PageProblem;
use crate::page::texts::endpoint_fields::EndpointFieldTexts;
use crate::page::texts::endpoints::EndpointTexts;
use crate::page::visit::Visit;
use crate::service::ServiceError;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "endpoint_edit.html")]
struct EndpointEditPage {
    frame: PageFrame,
    t: &'static EndpointTexts,
    /// The address of the form, and of the page that one came from.
    action: String,
    back: String,
    /// The name as it was typed, if the endpoint is to be made.
    new_name: Option<String>,
    name_problem: &'static str,
    /// The version that the form was written for.
    version: u32,
    problem: &'static str,
    details: Vec<String>,
    fields: Vec<ShownField>,
    ladders: Vec<&'static str>,
    acks: Vec<&'static str>,
}

struct ShownField {
    name: &'static str,
    label: &'static str,
    help: &'static str,
    value: String,
    problem: String,
    /// Whether the problem is in English although the page may not be.
    is_english: bool,
    choices: Vec<FieldChoice>,
    is_rule: bool,
    is_number: bool,
    is_required: bool,
}

struct FieldChoice {
    name: &'static str,
    text: &'static str,
    is_chosen: bool,
}

/// What a form is written from.
#[derive(Default)]
struct EditState {
    texts: SettingTexts,
    version: u32,
    new_name: Option<String>,
    name_problem: &'static str,
    problem: &'static str,
    errors: Vec<FieldError>,
}

/// Why an endpoint was not set.
enum NotSaved {
    Service(ServiceError),
    /// These fields are wrong.
    Fields(Vec<FieldError>),
    /// Somebody has changed it since; its version now.
    Changed(u32),
}

impl From<ServiceError> for NotSaved {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl NotSaved {
    fn of_invalid(invalid: InvalidRequest) -> Self {
        let errors = match invalid {
            InvalidRequest::Fields(errors) => errors,
            InvalidRequest::Unreadable(unreadable) => {
                let location = FieldLocation::Pointer(String::new());
                FieldErrors::one(location, Problem::unreadable(unreadable).detail())
            }
        };
        Self::Fields(errors.into_list())
    }

    fn of_json(BadJson(name): BadJson, t: &'static EndpointTexts) -> Self {
        let location = FieldLocation::Pointer(format!("/{name}"));
        Self::Fields(FieldErrors::one(location, t.bad_json).into_list())
    }
}

/// `GET /ui/new-endpoint`: the form for a new endpoint.
pub async fn show_new(visit: Visit) -> Result<Response, PageProblem> {
    let state = EditState {
        new_name: Some(String::new()),
        ..EditState::default()
    };
    form(&visit, None, StatusCode::OK, state)
}

/// `POST /ui/new-endpoint`: makes an endpoint, if there is none of the name.
pub async fn make(
    State(page): State<Arc<Page>>,
    visit: Visit,
    fields: FormFields,
) -> Result<Response, PageProblem> {
    let t = EndpointTexts::of(visit.language);
    let typed = fields.text("name");
    let mut state = EditState {
        texts: SettingTexts::typed(&fields, &SettingTexts::default()),
        new_name: Some(typed.clone()),
        ..EditState::default()
    };
    let wrong = StatusCode::UNPROCESSABLE_ENTITY;
    let Ok(name) = EndpointName::parse(&typed) else {
        state.name_problem = t.bad_name;
        return form(&visit, None, wrong, state);
    };
    // Who makes one of the same name in the same moment replaces it: the two forms are the acts of two operators.
    match page.service.stored_endpoint(&name).await {
        Err(ServiceError::MissingEndpoint) => {}
        Ok(_) => {
            state.name_problem = t.name_taken;
            return form(&visit, None, StatusCode::CONFLICT, state);
        }
        Err(error) => return Err(error.into()),
    }
    let asked = (state.texts.patch(&SettingTexts::default()))
        .map_err(|bad| NotSaved::of_json(bad, t))
        .and_then(|document| {
            endpoint_document::parse(&document, page.longest_timeout).map_err(NotSaved::of_invalid)
        });
    let set = match asked {
        Ok(asked) => {
            page.service
                .set_endpoint(&name, asked, visit.actor()?)
                .await
        }
        Err(not_saved) => return refuse(&visit, None, not_saved, state),
    };
    match set {
        Ok(_) => {
            let done = format!("{}?done=endpoint-made", endpoint_path(&name));
            Ok(Redirect::to(&done).into_response())
        }
        Err(error) => refuse(&visit, None, error.into(), state),
    }
}

/// `GET /ui/endpoints/{name}/edit`: the form with the settings.
pub async fn show(
    State(page): State<Arc<Page>>,
    Path(name): Path<String>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let endpoint = page.service.stored_endpoint(&name_of(&name)?).await?;
    let state = EditState {
        texts: SettingTexts::of(&endpoint.settings),
        version: endpoint.version,
        ..EditState::default()
    };
    form(&visit, Some(&endpoint.name), StatusCode::OK, state)
}

/// `POST /ui/endpoints/{name}/edit`: saves what was changed in the form.
pub async fn change(
    State(page): State<Arc<Page>>,
    Path(name): Path<String>,
    visit: Visit,
    fields: FormFields,
) -> Result<Response, PageProblem> {
    let name = name_of(&name)?;
    let t = EndpointTexts::of(visit.language);
    let state = EditState {
        texts: SettingTexts::typed(&fields, &SettingTexts::default()),
        version: fields.text("version").parse().unwrap_or(0),
        ..EditState::default()
    };
    let (version, longest) = (state.version, page.longest_timeout);
    let change = |before: &Endpoint| {
        if before.version != version {
            return Err(NotSaved::Changed(before.version));
        }
        let shown = SettingTexts::of(&before.settings);
        let patch = SettingTexts::typed(&fields, &shown).patch(&shown);
        let patch = patch.map_err(|bad| NotSaved::of_json(bad, t))?;
        endpoint_document::patched(&before.settings, &patch, longest).map_err(NotSaved::of_invalid)
    };
    let changed = page.service.change_endpoint(&name, visit.actor()?, change);
    match changed.await {
        Ok(_) => {
            let done = format!("{}?done=endpoint-saved", endpoint_path(&name));
            Ok(Redirect::to(&done).into_response())
        }
        Err(not_saved) => refuse(&visit, Some(&name), not_saved, state),
    }
}

/// Shows the form again, with what was typed and why it was not saved.
fn refuse(
    visit: &Visit,
    name: Option<&EndpointName>,
    not_saved: NotSaved,
    state: EditState,
) -> Result<Response, PageProblem> {
    let t = EndpointTexts::of(visit.language);
    match not_saved {
        NotSaved::Service(ServiceError::Tls(bad)) => {
            let location = FieldLocation::Pointer(format!("/{}", bad.field));
            let errors = FieldErrors::one(location, bad);
            refuse(visit, name, NotSaved::Fields(errors.into_list()), state)
        }
        NotSaved::Service(error) => Err(error.into()),
        NotSaved::Fields(errors) => {
            let state = EditState {
                problem: t.bad_fields,
                errors,
                ..state
            };
            form(visit, name, StatusCode::UNPROCESSABLE_ENTITY, state)
        }
        NotSaved::Changed(version) => {
            let state = EditState {
                problem: t.changed_meanwhile,
                version,
                ..state
            };
            form(visit, name, StatusCode::CONFLICT, state)
        }
    }
}

fn form(
    visit: &Visit,
    name: Option<&EndpointName>,
    status: StatusCode,
    state: EditState,
) -> Result<Response, PageProblem> {
    let t = EndpointTexts::of(visit.language);
    let own = name.map(endpoint_path);
    let title = if name.is_some() { t.edit_title } else { t.new };
    let (of_fields, others): (Vec<_>, Vec<_>) = (state.errors.into_iter())
        .map(|error| (field_of(&error.location), error))
        .partition(|(field, _)| field.is_some());
    let problem_of = |name: &str| {
        let own = of_fields.iter().filter(|(field, _)| *field == Some(name));
        let details: Vec<&str> = own.map(|(_, error)| error.detail.as_str()).collect();
        details.join("; ")
    };
    let fields = state.texts.iter().map(|(name, kind, value)| {
        let problem = problem_of(name);
        shown_field(visit, (name, kind, value), problem)
    });
    let shown = EndpointEditPage {
        frame: visit.frame(title),
        t,
        action: (own.as_ref()).map_or("/ui/new-endpoint".into(), |own| format!("{own}/edit")),
        back: own.unwrap_or("/ui/endpoints".to_string()),
        new_name: state.new_name,
        name_problem: state.name_problem,
        version: state.version,
        problem: state.problem,
        details: others.iter().map(|(_, error)| error.in_words()).collect(),
        fields: fields.collect(),
        ladders: ladder::named::names(),
        acks: ack::named::names(),
    };
    document(status, &shown)
}

/// The field of the form to which an error belongs.
fn field_of(location: &FieldLocation) -> Option<&'static str> {
    let FieldLocation::Pointer(pointer) = location else {
        return None;
    };
    let first = pointer.split('/').nth(1)?;
    let mut fields = FIELDS.iter().map(|(name, _)| *name);
    fields.find(|name| *name == first)
}

fn shown_field(
    visit: &Visit,
    (name, kind, value): (&'static str, FieldKind, &str),
    problem: String,
) -> ShownField {
    let f = EndpointFieldTexts::of(visit.language);
    let (label, help) = f.field(name);
    let choices: &[&'static str] = match kind {
        FieldKind::Flag => &["true", "false"],
        FieldKind::Choice(choices) => choices,
        FieldKind::Text | FieldKind::Rule | FieldKind::Number => &[],
    };
    let choices = match choices {
        [] => Vec::new(),
        choices => {
            let all = [""].into_iter().chain(choices.iter().copied());
            all.map(|choice| FieldChoice {
                name: choice,
                text: f.choice(choice),
                is_chosen: choice == value,
            })
            .collect()
        }
    };
    ShownField {
        name,
        label,
        help,
        value: value.to_string(),
        is_english: problem != EndpointTexts::of(visit.language).bad_json,
        problem,
        choices,
        is_rule: kind == FieldKind::Rule,
        is_number: kind == FieldKind::Number,
        is_required: name == "url",
    }
}
