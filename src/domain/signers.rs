//! What signs one call: the keys of its endpoint that sign at that instant, the default secret, or both.

use crate::domain::endpoint_keys::DEFAULT_SECRET;
use crate::domain::signature::SigningSecret;
use crate::domain::signing_key::SigningKey;

/// What signs one call, the newest key first.
#[derive(Debug)]
pub struct Signers {
    keys: Vec<(String, SigningKey)>,
    /// Whether the default secret of the server signs too, as the last one.
    with_default: bool,
}

impl Signers {
    /// The default secret alone.
    #[must_use]
    pub fn default_secret() -> Self {
        Self {
            keys: Vec::new(),
            with_default: true,
        }
    }

    /// These keys with their ids, and perhaps the default secret. `None` if nothing would sign.
    #[must_use]
    pub fn of(keys: Vec<(String, SigningKey)>, with_default: bool) -> Option<Self> {
        (with_default || !keys.is_empty()).then_some(Self { keys, with_default })
    }

    /// The ids of what signs.
    #[must_use]
    pub fn ids(&self) -> Box<[Box<str>]> {
        let own = self.keys.iter().map(|(id, _)| id.as_str());
        let default = self.with_default.then_some(DEFAULT_SECRET);
        own.chain(default).map(Into::into).collect()
    }

    /// The value of the header `webhook-signature`: all signatures, with a space between them.
    #[must_use]
    pub fn sign(
        &self,
        default: &SigningSecret,
        webhook_id: &str,
        timestamp_s: i64,
        body: &[u8],
    ) -> String {
        let own = self.keys.iter();
        let mut signatures: Vec<String> = own
            .map(|(_, key)| key.sign(webhook_id, timestamp_s, body))
            .collect();
        if self.with_default {
            signatures.push(default.sign(webhook_id, timestamp_s, body));
        }
        signatures.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::signing_key::KeyKind;
    use zeroize::Zeroizing;

    #[test]
    fn all_sign_in_their_order_and_the_default_secret_is_the_last() {
        let default = SigningSecret::from_random(&[1; 32]);
        let key = |kind, byte| SigningKey::from_random(kind, Zeroizing::new([byte; 32]));
        let check = |signers: &Signers, expected: &[String], ids: &[&str]| {
            assert_eq!(signers.sign(&default, "a", 7, b"b"), expected.join(" "));
            assert_eq!(
                signers.ids().iter().map(|id| &**id).collect::<Vec<_>>(),
                ids
            );
        };
        let one = key(KeyKind::Ed25519, 2).sign("a", 7, b"b");
        let two = key(KeyKind::Symmetric, 3).sign("a", 7, b"b");
        let last = default.sign("a", 7, b"b");
        let both = || {
            vec![
                ("k1".to_string(), key(KeyKind::Ed25519, 2)),
                ("k2".to_string(), key(KeyKind::Symmetric, 3)),
            ]
        };
        assert!(one.starts_with("v1a,") && two.starts_with("v1,"));
        check(
            &Signers::of(both(), true).expect("signers"),
            &[one.clone(), two.clone(), last.clone()],
            &["k1", "k2", "default"],
        );
        let own = Signers::of(both(), false).expect("signers");
        check(&own, &[one, two], &["k1", "k2"]);
        assert!(Signers::of(Vec::new(), false).is_none());
        check(&Signers::default_secret(), &[last], &["default"]);
    }
}
