//! What signs one call: the keys of its endpoint that sign at that instant, the default keys, or both.

use crate::domain::signing_key::SigningKey;
use std::sync::Arc;

/// What signs one call, the newest key first.
#[derive(Debug)]
pub struct Signers {
    keys: Vec<(String, SigningKey)>,
    /// The default keys, if they sign too, and the instant. They come last.
    default: Option<(Arc<DefaultSigners>, i64)>,
}

/// The default keys of a server in the clear, the newest first.
#[derive(Debug, Default)]
pub struct DefaultSigners(Vec<DefaultSigner>);

/// One of the default keys in the clear.
#[derive(Debug)]
pub struct DefaultSigner {
    /// The id that attempts show.
    pub id: Box<str>,
    /// The key.
    pub key: SigningKey,
    /// Until when it signs, in milliseconds since 1970. `None`: for good.
    pub signs_until_ms: Option<i64>,
}

impl DefaultSigners {
    /// These keys, the newest first.
    #[must_use]
    pub fn of(keys: Vec<DefaultSigner>) -> Self {
        Self(keys)
    }

    fn signing_at(&self, now_ms: i64) -> impl Iterator<Item = &DefaultSigner> {
        let signs =
            move |key: &&DefaultSigner| key.signs_until_ms.is_none_or(|end_ms| now_ms < end_ms);
        self.0.iter().filter(signs)
    }
}

impl Signers {
    /// These keys with their ids, and perhaps the default keys that sign at this instant. `None` if nothing would sign.
    #[must_use]
    pub fn of(
        keys: Vec<(String, SigningKey)>,
        default: Option<Arc<DefaultSigners>>,
        now_ms: i64,
    ) -> Option<Self> {
        let default = default.filter(|default| default.signing_at(now_ms).next().is_some());
        let signs = default.is_some() || !keys.is_empty();
        signs.then(|| Self {
            keys,
            default: default.map(|default| (default, now_ms)),
        })
    }

    /// The ids of what signs.
    #[must_use]
    pub fn ids(&self) -> Box<[Box<str>]> {
        let own = self.keys.iter().map(|(id, _)| id.as_str().into());
        own.chain(self.default_signers().map(|key| key.id.clone()))
            .collect()
    }

    /// The value of the header `webhook-signature`: all signatures, with a space between them.
    #[must_use]
    pub fn sign(&self, webhook_id: &str, timestamp_s: i64, body: &[u8]) -> String {
        let own = self.keys.iter().map(|(_, key)| key);
        let mut keys = own.chain(self.default_signers().map(|default| &default.key));
        let first = keys
            .next()
            .map(|key| key.sign(webhook_id, timestamp_s, body));
        let mut signatures = first.unwrap_or_default();
        for key in keys {
            signatures.push(' ');
            signatures.push_str(&key.sign(webhook_id, timestamp_s, body));
        }
        signatures
    }

    fn default_signers(&self) -> impl Iterator<Item = &DefaultSigner> {
        let default = self.default.iter();
        default.flat_map(|(default, now_ms)| default.signing_at(*now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::signing_key::KeyKind;
    use zeroize::Zeroizing;

    fn key(kind: KeyKind, byte: u8) -> SigningKey {
        SigningKey::from_random(kind, Zeroizing::new([byte; 32]))
    }

    #[test]
    fn all_sign_in_their_order_and_the_default_keys_are_the_last() {
        let default = |id: &str, byte, signs_until_ms| DefaultSigner {
            id: id.into(),
            key: key(KeyKind::Symmetric, byte),
            signs_until_ms,
        };
        let defaults = Arc::new(DefaultSigners::of(vec![
            default("d2", 5, None),
            default("d1", 4, Some(10)),
        ]));
        let check = |signers: &Signers, expected: &[&String], ids: &[&str]| {
            let expected: Vec<&str> = expected.iter().map(|text| text.as_str()).collect();
            assert_eq!(signers.sign("a", 7, b"b"), expected.join(" "));
            assert_eq!(
                signers.ids().iter().map(|id| &**id).collect::<Vec<_>>(),
                ids
            );
        };
        let one = key(KeyKind::Ed25519, 2).sign("a", 7, b"b");
        let two = key(KeyKind::Symmetric, 3).sign("a", 7, b"b");
        let [old, new] = [4, 5].map(|byte| key(KeyKind::Symmetric, byte).sign("a", 7, b"b"));
        let both = || {
            vec![
                ("k1".to_string(), key(KeyKind::Ed25519, 2)),
                ("k2".to_string(), key(KeyKind::Symmetric, 3)),
            ]
        };
        assert!(one.starts_with("v1a,") && two.starts_with("v1,"));
        let of = |keys, default: Option<&Arc<DefaultSigners>>, now_ms| {
            Signers::of(keys, default.cloned(), now_ms)
        };
        check(
            &of(both(), Some(&defaults), 9).expect("signers"),
            &[&one, &two, &new, &old],
            &["k1", "k2", "d2", "d1"],
        );
        check(
            &of(both(), Some(&defaults), 10).expect("signers"),
            &[&one, &two, &new],
            &["k1", "k2", "d2"],
        );
        let own = of(both(), None, 0).expect("signers");
        check(&own, &[&one, &two], &["k1", "k2"]);
        let alone = of(Vec::new(), Some(&defaults), 9).expect("signers");
        check(&alone, &[&new, &old], &["d2", "d1"]);
        assert!(of(Vec::new(), None, 0).is_none());
        let ended = Arc::new(DefaultSigners::of(vec![default("d1", 4, Some(10))]));
        assert!(of(Vec::new(), Some(&ended), 10).is_none());
    }
}
