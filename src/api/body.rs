//! Reads a request's body and checks its content type, its size and the time that it takes.
//!
//! A refused body is not read to its end. `api::unread` makes sure that the client receives the answer
//! nevertheless.

use crate::api::field_errors::FieldErrors;
use crate::api::fields;
use crate::api::problem::{Problem, ProblemKind};
use crate::api::request_memory::MemoryShare;
use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use std::time::Duration;

/// Minimum size of the buffer for a body that arrives in several parts, unless it declares less.
const FIRST_BYTES: usize = 64 * 1024;
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The limits of one body.
#[derive(Debug, Clone, Copy)]
pub struct BodyBounds {
    /// Maximum length in bytes.
    pub bytes: usize,
    /// Maximum time to read the body, including the wait for memory.
    pub time: Duration,
}

/// Reads a required JSON body. Checks only that it is UTF-8.
///
/// # Errors
/// The problem to answer with, if the body is missing, not declared as JSON, too large, too slow or not
/// UTF-8, or if there is no memory for it.
pub async fn read_json(
    headers: &HeaderMap,
    body: Body,
    bounds: BodyBounds,
    share: &mut MemoryShare,
) -> Result<JsonText, Problem> {
    declared_json(headers)?;
    let text = read(headers, body, bounds, share).await?;
    if text.is_empty() {
        return Err(Problem::new(
            ProblemKind::Malformed,
            "the request has no body; send a JSON object",
        ));
    }
    JsonText::check(text)
}

/// Reads an optional JSON body; `None` if it is empty.
///
/// # Errors
/// As [`read_json`], but an empty body is accepted and needs no content type.
pub async fn read_optional_json(
    headers: &HeaderMap,
    body: Body,
    bounds: BodyBounds,
    share: &mut MemoryShare,
) -> Result<Option<JsonText>, Problem> {
    let text = read(headers, body, bounds, share).await?;
    if text.is_empty() {
        return Ok(None);
    }
    declared_json(headers)?;
    JsonText::check(text).map(Some)
}

/// Reads a body without fields: it is empty, or an empty JSON object.
///
/// # Errors
/// As [`read_json`], and if the object has a field.
pub async fn read_no_fields(
    headers: &HeaderMap,
    body: Body,
    bounds: BodyBounds,
    share: &mut MemoryShare,
) -> Result<(), Problem> {
    let Some(text) = read_optional_json(headers, body, bounds, share).await? else {
        return Ok(());
    };
    let mut errors = FieldErrors::default();
    let [] = fields::read(text.as_str(), &[], "", &mut errors).map_err(Problem::unreadable)?;
    if errors.is_empty() {
        return Ok(());
    }
    Err(Problem::fields(errors))
}

/// A body that is UTF-8. Whether it is JSON was not checked yet.
#[derive(Debug)]
pub struct JsonText(Bytes);

impl JsonText {
    fn check(bytes: Bytes) -> Result<Self, Problem> {
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let detail = format!("the body is not UTF-8 at byte {}", error.valid_up_to());
            Problem::new(ProblemKind::Malformed, detail)
        })?;
        if text.starts_with(BYTE_ORDER_MARK) {
            let detail = "the body is not JSON: it begins with a byte order mark";
            return Err(Problem::new(ProblemKind::Malformed, detail));
        }
        Ok(Self(bytes))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("invariant: checked when it was read")
    }
}

/// Refuses compressed bodies. They are not decompressed here, so they would be reported as broken JSON.
fn not_packed(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(header::CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => Err(Problem::new(
            ProblemKind::MediaType,
            "send the body as it is, without a `Content-Encoding`",
        )),
        Some(_) | None => Ok(()),
    }
}

/// JSON, and that of a merge patch (RFC 7396).
const JSON_TYPES: [&str; 2] = ["application/json", "application/merge-patch+json"];

/// Checks that the content type is JSON in UTF-8.
///
/// This protects against web pages of other sites. Such a page can make a browser send a request, but only
/// with the content type of a form or a text. For other content types, the browser first asks the server for
/// permission.
fn declared_json(headers: &HeaderMap) -> Result<(), Problem> {
    let declared = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let mut parts = declared.split(';').map(str::trim);
    let json = parts.next().is_some_and(|essence| {
        JSON_TYPES
            .iter()
            .any(|json| essence.eq_ignore_ascii_case(json))
    });
    let utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        Some(_) | None => true,
    });
    if json && utf8 {
        Ok(())
    } else {
        Err(Problem::new(
            ProblemKind::MediaType,
            "send the body as JSON in UTF-8, with the header `Content-Type: application/json`",
        ))
    }
}

async fn read(
    headers: &HeaderMap,
    body: Body,
    bounds: BodyBounds,
    share: &mut MemoryShare,
) -> Result<Bytes, Problem> {
    not_packed(headers)?;
    match tokio::time::timeout(bounds.time, collect(body, bounds.bytes, share)).await {
        Ok(read) => read,
        Err(_) => Err(Problem::new(
            ProblemKind::Timeout,
            format!("the body did not arrive within {:?}", bounds.time),
        )),
    }
}

async fn collect(mut body: Body, most: usize, share: &mut MemoryShare) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("a request to this path is at most {most} bytes long");
        Problem::new(ProblemKind::TooLarge, detail)
    };
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > most {
        return Err(too_large());
    }
    let mut only = Bytes::new();
    let mut gathered = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Problem::new(
                ProblemKind::Malformed,
                "the connection failed before the whole body had arrived",
            )
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let length = only.len() + gathered.len() + data.len();
        if length > most {
            return Err(too_large());
        }
        share.take(data.len()).await?;
        if length == data.len() {
            // In most requests the first frame is the whole body. It is used without a copy.
            only = data;
            continue;
        }
        if length > gathered.capacity() {
            // The buffer doubles each time, but it gets no larger than the body can be.
            let coming = if declared > 0 { declared } else { most };
            let capacity = length.saturating_mul(2).max(FIRST_BYTES).min(coming);
            gathered.reserve_exact(capacity.max(length) - gathered.len());
        }
        gathered.extend_from_slice(&std::mem::take(&mut only));
        gathered.extend_from_slice(&data);
    }
    Ok(if gathered.is_empty() {
        only
    } else {
        gathered.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request_memory::RequestMemory;
    use http::HeaderValue;
    use std::convert::Infallible;

    #[test]
    fn the_body_must_be_declared_as_json_in_utf8() {
        fn check(declared: Option<&str>, expected: bool) {
            let mut headers = HeaderMap::new();
            if let Some(declared) = declared {
                let value = HeaderValue::from_str(declared).expect("a header value");
                headers.insert(header::CONTENT_TYPE, value);
            }
            assert_eq!(declared_json(&headers).is_ok(), expected, "{declared:?}");
        }
        check(Some("application/json"), true);
        check(Some("Application/JSON; charset=UTF-8"), true);
        check(Some("application/json;charset=\"utf-8\""), true);
        check(Some("application/json; charset=gbk"), false);
        check(Some("application/json-patch+json"), false);
        check(Some("text/plain"), false);
        check(Some("application/x-www-form-urlencoded"), false);
        check(
            Some("multipart/form-data; boundary=application/json"),
            false,
        );
        check(Some(""), false);
        check(None, false);
    }

    #[tokio::test]
    async fn a_body_may_be_as_long_as_the_bound_and_no_longer() {
        async fn check(length: usize, most: usize, expected: bool) {
            let memory = RequestMemory::new(0, Duration::ZERO);
            let body = Body::from(vec![b'x'; length]);
            let read = collect(body, most, &mut memory.share()).await;
            assert_eq!(read.map(|read| read.len()).ok(), expected.then_some(length));
        }
        check(0, 0, true).await;
        check(10, 10, true).await;
        check(11, 10, false).await;
    }

    #[tokio::test]
    async fn pieces_are_put_together_in_order() {
        async fn check(pieces: &[&'static str], most: usize, expected: Option<&str>) {
            let memory = RequestMemory::new(0, Duration::ZERO);
            let pieces: Vec<_> = pieces
                .iter()
                .map(|piece| Ok::<_, Infallible>(*piece))
                .collect();
            let body = Body::from_stream(futures_util::stream::iter(pieces));
            let read = collect(body, most, &mut memory.share()).await.ok();
            assert_eq!(read.as_deref(), expected.map(str::as_bytes));
        }
        check(&["a", "bc", "d"], 4, Some("abcd")).await;
        check(&["a", "", "bc", "d"], 4, Some("abcd")).await;
        check(&["", "a", "b"], 4, Some("ab")).await;
        check(&["ab", "cd", "e"], 4, None).await;
        check(&[], 4, Some("")).await;
    }

    #[test]
    fn what_is_not_utf8_is_named_by_its_place() {
        fn check(bytes: &'static [u8], expected: Option<&str>) {
            let problem = JsonText::check(Bytes::from_static(bytes)).err();
            let detail = problem.map(|problem| problem.detail().to_string());
            assert_eq!(detail.as_deref(), expected);
        }
        check(b"{}", None);
        check(b"{\"\xff\":1}", Some("the body is not UTF-8 at byte 2"));
        check(
            b"\xef\xbb\xbf{}",
            Some("the body is not JSON: it begins with a byte order mark"),
        );
    }
}
