//! The master key: it encrypts the signing keys of endpoints, and the keys of their client certificates, before a
//! journal keeps them.
//!
//! A key is sealed with AES-256-GCM and a random nonce. The associated data are the name of the endpoint and the id
//! of the key, so a sealed key that was copied to another endpoint or another id cannot be opened. With random
//! nonces of 96 bits, one master key may seal 2^32 keys (NIST SP 800-38D, section 8.3), far more than there are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::Sha256;
use std::fmt;
use thiserror::Error;
use zeroize::Zeroizing;

const PREFIX: &str = "rbmk_";
const KEY_BYTES: usize = 32;
/// The purposes of encryption, each of which has a key of its own.
const SIGNING_KEYS: &[u8] = b"sealing signing keys";
const CLIENT_KEYS: &[u8] = b"sealing client keys";

/// A master key: 32 random bytes. It is written as `rbmk_` and the base64 of the bytes. Its memory is overwritten
/// when it is dropped.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; KEY_BYTES]>);

/// Why a text is no master key. The error contains nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a master key is `rbmk_` and the base64 of 32 bytes")]
pub struct BadMasterKey;

/// What was sealed cannot be opened: with another master key, for another endpoint or id, or it was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("it was sealed with another master key, or it was changed")]
pub struct NotOpened;

impl MasterKey {
    /// Reads a master key.
    ///
    /// # Errors
    /// [`BadMasterKey`].
    pub fn parse(text: &str) -> Result<Self, BadMasterKey> {
        let encoded = text.strip_prefix(PREFIX).ok_or(BadMasterKey)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| BadMasterKey)?;
        let bytes = Zeroizing::new(bytes);
        if bytes.len() != KEY_BYTES {
            return Err(BadMasterKey);
        }
        let mut own = Zeroizing::new([0; KEY_BYTES]);
        own.copy_from_slice(&bytes);
        Ok(Self(own))
    }

    /// Makes a master key of random bytes from the caller.
    #[must_use]
    pub fn from_random(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        Self(bytes)
    }

    /// The key as text, to store it.
    #[must_use]
    pub fn expose(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(64));
        text.push_str(PREFIX);
        STANDARD.encode_string(&self.0[..], &mut text);
        text
    }

    /// A text that identifies the key. The key cannot be computed from it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        STANDARD.encode(&self.derive(b"fingerprint of a master key")[..12])
    }

    /// Encrypts a secret for one key of one endpoint. `nonce` is random and is never used twice.
    ///
    /// # Panics
    /// Never: the secret is short.
    #[must_use]
    pub fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        endpoint: &str,
        key_id: &str,
        secret: &str,
    ) -> String {
        let associated = associated(endpoint, key_id);
        self.seal_as(SIGNING_KEYS, nonce, associated, secret)
    }

    /// Encrypts the private key of the client certificate of one endpoint, with a key of its own. `nonce` is random
    /// and is never used twice.
    #[must_use]
    pub fn seal_client_key(
        &self,
        nonce: [u8; NONCE_LEN],
        endpoint: &str,
        client_key: &str,
    ) -> String {
        let associated = endpoint.as_bytes().to_vec();
        self.seal_as(CLIENT_KEYS, nonce, associated, client_key)
    }

    fn seal_as(
        &self,
        purpose: &[u8],
        nonce: [u8; NONCE_LEN],
        associated: Vec<u8>,
        secret: &str,
    ) -> String {
        // Room for the tag, so that the buffer does not move and leave a copy of the secret behind.
        let mut sealed = Vec::with_capacity(secret.len() + AES_256_GCM.tag_len());
        sealed.extend_from_slice(secret.as_bytes());
        let aad = Aad::from(associated);
        self.cipher(purpose)
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
            .expect("invariant: a secret is far shorter than the limit of the cipher");
        STANDARD.encode([&nonce[..], &sealed].concat())
    }

    /// Decrypts what [`MasterKey::seal`] returned for the same key of the same endpoint.
    ///
    /// # Errors
    /// [`NotOpened`].
    pub fn open(
        &self,
        endpoint: &str,
        key_id: &str,
        sealed: &str,
    ) -> Result<Zeroizing<String>, NotOpened> {
        let associated = associated(endpoint, key_id);
        self.open_as(SIGNING_KEYS, associated, sealed)
    }

    /// Decrypts what [`MasterKey::seal_client_key`] returned for the same endpoint.
    ///
    /// # Errors
    /// [`NotOpened`].
    pub fn open_client_key(
        &self,
        endpoint: &str,
        sealed: &str,
    ) -> Result<Zeroizing<String>, NotOpened> {
        self.open_as(CLIENT_KEYS, endpoint.as_bytes().to_vec(), sealed)
    }

    fn open_as(
        &self,
        purpose: &[u8],
        associated: Vec<u8>,
        sealed: &str,
    ) -> Result<Zeroizing<String>, NotOpened> {
        let mut sealed = Zeroizing::new(STANDARD.decode(sealed).map_err(|_| NotOpened)?);
        let (nonce, encrypted) = sealed
            .split_first_chunk_mut::<NONCE_LEN>()
            .ok_or(NotOpened)?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let aad = Aad::from(associated);
        let secret = self
            .cipher(purpose)
            .open_in_place(nonce, aad, encrypted)
            .map_err(|_| NotOpened)?;
        let text = std::str::from_utf8(secret).map_err(|_| NotOpened)?;
        Ok(Zeroizing::new(text.to_string()))
    }

    /// The cipher is made for each use, because `ring` does not overwrite its memory.
    fn cipher(&self, purpose: &[u8]) -> LessSafeKey {
        let key = self.derive(purpose);
        let key = UnboundKey::new(&AES_256_GCM, &key[..]);
        LessSafeKey::new(key.expect("invariant: the key has the length that the cipher needs"))
    }

    /// A key for one purpose, so that the encryption and the fingerprint do not share one.
    fn derive(&self, purpose: &[u8]) -> Zeroizing<[u8; KEY_BYTES]> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0[..])
            .expect("invariant: HMAC takes keys of any length");
        mac.update(purpose);
        Zeroizing::new(mac.finalize().into_bytes().into())
    }
}

/// The name of an endpoint has no line break, so no two pairs have the same text.
fn associated(endpoint: &str, key_id: &str) -> Vec<u8> {
    format!("{endpoint}\n{key_id}").into_bytes()
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("MasterKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> MasterKey {
        MasterKey::from_random(Zeroizing::new([byte; 32]))
    }

    #[test]
    fn a_master_key_survives_its_written_form_and_is_not_shown() {
        let text = key(7).expose();
        let read = MasterKey::parse(&text).expect("a key");
        assert_eq!(read.fingerprint(), key(7).fingerprint());
        assert_ne!(read.fingerprint(), key(8).fingerprint());
        assert_eq!(format!("{read:?}"), "MasterKey(..)");
        let short = format!("rbmk_{}", STANDARD.encode([7; 31]));
        let long = format!("rbmk_{}", STANDARD.encode([7; 33]));
        for wrong in ["", "hunter2", "rbmk_", "rbmk_%", &text[5..], &short, &long] {
            assert_eq!(MasterKey::parse(wrong).err(), Some(BadMasterKey), "{wrong}");
        }
    }

    #[test]
    fn what_was_sealed_is_opened_only_in_its_place_and_unchanged() {
        let sealed = key(7).seal([1; 12], "shop-1", "key_1", "whsec_hunter2");
        let open = |master: u8, endpoint: &str, id: &str, sealed: &str| {
            key(master)
                .open(endpoint, id, sealed)
                .map(|text| text.to_string())
        };
        assert_eq!(
            open(7, "shop-1", "key_1", &sealed),
            Ok("whsec_hunter2".to_string())
        );
        assert_eq!(open(8, "shop-1", "key_1", &sealed), Err(NotOpened));
        assert_eq!(open(7, "shop-2", "key_1", &sealed), Err(NotOpened));
        assert_eq!(open(7, "shop-1", "key_2", &sealed), Err(NotOpened));
        let bytes = STANDARD.decode(&sealed).expect("base64");
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 1;
            let changed = STANDARD.encode(changed);
            assert_eq!(open(7, "shop-1", "key_1", &changed), Err(NotOpened));
        }
        for wrong in ["", "%", "AAAA"] {
            assert_eq!(open(7, "shop-1", "key_1", wrong), Err(NotOpened), "{wrong}");
        }
        let other = key(7).seal([2; 12], "shop-1", "key_1", "whsec_hunter2");
        assert_ne!(sealed, other);
    }

    #[test]
    fn a_client_key_is_opened_for_its_endpoint_and_is_no_signing_key() {
        let sealed = key(7).seal_client_key([1; 12], "shop-1", "hunter2");
        let open = |master: u8, endpoint: &str| {
            let opened = key(master).open_client_key(endpoint, &sealed);
            opened.map(|text| text.to_string())
        };
        assert_eq!(open(7, "shop-1"), Ok("hunter2".to_string()));
        assert_eq!(open(8, "shop-1"), Err(NotOpened));
        assert_eq!(open(7, "shop-2"), Err(NotOpened));
        assert_eq!(key(7).open("shop-1", "", &sealed).err(), Some(NotOpened));
    }
}
