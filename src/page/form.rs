//! The form of a `POST`: read and checked by [`super::admission`] before a handler sees it.

use super::problem::PageProblem;
use axum::body::Body;
use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, Limited};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a form, in bytes.
pub const LARGEST_FORM_BYTES: usize = 64 * 1024;
/// Maximum length of a form of somebody who is not known yet, in bytes.
pub const LARGEST_OPEN_FORM_BYTES: usize = 4 * 1024;
/// Maximum time for a form to arrive.
const LONGEST_ARRIVAL: Duration = Duration::from_secs(30);
/// The field with the token of the session.
const TOKEN: &str = "form_token";

/// The fields of a form, by name. Of a field that is given twice, the last one counts.
#[derive(Debug, Clone, Default)]
pub struct FormFields(Arc<HashMap<String, String>>);

impl FormFields {
    /// Reads the form of a request, of at most so many bytes.
    ///
    /// # Errors
    /// [`PageProblem::Form`] if it is no form, too long or too slow.
    pub async fn read(
        headers: &HeaderMap,
        body: Body,
        largest_bytes: usize,
    ) -> Result<Self, PageProblem> {
        let declared = headers.get(header::CONTENT_TYPE);
        let declared = declared.and_then(|value| value.to_str().ok()).unwrap_or("");
        let essence = declared.split(';').next().unwrap_or("").trim();
        if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(PageProblem::Form);
        }
        let reading = Limited::new(body, largest_bytes).collect();
        let read = tokio::time::timeout(LONGEST_ARRIVAL, reading).await;
        let Ok(Ok(read)) = read else {
            return Err(PageProblem::Form);
        };
        let pairs = url::form_urlencoded::parse(&read.to_bytes())
            .into_owned()
            .collect();
        Ok(Self(Arc::new(pairs)))
    }

    /// A field without the spaces around it; empty if it is missing. Browsers end lines with CR LF, and reasons and the
    /// like have LF alone.
    pub fn text(&self, name: &str) -> String {
        let text = self.0.get(name).map_or("", String::as_str);
        text.replace("\r\n", "\n").trim().to_string()
    }

    /// The same; `None` if the field is missing.
    pub fn given(&self, name: &str) -> Option<String> {
        self.0.contains_key(name).then(|| self.text(name))
    }

    /// The token of the session.
    pub fn token(&self) -> &str {
        self.0.get(TOKEN).map_or("", String::as_str)
    }
}

impl<S: Sync> FromRequestParts<S> for FormFields {
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageProblem> {
        let fields = parts.extensions.get::<FormFields>();
        fields.cloned().ok_or(PageProblem::Internal)
    }
}
