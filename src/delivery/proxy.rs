//! Opens connections to receivers through the proxy of the server.
//!
//! The proxy gets the address that this server has resolved and checked, and not the name: if the proxy resolved it,
//! the address filter could be evaded by a name that has another address there. TLS is spoken with the receiver through
//! the tunnel, so the proxy sees nothing of a call by https but the address. Calls by plain http go through a tunnel too.
//!
//! A failure of the proxy itself is told apart from a receiver that the proxy cannot reach. After one, calls are not
//! made for a moment, one of them tries the proxy again, and nothing is recorded of any receiver.

mod error;
mod http;
mod socks;

use super::lookups::Lookups;
use super::proxy_health::{ProxyHealth, Stage};
use crate::domain::attempt_reason::ProxyFault;
use crate::domain::proxy_url::{ProxyKind, ProxyUrl};
pub use error::ProxyError;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Maximum number of addresses of a receiver that the proxy is asked for.
pub const MOST_ADDRESSES: usize = 3;

/// The proxy, and how it is doing.
pub struct Proxy {
    /// Where it is.
    pub url: ProxyUrl,
    /// How it is doing.
    pub health: ProxyHealth,
    /// How long it may take to reach it, up to where it is asked for a receiver.
    pub limit: Duration,
    /// Looks its name up.
    pub lookups: Arc<Lookups>,
}

/// The longest time to reach a proxy.
const LONGEST_TO_REACH: Duration = Duration::from_secs(5);

impl Proxy {
    /// A proxy of which nothing is known. A call may take as long as `timeout`, of which to reach the proxy gets half.
    pub fn new(url: ProxyUrl, timeout: Duration, lookups: Arc<Lookups>) -> Self {
        Self {
            url,
            health: ProxyHealth::default(),
            limit: LONGEST_TO_REACH.min(timeout / 2),
            lookups,
        }
    }

    /// Notes that the proxy was reached, but failed then.
    pub fn failed(&self, fault: &ProxyFault) {
        let is_new = self.health.failed(Instant::now(), fault, Stage::Asking);
        self.log_failure(is_new, fault);
    }

    /// Notes that a call that began at `began` could not reach the proxy.
    pub fn unreachable(&self, began: Instant, fault: &ProxyFault) {
        let is_new = self.health.unreachable(began, Instant::now(), fault);
        self.log_failure(is_new, fault);
    }

    fn log_failure(&self, is_new: bool, fault: &ProxyFault) {
        if is_new {
            let why = fault.to_string();
            tracing::error!(
                proxy = %self.url, why,
                "the proxy failed, so no new connections to receivers are opened; what is due waits and spends no \
                 attempt; the proxy is tried again every second"
            );
        }
    }

    /// Notes that the proxy was reached. With SOCKS it has answered the greeting.
    pub fn reached(&self) {
        self.note_recovery(self.health.reached(Instant::now()));
        if self.url.kind() == ProxyKind::Socks5 {
            self.answered();
        }
    }

    /// Notes that the proxy answered a request, whatever the answer said about the receiver.
    pub fn answered(&self) {
        self.note_recovery(self.health.answered(Instant::now()));
    }

    /// Notes that the proxy connected to a receiver.
    pub fn connected(&self, address: SocketAddr) {
        self.answered();
        self.health.connected(address);
    }

    fn note_recovery(&self, failed_before: bool) {
        if failed_before {
            tracing::info!(proxy = %self.url, "the proxy works again");
        }
    }
}

/// Agrees with the proxy on how to speak. What follows concerns the receiver.
///
/// # Errors
/// [`ProxyError::Failed`].
pub async fn greet(proxy: &ProxyUrl, stream: &mut TcpStream) -> Result<(), ProxyError> {
    match proxy.kind() {
        ProxyKind::Http => Ok(()),
        ProxyKind::Socks5 => socks::greet(stream, proxy.credentials()).await,
    }
}

/// Asks the proxy for a tunnel to an address. Afterwards the stream leads there.
///
/// # Errors
/// [`ProxyError`].
pub async fn ask_for(
    proxy: &ProxyUrl,
    stream: &mut TcpStream,
    address: SocketAddr,
) -> Result<(), ProxyError> {
    match proxy.kind() {
        ProxyKind::Http => http::connect(stream, address, proxy.credentials()).await,
        ProxyKind::Socks5 => socks::connect(stream, address).await,
    }
}
