//! The signing keys of endpoints, as Standard Webhooks 1.0.0 defines them.
//!
//! A symmetric key (`whsec_`) signs `v1`: see [`crate::domain::signature`]. An asymmetric one (`whsk_`) signs `v1a`:
//! the ed25519 signature of the same bytes, so whoever verifies with its public key (`whpk_`) cannot sign. Source:
//! <https://github.com/standard-webhooks/standard-webhooks>, specification, "Signature scheme".
//!
//! Nothing here shows a secret in `Debug`, `Display` or an error, and memory is overwritten when a key is dropped.

use crate::domain::signature::{BadSecret, SigningSecret};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use std::fmt;
use std::hint::black_box;
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

const SYMMETRIC_PREFIX: &str = "whsec_";
const PRIVATE_PREFIX: &str = "whsk_";
const PUBLIC_PREFIX: &str = "whpk_";
const VERSION_PREFIX: &str = "v1a,";
const SEED_BYTES: usize = 32;

/// The kinds of signing keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// HMAC-SHA256: sender and receiver have the same secret.
    Symmetric,
    /// ed25519: the receiver has the public key only.
    Ed25519,
}

impl KeyKind {
    /// The name of the kind, in stores and in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Symmetric => "symmetric",
            Self::Ed25519 => "ed25519",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Symmetric, Self::Ed25519]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// A key that signs the calls to an endpoint.
#[derive(Debug)]
pub enum SigningKey {
    /// A shared secret.
    Symmetric(SigningSecret),
    /// A private key.
    Ed25519(Box<Ed25519Key>),
}

/// An ed25519 key: its seed, and what is computed from it.
pub struct Ed25519Key {
    seed: Zeroizing<[u8; SEED_BYTES]>,
    pair: Ed25519KeyPair,
}

/// Why a text is no signing key. The error contains nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadSigningKey {
    /// The text has neither prefix.
    #[error("a signing key starts with `whsec_` (symmetric) or `whsk_` (ed25519)")]
    Prefix,
    /// The text is a public key.
    #[error("this is a public key, which cannot sign; the private key starts with `whsk_`")]
    Public,
    /// The symmetric secret is wrong.
    #[error(transparent)]
    Symmetric(#[from] BadSecret),
    /// The text after `whsk_` is not base64.
    #[error("an ed25519 key is `whsk_` and base64")]
    Base64,
    /// The private key is too short or too long.
    #[error(
        "an ed25519 key is 32 bytes long (its seed) or 64 (seed and public key), encoded in base64"
    )]
    Length,
    /// The last 32 of the 64 bytes are not the public key of the seed.
    #[error("the public key in this ed25519 key does not belong to its seed")]
    OtherPublicKey,
}

impl SigningKey {
    /// Reads a key: `whsec_...` or `whsk_...`.
    ///
    /// # Errors
    /// [`BadSigningKey`] says what is wrong. It does not contain the text.
    pub fn parse(text: &str) -> Result<Self, BadSigningKey> {
        if text.starts_with(SYMMETRIC_PREFIX) {
            return Ok(Self::Symmetric(SigningSecret::parse(text)?));
        }
        if text.starts_with(PUBLIC_PREFIX) {
            return Err(BadSigningKey::Public);
        }
        let encoded = text
            .strip_prefix(PRIVATE_PREFIX)
            .ok_or(BadSigningKey::Prefix)?;
        let bytes = STANDARD
            .decode(encoded)
            .map_err(|_| BadSigningKey::Base64)?;
        let bytes = Zeroizing::new(bytes);
        let (seed, public) = bytes
            .split_at_checked(SEED_BYTES)
            .ok_or(BadSigningKey::Length)?;
        if !public.is_empty() && public.len() != SEED_BYTES {
            return Err(BadSigningKey::Length);
        }
        let mut own = Zeroizing::new([0; SEED_BYTES]);
        own.copy_from_slice(seed);
        let key = Ed25519Key::of_seed(own);
        if !public.is_empty() && key.pair.public_key().as_ref() != public {
            return Err(BadSigningKey::OtherPublicKey);
        }
        Ok(Self::Ed25519(Box::new(key)))
    }

    /// Makes a key of 32 random bytes from the caller.
    #[must_use]
    pub fn from_random(kind: KeyKind, bytes: Zeroizing<[u8; SEED_BYTES]>) -> Self {
        match kind {
            KeyKind::Symmetric => Self::Symmetric(SigningSecret::from_random(&bytes)),
            KeyKind::Ed25519 => Self::Ed25519(Box::new(Ed25519Key::of_seed(bytes))),
        }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> KeyKind {
        match self {
            Self::Symmetric(_) => KeyKind::Symmetric,
            Self::Ed25519(_) => KeyKind::Ed25519,
        }
    }

    /// The key as text, to show it to its owner once or to seal it. An ed25519 key is written with its public key.
    #[must_use]
    pub fn expose(&self) -> Zeroizing<String> {
        match self {
            Self::Symmetric(secret) => Zeroizing::new(secret.expose().to_string()),
            Self::Ed25519(key) => {
                let mut bytes = Zeroizing::new([0; 2 * SEED_BYTES]);
                bytes[..SEED_BYTES].copy_from_slice(&key.seed[..]);
                bytes[SEED_BYTES..].copy_from_slice(key.pair.public_key().as_ref());
                // Enough room from the beginning: a string that grows leaves copies behind.
                let mut text = Zeroizing::new(String::with_capacity(128));
                text.push_str(PRIVATE_PREFIX);
                STANDARD.encode_string(&bytes[..], &mut text);
                text
            }
        }
    }

    /// The public key of an asymmetric key, `whpk_...`.
    #[must_use]
    pub fn public_key(&self) -> Option<String> {
        match self {
            Self::Symmetric(_) => None,
            Self::Ed25519(key) => {
                let encoded = STANDARD.encode(key.pair.public_key());
                Some(format!("{PUBLIC_PREFIX}{encoded}"))
            }
        }
    }

    /// A text that identifies the key: the public key of an asymmetric one. The key cannot be computed from it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        match self {
            Self::Symmetric(secret) => secret.fingerprint(),
            Self::Ed25519(_) => self.public_key().unwrap_or_default(),
        }
    }

    /// One signature for the header `webhook-signature` of a request that is sent at `timestamp_s`.
    #[must_use]
    pub fn sign(&self, webhook_id: &str, timestamp_s: i64, body: &[u8]) -> String {
        match self {
            Self::Symmetric(secret) => secret.sign(webhook_id, timestamp_s, body),
            Self::Ed25519(key) => {
                let mut signed = format!("{webhook_id}.{timestamp_s}.").into_bytes();
                signed.extend_from_slice(body);
                let signature = key.pair.sign(&signed);
                format!("{VERSION_PREFIX}{}", STANDARD.encode(signature))
            }
        }
    }

    /// Whether both are the same key. The time of the comparison does not depend on where they differ.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let (own, other) = (self.expose(), other.expose());
        own.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

impl Ed25519Key {
    fn of_seed(seed: Zeroizing<[u8; SEED_BYTES]>) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed[..])
            .expect("invariant: every 32 bytes are a seed");
        Self { seed, pair }
    }
}

impl Drop for Ed25519Key {
    fn drop(&mut self) {
        // `ring` overwrites nothing. `black_box` keeps the compiler from leaving the write out.
        if let Ok(pair) = Ed25519KeyPair::from_seed_unchecked(&[0; SEED_BYTES]) {
            self.pair = pair;
        }
        black_box(&self.pair);
    }
}

impl fmt::Debug for Ed25519Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Ed25519Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ED25519, UnparsedPublicKey};

    /// RFC 8032, section 7.1, test 1.
    const SEED: [u8; 32] = [
        0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c,
        0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae,
        0x7f, 0x60,
    ];
    const PUBLIC: [u8; 32] = [
        0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07,
        0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07,
        0x51, 0x1a,
    ];

    fn private(parts: &[&[u8]]) -> String {
        format!("whsk_{}", STANDARD.encode(parts.concat()))
    }

    #[test]
    fn an_ed25519_key_is_read_with_and_without_its_public_key() {
        let whole = private(&[&SEED, &PUBLIC]);
        let public = format!("whpk_{}", STANDARD.encode(PUBLIC));
        for text in [&private(&[&SEED]), &whole] {
            let key = SigningKey::parse(text).expect("a key");
            assert_eq!(key.kind(), KeyKind::Ed25519);
            assert_eq!(*key.expose(), whole);
            assert_eq!(key.public_key().as_ref(), Some(&public));
        }
    }

    #[test]
    fn an_ed25519_signature_covers_id_time_and_body() {
        let key = SigningKey::parse(&private(&[&SEED])).expect("a key");
        let header = key.sign("msg_1", 17, b"\xff.body");
        let signature = header.strip_prefix("v1a,").expect("the version");
        let signature = STANDARD.decode(signature).expect("base64");
        let verifier = UnparsedPublicKey::new(&ED25519, PUBLIC);
        assert!(verifier.verify(b"msg_1.17.\xff.body", &signature).is_ok());
        assert!(verifier.verify(b"msg_1.18.\xff.body", &signature).is_err());
    }

    #[test]
    fn a_symmetric_key_signs_as_the_default_secret_does() {
        let text = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let key = SigningKey::parse(text).expect("a key");
        let secret = SigningSecret::parse(text).expect("a secret");
        assert_eq!(key.sign("a", 1, b"b"), secret.sign("a", 1, b"b"));
        assert_eq!(key.public_key(), None);
        assert!(key.is_same(&SigningKey::Symmetric(secret)));
        assert!(!key.is_same(&SigningKey::parse(&private(&[&SEED])).expect("a key")));
    }

    #[test]
    fn wrong_keys_are_refused_and_no_key_is_shown() {
        fn check(text: &str, expected: BadSigningKey) {
            assert_eq!(SigningKey::parse(text).err(), Some(expected), "{text}");
        }
        let symmetric = |len: usize| format!("whsec_{}", STANDARD.encode(vec![7; len]));
        check("", BadSigningKey::Prefix);
        check("hunter2", BadSigningKey::Prefix);
        check("whsec_%", BadSigningKey::Symmetric(BadSecret::Base64));
        check(&symmetric(23), BadSigningKey::Symmetric(BadSecret::Length));
        check(&symmetric(65), BadSigningKey::Symmetric(BadSecret::Length));
        check(
            &format!("whpk_{}", STANDARD.encode(PUBLIC)),
            BadSigningKey::Public,
        );
        check("whsk_%", BadSigningKey::Base64);
        check("whsk_", BadSigningKey::Length);
        check(&private(&[&SEED[1..]]), BadSigningKey::Length);
        check(&private(&[&SEED, &PUBLIC[1..]]), BadSigningKey::Length);
        check(&private(&[&SEED, &PUBLIC, &[0]]), BadSigningKey::Length);
        check(&private(&[&SEED, &SEED]), BadSigningKey::OtherPublicKey);
        for text in [symmetric(24), symmetric(64), private(&[&SEED])] {
            let key = SigningKey::parse(&text).expect("a key");
            let (shown, secret) = (format!("{key:?}"), text.split('_').next_back());
            assert!(!shown.contains(&secret.expect("a secret")[..12]), "{shown}");
        }
    }
}
