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

    /// The instant that the id contains, in milliseconds since 1970: when it was made. `None` if the id is no UUID of
    /// version 7, which contains one (RFC 9562, section 5.7).
    #[must_use]
    pub fn made_ms(self) -> Option<i64> {
        let at_ms = i64::try_from(self.0.as_u128() >> 80).ok()?;
        (self.0.get_version_num() == 7).then_some(at_ms)
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

    #[test]
    fn the_instant_in_a_webhook_id_is_read() {
        // The example of RFC 9562, appendix A.6: 2022-02-22T19:22:22Z.
        let id = WebhookId::parse("msg_017f22e279b07cc398c4dc0c0c07398f").expect("an id");
        assert_eq!(id.made_ms(), Some(1_645_557_742_000));
        assert_eq!(WebhookId::new(Uuid::from_u128(0x1234)).made_ms(), None);
        let last = WebhookId::parse("msg_ffffffffffff7fffffffffffffffffff").expect("an id");
        assert_eq!(last.made_ms(), Some((1 << 48) - 1));
    }
}
