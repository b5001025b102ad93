//! Answers with a document in HTML.

use super::problem::PageProblem;
use askama::Template;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use std::fmt::Write as _;

/// Makes an answer with a document.
///
/// # Errors
/// If the template fails, which is a bug.
pub fn document(status: StatusCode, template: &impl Template) -> Result<Response, PageProblem> {
    let text = template.render().map_err(|error| {
        tracing::error!(%error, "a page could not be written, which is a bug; the visitor gets an error 500");
        PageProblem::Internal
    })?;
    let content_type = HeaderValue::from_static("text/html; charset=utf-8");
    Ok((status, [(header::CONTENT_TYPE, content_type)], text).into_response())
}

/// A text as one segment of a path, or as a value in a query: everything but letters, digits, `-`, `.`, `_` and `~` is
/// percent-encoded.
#[must_use]
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// An address of the page: a path and the parameters that are not empty.
#[must_use]
pub fn address(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut address = path.to_string();
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    for (at, (name, value)) in given.enumerate() {
        let separator = if at == 0 { '?' } else { '&' };
        let _ = write!(address, "{separator}{name}={}", encoded(value));
    }
    address
}

/// Whether a path is one of the page, so that a link from elsewhere cannot lead anywhere else by way of it.
pub fn is_own(path: &str) -> bool {
    let plain = path
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    plain && path.starts_with("/ui/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_segment_of_an_address() {
        assert_eq!(encoded("a/b c?ä<"), "a%2Fb%20c%3F%C3%A4%3C");
        assert_eq!(encoded("msg_0-A.~"), "msg_0-A.~");
        let shown = address(
            "/ui/search",
            &[("q", "a b"), ("topic", ""), ("state", "dead")],
        );
        assert_eq!(shown, "/ui/search?q=a%20b&state=dead");
        assert_eq!(address("/ui/", &[]), "/ui/");
    }

    #[test]
    fn one_goes_back_to_the_page_alone() {
        for own in ["/ui/", "/ui/search?q=a%20b"] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "",
            "/",
            "/v1/keys",
            "//host/ui/",
            "https://host/ui/",
            "/ui/\\x",
            "/ui/ x",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }
}
