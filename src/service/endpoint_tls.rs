//! The TLS settings of endpoints: checks them as a whole, and encrypts the key of a client certificate.

use super::endpoint_keys::sealing;
use super::{Service, ServiceError};
use crate::domain::certificates::Certificates;
use crate::domain::client_key::ClientKey;
use crate::domain::endpoint::EndpointName;
use crate::domain::endpoint_tls::{
    BadTls, ClientIdentity, ClientKeyRequest, EndpointTls, TlsRequest,
};
use crate::domain::timestamp::display_ms;
use crate::tls_profile::{BadProfile, authorities, identity};

const CA: &str = "ca";
const CERTIFICATE: &str = "client_certificate";
const KEY: &str = "client_key";

impl Service {
    /// The settings that a request asks for, and the fingerprint of the master key if one was encrypted. What is
    /// given as it was before stays as it is, so that a request can be repeated.
    ///
    /// # Errors
    /// [`ServiceError::Tls`]; if the key cannot be encrypted.
    pub(super) fn seal_tls(
        &self,
        name: &EndpointName,
        TlsRequest {
            ca,
            certificate,
            key,
        }: &TlsRequest,
        before: Option<&EndpointTls>,
    ) -> Result<(Option<EndpointTls>, Option<String>), ServiceError> {
        let now_ms = self.clock.now_ms();
        if let Some(ca) = ca
            && before.and_then(EndpointTls::ca) != Some(ca)
        {
            check_ca(ca, now_ms)?;
        }
        let before = before.and_then(EndpointTls::identity);
        let (identity, sealed_with) = match (certificate, key) {
            (None, ClientKeyRequest::Set(_)) => {
                let why = "the certificate of this client key is missing";
                return Err(bad(CERTIFICATE, why));
            }
            (None, ClientKeyRequest::Keep | ClientKeyRequest::Remove) => (None, None),
            (Some(_), ClientKeyRequest::Remove) => {
                let why = "a client certificate needs its key; set both to null to remove both";
                return Err(bad(KEY, why));
            }
            (Some(certificate), ClientKeyRequest::Keep) => {
                let kept = self.kept(name, certificate, before, now_ms)?;
                (Some(kept), None)
            }
            (Some(certificate), ClientKeyRequest::Set(key)) => {
                let (identity, sealed_with) =
                    self.sealed(name, certificate, key, before, now_ms)?;
                (Some(identity), sealed_with)
            }
        };
        Ok((EndpointTls::of(ca.clone(), identity), sealed_with))
    }

    /// A certificate with the key that the endpoint has.
    fn kept(
        &self,
        name: &EndpointName,
        certificate: &Certificates,
        before: Option<&ClientIdentity>,
        now_ms: i64,
    ) -> Result<ClientIdentity, ServiceError> {
        let Some(before) = before else {
            return Err(bad(KEY, "the key of the client certificate is missing"));
        };
        if before.certificate != *certificate {
            let keyring = self.endpoints.keyring();
            let opened = keyring.open_client_key(name.as_str(), &before.sealed_key);
            let key = opened.map_err(|unusable| bad(KEY, &format!("{unusable}; give it again")))?;
            check_identity(certificate, &key, now_ms).map_err(|error| match error.why {
                why if error.field == KEY => bad(KEY, &format!("{why}; give its key")),
                _ => error.into(),
            })?;
        }
        Ok(ClientIdentity {
            certificate: certificate.clone(),
            sealed_key: before.sealed_key.clone(),
        })
    }

    /// A certificate with the key of the request.
    fn sealed(
        &self,
        name: &EndpointName,
        certificate: &Certificates,
        key: &ClientKey,
        before: Option<&ClientIdentity>,
        now_ms: i64,
    ) -> Result<(ClientIdentity, Option<String>), ServiceError> {
        let keyring = self.endpoints.keyring();
        if let Some(before) = before
            && let Ok(known) = keyring.open_client_key(name.as_str(), &before.sealed_key)
            && known.is_same(key)
        {
            if before.certificate != *certificate {
                check_identity(certificate, key, now_ms)?;
            }
            let sealed_key = before.sealed_key.clone();
            let identity = ClientIdentity {
                certificate: certificate.clone(),
                sealed_key,
            };
            return Ok((identity, None));
        }
        check_identity(certificate, key, now_ms)?;
        let sealed = keyring.seal_client_key(name.as_str(), key);
        let sealed = sealed.map_err(sealing)?;
        let identity = ClientIdentity {
            certificate: certificate.clone(),
            sealed_key: sealed.sealed,
        };
        Ok((identity, Some(sealed.master_key)))
    }
}

/// Checks that each authority can be used, and that one of them at least has not expired.
fn check_ca(ca: &Certificates, now_ms: i64) -> Result<(), BadTls> {
    authorities(ca).map_err(|error| of_profile(&error))?;
    match ca.last_expires_ms() {
        Some(expires_ms) if expires_ms <= now_ms => Err(BadTls {
            field: CA,
            why: format!(
                "all of these authorities have expired, the last on {}",
                display_ms(expires_ms)
            ),
        }),
        _ => Ok(()),
    }
}

/// Checks that a client certificate has not expired, and that the key belongs to it.
fn check_identity(certificate: &Certificates, key: &ClientKey, now_ms: i64) -> Result<(), BadTls> {
    identity(certificate, key).map_err(|error| of_profile(&error))?;
    match certificate.first_expires_ms() {
        Some(expires_ms) if expires_ms <= now_ms => Err(BadTls {
            field: CERTIFICATE,
            why: format!("this certificate expired on {}", display_ms(expires_ms)),
        }),
        _ => Ok(()),
    }
}

fn of_profile(error: &BadProfile) -> BadTls {
    let field = match error {
        BadProfile::Authority(..) => CA,
        BadProfile::Certificate(_) => CERTIFICATE,
        BadProfile::Key | BadProfile::OtherKey => KEY,
    };
    BadTls {
        field,
        why: error.to_string(),
    }
}

fn bad(field: &'static str, why: &str) -> ServiceError {
    let why = why.to_string();
    ServiceError::Tls(BadTls { field, why })
}
