//! The TLS settings of an endpoint: the authorities that it trusts, and the certificate that Ringback shows.

use crate::domain::certificates::Certificates;
use crate::domain::client_key::ClientKey;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::fmt;
use thiserror::Error;

/// TLS settings, at least one of which is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointTls {
    ca: Option<Certificates>,
    identity: Option<ClientIdentity>,
    digest: String,
}

/// A client certificate and its key, which is encrypted.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The chain, which begins with the certificate of the client.
    pub certificate: Certificates,
    /// The encrypted key: see [`crate::domain::master_key`].
    pub sealed_key: String,
}

/// What a request says about TLS. What it does not name was filled in with what is there.
#[derive(Debug, Default)]
pub struct TlsRequest {
    /// The authorities to trust.
    pub ca: Option<Certificates>,
    /// The client certificate.
    pub certificate: Option<Certificates>,
    /// Its key.
    pub key: ClientKeyRequest,
}

/// What a request says about the key of the client certificate.
#[derive(Debug, Default)]
pub enum ClientKeyRequest {
    /// The key that is there stays, if there is a certificate.
    #[default]
    Keep,
    /// This is the key.
    Set(ClientKey),
    /// There is no key.
    Remove,
}

/// Why TLS settings cannot be used. `field` is the member of the request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{why}")]
pub struct BadTls {
    /// The member of the request.
    pub field: &'static str,
    /// Why, without anything of a key.
    pub why: String,
}

impl EndpointTls {
    /// These settings; `None` if nothing is set.
    #[must_use]
    pub fn of(ca: Option<Certificates>, identity: Option<ClientIdentity>) -> Option<Self> {
        if ca.is_none() && identity.is_none() {
            return None;
        }
        let mut hash = Sha256::new();
        let parts = [
            ca.as_ref().map(Certificates::as_str),
            (identity.as_ref()).map(|identity| identity.certificate.as_str()),
            (identity.as_ref()).map(|identity| identity.sealed_key.as_str()),
        ];
        for part in parts {
            let part = part.unwrap_or_default();
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        Some(Self {
            ca,
            identity,
            digest: STANDARD_NO_PAD.encode(&hash.finalize()[..18]),
        })
    }

    /// The authorities that are trusted, and no others; `None`: those of the server.
    #[must_use]
    pub fn ca(&self) -> Option<&Certificates> {
        self.ca.as_ref()
    }

    /// What Ringback shows when it is asked for a certificate.
    #[must_use]
    pub fn identity(&self) -> Option<&ClientIdentity> {
        self.identity.as_ref()
    }

    /// A text that is different for different settings.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClientIdentity")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}
