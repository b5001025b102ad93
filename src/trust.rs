//! Whom TLS trusts: the machine's certificate authorities, or where it has none (a bare container),
//! Mozilla's, compiled in.

use reqwest::{Client, ClientBuilder};
use rustls::{ClientConfig, RootCertStore};

/// Builds an HTTP client from what `builder` gives, which may be asked twice.
///
/// # Errors
/// If the client cannot be built with either trust.
pub fn build(builder: impl Fn() -> ClientBuilder) -> Result<Client, reqwest::Error> {
    // The only thing in there that depends on the machine is its certificate store.
    builder().build().or_else(|_| {
        let roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        // TLS 1.2 and 1.3, as everywhere.
        let trusting = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        builder().tls_backend_preconfigured(trusting).build()
    })
}
