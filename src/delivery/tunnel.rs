//! Opens tunnels to receivers through the proxy, and finds out whose fault it is if there is none.
//!
//! To reach the proxy has a limit of its own. If the time of a call ends before that limit is used up, too little is known
//! of the proxy: the call has run out of time, and the proxy is tried aside from all calls.

use super::call_recorder::CallRecorder;
use super::lookups::LookupShare;
use super::proxy::{MOST_ADDRESSES, Proxy, ProxyError, ask_for, greet};
use super::proxy_health::Closed;
use super::tcp::{part, tcp_connector};
use crate::domain::attempt_reason::{ProxyFault, ProxyRefusal};
use http::Uri;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpStream;
use tower_service::Service as _;
use url::Host;

/// Opens a tunnel to one of these addresses. The time of the call ends at `until`.
///
/// # Errors
/// [`ProxyError`]; what it says about the proxy was noted.
pub async fn through_proxy(
    proxy: &Proxy,
    addresses: &[SocketAddr],
    until: Instant,
    recorder: &CallRecorder,
) -> Result<(TcpStream, SocketAddr), ProxyError> {
    let may_try = proxy.health.may_try(Instant::now());
    may_try.map_err(ProxyError::Failed)?;
    let addresses = &addresses[..addresses.len().min(MOST_ADDRESSES)];
    let mut refused = ProxyError::Refused(ProxyRefusal::NoAddress);
    for (place, &address) in addresses.iter().enumerate() {
        recorder.uses(Some(address), None, false);
        recorder.awaits_proxy(true);
        let mut stream = proxy.reach().await?;
        recorder.awaits_proxy(false);
        let asking = ask_for(&proxy.url, &mut stream, address);
        let asked = match addresses.len() - place {
            // The time of the call is its limit.
            1 => asking.await,
            left => match tokio::time::timeout(part(until, left), asking).await {
                Ok(asked) => asked,
                Err(_) => {
                    let address = address.to_string();
                    refused = ProxyError::Refused(ProxyRefusal::NotInTime { address });
                    continue;
                }
            },
        };
        match asked {
            Ok(()) => {
                proxy.connected(address);
                return Ok((stream, address));
            }
            Err(ProxyError::Failed(why)) => {
                proxy.failed(&why);
                return Err(ProxyError::Failed(why));
            }
            Err(ProxyError::Closed) => refused = closed(proxy, address),
            Err(why @ ProxyError::Refused(_)) => {
                proxy.answered();
                refused = why;
            }
            Err(why @ ProxyError::TooEarly(_)) => {
                proxy.answered();
                return Err(why);
            }
        }
    }
    Err(refused)
}

/// Some proxies close the connection if they cannot reach a receiver; one that fails may do the same to everybody.
fn closed(proxy: &Proxy, address: SocketAddr) -> ProxyError {
    match proxy.health.closed(Instant::now(), address) {
        Closed::ReceiverFailed => ProxyError::Refused(ProxyRefusal::Closed {
            address: address.to_string(),
        }),
        Closed::Unclear => ProxyError::Failed(ProxyFault::Closed),
        Closed::ProxyFailed => {
            proxy.failed(&ProxyFault::Closed);
            ProxyError::Failed(ProxyFault::Closed)
        }
    }
}

impl Proxy {
    /// Connects to the proxy, and agrees with it on how to speak. What it does is noted.
    ///
    /// # Errors
    /// [`ProxyError::Failed`].
    async fn reach(&self) -> Result<TcpStream, ProxyError> {
        let began = Instant::now();
        let reaching = async {
            let mut stream = self.connect().await?;
            greet(&self.url, &mut stream).await?;
            Ok(stream)
        };
        let reached = match tokio::time::timeout(self.limit, reaching).await {
            Ok(reached) => reached,
            Err(_) => Err(ProxyError::Failed(ProxyFault::NotInTime)),
        };
        match &reached {
            Ok(_) => self.reached(),
            Err(ProxyError::Failed(why)) => self.unreachable(began, why),
            Err(ProxyError::Closed | ProxyError::Refused(_) | ProxyError::TooEarly(_)) => {}
        }
        reached
    }

    /// Finds out in the background whether the proxy can be reached, because a call ran out of time before that was known.
    /// One such task runs at a time, within the limit of the proxy.
    pub fn try_aside(self: &Arc<Self>) {
        if self.health.begins_aside() {
            let proxy = self.clone();
            tokio::spawn(async move {
                let _ = proxy.reach().await;
                proxy.health.ended_aside();
            });
        }
    }

    /// The address filter is for receivers, so it does not hold for the proxy.
    async fn connect(&self) -> Result<TcpStream, ProxyError> {
        let addresses = match self.url.host() {
            Host::Domain(name) => {
                let found = self.lookups.look_up(name, LookupShare::Proven).await;
                let found = found.map_err(|error| {
                    let error = error.to_string();
                    ProxyError::Failed(ProxyFault::NameUnknown { error })
                })?;
                found.to_vec()
            }
            Host::Ipv4(_) | Host::Ipv6(_) => Vec::new(),
        };
        let place = Uri::try_from(format!("http://{}:{}", self.url.host(), self.url.port()));
        let place = place.map_err(|error| {
            let error = error.to_string();
            ProxyError::Failed(ProxyFault::NoUsableAddress { error })
        })?;
        let until = Instant::now() + self.limit;
        let connected = tcp_connector(addresses, Some(until)).call(place).await;
        let stream = connected.map_err(|error| {
            let error = error.to_string();
            ProxyError::Failed(ProxyFault::Unreachable { error })
        })?;
        Ok(stream.into_inner())
    }
}
