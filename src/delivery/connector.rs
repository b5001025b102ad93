//! Opens connections to receivers: resolves the name, filters the addresses, connects over TCP, then TLS,
//! then HTTP/1.1.

use super::address_filter::{AddressFilter, Scheme};
use super::call_recorder::CallRecorder;
use super::lookups::{LookupShare, Lookups};
use super::pool::{ConnectionWatcher, Pool, ReceiverConnection};
use super::proxy::Proxy;
use super::resolver::FilteringResolver;
use super::socket::Socket;
use super::tcp::tcp_connector;
use super::tls_failure::HandshakeError;
use super::tls_profiles::TlsProfile;
use super::tunnel::through_proxy;
use crate::domain::call_trace::{Phase, TlsVersion};
use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ProtocolVersion};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tower_service::Service;
use url::Url;

/// Maximum bytes of the head of one answer.
const MOST_HEAD_BYTES: usize = 64 * 1024;
/// Maximum number of headers of one answer.
const MOST_HEADERS: usize = 100;

/// Opens connections for one scheme.
pub struct ReceiverConnector {
    scheme: Scheme,
    resolver: FilteringResolver,
    tls: Arc<ClientConfig>,
    http: http1::Builder,
    proxy: Option<Arc<Proxy>>,
}

/// What is asked of a connector besides the URL.
#[derive(Clone, Copy)]
pub struct Opening<'call> {
    /// Under which name the pool gets to know the end of the connection.
    pub origin: &'call str,
    /// The TLS configuration of the endpoint, if it has one of its own.
    pub profile: Option<&'call TlsProfile>,
    /// For the look-up of the host name.
    pub share: LookupShare,
    /// When the call ends, whatever it has reached.
    pub until: Instant,
}

/// Why a connection could not be opened.
pub type ConnectError = Box<dyn Error + Send + Sync>;

impl ReceiverConnector {
    /// Creates a connector that connects only to addresses that the filter allows, through the proxy if there is one.
    pub fn new(
        filter: Arc<AddressFilter>,
        scheme: Scheme,
        tls: ClientConfig,
        proxy: Option<Arc<Proxy>>,
        lookups: Arc<Lookups>,
    ) -> Self {
        let mut http = http1::Builder::new();
        http.title_case_headers(true)
            .max_buf_size(MOST_HEAD_BYTES)
            .max_headers(MOST_HEADERS);
        Self {
            scheme,
            resolver: FilteringResolver {
                filter,
                scheme,
                lookups,
            },
            tls: Arc::new(tls),
            http,
            proxy,
        }
    }

    /// Opens a connection to the host of a URL. If its name has several addresses, they share the time that is left, so that
    /// one that does not answer leaves time for the others.
    ///
    /// # Errors
    /// The error of the step that failed; `delivery::failure` tells the kinds apart.
    pub async fn open(
        &self,
        url: &Url,
        opening: Opening<'_>,
        pool: &Pool,
        recorder: &CallRecorder,
    ) -> Result<ReceiverConnection, ConnectError> {
        let Opening {
            origin,
            profile,
            share,
            until,
        } = opening;
        let mut addresses = Vec::new();
        // The connector takes an address in the URL as it is.
        if let Some(url::Host::Domain(name)) = url.host() {
            recorder.begin(Phase::Dns);
            addresses = self.resolver.resolve(name, share).await?;
        }
        recorder.uses(first_address(url, &addresses), None, false);
        recorder.begin(Phase::Connect);
        let (stream, address) = match &self.proxy {
            None => {
                let url = Uri::try_from(url.as_str())?;
                let stream = tcp_connector(addresses, Some(until))
                    .call(url)
                    .await?
                    .into_inner();
                let address = stream.peer_addr().ok();
                (stream, address)
            }
            Some(proxy) => {
                let addresses = with_ports(url, &addresses);
                let through = Box::pin(through_proxy(proxy, &addresses, until, recorder)).await;
                let (stream, address) = through?;
                (stream, Some(address))
            }
        };
        let url = Uri::try_from(url.as_str())?;
        recorder.uses(address, None, false);
        let (socket, meter) = Socket::new(stream);
        let opened = Instant::now();
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
            opened,
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

/// The addresses of the receiver with its port: that in the URL, or those of the host name.
fn with_ports(url: &Url, resolved: &[SocketAddr]) -> Vec<SocketAddr> {
    let Some(first) = first_address(url, resolved) else {
        return Vec::new();
    };
    let others = resolved.iter().skip(1);
    let others = others.map(|other| SocketAddr::new(other.ip(), first.port()));
    std::iter::once(first).chain(others).collect()
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
