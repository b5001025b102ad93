//! Opens connections to receivers: resolves the name, filters the addresses, connects over TCP, then TLS,
//! then HTTP/1.1.

use super::address_filter::{AddressFilter, Scheme};
use super::pool::{ConnectionWatcher, Pool, ReceiverConnection};
use super::resolver::FilteringResolver;
use super::socket::Socket;
use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
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
    tcp: HttpConnector<FilteringResolver>,
    tls: TlsConnector,
    http: http1::Builder,
}

/// Why a connection could not be opened.
pub type ConnectError = Box<dyn Error + Send + Sync>;

impl ReceiverConnector {
    /// Creates a connector that connects only to addresses that the filter allows.
    pub fn new(filter: Arc<AddressFilter>, scheme: Scheme, mut tls: ClientConfig) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(FilteringResolver { filter, scheme });
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(UNCONFIRMED));
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut http = http1::Builder::new();
        http.title_case_headers(true)
            .max_buf_size(MOST_HEAD_BYTES)
            .max_headers(MOST_HEADERS);
        Self {
            scheme,
            tcp,
            tls: TlsConnector::from(Arc::new(tls)),
            http,
        }
    }

    /// Opens a connection to the host of a URL.
    ///
    /// # Errors
    /// The error of the step that failed; `delivery::failure` tells the kinds apart.
    pub async fn open(
        &self,
        url: &Url,
        origin: &str,
        pool: &Pool,
    ) -> Result<ReceiverConnection, ConnectError> {
        let url = Uri::try_from(url.as_str())?;
        let mut tcp = self.tcp.clone();
        let stream = tcp.call(url.clone()).await?.into_inner();
        let (socket, meter) = Socket::new(stream);
        let watcher = pool.watcher(origin);
        let id = watcher.id();
        let sender = match self.scheme {
            Scheme::Http => self.speak(TokioIo::new(socket), watcher).await?,
            Scheme::Https => {
                let name = server_name(&url)?;
                let stream = self.tls.connect(name, socket).await?;
                self.speak(TokioIo::new(stream), watcher).await?
            }
        };
        Ok(ReceiverConnection {
            sender,
            meter,
            kept: false,
            id,
        })
    }

    /// Starts HTTP/1.1 on a stream. A task of its own runs the connection until it ends.
    async fn speak<Stream>(
        &self,
        stream: Stream,
        watcher: ConnectionWatcher,
    ) -> Result<SendRequest<Full<Bytes>>, hyper::Error>
    where
        Stream: Read + Write + Send + Unpin + 'static,
    {
        let (sender, connection) = self.http.handshake(stream).await?;
        tokio::spawn(async move {
            // The call that uses the connection gets the error too, and reports it.
            let _ = connection.await;
            watcher.ended();
        });
        Ok(sender)
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
