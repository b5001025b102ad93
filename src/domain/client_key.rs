//! The private key of a client certificate.

use crate::domain::pem::{self, BadPem, PemBlock};
use std::fmt;
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use zeroize::Zeroizing;

/// Maximum length of the text of a private key, in bytes.
pub const LARGEST_CLIENT_KEY: usize = 8 * 1024;

/// The form of a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKeyForm {
    /// PKCS #8: `PRIVATE KEY`.
    Pkcs8,
    /// PKCS #1: `RSA PRIVATE KEY`.
    Pkcs1,
    /// SEC 1: `EC PRIVATE KEY`.
    Sec1,
}

/// A private key. Its memory is overwritten when it is dropped.
#[derive(Clone)]
pub struct ClientKey {
    form: ClientKeyForm,
    der: Zeroizing<Vec<u8>>,
}

/// Why a text is no private key. The error contains nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadClientKey {
    /// It is too long.
    #[error("a private key is at most {LARGEST_CLIENT_KEY} bytes of PEM")]
    TooLong,
    /// It has none, or several.
    #[error("a PEM text with one private key is expected")]
    NotOne,
    /// It is encrypted.
    #[error("this private key is encrypted; give it without a password")]
    Encrypted,
    /// It is not PEM.
    #[error(transparent)]
    Pem(#[from] BadPem),
}

impl ClientKeyForm {
    fn label(self) -> &'static str {
        match self {
            Self::Pkcs8 => "PRIVATE KEY",
            Self::Pkcs1 => "RSA PRIVATE KEY",
            Self::Sec1 => "EC PRIVATE KEY",
        }
    }
}

impl ClientKey {
    /// Reads a text. Blocks that are no private keys are left out: some tools write parameters or the certificate
    /// into the same file.
    ///
    /// # Errors
    /// [`BadClientKey`].
    pub fn parse(text: &str) -> Result<Self, BadClientKey> {
        if text.len() > LARGEST_CLIENT_KEY {
            return Err(BadClientKey::TooLong);
        }
        if text.contains("ENCRYPTED") {
            return Err(BadClientKey::Encrypted);
        }
        let is_key = |block: &PemBlock<'_>| block.label.contains("PRIVATE");
        let mut keys = pem::blocks(text)?.into_iter().filter(is_key);
        let (Some(key), None) = (keys.next(), keys.next()) else {
            return Err(BadClientKey::NotOne);
        };
        let forms = [
            ClientKeyForm::Pkcs8,
            ClientKeyForm::Pkcs1,
            ClientKeyForm::Sec1,
        ];
        let form = forms.into_iter().find(|form| form.label() == key.label);
        Ok(Self {
            form: form.ok_or(BadClientKey::NotOne)?,
            der: key.bytes,
        })
    }

    /// Its form.
    #[must_use]
    pub fn form(&self) -> ClientKeyForm {
        self.form
    }

    /// Its bytes.
    #[must_use]
    pub fn expose_der(&self) -> &[u8] {
        &self.der
    }

    /// Its text, to store it.
    #[must_use]
    pub fn expose(&self) -> Zeroizing<String> {
        pem::block(self.form.label(), &self.der)
    }

    /// Whether both are the same key in the same form.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.form == other.form && bool::from(self.der.ct_eq(&other.der))
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ClientKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_in_every_form_and_not_shown() {
        for form in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
            let text = pem::block(form, b"hunter2");
            let noise = pem::block("EC PARAMETERS", b"x");
            let key = ClientKey::parse(&format!("{}{}", &*noise, &*text)).expect("a key");
            assert_eq!(key.expose_der(), b"hunter2");
            assert_eq!(key.expose(), text);
            assert_eq!(format!("{key:?}"), "ClientKey(..)");
            assert!(key.is_same(&ClientKey::parse(&text).expect("a key")));
            let other = pem::block(form, b"hunter3");
            assert!(!key.is_same(&ClientKey::parse(&other).expect("a key")));
        }
    }

    #[test]
    fn what_is_not_one_key_is_refused() {
        fn check(text: &str, expected: BadClientKey) {
            assert_eq!(ClientKey::parse(text).err(), Some(expected), "{text:.100}");
            // Answers leave out what looks like a secret.
            let message = expected.to_string();
            assert_eq!(crate::domain::redaction::redacted(&message), message);
        }
        let key = pem::block("PRIVATE KEY", b"hunter2");
        check("", BadClientKey::NotOne);
        check("hunter2", BadClientKey::NotOne);
        check(&key.repeat(2), BadClientKey::NotOne);
        check(&key.replace("PRIVATE", "PUBLIC"), BadClientKey::NotOne);
        check(
            &key.replace("PRIVATE", "OPENSSH PRIVATE"),
            BadClientKey::NotOne,
        );
        check(
            &key.replace("PRIVATE", "ENCRYPTED PRIVATE"),
            BadClientKey::Encrypted,
        );
        check(&key[..40], BadPem::Unended.into());
        check(&"x".repeat(LARGEST_CLIENT_KEY + 1), BadClientKey::TooLong);
    }
}
