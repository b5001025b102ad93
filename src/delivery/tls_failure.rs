//! Says in plain words why TLS with a receiver failed.
//!
//! Support staff tell the receiver what to put right, so a reason names the host, the date or the version that
//! is wrong, and not the type of an error.

use crate::domain::attempt::escape;
use crate::domain::attempt_reason::TlsReason;
use crate::domain::timestamp;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};
use std::io;
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
    pub fn reason(&self) -> TlsReason {
        match self.error.kind() {
            io::ErrorKind::UnexpectedEof => TlsReason::Closed,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => TlsReason::Reset,
            _ => TlsReason::Broke {
                error: self.error.to_string(),
            },
        }
    }

    /// Why the handshake failed with this error of TLS.
    pub fn tls_reason(&self, error: &rustls::Error) -> TlsReason {
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        match self.has_own_ca && *error == unknown {
            true => TlsReason::OtherAuthority,
            false => reason(error),
        }
    }
}

/// Why TLS failed.
pub fn reason(error: &rustls::Error) -> TlsReason {
    match error {
        rustls::Error::InvalidCertificate(error) => certificate(error),
        rustls::Error::NoCertificatesPresented => TlsReason::NoCertificate,
        rustls::Error::AlertReceived(alert) => alert_received(*alert),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsReason::NotTls,
        rustls::Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => TlsReason::OldVersions,
        rustls::Error::PeerIncompatible(why) => TlsReason::NothingInCommon {
            error: format!("{why:?}"),
        },
        rustls::Error::PeerMisbehaved(why) => TlsReason::Misbehaved {
            error: format!("{why:?}"),
        },
        _ => TlsReason::Failed {
            error: error.to_string(),
        },
    }
}

fn certificate(error: &CertificateError) -> TlsReason {
    match error {
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let expected = expected.to_str().into_owned();
            match names(presented) {
                Some(names) => TlsReason::OtherHostKnown { names, expected },
                None => TlsReason::NamesNoHost { expected },
            }
        }
        CertificateError::NotValidForName => TlsReason::OtherHost,
        CertificateError::ExpiredContext { not_after, .. } => TlsReason::ExpiredOn {
            day: date(*not_after),
        },
        CertificateError::Expired => TlsReason::Expired,
        CertificateError::NotValidYetContext { not_before, .. } => TlsReason::NotValidBefore {
            day: date(*not_before),
        },
        CertificateError::NotValidYet => TlsReason::NotValidYet,
        CertificateError::UnknownIssuer => TlsReason::UnknownAuthority,
        CertificateError::Revoked => TlsReason::Revoked,
        CertificateError::BadSignature => TlsReason::BadSignature,
        CertificateError::BadEncoding => TlsReason::Unreadable,
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            TlsReason::UnsupportedAlgorithm
        }
        // The error of an authority's own certificate is here too. `openssl req -x509` makes such ones.
        CertificateError::Other(error) => TlsReason::NotForServers {
            error: error.0.to_string(),
        },
        _ => TlsReason::NotForServers {
            error: error.to_string(),
        },
    }
}

fn alert_received(alert: AlertDescription) -> TlsReason {
    match alert {
        AlertDescription::ProtocolVersion => TlsReason::RefusedVersions,
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
            TlsReason::RefusedHandshake
        }
        AlertDescription::UnrecognisedName => TlsReason::UnknownName,
        AlertDescription::CertificateRequired => TlsReason::ClientCertificateRequired,
        AlertDescription::UnknownCA => TlsReason::ClientAuthorityUnknown,
        AlertDescription::CertificateExpired => TlsReason::ClientCertificateExpired,
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRevoked
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied
        | AlertDescription::DecryptError => TlsReason::ClientCertificateRefused {
            alert: format!("{alert:?}"),
        },
        _ => TlsReason::Alert {
            alert: format!("{alert:?}"),
        },
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
            let reason = reason(&rustls::Error::from(error));
            assert_eq!(reason.to_string(), expected);
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
