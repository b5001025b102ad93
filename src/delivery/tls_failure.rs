//! Says in plain words why TLS with a receiver failed.
//!
//! Support staff tell the receiver what to put right, so a reason names the host, the date or the version that
//! is wrong, and not the type of an error.

use crate::domain::attempt::escape;
use crate::domain::timestamp;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};
use std::{fmt, io};
use thiserror::Error;

/// Maximum number of names of a certificate in a reason.
const MOST_NAMES: usize = 3;
/// Maximum number of characters of a name in a reason.
const LONGEST_NAME: usize = 100;

/// The TLS handshake failed, or the connection broke during it.
#[derive(Debug, Error)]
#[error("the TLS handshake failed")]
pub struct HandshakeError {
    /// Why.
    #[source]
    pub error: io::Error,
    /// Whether only the authorities of an endpoint were trusted.
    pub has_own_ca: bool,
}

impl HandshakeError {
    /// Why the handshake failed, if neither side has reported an error of TLS.
    pub fn in_words(&self) -> String {
        match self.error.kind() {
            io::ErrorKind::UnexpectedEof => {
                "the receiver closed the connection during the TLS handshake".to_string()
            }
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => {
                "the receiver reset the connection during the TLS handshake".to_string()
            }
            _ => format!(
                "the connection broke during the TLS handshake: {}",
                self.error
            ),
        }
    }

    /// Why the handshake failed with this error of TLS.
    pub fn tls_in_words(&self, error: &rustls::Error) -> String {
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        if self.has_own_ca && *error == unknown {
            return "the certificate is not signed by one of the endpoint's own authorities, the only ones that it \
                    trusts, or it is sent without its intermediate certificates"
                .to_string();
        }
        in_words(error)
    }
}

/// Why TLS failed.
pub fn in_words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => certificate(error),
        rustls::Error::NoCertificatesPresented => "the receiver sent no certificate".to_string(),
        rustls::Error::AlertReceived(alert) => alert_received(*alert),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the receiver did not answer with TLS; perhaps plain http or another protocol is spoken on this port"
                .to_string()
        }
        rustls::Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => "the receiver speaks only versions of TLS that are older than 1.2".to_string(),
        rustls::Error::PeerIncompatible(why) => {
            format!("the receiver has no TLS parameters in common with Ringback ({why:?})")
        }
        rustls::Error::PeerMisbehaved(why) => {
            format!("the receiver broke the rules of TLS ({why:?})")
        }
        _ => format!("TLS failed: {error}"),
    }
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let expected = expected.to_str();
            match names(presented) {
                Some(names) => format!("the certificate is for {names}, not for {expected}"),
                None => format!("the certificate names no host, so it is not for {expected}"),
            }
        }
        CertificateError::NotValidForName => "the certificate is for another host".to_string(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the receiver's certificate, or one in its chain, expired on {}", date(*not_after))
        }
        CertificateError::Expired => "the receiver's certificate, or one in its chain, has expired".to_string(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("the receiver's certificate, or one in its chain, is not valid before {}", date(*not_before))
        }
        CertificateError::NotValidYet => "the receiver's certificate, or one in its chain, is not valid yet".to_string(),
        CertificateError::UnknownIssuer => {
            "the certificate is signed by an authority that is not trusted: it is \
            self-signed, of a private authority, or sent without its intermediate certificates"
                .to_string()
        }
        CertificateError::Revoked => "the receiver's certificate, or one in its chain, was revoked".to_string(),
        CertificateError::BadSignature => "the receiver's certificate, or one in its chain, has a wrong signature".to_string(),
        CertificateError::BadEncoding => "the receiver's certificate, or one in its chain, cannot be read".to_string(),
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the receiver's certificate, or one in its chain, is signed with an algorithm that is not supported".to_string()
        }
        // The error of an authority's own certificate is here too. `openssl req -x509` makes such ones.
        CertificateError::Other(error) => unfit(&error.0),
        _ => unfit(error),
    }
}

fn unfit(error: &dyn fmt::Display) -> String {
    format!(
        "the certificate cannot be used for a server ({error}); self-signed certificates often cannot"
    )
}

fn alert_received(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::ProtocolVersion => {
            "the receiver refused TLS 1.2 and 1.3; it probably speaks only older versions".to_string()
        }
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
            "the receiver refused the TLS handshake: it accepts none of the versions and ciphers that were \
             offered, or needs a client certificate"
                .to_string()
        }
        AlertDescription::UnrecognisedName => {
            "the receiver does not know the host name for TLS (alert UnrecognisedName)".to_string()
        }
        AlertDescription::CertificateRequired => {
            "the receiver asks for a client certificate".to_string()
        }
        AlertDescription::UnknownCA => {
            "the receiver does not trust the authority of the client certificate (alert UnknownCA)".to_string()
        }
        AlertDescription::CertificateExpired => {
            "the receiver says that the client certificate has expired (alert CertificateExpired)".to_string()
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRevoked
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied
        | AlertDescription::DecryptError => {
            format!("the receiver does not accept the client certificate, or needs one (alert {alert:?})")
        }
        _ => format!("the receiver broke off TLS with the alert {alert:?}"),
    }
}

/// The names of a certificate, without the types that the library writes around them: `DnsName("shop.example")`.
fn names(presented: &[String]) -> Option<String> {
    let shown = presented.iter().take(MOST_NAMES).map(|name| {
        let inner = name
            .split_once('(')
            .and_then(|(_, rest)| rest.strip_suffix(')'));
        let inner = inner.unwrap_or(name).trim_matches('"');
        let escaped = escape(inner.as_bytes());
        escaped.chars().take(LONGEST_NAME).collect::<String>()
    });
    let mut shown: Vec<String> = shown.collect();
    if presented.len() > MOST_NAMES {
        shown.push(format!("{} more", presented.len() - MOST_NAMES));
    }
    let last = shown.pop()?;
    Some(match shown.is_empty() {
        true => last,
        false => format!("{} and {last}", shown.join(", ")),
    })
}

/// The day of an instant: `2026-01-02`.
fn date(at: UnixTime) -> String {
    let at_ms = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
    let text = timestamp::display_ms(at_ms.saturating_mul(1_000));
    match text.split_once('T') {
        Some((day, _)) => day.to_string(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::ServerName;
    use std::time::Duration;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn reasons_name_what_is_wrong() {
        fn check(error: CertificateError, expected: &str) {
            assert_eq!(in_words(&rustls::Error::from(error)), expected);
        }
        let names = |presented: &[&str]| CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("shop.example").expect("a name"),
            presented: presented.iter().map(ToString::to_string).collect(),
        };
        check(
            names(&[r#"DnsName("other.example")"#]),
            "the certificate is for other.example, not for shop.example",
        );
        check(
            names(&[r#"DnsName("*.a.example")"#, "IpAddress(192.0.2.1)"]),
            "the certificate is for *.a.example and 192.0.2.1, not for shop.example",
        );
        check(
            names(&["a", "b", "c", "d", "e"]),
            "the certificate is for a, b, c and 2 more, not for shop.example",
        );
        check(
            names(&["DnsName(\"\u{1b}[2J\")"]),
            "the certificate is for \\u{1b}[2J, not for shop.example",
        );
        check(
            names(&[]),
            "the certificate names no host, so it is not for shop.example",
        );
        check(
            CertificateError::ExpiredContext {
                time: at(1_795_163_400),
                not_after: at(1_767_398_399),
            },
            "the receiver's certificate, or one in its chain, expired on 2026-01-02",
        );
        check(
            CertificateError::NotValidYetContext {
                time: at(0),
                not_before: at(u64::MAX),
            },
            "the receiver's certificate, or one in its chain, is not valid before 9223372036854775807ms",
        );
    }
}
