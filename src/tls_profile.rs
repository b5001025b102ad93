//! The TLS configuration of an endpoint that has authorities of its own or a client certificate.
//!
//! With authorities of its own, no others are trusted: a certificate of a public authority for the same host is
//! refused. The bytes of a private key are borrowed from their owner, which overwrites them; the TLS library keeps
//! what it needs for signing as long as the configuration lives.

use crate::domain::certificates::Certificates;
use crate::domain::client_key::{ClientKey, ClientKeyForm};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, InconsistentKeys, RootCertStore};
use std::sync::Arc;
use thiserror::Error;

/// Hosts of which a profile keeps TLS sessions. An endpoint has one URL, and registrations rarely another.
const MOST_SESSIONS: usize = 4;

/// Certificates or a key that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadProfile {
    /// An authority cannot be used. Contains its number, from 1, and why.
    #[error("the authority {0} cannot be used: {1}")]
    Authority(usize, String),
    /// The client certificate cannot be used.
    #[error("this client certificate cannot be used: {0}")]
    Certificate(String),
    /// The private key cannot be used. Contains nothing of it.
    #[error(
        "this private key cannot be used; it is RSA of 2048 to 4096 bits, ECDSA with P-256 or P-384, or Ed25519"
    )]
    Key,
    /// The private key belongs to another certificate.
    #[error("this private key does not belong to the client certificate")]
    OtherKey,
}

/// The authorities to trust.
///
/// # Errors
/// [`BadProfile::Authority`].
pub fn authorities(ca: &Certificates) -> Result<RootCertStore, BadProfile> {
    let mut roots = RootCertStore::empty();
    for (index, der) in ca.to_der().into_iter().enumerate() {
        let added = roots.add(CertificateDer::from(der));
        added.map_err(|error| BadProfile::Authority(index + 1, error.to_string()))?;
    }
    Ok(roots)
}

/// A client certificate with its key, which belong together.
///
/// # Errors
/// [`BadProfile`].
pub fn identity(certificate: &Certificates, key: &ClientKey) -> Result<CertifiedKey, BadProfile> {
    let chain = certificate.to_der().into_iter().map(CertificateDer::from);
    let der = key.expose_der();
    let der = match key.form() {
        ClientKeyForm::Pkcs8 => PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der)),
        ClientKeyForm::Pkcs1 => PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(der)),
        ClientKeyForm::Sec1 => PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(der)),
    };
    let signing = any_supported_type(&der).map_err(|_| BadProfile::Key)?;
    let certified = CertifiedKey::new(chain.collect(), signing);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(BadProfile::OtherKey)
        }
        Err(error) => Err(BadProfile::Certificate(error.to_string())),
    }
}

/// The configuration with these authorities and this client certificate; what is not given is that of `server`.
///
/// # Errors
/// [`BadProfile`].
pub fn client_config(
    server: &ClientConfig,
    ca: Option<&Certificates>,
    client: Option<(&Certificates, &ClientKey)>,
) -> Result<ClientConfig, BadProfile> {
    let mut config = match ca {
        Some(ca) => ClientConfig::builder()
            .with_root_certificates(authorities(ca)?)
            .with_no_client_auth(),
        None => server.clone(),
    };
    if let Some((certificate, key)) = client {
        let single = SingleCertAndKey::from(identity(certificate, key)?);
        config.client_auth_cert_resolver = Arc::new(single) as Arc<dyn ResolvesClientCert>;
    }
    // A session must not be resumed with another configuration: the other side then takes it for the same client.
    config.resumption = Resumption::in_memory_sessions(MOST_SESSIONS);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

    fn made(key: &KeyPair) -> (Certificates, ClientKey) {
        let params = CertificateParams::new(["shop.example".to_string()]).expect("a name");
        let certificate = params.self_signed(key).expect("made").pem();
        (
            Certificates::parse(&certificate).expect("a certificate"),
            ClientKey::parse(&key.serialize_pem()).expect("a key"),
        )
    }

    #[test]
    fn a_certificate_and_its_own_key_are_used() {
        for algorithm in [&PKCS_ED25519, &PKCS_ECDSA_P384_SHA384] {
            let (certificate, key) = made(&KeyPair::generate_for(algorithm).expect("a key"));
            assert!(identity(&certificate, &key).is_ok());
            assert_eq!(authorities(&certificate).map(|roots| roots.len()), Ok(1));
            let (_, other) = made(&KeyPair::generate_for(algorithm).expect("a key"));
            let refused = identity(&certificate, &other).err();
            assert_eq!(refused, Some(BadProfile::OtherKey));
        }
        let (certificate, _) = made(&KeyPair::generate().expect("a key"));
        let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let no_key = ClientKey::parse(no_key).expect("PEM");
        let refused = identity(&certificate, &no_key).err();
        assert_eq!(refused, Some(BadProfile::Key));
    }
}
