//! Opening connections to receivers: name, address filter, TCP, TLS, HTTP/1.1.

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
/// How long a connection is silent before the kernel asks whether the other side is still there, and
/// how long between two such questions.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How often it asks in vain before the connection counts as broken.
const KEEPALIVE_RETRIES: u32 = 3;
/// How long what was sent may stay without a confirmation.
const UNCONFIRMED: Duration = Duration::from_secs(30);

/// Opens connections for one scheme.
pub struct ReceiverConnector {
    scheme: Scheme,
    tcp: HttpConnector<FilteringResolver>,
    tls: TlsConnector,
    http: http1::Builder,
}

/// Why there is no connection.
pub type ConnectError = Box<dyn Error + Send + Sync>;

impl ReceiverConnector {
    /// Connects to what the address filter lets pass.
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

    /// Opens a connection for a URL.
    ///
    /// # Errors
    /// Whatever went wrong; `delivery::failure` tells the kinds apart.
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

    /// Speaks HTTP over a stream, in a task of its own that ends with the connection.
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
            // The call over it has got the error.
            let _ = connection.await;
            watcher.ended();
        });
        Ok(sender)
    }
}

/// The name that the receiver's certificate must be for.
fn server_name(url: &Uri) -> Result<ServerName<'static>, ConnectError> {
    let host = url.host().unwrap_or_default();
    // An IPv6 address is in brackets.
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    Ok(ServerName::try_from(host.to_string())?)
}
