//! The certificate authorities that TLS trusts: those of the machine or, if it has none (as in a minimal
//! container), those of Mozilla, which are compiled in.

use reqwest::{Client, ClientBuilder};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::ConfigVerifierExt as _;

/// The TLS configuration of a client without a certificate of its own, for TLS 1.2 and 1.3.
#[must_use]
pub fn client_config() -> ClientConfig {
    // This fails only if the machine has no usable certificate store.
    ClientConfig::with_platform_verifier().unwrap_or_else(|_| mozilla_roots())
}

/// Where the trusted authorities come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootsOrigin {
    /// From the certificate store of this machine, or the file that `SSL_CERT_FILE` names.
    Machine,
    /// They are those of Mozilla, because the store of this machine cannot be used. Contains why.
    Mozilla(String),
}

/// Finds out where the trusted authorities come from.
#[must_use]
pub fn origin() -> RootsOrigin {
    match ClientConfig::with_platform_verifier() {
        Ok(_) => RootsOrigin::Machine,
        Err(error) => RootsOrigin::Mozilla(error.to_string()),
    }
}

/// Builds an HTTP client. `builder` may be called twice: if the client cannot be built with the machine's
/// certificate authorities, it is built with those of Mozilla.
///
/// # Errors
/// If the client cannot be built with either set of roots.
pub fn build(builder: impl Fn() -> ClientBuilder) -> Result<Client, reqwest::Error> {
    builder()
        .build()
        .or_else(|_| builder().tls_backend_preconfigured(mozilla_roots()).build())
}

fn mozilla_roots() -> ClientConfig {
    let roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth()
}
