//! Resolves host names for the HTTP client (`delivery::lookups`), and checks every address with the address filter.
//!
//! The client connects only to the addresses that this resolver returns, so it calls only checked
//! addresses. One address that may not be called blocks the whole name, because a name with a public and an
//! internal address is probably an attempt to reach the internal network.

use super::address_filter::{AddressFilter, Blocked, Scheme};
use super::lookups::{LookupShare, Lookups};
use crate::domain::attempt_reason::ConnectionReason;
use hyper_util::client::legacy::connect::dns::Name;
use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use thiserror::Error;
use tower_service::Service;

/// Maximum number of addresses of each kind (IPv4, IPv6) that one call may try. The owner of a name may list thousands of
/// other people's addresses.
const MOST_ADDRESSES: usize = 16;

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
    Unknown(#[source] Arc<io::Error>),
    /// The look-up succeeded and returned no address.
    Empty,
    /// One of the addresses of the name may not be called.
    Blocked(#[from] Blocked),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(out)
    }
}

impl ResolveError {
    /// The reason of an attempt that ends so.
    #[must_use]
    pub fn reason(&self) -> ConnectionReason {
        match self {
            Self::Unknown(error) => ConnectionReason::NameUnknown {
                error: error.to_string(),
            },
            Self::Empty => ConnectionReason::NoAddress,
            Self::Blocked(blocked) => blocked.reason(),
        }
    }
}

impl FilteringResolver {
    /// The addresses of a host name, at most [`MOST_ADDRESSES`] of each kind. Their port is 0, because the connector sets the
    /// real one. `begun`: see [`Lookups::look_up_and_tell`].
    ///
    /// # Errors
    /// [`ResolveError`] if there is none, or one of them may not be called.
    pub async fn resolve(
        &self,
        name: &str,
        share: LookupShare,
        begun: impl Fn(),
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        let addresses = self.lookups.look_up_and_tell(name, share, begun).await;
        let addresses = addresses.map_err(ResolveError::Unknown)?;
        if addresses.is_empty() {
            return Err(ResolveError::Empty);
        }
        for address in &*addresses {
            self.filter.check(address.ip(), self.scheme)?;
        }
        Ok(first_of_each_kind(&addresses))
    }
}

fn first_of_each_kind(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut counts = [0; 2];
    let mut first = Vec::new();
    for address in addresses {
        let count = &mut counts[usize::from(address.is_ipv6())];
        if *count < MOST_ADDRESSES {
            *count += 1;
            first.push(*address);
        }
    }
    first
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn of_a_name_with_very_many_addresses_some_of_each_kind_are_tried() {
        let v6 = |last| SocketAddr::from((Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last), 0));
        let v4 = |last| SocketAddr::from((Ipv4Addr::new(192, 0, 2, last), 0));
        let addresses: Vec<_> = (1..=200).map(v6).chain((1..=200).map(v4)).collect();
        let expected: Vec<_> = (1..=16).map(v6).chain((1..=16).map(v4)).collect();
        assert_eq!(first_of_each_kind(&addresses), expected);
        assert_eq!(first_of_each_kind(&addresses[..3]), addresses[..3]);
    }
}
