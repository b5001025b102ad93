//! Signatures of deliveries, as Standard Webhooks 1.0.0 defines them (symmetric, `v1`).
//!
//! The signature is the base64 of the HMAC-SHA256 of `{webhook-id}.{unix seconds}.{body}`. Source:
//! <https://github.com/standard-webhooks/standard-webhooks>, specification, "Signature scheme". An attempt
//! is signed when it is sent, because receivers refuse timestamps that are more than a few minutes old.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::hint::black_box;
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

/// Maximum difference between a timestamp and the receiver's clock, in seconds. The Standard Webhooks
/// libraries use the same value.
pub const TOLERANCE_S: i64 = 300;

const SECRET_PREFIX: &str = "whsec_";
const VERSION_PREFIX: &str = "v1,";

/// A signing secret: 24 to 64 random bytes. It is written as `whsec_` and the base64 of the bytes. Its memory is
/// overwritten when it is dropped.
#[derive(Clone)]
pub struct SigningSecret {
    text: String,
    keyed: Hmac<Sha256>,
}

/// Where the signing secret of a server comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretOrigin {
    /// A setting gives it.
    Given,
    /// It is kept in the data directory of the server.
    Kept,
}

/// Why a secret is refused. The error contains nothing of the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadSecret {
    /// The text does not start with `whsec_`.
    #[error("a signing secret starts with `whsec_`")]
    Prefix,
    /// The text after `whsec_` is not base64.
    #[error("a signing secret is `whsec_` and base64")]
    Base64,
    /// The secret is too short or too long.
    #[error("a signing secret is 24 to 64 bytes long, encoded in base64")]
    Length,
}

/// Why a signed request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadSignature {
    /// The timestamp is not a number of seconds.
    #[error("the timestamp is not a number")]
    Timestamp,
    /// The timestamp differs by more than [`TOLERANCE_S`] from the current time.
    #[error("the timestamp differs by more than {TOLERANCE_S} s from the receiver's clock")]
    Stale,
    /// No signature matches.
    #[error("no signature matches")]
    Mismatch,
}

impl SigningSecret {
    /// Reads a secret.
    ///
    /// # Errors
    /// [`BadSecret`] says what is wrong. It does not contain the text.
    pub fn parse(text: &str) -> Result<Self, BadSecret> {
        let encoded = text.strip_prefix(SECRET_PREFIX).ok_or(BadSecret::Prefix)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| BadSecret::Base64)?;
        let bytes = Zeroizing::new(bytes);
        if !(24..=64).contains(&bytes.len()) {
            return Err(BadSecret::Length);
        }
        Ok(Self::from_bytes(&bytes))
    }

    /// Makes a secret of 32 random bytes from the caller.
    #[must_use]
    pub fn from_random(bytes: &[u8; 32]) -> Self {
        Self::from_bytes(bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        // Enough room from the beginning: a string that grows, or is put together of others, leaves copies behind.
        let mut text = String::with_capacity(SECRET_PREFIX.len() + 88);
        text.push_str(SECRET_PREFIX);
        STANDARD.encode_string(bytes, &mut text);
        Self {
            text,
            keyed: Hmac::new_from_slice(bytes).expect("invariant: HMAC takes keys of any length"),
        }
    }

    /// The secret as text, to show it to its owner or to store it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// A text that identifies the secret. The secret cannot be computed from it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut mac = self.keyed.clone();
        // This text contains no dot, and every signed request does. So no request has this signature.
        mac.update(b"fingerprint of a signing secret");
        STANDARD.encode(&mac.finalize().into_bytes()[..12])
    }

    /// The value of the header `webhook-signature` for a request that is sent at `timestamp_s`.
    #[must_use]
    pub fn sign(&self, webhook_id: &str, timestamp_s: i64, body: &[u8]) -> String {
        let mac = self
            .mac(webhook_id, timestamp_s, body)
            .finalize()
            .into_bytes();
        let mut signature = String::with_capacity(VERSION_PREFIX.len() + 44);
        signature.push_str(VERSION_PREFIX);
        STANDARD.encode_string(mac, &mut signature);
        signature
    }

    /// Checks a received request. Its timestamp must be close to `now_s`, and one of its signatures must
    /// match. The time of the comparison does not depend on which byte differs.
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
        let timestamp_s = read_timestamp(timestamp, now_s)?;
        let expected = self.sign(webhook_id, timestamp_s, body);
        let matches = signatures
            .split(' ')
            .any(|signature| bool::from(signature.as_bytes().ct_eq(expected.as_bytes())));
        if matches {
            Ok(())
        } else {
            Err(BadSignature::Mismatch)
        }
    }

    fn mac(&self, webhook_id: &str, timestamp_s: i64, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.keyed.clone();
        mac.update(webhook_id.as_bytes());
        mac.update(b".");
        mac.update(timestamp_s.to_string().as_bytes());
        mac.update(b".");
        mac.update(body);
        mac
    }
}

/// Reads the timestamp of a received request, which must be close to `now_s`.
///
/// # Errors
/// [`BadSignature::Timestamp`], [`BadSignature::Stale`].
pub fn read_timestamp(timestamp: &str, now_s: i64) -> Result<i64, BadSignature> {
    let timestamp_s: i64 = timestamp.parse().map_err(|_| BadSignature::Timestamp)?;
    if now_s.abs_diff(timestamp_s) > TOLERANCE_S.unsigned_abs() {
        return Err(BadSignature::Stale);
    }
    Ok(timestamp_s)
}

impl Drop for SigningSecret {
    fn drop(&mut self) {
        self.text.zeroize();
        // The state of an HMAC is as good as its key. `black_box` keeps the compiler from leaving the write out.
        self.keyed = Hmac::new_from_slice(&[]).expect("invariant: HMAC takes keys of any length");
        black_box(&self.keyed);
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SigningSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the Standard Webhooks reference libraries' tests; also in `fixtures/`.
    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const ID: &str = "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk";
    const AT: i64 = 1_649_367_553;
    const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;
    const SIGNATURE: &str = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=";

    #[test]
    fn the_published_vector_holds() {
        let secret = SigningSecret::parse(SECRET).expect("valid");
        assert_eq!(secret.sign(ID, AT, BODY), SIGNATURE);
        assert_eq!(secret.expose(), SECRET);
    }

    #[test]
    fn verification_checks_age_and_every_signature() {
        let secret = SigningSecret::parse(SECRET).expect("valid");
        let check = |at: &str, signatures: &str, body: &[u8], now_s, expected| {
            assert_eq!(secret.verify(ID, at, signatures, body, now_s), expected);
        };
        let at = AT.to_string();
        check(&at, SIGNATURE, BODY, AT + TOLERANCE_S, Ok(()));
        check(
            &at,
            &format!("v1,other v1a,x {SIGNATURE}"),
            BODY,
            AT,
            Ok(()),
        );
        check(
            &at,
            SIGNATURE,
            BODY,
            AT + TOLERANCE_S + 1,
            Err(BadSignature::Stale),
        );
        check(
            &at,
            SIGNATURE,
            BODY,
            AT - TOLERANCE_S - 1,
            Err(BadSignature::Stale),
        );
        check(&at, SIGNATURE, b"other", AT, Err(BadSignature::Mismatch));
        check(&at, "", BODY, AT, Err(BadSignature::Mismatch));
        check("soon", SIGNATURE, BODY, AT, Err(BadSignature::Timestamp));
    }

    #[test]
    fn bad_secrets_are_refused_without_being_shown() {
        fn check(text: &str, expected: BadSecret) {
            assert_eq!(SigningSecret::parse(text).err(), Some(expected), "{text}");
        }
        let encode = |len: usize| format!("whsec_{}", STANDARD.encode(vec![7_u8; len]));
        check("secret", BadSecret::Prefix);
        check("whsec_%%%", BadSecret::Base64);
        check(&encode(23), BadSecret::Length);
        check(&encode(65), BadSecret::Length);
        assert!(SigningSecret::parse(&encode(24)).is_ok());
        assert!(SigningSecret::parse(&encode(64)).is_ok());
        let secret = SigningSecret::parse(SECRET).expect("valid");
        assert!(!format!("{secret:?}").contains("C2FV"));
    }
}
