//! Certificates as a caller gives them: a PEM text with one or several.
//!
//! Here is read what no TLS library is needed for: how many there are, and when each expires. Whether one can be
//! used is found out where a TLS configuration is made of it (`crate::tls_profile`).

use crate::domain::pem::{self, BadPem};
use crate::domain::timestamp;
use std::fmt;
use thiserror::Error;

/// Maximum length of a text with certificates, in bytes.
pub const LARGEST_CERTIFICATES: usize = 16 * 1024;
/// Maximum number of certificates in a text.
pub const MOST_CERTIFICATES: usize = 16;
const LABEL: &str = "CERTIFICATE";

/// Certificates, the first of which is the owner's if they are a chain.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificates(Box<str>);

/// Why a text has no usable certificates. The error contains nothing of the text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadCertificates {
    /// It is too long.
    #[error("certificates are at most {0} bytes of PEM")]
    TooLong(usize),
    /// There are too many.
    #[error("there are at most {0} certificates")]
    TooMany(usize),
    /// It has none.
    #[error("a PEM text that contains `-----BEGIN CERTIFICATE-----` is expected")]
    Missing,
    /// It has a private key.
    #[error("this text contains a private key, which belongs into `client_key` alone")]
    PrivateKey,
    /// It has another block.
    #[error("this text contains a PEM block that is no certificate")]
    OtherBlock,
    /// It is not PEM.
    #[error(transparent)]
    Pem(#[from] BadPem),
    /// A certificate cannot be read. Contains its number, from 1.
    #[error("the certificate {0} of this text is not one of X.509")]
    Unreadable(usize),
}

impl Certificates {
    /// Reads a text.
    ///
    /// # Errors
    /// [`BadCertificates`].
    pub fn parse(text: &str) -> Result<Self, BadCertificates> {
        Self::parse_up_to(text, LARGEST_CERTIFICATES, MOST_CERTIFICATES)
    }

    /// Reads a text of at most `longest` bytes with at most `most` certificates.
    ///
    /// # Errors
    /// [`BadCertificates`].
    pub fn parse_up_to(text: &str, longest: usize, most: usize) -> Result<Self, BadCertificates> {
        if text.len() > longest {
            return Err(BadCertificates::TooLong(longest));
        }
        let blocks = pem::blocks(text)?;
        if blocks.iter().any(|block| block.label.contains("PRIVATE")) {
            return Err(BadCertificates::PrivateKey);
        }
        if blocks.iter().any(|block| block.label != LABEL) {
            return Err(BadCertificates::OtherBlock);
        }
        if blocks.is_empty() {
            return Err(BadCertificates::Missing);
        }
        if blocks.len() > most {
            return Err(BadCertificates::TooMany(most));
        }
        let mut own = String::with_capacity(text.len());
        for (index, block) in blocks.iter().enumerate() {
            not_after(&block.bytes).ok_or(BadCertificates::Unreadable(index + 1))?;
            own.push_str(&pem::block(LABEL, &block.bytes));
        }
        Ok(Self(own.into()))
    }

    /// Takes what [`Certificates::as_str`] returned.
    #[must_use]
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The text: PEM blocks and nothing else.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The certificates in DER. What cannot be read is left out.
    #[must_use]
    pub fn to_der(&self) -> Vec<Vec<u8>> {
        let blocks = pem::blocks(&self.0).unwrap_or_default();
        blocks.iter().map(|block| block.bytes.to_vec()).collect()
    }

    /// When the first certificate expires, in milliseconds since 1970: the owner's of a chain.
    #[must_use]
    pub fn first_expires_ms(&self) -> Option<i64> {
        self.expiries().first().copied()
    }

    /// When the next of them expires, in milliseconds since 1970.
    #[must_use]
    pub fn next_expires_ms(&self) -> Option<i64> {
        self.expiries().into_iter().min()
    }

    /// When the last of them expires, in milliseconds since 1970.
    #[must_use]
    pub fn last_expires_ms(&self) -> Option<i64> {
        self.expiries().into_iter().max()
    }

    fn expiries(&self) -> Vec<i64> {
        let ders = self.to_der();
        ders.iter().filter_map(|der| not_after(der)).collect()
    }
}

impl fmt::Debug for Certificates {
    /// Texts of many kilobytes would hide everything else.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Certificates({})", self.to_der().len())
    }
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When a certificate expires (RFC 5280, section 4.1), in milliseconds since 1970.
fn not_after(certificate: &[u8]) -> Option<i64> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (mut rest, _) = expect(certificate, SEQUENCE)?;
    if let Some((_, after)) = expect(rest, VERSION) {
        rest = after;
    }
    let (_serial, rest) = expect(rest, INTEGER)?;
    let (_algorithm, rest) = expect(rest, SEQUENCE)?;
    let (_issuer, rest) = expect(rest, SEQUENCE)?;
    let (validity, _) = expect(rest, SEQUENCE)?;
    let (_, _not_before, rest) = value(validity)?;
    let (tag, not_after, _) = value(rest)?;
    let text = std::str::from_utf8(not_after).ok()?;
    if !text.is_ascii() {
        return None;
    }
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            // RFC 5280: from 50 on, the year is of the last century.
            let century = if year >= "50" { "19" } else { "20" };
            (format!("{century}{year}"), rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.to_string(), rest)
        }
        _ => return None,
    };
    let digits = rest.strip_suffix('Z').filter(|digits| digits.len() == 10)?;
    let part = |at: usize| &digits[at..at + 2];
    let (month, day, hour, minute, second) = (part(0), part(2), part(4), part(6), part(8));
    timestamp::parse_ms(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}

/// The content of a value with this tag, and what follows it.
fn expect(input: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = value(input)?;
    (tag == expected).then_some((content, rest))
}

/// Splits off one value of DER: its tag, its content, and what follows it.
fn value(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
            (bytes.iter().fold(0, length), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn certificate(year: i32) -> (String, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["shop.example".to_string()]).expect("a name");
        params.not_after = date_time_ymd(year, 2, 3);
        (params.self_signed(&key).expect("made").pem(), key)
    }

    #[test]
    fn certificates_have_expiries_and_survive_their_text() {
        let (one, two) = (certificate(2049).0, certificate(2050).0);
        let both = Certificates::parse(&format!("Shop CA\n{one}\n{two}")).expect("two");
        assert_eq!(both.to_der().len(), 2);
        let at = |text: &str| timestamp::parse_ms(text).ok();
        assert_eq!(both.first_expires_ms(), at("2049-02-03T00:00:00Z"));
        assert_eq!(both.last_expires_ms(), at("2050-02-03T00:00:00Z"));
        assert_eq!(both.next_expires_ms(), at("2049-02-03T00:00:00Z"));
        assert_eq!(Certificates::from_stored(both.as_str()), both);
        assert_eq!(Certificates::parse(both.as_str()), Ok(both.clone()));
        assert_eq!(format!("{both:?}"), "Certificates(2)");
        let old = Certificates::parse(&certificate(1999).0).expect("one");
        assert_eq!(old.first_expires_ms(), at("1999-02-03T00:00:00Z"));
    }

    #[test]
    fn what_has_no_usable_certificate_is_refused() {
        fn check(text: &str, expected: BadCertificates) {
            assert_eq!(Certificates::parse(text), Err(expected), "{text:.100}");
        }
        let (one, key) = certificate(2049);
        let key = key.serialize_pem();
        check("", BadCertificates::Missing);
        check("hunter2", BadCertificates::Missing);
        check(&format!("{one}{key}"), BadCertificates::PrivateKey);
        check(
            &one.replace("CERT", "X509 CERT"),
            BadCertificates::OtherBlock,
        );
        check(&one.repeat(17), BadCertificates::TooMany(16));
        check(
            &"x".repeat(LARGEST_CERTIFICATES + 1),
            BadCertificates::TooLong(LARGEST_CERTIFICATES),
        );
        check(&one[..one.len() - 20], BadPem::Unended.into());
        let block = |bytes: &[u8]| pem::block(LABEL, bytes).to_string();
        let der = Certificates::from_stored(&one).to_der().remove(0);
        check(
            &format!("{one}{}", block(b"x")),
            BadCertificates::Unreadable(2),
        );
        for length in 0..120 {
            // Whatever is cut off before the validity ends, nothing panics.
            check(&block(&der[..length]), BadCertificates::Unreadable(1));
        }
    }
}
