//! What the page of an endpoint and that of the default keys have in common: the rows of the signing keys, and the form that
//! adds one.

use super::form::FormFields;
use super::html::encoded;
use super::language::Language;
use super::problem::PageProblem;
use super::shown_once::ShownOnce;
use super::texts::frame::FrameTexts;
use super::texts::signing_keys::SigningKeyTexts;
use super::times::TimeTag;
use super::visit::Visit;
use crate::api::field_errors::FieldLocation;
use crate::api::key_document;
use crate::api::problem::{Problem, ProblemKind};
use crate::api::registration::InvalidRequest;
use crate::domain::default_keys::UnreadableDefaultKey;
use crate::domain::duration;
use crate::domain::endpoint_keys::{EndpointKey, STANDARD_OVERLAP_MS};
use crate::domain::signing_key::KeyKind;
use crate::service::{AddedKey, KeyToAdd, ServiceError};
use http::StatusCode;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

/// A signing key, without its secret.
pub struct SigningKeyRow {
    pub id: String,
    pub kind: &'static str,
    /// Why it cannot be read; empty if it can.
    pub unreadable: String,
    pub created: Option<TimeTag>,
    /// Until when it signs. `None`: for good.
    pub until: Option<TimeTag>,
    pub has_ended: bool,
    pub public_key: Option<String>,
    /// The address of the form that removes it.
    pub remove_href: String,
}

impl SigningKeyRow {
    /// The row of a key. The keys are at `path`.
    pub fn of(key: &EndpointKey, path: &str, visit: &Visit, now_ms: i64) -> Self {
        Self {
            id: key.id.clone(),
            kind: SigningKeyTexts::of(visit.language).kind_name(key.kind),
            unreadable: String::new(),
            created: Some(TimeTag(key.created_ms)),
            until: key.signs_until_ms.map(TimeTag),
            has_ended: !key.signs_at(now_ms),
            public_key: key.public_key.clone(),
            remove_href: remove_href(path, &key.id),
        }
    }

    /// The row of a default key that this server cannot read.
    pub fn of_unreadable(
        key: &UnreadableDefaultKey,
        path: &str,
        visit: &Visit,
        now_ms: i64,
    ) -> Self {
        Self {
            id: key.id.clone(),
            kind: SigningKeyTexts::of(visit.language).unreadable,
            unreadable: key.why.clone(),
            created: None,
            until: key.signs_until_ms.map(TimeTag),
            has_ended: !key.signs_at(now_ms),
            public_key: None,
            remove_href: remove_href(path, &key.id),
        }
    }
}

fn remove_href(path: &str, id: &str) -> String {
    format!("{path}/{}/remove", encoded(id))
}

/// The form that adds a key, as it was typed. A secret that was typed is not shown again.
pub struct RotateForm {
    pub kinds: Vec<KeyKindChoice>,
    pub overlap: String,
    pub problem: String,
}

/// A kind of key to choose.
pub struct KeyKindChoice {
    pub name: &'static str,
    pub text: &'static str,
    pub is_chosen: bool,
}

impl RotateForm {
    /// The empty form.
    pub fn empty(visit: &Visit) -> Self {
        let kind = KeyKind::Symmetric.as_str();
        Self::with(visit, kind, duration::display_ms(STANDARD_OVERLAP_MS))
    }

    /// The form as it was typed, and why it was not done.
    pub fn typed(visit: &Visit, form: &FormFields, problem: &str) -> Self {
        Self {
            problem: problem.to_string(),
            ..Self::with(visit, &form.text("kind"), form.text("overlap"))
        }
    }

    fn with(visit: &Visit, kind: &str, overlap: String) -> Self {
        let t = SigningKeyTexts::of(visit.language);
        let kinds = [KeyKind::Symmetric, KeyKind::Ed25519].map(|choice| KeyKindChoice {
            name: choice.as_str(),
            text: t.kind_name(choice),
            is_chosen: choice.as_str() == kind,
        });
        Self {
            kinds: kinds.into(),
            overlap,
            problem: String::new(),
        }
    }
}

/// Reads the form that adds a key, by the rules of the API.
///
/// # Errors
/// A sentence that contains no secret.
pub fn key_to_add(form: &FormFields, visit: &Visit) -> Result<KeyToAdd, String> {
    let mut fields = Map::new();
    for name in ["secret", "kind", "overlap"] {
        let text = form.text(name);
        if !text.is_empty() {
            fields.insert(name.to_string(), Value::from(text));
        }
    }
    let text = Zeroizing::new(Value::from(fields).to_string());
    key_document::parse(&text).map_err(|invalid| not_added(invalid, visit.language))
}

/// Why a key was not added, without what was typed.
fn not_added(invalid: InvalidRequest, language: Language) -> String {
    let t = SigningKeyTexts::of(language);
    let errors = match (language, invalid) {
        (Language::Chinese, InvalidRequest::Fields(errors)) => errors.into_list(),
        (Language::Chinese, InvalidRequest::Unreadable(_)) => Vec::new(),
        (Language::English, invalid) => {
            return format!("{} {}", t.bad_key, Problem::invalid(invalid).detail());
        }
    };
    let wrong = errors.iter().map(|error| match &error.location {
        FieldLocation::Pointer(pointer) if pointer == "/secret" => t.bad_secret,
        FieldLocation::Pointer(pointer) if pointer == "/overlap" => t.bad_overlap,
        FieldLocation::Pointer(_) | FieldLocation::Parameter(_) | FieldLocation::Header(_) => {
            t.bad_kind
        }
    });
    [t.bad_key].into_iter().chain(wrong).collect()
}

/// The page with the secret of a key that was made. `None` if none was made. The keys are on the page `back_href`.
pub fn made(
    added: AddedKey,
    overlap_ms: i64,
    visit: &Visit,
    back_href: String,
) -> Option<ShownOnce> {
    let t = SigningKeyTexts::of(visit.language);
    let AddedKey { key, secret, .. } = added;
    let mut facts = vec![
        (t.id, key.id),
        (t.kind, t.kind_name(key.kind).to_string()),
        (t.made_overlap, duration::display_ms(overlap_ms)),
    ];
    facts.extend(key.public_key.map(|public| (t.public_key, public)));
    Some(ShownOnce {
        warning: "",
        frame: visit.frame(t.made_title),
        lead: t.made_lead,
        label: t.secret,
        secret: secret?,
        facts,
        back_href,
        back_text: t.back,
    })
}

/// Why the signing keys do not allow a change, in words. Any other error has a page of its own.
///
/// # Errors
/// That error.
pub fn refused(error: ServiceError, visit: &Visit) -> Result<(StatusCode, String), PageProblem> {
    let problem = PageProblem::from(error);
    let PageProblem::Refused(status, kind, _) = &problem else {
        return Err(problem);
    };
    let words = match kind {
        ProblemKind::SigningKey => SigningKeyTexts::of(visit.language).refused,
        ProblemKind::MissingKey => FrameTexts::of(visit.language).error_nothing,
        _ => return Err(problem),
    };
    Ok((*status, problem.in_full_after(words, visit.language)))
}
