//! Opens connections to receivers: resolves the name, filters the addresses, connects over TCP, then TLS,
//! then HTTP/1.1.

use super::address_filter::{AddressFilter, Scheme};
use super::call_recorder::CallRecorder;
use super::pool::{ConnectionWatcher, Pool, ReceiverConnection};
use super::resolver::{FilteringResolver, Resolved};
use super::socket::Socket;
use super::tls_failure::HandshakeError;
use super::tls_profiles::TlsProfile;
use crate::domain::call_trace::{Phase, TlsVersion};
use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ProtocolVersion};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tower_service::Service;
use url::Url;

/// Maximum bytes of the head of one answer.
const MOST_HEAD_BYTES: usize = 64 * 1024;
/// Maximum number of headers of one answer.
const MOST_HEADERS: usize = 100;
/// TCP keepalive: how long a connection is silent before the kernel sends a probe, and the time between
/// two probes.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// TCP keepalive: how many probes stay unanswered before the connection counts as broken.
const KEEPALIVE_RETRIES: u32 = 3;
/// How long sent bytes may stay unacknowledged by TCP before the connection counts as broken.
const UNCONFIRMED: Duration = Duration::from_secs(30);

/// Opens connections for one scheme.
pub struct ReceiverConnector {
    scheme: Scheme,
    resolver: FilteringResolver,
    tls: Arc<ClientConfig>,
    http: http1::Builder,
}

/// Why a connection could not be opened.
pub type ConnectError = Box<dyn Error + Send + Sync>;

impl ReceiverConnector {
    /// Creates a connector that connects only to addresses that the filter allows.
    pub fn new(filter: Arc<AddressFilter>, scheme: Scheme, tls: ClientConfig) -> Self {
        let mut http = http1::Builder::new();
        http.title_case_headers(true)
            .max_buf_size(MOST_HEAD_BYTES)
            .max_headers(MOST_HEADERS);
        Self {
            scheme,
            resolver: FilteringResolver { filter, scheme },
            tls: Arc::new(tls),
            http,
        }
    }

    /// Opens a connection to the host of a URL, with the TLS configuration of an endpoint if it has one. The pool gets to
    /// know its end under `origin`.
    ///
    /// # Errors
    /// The error of the step that failed; `delivery::failure` tells the kinds apart.
    pub async fn open(
        &self,
        url: &Url,
        (origin, profile): (&str, Option<&TlsProfile>),
        pool: &Pool,
        recorder: &CallRecorder,
    ) -> Result<ReceiverConnection, ConnectError> {
        let mut addresses = Vec::new();
        // The connector takes an address in the URL as it is.
        if let Some(url::Host::Domain(name)) = url.host() {
            recorder.begin(Phase::Dns);
            addresses = self.resolver.resolve(name).await?;
        }
        recorder.uses(first_address(url, &addresses), None, false);
        let url = Uri::try_from(url.as_str())?;
        recorder.begin(Phase::Connect);
        let stream = tcp_connector(addresses)
            .call(url.clone())
            .await?
            .into_inner();
        let address = stream.peer_addr().ok();
        recorder.uses(address, None, false);
        let (socket, meter) = Socket::new(stream);
        let watcher = pool.watcher(origin);
        let id = watcher.id();
        let ((sender, broke), tls) = match self.scheme {
            Scheme::Http => (self.speak(TokioIo::new(socket), watcher).await?, None),
            Scheme::Https => {
                recorder.begin(Phase::Tls);
                let name = server_name(&url)?;
                let config = profile.map_or(&self.tls, TlsProfile::config);
                let has_own_ca = profile.is_some_and(TlsProfile::has_own_ca);
                let connector = TlsConnector::from(config.clone());
                let stream = connector.connect(name, socket).await;
                let stream = stream.map_err(|error| HandshakeError { error, has_own_ca })?;
                let tls = tls_version(stream.get_ref().1.protocol_version());
                (self.speak(TokioIo::new(stream), watcher).await?, tls)
            }
        };
        Ok(ReceiverConnection {
            sender,
            meter,
            kept: false,
            id,
            address,
            tls,
            broke,
        })
    }

    /// Starts HTTP/1.1 on a stream. A task of its own runs the connection until it ends, and then sends the error
    /// with which it ended, if there is one.
    async fn speak<Stream>(
        &self,
        stream: Stream,
        watcher: ConnectionWatcher,
    ) -> Result<(SendRequest<Full<Bytes>>, oneshot::Receiver<hyper::Error>), hyper::Error>
    where
        Stream: Read + Write + Send + Unpin + 'static,
    {
        let (sender, connection) = self.http.handshake(stream).await?;
        let (report, broke) = oneshot::channel();
        tokio::spawn(async move {
            // A call that waits for its answer gets the error too. One whose request was not sent does not.
            if let Err(error) = connection.await {
                let _ = report.send(error);
            }
            watcher.ended();
        });
        Ok((sender, broke))
    }
}

/// The address to which a connection is opened first: that in the URL, or the first one of the host name.
fn first_address(url: &Url, resolved: &[SocketAddr]) -> Option<SocketAddr> {
    let ip = match url.host()? {
        url::Host::Domain(_) => resolved.first()?.ip(),
        url::Host::Ipv4(address) => address.into(),
        url::Host::Ipv6(address) => address.into(),
    };
    Some(SocketAddr::new(ip, url.port_or_known_default()?))
}

/// Opens TCP connections. A host name is taken for these addresses, which were checked.
fn tcp_connector(addresses: Vec<SocketAddr>) -> HttpConnector<Resolved> {
    let mut tcp = HttpConnector::new_with_resolver(Resolved(addresses));
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNCONFIRMED));
    tcp
}

fn tls_version(version: Option<ProtocolVersion>) -> Option<TlsVersion> {
    match version? {
        ProtocolVersion::TLSv1_2 => Some(TlsVersion::Tls12),
        ProtocolVersion::TLSv1_3 => Some(TlsVersion::Tls13),
        _ => None,
    }
}

/// The name that the receiver's certificate must contain.
fn server_name(url: &Uri) -> Result<ServerName<'static>, ConnectError> {
    let host = url.host().unwrap_or_default();
    // An IPv6 address is in brackets.
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    Ok(ServerName::try_from(host.to_string())?)
}
