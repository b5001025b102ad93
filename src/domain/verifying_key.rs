//! What verifies signatures at a receiver: a shared secret (`whsec_`) or a public key (`whpk_`).

use crate::domain::signature::{BadSecret, BadSignature, SigningSecret, read_timestamp};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, UnparsedPublicKey};
use thiserror::Error;

const PUBLIC_PREFIX: &str = "whpk_";
const VERSION_PREFIX: &str = "v1a,";

/// See the documentation of the module.
#[derive(Debug, Clone)]
pub enum VerifyingKey {
    /// A shared secret.
    Secret(SigningSecret),
    /// An ed25519 public key.
    Public([u8; 32]),
}

/// Why a text verifies nothing. The error contains nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadVerifyingKey {
    /// The shared secret is wrong.
    #[error(transparent)]
    Secret(#[from] BadSecret),
    /// The public key is wrong.
    #[error("a public key is `whpk_` and the base64 of 32 bytes")]
    Public,
    /// The text is a private key.
    #[error("this is a private key; a receiver has its public key, which starts with `whpk_`")]
    Private,
}

impl VerifyingKey {
    /// Reads a key: `whsec_...` or `whpk_...`.
    ///
    /// # Errors
    /// [`BadVerifyingKey`].
    pub fn parse(text: &str) -> Result<Self, BadVerifyingKey> {
        if text.starts_with("whsk_") {
            return Err(BadVerifyingKey::Private);
        }
        let Some(encoded) = text.strip_prefix(PUBLIC_PREFIX) else {
            return Ok(Self::Secret(SigningSecret::parse(text)?));
        };
        let bytes = STANDARD.decode(encoded).ok();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self::Public).ok_or(BadVerifyingKey::Public)
    }

    /// Checks a received request, as [`SigningSecret::verify`] does.
    ///
    /// # Errors
    /// [`BadSignature`] says which check failed.
    pub fn verify(
        &self,
        webhook_id: &str,
        timestamp: &str,
        signatures: &str,
        body: &[u8],
        now_s: i64,
    ) -> Result<(), BadSignature> {
        let key = match self {
            Self::Secret(secret) => {
                return secret.verify(webhook_id, timestamp, signatures, body, now_s);
            }
            Self::Public(key) => UnparsedPublicKey::new(&ED25519, key),
        };
        let timestamp_s = read_timestamp(timestamp, now_s)?;
        let mut signed = format!("{webhook_id}.{timestamp_s}.").into_bytes();
        signed.extend_from_slice(body);
        let given = signatures
            .split(' ')
            .filter_map(|text| STANDARD.decode(text.strip_prefix(VERSION_PREFIX)?).ok());
        match { given }.any(|signature| key.verify(&signed, &signature).is_ok()) {
            true => Ok(()),
            false => Err(BadSignature::Mismatch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::signing_key::{KeyKind, SigningKey};
    use zeroize::Zeroizing;

    #[test]
    fn each_key_verifies_what_its_counterpart_signed() {
        let (mut headers, mut verifying) = (Vec::new(), Vec::new());
        for (kind, byte) in [(KeyKind::Symmetric, 1), (KeyKind::Ed25519, 2)] {
            let key = SigningKey::from_random(kind, Zeroizing::new([byte; 32]));
            headers.push(key.sign("msg_1", 1_000, b"body"));
            let shared = key.public_key().unwrap_or_else(|| key.expose().to_string());
            verifying.push(VerifyingKey::parse(&shared).expect("a key"));
        }
        let all = headers.join(" ");
        for (number, key) in verifying.iter().enumerate() {
            let check =
                |header: &str, at: &str, body: &[u8]| key.verify("msg_1", at, header, body, 1_000);
            assert_eq!(check(&all, "1000", b"body"), Ok(()));
            assert_eq!(check(&headers[number], "1000", b"body"), Ok(()));
            let other = &headers[1 - number];
            assert_eq!(check(other, "1000", b"body"), Err(BadSignature::Mismatch));
            assert_eq!(check(&all, "1000", b"bodY"), Err(BadSignature::Mismatch));
            assert_eq!(check(&all, "1001", b"body"), Err(BadSignature::Mismatch));
            assert_eq!(check(&all, "600", b"body"), Err(BadSignature::Stale));
            assert_eq!(check(&all, "x", b"body"), Err(BadSignature::Timestamp));
        }
    }

    #[test]
    fn what_verifies_nothing_is_refused() {
        fn check(text: &str, expected: BadVerifyingKey) {
            assert_eq!(VerifyingKey::parse(text).err(), Some(expected), "{text}");
        }
        check("", BadVerifyingKey::Secret(BadSecret::Prefix));
        check("whsec_%", BadVerifyingKey::Secret(BadSecret::Base64));
        check("whpk_AAAA", BadVerifyingKey::Public);
        check("whsk_AAAA", BadVerifyingKey::Private);
    }
}
