//! Whom TLS trusts: the machine's certificate authorities, or where it has none (a bare container),
//! Mozilla's, compiled in.

use reqwest::{Client, ClientBuilder};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::ConfigVerifierExt as _;

/// What TLS goes by, for a client without a certificate of its own. TLS 1.2 and 1.3.
#[must_use]
pub fn client_config() -> ClientConfig {
    // The only thing in there that depends on the machine is its certificate store.
    ClientConfig::with_platform_verifier().unwrap_or_else(|_| mozilla_roots())
}

/// Builds an HTTP client from what `builder` gives, which may be asked twice.
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
