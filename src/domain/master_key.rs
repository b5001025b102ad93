//! The master key: it encrypts the signing keys of endpoints, and the keys of their client certificates, before a
//! journal keeps them.
//!
//! A key is sealed with AES-256-GCM and a random nonce. The associated data are the name of its owner (an endpoint) and
//! all else that must not be exchanged: the id of the key, its kind and its public key ([`crate::keyring`]). So a sealed
//! key that was copied to another place, or whose row says something else now, cannot be opened. With random nonces of
//! 96 bits, one master key may seal 2^32 keys (NIST SP 800-38D, section 8.3), far more than there are.
//!
//! The derived keys are computed once, and every copy of them is overwritten. Known limit: what the library of the HMAC
//! leaves on the stack meanwhile is not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{KeyInit, Mac, SimpleHmacReset};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::Sha256;
use std::fmt;
use std::hint::black_box;
use thiserror::Error;
use zeroize::{Zeroize as _, Zeroizing};

const PREFIX: &str = "rbmk_";
const KEY_BYTES: usize = 32;
/// The purposes of encryption, each of which has a key of its own.
const SIGNING_KEYS: &[u8] = b"sealing signing keys";
const CLIENT_KEYS: &[u8] = b"sealing client keys";
/// The purpose of the key that signs the cookies of the page.
const PAGE_SESSIONS: &[u8] = b"signing page sessions";
/// What a sealed text begins with: the form of the associated data.
const FORM: &str = "2.";

/// A master key: 32 random bytes. It is written as `rbmk_` and the base64 of the bytes. Its memory is overwritten
/// when it is dropped.
#[derive(Clone)]
pub struct MasterKey {
    // In boxes, so that a key that is moved leaves no copy behind.
    bytes: Box<Zeroizing<[u8; KEY_BYTES]>>,
    signing_keys: Box<Zeroizing<[u8; KEY_BYTES]>>,
    client_keys: Box<Zeroizing<[u8; KEY_BYTES]>>,
    fingerprint: String,
}

/// Why a text is no master key. The error contains nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a master key is `rbmk_` and the base64 of 32 bytes")]
pub struct BadMasterKey;

/// Why what was sealed cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotOpened {
    /// It was sealed with another master key or for another place, or it was changed.
    #[error("it was sealed with another master key, or its row in the journal was changed")]
    Sealed,
    /// It has another form.
    #[error("it was sealed by another version of Ringback; set the key again")]
    Form,
}

/// A cipher whose key is overwritten after its use: `ring` overwrites nothing.
struct Cipher(LessSafeKey);

impl Cipher {
    fn of(key: &[u8; KEY_BYTES]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, key);
        Self(LessSafeKey::new(key.expect(
            "invariant: the key has the length that the cipher needs",
        )))
    }
}

impl Drop for Cipher {
    fn drop(&mut self) {
        // `black_box` keeps the compiler from leaving the write out.
        if let Ok(nothing) = UnboundKey::new(&AES_256_GCM, &[0; KEY_BYTES]) {
            self.0 = LessSafeKey::new(nothing);
        }
        black_box(&self.0);
    }
}

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
        Ok(Self::from_random(own))
    }

    /// Makes a master key of random bytes from the caller.
    #[must_use]
    pub fn from_random(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        let mut own = Box::new(Zeroizing::new([0; KEY_BYTES]));
        own.copy_from_slice(&bytes[..]);
        let fingerprint = derive(&own, b"fingerprint of a master key");
        Self {
            signing_keys: derive(&own, SIGNING_KEYS),
            client_keys: derive(&own, CLIENT_KEYS),
            fingerprint: STANDARD.encode(&fingerprint[..12]),
            bytes: own,
        }
    }

    /// The key as text, to store it.
    #[must_use]
    pub fn expose(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(64));
        text.push_str(PREFIX);
        STANDARD.encode_string(&self.bytes[..], &mut text);
        text
    }

    /// The key that signs the cookies of the page: the same on every server with this master key.
    #[must_use]
    pub fn page_sessions(&self) -> Zeroizing<[u8; KEY_BYTES]> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        key.copy_from_slice(&derive(&self.bytes, PAGE_SESSIONS)[..]);
        key
    }

    /// A text that identifies the key. The key cannot be computed from it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    /// Encrypts a secret for one key of one endpoint. `nonce` is random and is never used twice. `key_id` may say more of
    /// the key than its id: it can be opened with the same text only.
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
        Self::seal_as(&self.signing_keys, nonce, associated, secret)
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
        Self::seal_as(&self.client_keys, nonce, associated, client_key)
    }

    fn seal_as(
        key: &[u8; KEY_BYTES],
        nonce: [u8; NONCE_LEN],
        associated: Vec<u8>,
        secret: &str,
    ) -> String {
        // Room for the tag, so that the buffer does not move and leave a copy of the secret behind.
        let mut sealed = Vec::with_capacity(secret.len() + AES_256_GCM.tag_len());
        sealed.extend_from_slice(secret.as_bytes());
        let aad = Aad::from(associated);
        Cipher::of(key)
            .0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
            .expect("invariant: a secret is far shorter than the limit of the cipher");
        format!("{FORM}{}", STANDARD.encode([&nonce[..], &sealed].concat()))
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
        Self::open_as(&self.signing_keys, associated, sealed)
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
        Self::open_as(&self.client_keys, endpoint.as_bytes().to_vec(), sealed)
    }

    fn open_as(
        key: &[u8; KEY_BYTES],
        associated: Vec<u8>,
        sealed: &str,
    ) -> Result<Zeroizing<String>, NotOpened> {
        let sealed = sealed.strip_prefix(FORM).ok_or(NotOpened::Form)?;
        let sealed = STANDARD.decode(sealed).map_err(|_| NotOpened::Sealed)?;
        let mut sealed = Zeroizing::new(sealed);
        let (nonce, encrypted) = sealed
            .split_first_chunk_mut::<NONCE_LEN>()
            .ok_or(NotOpened::Sealed)?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let aad = Aad::from(associated);
        let cipher = Cipher::of(key);
        let secret = (cipher.0)
            .open_in_place(nonce, aad, encrypted)
            .map_err(|_| NotOpened::Sealed)?;
        let text = std::str::from_utf8(secret).map_err(|_| NotOpened::Sealed)?;
        Ok(Zeroizing::new(text.to_string()))
    }
}

/// A key for one purpose, so that the encryption and the fingerprint do not share one. Every copy is overwritten.
fn derive(key: &[u8; KEY_BYTES], purpose: &[u8]) -> Box<Zeroizing<[u8; KEY_BYTES]>> {
    let keyed = |key: &[u8]| {
        SimpleHmacReset::<Sha256>::new_from_slice(key).expect("invariant: HMAC takes any key")
    };
    let mut mac = keyed(key);
    mac.update(purpose);
    let mut derived = Box::new(Zeroizing::new([0; KEY_BYTES]));
    let mut output = mac.finalize_reset().into_bytes();
    derived.copy_from_slice(&output);
    output.as_mut_slice().zeroize();
    // The state of an HMAC is as good as its key. `black_box` keeps the compiler from leaving the write out.
    mac = keyed(&[]);
    black_box(&mac);
    derived
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
        let page_sessions = key(7).page_sessions();
        assert_eq!(*read.page_sessions(), *page_sessions);
        assert_ne!(*key(8).page_sessions(), *page_sessions);
        assert_ne!(*page_sessions, [7; 32]);
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
        assert_eq!(open(8, "shop-1", "key_1", &sealed), Err(NotOpened::Sealed));
        assert_eq!(open(7, "shop-2", "key_1", &sealed), Err(NotOpened::Sealed));
        assert_eq!(open(7, "shop-1", "key_2", &sealed), Err(NotOpened::Sealed));
        let bytes = STANDARD.decode(&sealed[2..]).expect("base64");
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 1;
            let changed = format!("2.{}", STANDARD.encode(changed));
            assert_eq!(open(7, "shop-1", "key_1", &changed), Err(NotOpened::Sealed));
        }
        for wrong in ["2.", "2.%", "2.AAAA"] {
            let opened = open(7, "shop-1", "key_1", wrong);
            assert_eq!(opened, Err(NotOpened::Sealed), "{wrong}");
        }
        for wrong in ["", "AAAA", &sealed[2..]] {
            let opened = open(7, "shop-1", "key_1", wrong);
            assert_eq!(opened, Err(NotOpened::Form), "{wrong}");
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
        assert_eq!(open(8, "shop-1"), Err(NotOpened::Sealed));
        assert_eq!(open(7, "shop-2"), Err(NotOpened::Sealed));
        assert_eq!(
            key(7).open("shop-1", "", &sealed).err(),
            Some(NotOpened::Sealed)
        );
    }
}
