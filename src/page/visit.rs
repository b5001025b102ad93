//! A visit: one request to the page, and who sends it. [`super::admission`] makes it, and handlers take it as an argument.

use super::language::Language;
use super::problem::PageProblem;
use super::session::Session;
use crate::api::auth::actor_of;
use crate::domain::caller::Caller;
use crate::domain::role::Permission;
use crate::journal::Actor;
use axum::extract::FromRequestParts;
use http::Uri;
use http::request::Parts;
use std::sync::Arc;

/// See the documentation of the module.
#[derive(Debug, Clone)]
pub struct Visit {
    /// Who is signed in, or everybody where no key is needed. `None` on the pages that are open to all.
    pub caller: Option<Arc<Caller>>,
    /// The session, if there is one.
    pub session: Option<Session>,
    /// The token that the forms of the page contain.
    pub form_token: String,
    /// The language of the page.
    pub language: Language,
    /// Whether the browser has sent the request by TLS.
    pub by_tls: bool,
    /// The address of the page.
    pub uri: Uri,
}

impl Visit {
    /// A parameter of the address. An empty one counts as a missing one.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let query = self.uri.query().unwrap_or("");
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        let (_, value) = pairs.find(|(known, _)| known == name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_string())
    }

    /// Whether the visitor may do this.
    pub fn may(&self, permission: Permission) -> bool {
        let caller = self.caller.as_ref();
        caller.is_some_and(|caller| caller.name.is_none() || caller.role.permits(permission))
    }

    /// Who is the caller.
    ///
    /// # Errors
    /// On a page that is open to all.
    pub fn caller(&self) -> Result<&Arc<Caller>, PageProblem> {
        self.caller.as_ref().ok_or(PageProblem::Internal)
    }

    /// The actor of what the visitor does, as for a request of the API.
    ///
    /// # Errors
    /// On a page that is open to all.
    pub fn actor(&self) -> Result<Actor, PageProblem> {
        actor_of(Some(self.caller()?), &http::HeaderMap::new()).map_err(PageProblem::from)
    }
}

impl<S: Sync> FromRequestParts<S> for Visit {
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageProblem> {
        let visit = parts.extensions.get::<Visit>();
        visit.cloned().ok_or(PageProblem::Internal)
    }
}
