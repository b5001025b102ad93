//! Decides which IP addresses may be called.
//!
//! Callers choose the destinations, so a destination could be inside our own network: a metadata service,
//! the HTTP port of a database, an admin page. Every address of a host name is checked after the name was
//! resolved, and the client connects to the checked address. So the check holds even if the name resolves
//! to another address a moment later.
//!
//! Sources: the IANA IPv4 and IPv6 special-purpose address registries (RFC 6890 and its updates); and the documentation of Azure,
//! "What is IP address 168.63.129.16?".

use crate::domain::attempt_reason::{AddressKind, ConnectionReason};
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// The rules that say which addresses may be called.
#[derive(Debug, Clone, Default)]
pub struct AddressFilter {
    /// Networks that may be called although they are internal, and also by plain http.
    pub allowed: Vec<IpNet>,
    /// Whether public addresses may be called by plain http.
    pub allow_http: bool,
}

/// The scheme of a destination's URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP with TLS.
    Https,
    /// HTTP without TLS.
    Http,
}

/// Why an address may not be called.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Blocked {
    /// The address is not public, and no allowed network contains it.
    Internal {
        /// The address.
        address: IpAddr,
        /// What kind of address it is.
        kind: AddressKind,
    },
    /// The address is public, but would be called without TLS.
    PlainHttp(IpAddr),
}

impl fmt::Display for Blocked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(out)
    }
}

impl Blocked {
    /// The reason of an attempt that is blocked.
    #[must_use]
    pub fn reason(&self) -> ConnectionReason {
        match self {
            Self::Internal { address, kind } => ConnectionReason::InternalAddress {
                address: address.to_string(),
                kind: *kind,
            },
            Self::PlainHttp(address) => ConnectionReason::PlainHttp {
                address: address.to_string(),
            },
        }
    }
}

impl AddressFilter {
    /// Checks whether one address may be called.
    ///
    /// # Errors
    /// [`Blocked`] says why the address may not be called.
    pub fn check(&self, address: IpAddr, scheme: Scheme) -> Result<(), Blocked> {
        // An IPv4-mapped IPv6 address is checked as IPv4, because the kernel connects to the IPv4 address.
        let address = address.to_canonical();
        if self
            .allowed
            .iter()
            .any(|network| network.contains(&address))
        {
            return Ok(());
        }
        let kind = match address {
            IpAddr::V4(address) => internal_v4(address),
            IpAddr::V6(address) => internal_v6(address),
        };
        match (kind, scheme) {
            (Some(kind), _) => Err(Blocked::Internal { address, kind }),
            (None, Scheme::Http) if !self.allow_http => Err(Blocked::PlainHttp(address)),
            (None, Scheme::Http | Scheme::Https) => Ok(()),
        }
    }
}

fn internal_v4(address: Ipv4Addr) -> Option<AddressKind> {
    match address.octets() {
        [0, ..] => Some(AddressKind::Unspecified),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some(AddressKind::Private),
        [100, 64..=127, ..] => Some(AddressKind::Shared),
        [127, ..] => Some(AddressKind::Loopback),
        // A public address of Microsoft by which every virtual machine in Azure reaches its host: the agent of the platform, DNS
        // and health probes.
        [168, 63, 129, 16] => Some(AddressKind::Platform),
        [169, 254, ..] => Some(AddressKind::LinkLocal),
        [192, 0, 0, _] => Some(AddressKind::Protocols),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some(AddressKind::Documentation),
        [192, 88, 99, _] => Some(AddressKind::Relay),
        [198, 18..=19, ..] => Some(AddressKind::Benchmarks),
        [224..=239, ..] => Some(AddressKind::Multicast),
        [240..=255, ..] => Some(AddressKind::Reserved),
        _ => None,
    }
}

fn internal_v6(address: Ipv6Addr) -> Option<AddressKind> {
    let segments = address.segments();
    let last_v4 = || {
        let [high, low] = [segments[6], segments[7]].map(u16::to_be_bytes);
        Ipv4Addr::new(high[0], high[1], low[0], low[1])
    };
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(AddressKind::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(AddressKind::Loopback),
        // NAT64: the call reaches the IPv4 address in the last 32 bits.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => internal_v4(last_v4()),
        // 6to4: the call reaches the IPv4 address in the bits 16 to 47.
        [0x2002, high, low, ..] => {
            let [high, low] = [high, low].map(u16::to_be_bytes);
            internal_v4(Ipv4Addr::new(high[0], high[1], low[0], low[1]))
        }
        [0x2001, 0, ..] => Some(AddressKind::Teredo),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some(AddressKind::Documentation),
        [0x2001, 2, 0, ..] => Some(AddressKind::Benchmarks),
        [0xfc00..=0xfdff, ..] => Some(AddressKind::UniqueLocal),
        [0xfe80..=0xfebf, ..] => Some(AddressKind::LinkLocal),
        [0xfec0..=0xfeff, ..] => Some(AddressKind::SiteLocal),
        [0xff00..=0xffff, ..] => Some(AddressKind::Multicast),
        // IANA assigns global addresses only from 2000::/3.
        [0x2000..=0x3fff, ..] => None,
        _ => Some(AddressKind::NotGlobal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(allowed: &[&str], allow_http: bool) -> AddressFilter {
        let allowed = allowed
            .iter()
            .map(|network| network.parse().expect("a network"))
            .collect();
        AddressFilter {
            allowed,
            allow_http,
        }
    }

    #[test]
    fn internal_addresses_are_blocked_in_every_notation() {
        let filter = filter(&[], true);
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::168.63.129.16",
            "::ffff:168.63.129.16",
            "64:ff9b:1::1",
            "2002:0a00:0001::",
            "2002:7f00:1::1",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "4000::1",
            "5f00::1",
        ] {
            let address: IpAddr = text.parse().expect("an address");
            for scheme in [Scheme::Https, Scheme::Http] {
                let result = filter.check(address, scheme);
                assert!(
                    matches!(result, Err(Blocked::Internal { .. })),
                    "{text}: {result:?}"
                );
            }
        }
    }

    #[test]
    fn public_addresses_are_called_by_https_and_by_http_only_if_allowed() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.0.0.1",
            "128.0.0.1",
            "168.63.129.15",
            "168.63.129.17",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2002:0101:0101::1",
            "64:ff9b::1.1.1.1",
            "::ffff:1.1.1.1",
        ] {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(
                filter(&[], false).check(address, Scheme::Https),
                Ok(()),
                "{text}"
            );
            assert_eq!(
                filter(&[], true).check(address, Scheme::Http),
                Ok(()),
                "{text}"
            );
            let plain = filter(&[], false).check(address, Scheme::Http);
            assert!(
                matches!(plain, Err(Blocked::PlainHttp(_))),
                "{text}: {plain:?}"
            );
        }
    }

    #[test]
    fn allowed_networks_may_be_called_both_ways_and_no_further() {
        let filter = filter(&["127.0.0.0/8", "fd00::/8"], false);
        let check = |text: &str, allowed: bool| {
            let address: IpAddr = text.parse().expect("an address");
            for scheme in [Scheme::Https, Scheme::Http] {
                assert_eq!(filter.check(address, scheme).is_ok(), allowed, "{text}");
            }
        };
        check("127.0.0.1", true);
        check("::ffff:127.0.0.1", true);
        check("fd00::1", true);
        check("::1", false);
        check("10.0.0.1", false);
        check("fc00::1", false);
    }
}
