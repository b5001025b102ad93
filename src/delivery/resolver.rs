//! Resolving host names for the HTTP client, with the address filter in between.
//!
//! The client dials exactly the addresses that come out of here, so what was checked is what is
//! called. One address that may not be called blocks the whole name: a name with a public and an
//! internal address is an attempt to get in.

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

/// The resolver of the client for one scheme.
#[derive(Clone)]
pub struct FilteringResolver {
    /// Says which addresses may be called.
    pub filter: Arc<AddressFilter>,
    /// How they are called.
    pub scheme: Scheme,
}

/// Why a host name gives no address to dial.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// The name does not resolve.
    #[error("the host name has no address: {0}")]
    Unknown(#[source] io::Error),
    /// It resolves to nothing.
    #[error("the host name has no address")]
    Empty,
    /// One of its addresses may not be called.
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
            // The port is the caller's matter.
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
