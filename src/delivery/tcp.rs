//! How TCP connections are opened, and for how long each address is tried.

use super::resolver::Resolved;
use hyper_util::client::legacy::connect::HttpConnector;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// TCP keepalive: how long a connection is silent before the kernel sends a probe, and the time between
/// two probes.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// TCP keepalive: how many probes stay unanswered before the connection counts as broken.
const KEEPALIVE_RETRIES: u32 = 3;
/// How long sent bytes may stay unacknowledged by TCP before the connection counts as broken.
const UNCONFIRMED: Duration = Duration::from_secs(30);

/// The number of addresses of a name that certainly get their turn before the time is over.
const MOST_PARTS: usize = 8;

/// Opens TCP connections. A host name is taken for these addresses, which were checked. If there are several, each gets
/// its part of the time until `until`.
pub fn tcp_connector(
    addresses: Vec<SocketAddr>,
    until: Option<Instant>,
) -> HttpConnector<Resolved> {
    let several = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    let limit = until
        .filter(|_| several > 1)
        .and_then(|until| part(until, addresses.len()).checked_mul(several));
    let mut tcp = HttpConnector::new_with_resolver(Resolved(addresses));
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // Divided by the number of the addresses there.
    tcp.set_connect_timeout(limit);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNCONFIRMED));
    tcp
}

/// For how long one of these addresses is tried: an equal part of the time that is left, of which one more part remains for
/// the call itself.
pub fn part(until: Instant, addresses: usize) -> Duration {
    let left = until.saturating_duration_since(Instant::now());
    let parts = addresses.clamp(1, MOST_PARTS) + 1;
    left / u32::try_from(parts).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_share_the_time_and_leave_a_part() {
        let until = Instant::now() + Duration::from_secs(9);
        let check = |addresses: usize, expected: f64| {
            let part = part(until, addresses).as_secs_f64();
            assert!((part - expected).abs() < 0.5, "{addresses}: {part}");
        };
        check(1, 4.5);
        check(2, 3.0);
        check(8, 1.0);
        check(1_000, 1.0);
        assert_eq!(part(Instant::now(), 2), Duration::ZERO);
    }
}
