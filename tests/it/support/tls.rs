//! Certificate authorities and TLS servers of merchants, good and bad.

use super::merchant::each_connection;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// What a TLS server shows, and its key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn params_of_authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

impl Authority {
    /// A new one, which trusts itself only.
    pub fn new(name: &str) -> Self {
        let made = CertifiedIssuer::self_signed(params_of_authority(name), key());
        Self(made.expect("an authority"))
    }

    /// An intermediate one under this one.
    pub fn intermediate(&self, name: &str) -> Self {
        let made = CertifiedIssuer::signed_by(params_of_authority(name), key(), &self.0);
        Self(made.expect("an authority"))
    }

    /// Writes its certificate into a file, for the variable `SSL_CERT_FILE`.
    pub fn write(&self, dir: &Path) -> PathBuf {
        let path = dir.join("authority.pem");
        std::fs::write(&path, self.0.pem()).expect("written");
        path
    }

    /// A certificate for these names or addresses.
    pub fn issue(&self, names: &[&str]) -> Identity {
        self.issue_as(names, |_| {})
    }

    /// Likewise, with changes.
    pub fn issue_as(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let key = key();
        let made = params(names, change).signed_by(&key, &self.0);
        Identity {
            chain: vec![made.expect("a certificate").der().clone()],
            key,
        }
    }
}

impl Identity {
    /// One that is signed by itself.
    pub fn self_signed(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Self {
        let key = key();
        let made = params(names, change).self_signed(&key);
        Self {
            chain: vec![made.expect("a certificate").der().clone()],
            key,
        }
    }

    /// Sends the certificate of an intermediate authority along.
    pub fn with(mut self, intermediate: &Authority) -> Self {
        self.chain.push(intermediate.0.der().clone());
        self
    }

    /// Starts a server that shows this and answers every call with `success`.
    pub async fn serve(self) -> SocketAddr {
        super::install_tls();
        self.start(ServerConfig::builder().with_no_client_auth())
            .await
    }

    /// Likewise, for a server that wants a client certificate of this authority.
    pub async fn serve_to_clients_of(self, authority: &Authority) -> SocketAddr {
        super::install_tls();
        let mut roots = RootCertStore::empty();
        roots.add(authority.0.der().clone()).expect("a root");
        let verifier = WebPkiClientVerifier::builder(roots.into()).build();
        let builder = ServerConfig::builder();
        self.start(builder.with_client_cert_verifier(verifier.expect("a verifier")))
            .await
    }

    async fn start(
        self,
        builder: tokio_rustls::rustls::ConfigBuilder<
            ServerConfig,
            tokio_rustls::rustls::server::WantsServerCert,
        >,
    ) -> SocketAddr {
        let key = PrivatePkcs8KeyDer::from(self.key.serialize_der());
        let config = builder.with_single_cert(self.chain, key.into());
        let acceptor = TlsAcceptor::from(Arc::new(config.expect("a certificate and its key")));
        each_connection(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                match acceptor.accept(stream).into_fallible().await {
                    Ok(mut stream) => {
                        let mut call = vec![0; 16 * 1024];
                        let _ = stream.read(&mut call).await;
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess";
                        let _ = stream.write_all(answer).await;
                        let _ = stream.read(&mut call).await;
                    }
                    // Closing at once could reset the connection before the other side has read the alert.
                    Err((_, mut stream)) => drain(&mut stream).await,
                }
            }
        })
        .await
    }
}

fn params(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).expect("names");
    change(&mut params);
    params
}

/// What a server does that gets the first message of a TLS handshake.
#[derive(Debug, Clone)]
pub enum Greeting {
    /// Answers with these bytes.
    Bytes(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
    /// Does nothing.
    Hang,
}

impl Greeting {
    /// Starts a server that does this.
    pub async fn serve(self) -> SocketAddr {
        each_connection(move |mut stream| {
            let greeting = self.clone();
            async move {
                let mut hello = vec![0; 16 * 1024];
                let _ = stream.read(&mut hello).await;
                match greeting {
                    Self::Bytes(bytes) => {
                        let _ = stream.write_all(&bytes).await;
                        drain(&mut stream).await;
                    }
                    Self::Close => {}
                    Self::Reset => {
                        // Zero linger turns the close into a reset.
                        let _ = stream.set_zero_linger();
                    }
                    Self::Hang => drain(&mut stream).await,
                }
            }
        })
        .await
    }
}

async fn drain(stream: &mut TcpStream) {
    let mut rest = vec![0; 16 * 1024];
    while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
}
