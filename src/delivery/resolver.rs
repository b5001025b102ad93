//! Resolving host names for the HTTP client, with the guard in between.
//!
//! The client dials exactly the addresses that come out of here, so what was checked is what is
//! called. One address that may not be called blocks the whole name: a name with a public and an
//! internal address is an attempt to get in.

use super::guard::{Blocked, Guard, Scheme};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;

/// The resolver of the client for one scheme.
pub struct GuardedResolver {
    pub guard: Arc<Guard>,
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

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, scheme) = (self.guard.clone(), self.scheme);
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0))
                .await
                .map_err(ResolveError::Unknown)?
                .collect();
            if addresses.is_empty() {
                return Err(ResolveError::Empty.into());
            }
            for address in &addresses {
                guard
                    .check(address.ip(), scheme)
                    .map_err(ResolveError::from)?;
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
