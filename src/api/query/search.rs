//! Reads the parameters that look for notifications: an id, the beginning of one, a webhook id, a part of a URL.

use crate::domain::key::{BadKey, LONGEST_ID, check_id};
use crate::domain::webhook_id::WebhookId;
use crate::journal::UrlFilter;

/// Maximum length of a part of a URL, in bytes.
pub(super) const LONGEST_URL_PART: usize = 256;

/// Reads a whole id.
pub(super) fn parse_id(text: &str) -> Result<String, String> {
    check_id(text).map_err(|bad| bad.to_string())?;
    Ok(text.to_string())
}

/// Reads the beginning of an id. It has the form of an id, and may be one of the two that no id is.
pub(super) fn parse_id_prefix(text: &str) -> Result<String, String> {
    match check_id(text) {
        Ok(()) | Err(BadKey::Dots) => Ok(text.to_string()),
        Err(BadKey::Id | BadKey::Topic) => Err(format!(
            "the beginning of an id is 1 to {LONGEST_ID} printable ASCII characters"
        )),
    }
}

/// Reads a part of an id.
pub(in crate::api) fn parse_id_part(text: &str) -> Result<String, String> {
    match check_id(text) {
        Ok(()) | Err(BadKey::Dots) => Ok(text.to_string()),
        Err(BadKey::Id | BadKey::Topic) => Err(format!(
            "a part of an id is 1 to {LONGEST_ID} printable ASCII characters"
        )),
    }
}

/// Reads a webhook id.
pub(super) fn parse_webhook_id(text: &str) -> Result<WebhookId, String> {
    WebhookId::parse(text)
        .ok_or_else(|| "a webhook id is `msg_` and 32 hexadecimal digits".to_string())
}

/// Reads a part of a URL. A URL has no spaces and no control characters, so a part with one can be in none.
pub(super) fn parse_url_part(text: &str) -> Result<UrlFilter, String> {
    let is_possible = |character: char| !character.is_control() && character != ' ';
    if text.len() > LONGEST_URL_PART || !text.chars().all(is_possible) {
        return Err(format!(
            "a part of a URL is at most {LONGEST_URL_PART} bytes long, without spaces and control characters"
        ));
    }
    Ok(UrlFilter {
        contains: text.to_string(),
        ..UrlFilter::default()
    })
}
