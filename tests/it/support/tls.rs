//! Certificate authorities and TLS servers of merchants, good and bad.

use super::merchant::each_connection;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

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

    /// Its certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these names or addresses.
    pub fn issue(&self, names: &[&str]) -> Identity {
        self.issue_as(names, |_| {})
    }

    /// Likewise, with this key.
    pub fn issue_for(&self, key: KeyPair, names: &[&str]) -> Identity {
        let made = params(names, |_| {}).signed_by(&key, &self.0);
        Identity {
            chain: vec![made.expect("a certificate").der().clone()],
            key,
        }
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

    /// The certificates that are shown.
    pub fn certificate_pem(&self) -> String {
        let block = |der: &CertificateDer<'_>| {
            let encoded = STANDARD.encode(der);
            format!("-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n")
        };
        self.chain.iter().map(block).collect()
    }

    /// The private key.
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// The private key.
    pub fn key_der(&self) -> Vec<u8> {
        self.key.serialize_der()
    }

    /// What a server sees of this client.
    pub fn leaf(&self) -> Vec<u8> {
        self.chain[0].to_vec()
    }

    /// Another certificate of this authority for the same key.
    pub fn renewed_by(&self, authority: &Authority, names: &[&str]) -> String {
        let made = params(names, |_| {}).signed_by(&self.key, &authority.0);
        made.expect("a certificate").pem()
    }

    /// Starts a server that keeps connections open, answers every call with `success`, and reports it. It demands
    /// a client certificate of this authority.
    pub async fn receive_from(self, authority: &Authority) -> SecureMerchant {
        super::install_tls();
        let mut roots = RootCertStore::empty();
        roots.add(authority.0.der().clone()).expect("a root");
        let verifier = WebPkiClientVerifier::builder(roots.into()).build();
        let key = PrivatePkcs8KeyDer::from(self.key.serialize_der());
        let config = ServerConfig::builder()
            .with_client_cert_verifier(verifier.expect("a verifier"))
            .with_single_cert(self.chain, key.into());
        let acceptor = TlsAcceptor::from(Arc::new(config.expect("a certificate and its key")));
        let (report, calls) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let address = each_connection(move |stream| {
            let (acceptor, report) = (acceptor.clone(), report.clone());
            let connection = connections.fetch_add(1, Ordering::Relaxed);
            async move {
                let mut stream = match acceptor.accept(stream).into_fallible().await {
                    Ok(stream) => stream,
                    Err((_, mut stream)) => return drain(&mut stream).await,
                };
                let shown = stream.get_ref().1.peer_certificates();
                let client = shown.map(|chain| chain[0].to_vec()).unwrap_or_default();
                while read_call(&mut stream).await {
                    let call = SecureCall {
                        connection,
                        client: client.clone(),
                    };
                    let _ = report.send(call);
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess";
                    let _ = stream.write_all(answer).await;
                }
            }
        })
        .await;
        SecureMerchant { address, calls }
    }

    /// The configuration of a server that shows this, offers these protocols (ALPN), and demands client certificates of
    /// that authority.
    pub fn server_config(self, alpn: &[&str], clients: Option<&Authority>) -> ServerConfig {
        super::install_tls();
        let builder = match clients {
            None => ServerConfig::builder().with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.0.der().clone()).expect("a root");
                let verifier = WebPkiClientVerifier::builder(roots.into()).build();
                ServerConfig::builder().with_client_cert_verifier(verifier.expect("a verifier"))
            }
        };
        let key = PrivatePkcs8KeyDer::from(self.key.serialize_der());
        let config = builder.with_single_cert(self.chain, key.into());
        let mut config = config.expect("a certificate and its key");
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
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

/// A merchant that demands a client certificate.
pub struct SecureMerchant {
    /// Where it listens.
    pub address: SocketAddr,
    calls: mpsc::UnboundedReceiver<SecureCall>,
}

/// A call that came over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecureCall {
    /// The number of the connection.
    pub connection: usize,
    /// The client certificate.
    pub client: Vec<u8>,
}

impl SecureMerchant {
    /// The URL to call.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}/notify", self.address.port())
    }

    /// The next call.
    pub async fn call(&mut self) -> SecureCall {
        let call = super::within("a call over TLS", self.calls.recv()).await;
        call.expect("the merchant listens")
    }

    /// A call that has arrived.
    pub fn arrived(&mut self) -> Option<SecureCall> {
        self.calls.try_recv().ok()
    }
}

/// Reads one call as a whole. `false` at the end of the connection.
pub(super) async fn read_call(stream: &mut TlsStream<TcpStream>) -> bool {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.expect("a length").parse().expect("a number");
            if read.len() >= end + 4 + length {
                return true;
            }
        }
        if !stream.read_buf(&mut read).await.is_ok_and(|read| read > 0) {
            return false;
        }
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
