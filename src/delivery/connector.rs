//! Opens connections to receivers: resolves the name, filters the addresses, connects over TCP, then TLS,
//! then HTTP/1.1 or HTTP/2.

use super::address_filter::{AddressFilter, Scheme};
use super::call_recorder::CallRecorder;
use super::http2::connection::{Http2Connection, OpenedStream};
use super::lookups::{LookupShare, Lookups};
use super::pool::{ConnectionWatcher, Pool, ReceiverConnection};
use super::proxy::Proxy;
use super::resolver::FilteringResolver;
use super::socket::Socket;
use super::tcp::tcp_connector;
use super::tls_failure::HandshakeError;
use super::tls_profiles::{HTTP2, TlsConfigs, TlsProfile};
use super::tunnel::through_proxy;
use crate::domain::attempt_reason::AwaitedStep;
use crate::domain::call_trace::{Phase, TlsVersion};
use crate::domain::http_version::HttpVersion;
use http::Uri;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ProtocolVersion;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;
use url::Url;

/// Maximum bytes of the head of one answer.
const MOST_HEAD_BYTES: usize = 64 * 1024;
/// Maximum number of headers of one answer.
const MOST_HEADERS: usize = 100;
/// How long a connection may take to end that is not used any more. A receiver that does not read the rest of a request
/// would keep it open for as long as it likes.
const LONGEST_CLOSING: Duration = Duration::from_secs(2);

/// Opens connections for one scheme.
pub struct ReceiverConnector {
    scheme: Scheme,
    resolver: FilteringResolver,
    tls: TlsConfigs,
    http: http1::Builder,
    proxy: Option<Arc<Proxy>>,
}

/// A connection that speaks the version of HTTP that the receiver chose.
pub enum Negotiated {
    /// It speaks HTTP/1.1.
    Http1(ReceiverConnection),
    /// It speaks HTTP/2.
    Http2(Http2Connection),
}

/// Why a connection could not be opened.
pub type ConnectError = Box<dyn Error + Send + Sync>;

impl ReceiverConnector {
    /// Creates a connector that connects only to addresses that the filter allows, through the proxy if there is one.
    pub fn new(
        filter: Arc<AddressFilter>,
        scheme: Scheme,
        tls: TlsConfigs,
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
            tls,
            http,
            proxy,
        }
    }

    /// Opens a connection to the host of a URL that speaks HTTP/1.1, with the TLS configuration of an endpoint if it has
    /// one. The pool gets to know its end under `origin`. `share`: for the look-up of the name.
    /// `until`: when the call ends. If the name has several addresses, they share the time until then, so that one that does
    /// not answer leaves time for the others.
    ///
    /// # Errors
    /// The error of the step that failed; `delivery::failure` tells the kinds apart.
    pub async fn open(
        &self,
        url: &Url,
        (origin, profile, share, until): (&str, Option<&TlsProfile>, LookupShare, Instant),
        pool: &Pool,
        recorder: &CallRecorder,
    ) -> Result<ReceiverConnection, ConnectError> {
        let opened = self.dial(url, (share, until), recorder).await?;
        match self.scheme {
            Scheme::Http => self.speak_http1(opened, pool.watcher(origin)).await,
            Scheme::Https => {
                let opened = self.secure(opened, url, (HttpVersion::Http1, profile), recorder);
                self.speak_http1(opened.await?, pool.watcher(origin)).await
            }
        }
    }

    /// Likewise, a connection that speaks HTTP/2, or HTTP/1.1 if the receiver chooses that in the TLS handshake. Without
    /// TLS, HTTP/2 is spoken from the first byte (RFC 9113, section 3.3). A connection that speaks HTTP/2 gets this
    /// number, and calls `on_change` ([`Http2Connection::start`]).
    ///
    /// # Errors
    /// The error of the step that failed; `delivery::failure` tells the kinds apart.
    pub async fn open_http2(
        &self,
        url: &Url,
        (origin, profile, share, until): (&str, Option<&TlsProfile>, LookupShare, Instant),
        pool: &Pool,
        (id, on_change): (u64, impl Fn() + Send + Sync + 'static),
        recorder: &CallRecorder,
    ) -> Result<Negotiated, ConnectError> {
        let opened = self.dial(url, (share, until), recorder).await?;
        let started = match self.scheme {
            Scheme::Http => {
                recorder.awaits(AwaitedStep::Http2Settings);
                Http2Connection::start(opened, id, on_change).await
            }
            Scheme::Https => {
                let opened = self.secure(opened, url, (HttpVersion::Http2, profile), recorder);
                let opened = opened.await?;
                if opened.stream.get_ref().1.alpn_protocol() != Some(HTTP2) {
                    let connection = self.speak_http1(opened, pool.watcher(origin)).await?;
                    return Ok(Negotiated::Http1(connection));
                }
                recorder.awaits(AwaitedStep::Http2Settings);
                Http2Connection::start(opened, id, on_change).await
            }
        };
        recorder.end();
        Ok(Negotiated::Http2(started?))
    }

    /// Opens a connection as a call would, up to the TLS handshake, and closes it. Nothing is sent over it but the handshake.
    ///
    /// # Errors
    /// As [`ReceiverConnector::open`].
    pub async fn reach(
        &self,
        url: &Url,
        (profile, http, share, until): (Option<&TlsProfile>, HttpVersion, LookupShare, Instant),
        recorder: &CallRecorder,
    ) -> Result<(), ConnectError> {
        let opened = self.dial(url, (share, until), recorder).await?;
        if self.scheme == Scheme::Https {
            let secured = self.secure(opened, url, (http, profile), recorder).await?;
            recorder.uses(secured.address, secured.tls, false);
        }
        recorder.end();
        Ok(())
    }

    /// Opens a TCP connection to the host of a URL, through the proxy if there is one.
    async fn dial(
        &self,
        url: &Url,
        (share, until): (LookupShare, Instant),
        recorder: &CallRecorder,
    ) -> Result<OpenedStream<Socket>, ConnectError> {
        let mut addresses = Vec::new();
        // The connector takes an address in the URL as it is.
        if let Some(url::Host::Domain(name)) = url.host() {
            recorder.begin(Phase::Dns);
            recorder.awaits_thread(true);
            let begun = || recorder.awaits_thread(false);
            addresses = self.resolver.resolve(name, share, begun).await?;
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
        recorder.uses(address, None, false);
        let (stream, meter) = Socket::new(stream);
        Ok(OpenedStream {
            stream,
            meter,
            address,
            tls: None,
        })
    }

    /// Makes the TLS handshake, with what the endpoint says of it, and offers this version of HTTP.
    async fn secure(
        &self,
        opened: OpenedStream<Socket>,
        url: &Url,
        (version, profile): (HttpVersion, Option<&TlsProfile>),
        recorder: &CallRecorder,
    ) -> Result<OpenedStream<TlsStream<Socket>>, ConnectError> {
        recorder.begin(Phase::Tls);
        let name = server_name(&Uri::try_from(url.as_str())?)?;
        let configs = profile.map_or(&self.tls, TlsProfile::configs);
        let has_own_ca = profile.is_some_and(TlsProfile::has_own_ca);
        let connector = TlsConnector::from(configs.asking_for(version).clone());
        let stream = connector.connect(name, opened.stream).await;
        let stream = stream.map_err(|error| HandshakeError { error, has_own_ca })?;
        let tls = tls_version(stream.get_ref().1.protocol_version());
        Ok(OpenedStream {
            stream,
            meter: opened.meter,
            address: opened.address,
            tls,
        })
    }

    /// Starts HTTP/1.1 on a stream. A task of its own runs the connection until it ends, and then sends the error
    /// with which it ended, if there is one. It ends soon after the returned connection was dropped.
    async fn speak_http1<Stream>(
        &self,
        opened: OpenedStream<Stream>,
        watcher: ConnectionWatcher,
    ) -> Result<ReceiverConnection, ConnectError>
    where
        Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = self.http.handshake(TokioIo::new(opened.stream)).await?;
        let (mut report, broke) = oneshot::channel();
        let id = watcher.id();
        tokio::spawn(async move {
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                biased;
                ended = &mut connection => Some(ended),
                () = report.closed() => None,
            };
            let ended = match ended {
                Some(ended) => Ok(ended),
                None => timeout(LONGEST_CLOSING, connection).await,
            };
            // A call that waits for its answer gets the error too. One whose request was not sent does not.
            if let Ok(Err(error)) = ended {
                let _ = report.send(error);
            }
            watcher.ended();
        });
        Ok(ReceiverConnection {
            sender,
            meter: opened.meter,
            opened: Instant::now(),
            kept: false,
            id,
            address: opened.address,
            tls: opened.tls,
            broke,
        })
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

#[cfg(test)]
mod tests;
