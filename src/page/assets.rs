//! The files of the page that are the same for everybody: stylesheet, script, icon. They are compiled into the program.
//!
//! Their addresses contain a hash of their content, so browsers keep them until they change.

use super::problem::PageProblem;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};
use std::sync::OnceLock;

/// A file: its name, its content type and its content.
type AssetFile = (&'static str, &'static str, &'static str);

const ASSETS: [AssetFile; 3] = [
    (
        "page.css",
        "text/css; charset=utf-8",
        include_str!("assets/page.css"),
    ),
    (
        "page.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/page.js"),
    ),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];
/// Hexadecimal digits of a hash in an address.
const HASH_DIGITS: usize = 16;

/// The hashes of the files, in their order.
fn hashes() -> &'static [String; ASSETS.len()] {
    static HASHES: OnceLock<[String; ASSETS.len()]> = OnceLock::new();
    HASHES.get_or_init(|| {
        ASSETS.map(|(_, _, content)| {
            let digest = Sha256::digest(content.as_bytes());
            let digits = digest.iter().map(|byte| format!("{byte:02x}"));
            digits.collect::<String>()[..HASH_DIGITS].to_string()
        })
    })
}

/// The address of a file.
///
/// # Panics
/// If there is no such file.
pub fn address(name: &str) -> String {
    let at = ASSETS.iter().position(|asset| asset.0 == name);
    let at = at.expect("invariant: pages name the files that there are");
    format!("/ui/assets/{name}?v={}", hashes()[at])
}

/// `GET /ui/assets/{name}`: a file.
pub async fn show(
    Path(name): Path<String>,
    uri: http::Uri,
    headers: HeaderMap,
) -> Result<Response, PageProblem> {
    let at = ASSETS.iter().position(|asset| asset.0 == name);
    let at = at.ok_or(PageProblem::Route)?;
    let (_, content_type, content) = ASSETS[at];
    let (tag, asked) = (
        format!("\"{}\"", hashes()[at]),
        headers.get(header::IF_NONE_MATCH),
    );
    let is_exact = uri.query() == Some(&format!("v={}", hashes()[at]));
    // An address with another hash was made by another version of the server, and shows what this one has.
    let kept = match is_exact {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let is_known = asked.is_some_and(|asked| asked.as_bytes() == tag.as_bytes());
    let described = [
        (header::CACHE_CONTROL, HeaderValue::from_static(kept)),
        (
            header::ETAG,
            HeaderValue::from_str(&tag).expect("invariant: hexadecimal digits"),
        ),
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
    ];
    Ok(match is_known {
        true => (StatusCode::NOT_MODIFIED, described).into_response(),
        false => (described, content).into_response(),
    })
}
