//! The `webhook-id`: the id of a notification that the receiver gets in a header.
//!
//! All attempts and series of a notification have the same id, so that the receiver can recognise a
//! notification that it already has. The id contains no dot, because dots separate the parts of the
//! signed text (Standard Webhooks, "Signature scheme").

use std::fmt;
use uuid::Uuid;

const PREFIX: &str = "msg_";

/// A webhook id. It is written as `msg_` and 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WebhookId(Uuid);

impl WebhookId {
    /// Makes an id from a UUID.
    #[must_use]
    pub fn new(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// Reads the written form; `None` if the text is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        (digits.len() == 32)
            .then(|| Uuid::try_parse(digits).ok().map(Self))
            .flatten()
    }

    /// The stored form: 16 bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// Reads the stored form.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for WebhookId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{PREFIX}{}", self.0.simple())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_id_reads_back_and_holds_no_dot() {
        let id = WebhookId::new(Uuid::from_u128(0x1234));
        assert_eq!(id.to_string(), "msg_00000000000000000000000000001234");
        assert_eq!(WebhookId::parse(&id.to_string()), Some(id));
        assert_eq!(WebhookId::from_bytes(id.to_bytes()), id);
        assert_eq!(WebhookId::parse("msg_12"), None);
    }
}
