//! The `webhook-id`: a notification's name towards the receiver.
//!
//! The same over all attempts and series, so that the receiver can drop what it has seen. Holds no
//! dot, because the signed text is joined with dots (Standard Webhooks, "Signature scheme").

use std::fmt;
use uuid::Uuid;

const PREFIX: &str = "msg_";

/// A webhook id, written `msg_` and 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WebhookId(Uuid);

impl WebhookId {
    /// Wraps a UUID that the caller drew.
    #[must_use]
    pub fn new(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// Reads the written form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        (digits.len() == 32)
            .then(|| Uuid::try_parse(digits).ok().map(Self))
            .flatten()
    }

    /// The 16 bytes that stores keep.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// Reads the 16 bytes back.
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
