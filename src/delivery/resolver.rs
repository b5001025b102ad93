//! Resolves host names for the HTTP client (`delivery::lookups`), and checks every address with the address filter.
//!
//! The client connects only to the addresses that this resolver returns, so it calls only checked
//! addresses. One address that may not be called blocks the whole name, because a name with a public and an
//! internal address is probably an attempt to reach the internal network.

use super::address_filter::{AddressFilter, Blocked, Scheme};
use super::lookups::{LookupShare, Lookups};
use hyper_util::client::legacy::connect::dns::Name;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use thiserror::Error;
use tower_service::Service;

/// The resolver of the HTTP client for one scheme.
pub struct FilteringResolver {
    /// Says which addresses may be called.
    pub filter: Arc<AddressFilter>,
    /// The scheme of the calls.
    pub scheme: Scheme,
    /// Looks the names up.
    pub lookups: Arc<Lookups>,
}

/// Why a host name gives no address to connect to.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// The look-up of the name failed.
    #[error("the host name cannot be resolved: {0}")]
    Unknown(#[source] Arc<io::Error>),
    /// The look-up succeeded and returned no address.
    #[error("the host name has no address")]
    Empty,
    /// One of the addresses of the name may not be called.
    #[error(transparent)]
    Blocked(#[from] Blocked),
}

impl FilteringResolver {
    /// The addresses of a host name. Their port is 0, because the connector sets the real one.
    ///
    /// # Errors
    /// [`ResolveError`] if there is none, or one of them may not be called.
    pub async fn resolve(
        &self,
        name: &str,
        share: LookupShare,
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        let addresses = self.lookups.look_up(name, share).await;
        let addresses = addresses.map_err(ResolveError::Unknown)?;
        if addresses.is_empty() {
            return Err(ResolveError::Empty);
        }
        for address in &*addresses {
            self.filter.check(address.ip(), self.scheme)?;
        }
        Ok(addresses.to_vec())
    }
}

/// The addresses of a host name that was resolved already, for the connector.
#[derive(Clone)]
pub struct Resolved(pub Vec<SocketAddr>);

impl Service<Name> for Resolved {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Name) -> Self::Future {
        ready(Ok(std::mem::take(&mut self.0).into_iter()))
    }
}
