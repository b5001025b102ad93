//! A port of this machine at which every connection is refused.
//!
//! The port stays bound and nothing listens at it. A port that was bound and closed again can be given to another
//! test in the next moment, whose server would then answer.

use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};

/// Refuses connections until it is dropped.
pub struct RefusingPort {
    address: SocketAddr,
    _bound: Socket,
}

impl RefusingPort {
    /// Takes a free port of the IPv4 loopback address.
    pub fn take() -> Self {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        bound.bind(&any.into()).expect("a free port");
        let address = bound.local_addr().expect("bound").as_socket();
        Self {
            address: address.expect("an IP address"),
            _bound: bound,
        }
    }

    /// The address and the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
