//! Resolves host names for the HTTP client, and checks every address with the address filter.
//!
//! The client connects only to the addresses that this resolver returns, so it calls only checked
//! addresses. One address that may not be called blocks the whole name, because a name with a public and an
//! internal address is probably an attempt to reach the internal network.

use super::address_filter::{AddressFilter, Blocked, Scheme};
use hyper_util::client::legacy::connect::dns::Name;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use thiserror::Error;
use tower_service::Service;

/// The resolver of the HTTP client for one scheme.
#[derive(Clone)]
pub struct FilteringResolver {
    /// Says which addresses may be called.
    pub filter: Arc<AddressFilter>,
    /// The scheme of the calls.
    pub scheme: Scheme,
}

/// Why a host name gives no address to connect to.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// The look-up of the name failed.
    #[error("the host name cannot be resolved: {0}")]
    Unknown(#[source] io::Error),
    /// The look-up succeeded and returned no address.
    #[error("the host name has no address")]
    Empty,
    /// One of the addresses of the name may not be called.
    #[error(transparent)]
    Blocked(#[from] Blocked),
}

impl Service<Name> for FilteringResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ResolveError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (filter, scheme) = (self.filter.clone(), self.scheme);
        Box::pin(async move {
            // The port is 0 because the connector sets the real one.
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0))
                .await
                .map_err(ResolveError::Unknown)?
                .collect();
            if addresses.is_empty() {
                return Err(ResolveError::Empty);
            }
            for address in &addresses {
                filter.check(address.ip(), scheme)?;
            }
            Ok(addresses.into_iter())
        })
    }
}
