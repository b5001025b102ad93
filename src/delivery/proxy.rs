//! Opens connections to receivers through the proxy of the server.
//!
//! The proxy gets the address that this server has resolved and checked, and not the name: if the proxy resolved it,
//! the address filter could be evaded by a name that has another address there. TLS is spoken with the receiver through
//! the tunnel, so the proxy sees nothing of a call by https but the address. Calls by plain http go through a tunnel too.
//!
//! A failure of the proxy itself is told apart from a receiver that the proxy cannot reach. After one, calls are not
//! made for a moment, one of them tries the proxy again, and nothing is recorded of any receiver.

use super::lookups::Lookups;
use super::proxy_health::{ProxyHealth, Stage};
use crate::domain::attempt_reason::{ProxyFault, ProxyReason, ProxyRefusal, SocksRefusal};
use crate::domain::proxy_url::{ProxyCredentials, ProxyKind, ProxyUrl};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

/// Maximum bytes of the answer to `CONNECT`.
const LONGEST_ANSWER: usize = 16 * 1024;
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

/// Why the proxy gave no connection.
#[derive(Debug, Error)]
pub enum ProxyError {
    /// The proxy itself failed. Nothing is known about the receiver.
    Failed(ProxyFault),
    /// The proxy did not connect to the receiver.
    Refused(ProxyRefusal),
    /// The proxy closed the connection instead of an answer to `CONNECT`.
    Closed,
    /// Bytes came through the tunnel to this address before the request was sent.
    TooEarly(SocketAddr),
}

impl ProxyError {
    /// The reason of an attempt that ends so.
    pub fn reason(&self) -> ProxyReason {
        match self {
            Self::Failed(fault) => ProxyReason::Failed {
                fault: fault.clone(),
            },
            Self::Refused(why) => ProxyReason::Refused { why: why.clone() },
            Self::Closed => ProxyReason::Failed {
                fault: ProxyFault::Closed,
            },
            Self::TooEarly(address) => ProxyReason::TooEarly {
                address: address.to_string(),
            },
        }
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(out)
    }
}

/// The proxy did not speak its protocol, or broke off.
fn broke(error: &io::Error) -> ProxyError {
    ProxyError::Failed(match is_closed(error) {
        true => ProxyFault::Closed,
        false => ProxyFault::BrokeOff {
            error: error.to_string(),
        },
    })
}

/// The proxy broke off when it was asked for a receiver.
fn broke_when_asked(error: &io::Error) -> ProxyError {
    match is_closed(error) {
        true => ProxyError::Closed,
        false => broke(error),
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

/// Agrees with the proxy on how to speak. What follows concerns the receiver.
///
/// # Errors
/// [`ProxyError::Failed`].
pub async fn greet(proxy: &ProxyUrl, stream: &mut TcpStream) -> Result<(), ProxyError> {
    match proxy.kind() {
        ProxyKind::Http => Ok(()),
        ProxyKind::Socks5 => greet_socks(stream, proxy.credentials()).await,
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
        ProxyKind::Http => connect_http(stream, address, proxy.credentials()).await,
        ProxyKind::Socks5 => connect_socks(stream, address).await,
    }
}

/// `CONNECT` (RFC 9110, section 9.3.6).
async fn connect_http(
    stream: &mut TcpStream,
    address: SocketAddr,
    credentials: Option<&ProxyCredentials>,
) -> Result<(), ProxyError> {
    // Room for everything, so that the buffer does not move and leave a copy of the password behind.
    let mut request = Zeroizing::new(String::with_capacity(2 * 1024));
    request.push_str(&format!(
        "CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n"
    ));
    if let Some(ProxyCredentials { user, password }) = credentials {
        let mut pair = Zeroizing::new(String::with_capacity(user.len() + 1 + password.len()));
        pair.push_str(user);
        pair.push(':');
        pair.push_str(password);
        request.push_str("Proxy-Authorization: Basic ");
        STANDARD.encode_string(pair.as_bytes(), &mut request);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    let written = stream.write_all(request.as_bytes()).await;
    written.map_err(|error| broke_when_asked(&error))?;
    let mut answer = Vec::with_capacity(1024);
    let end = loop {
        if let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end;
        }
        if answer.len() >= LONGEST_ANSWER {
            return Err(ProxyError::Failed(ProxyFault::HeadersTooLong));
        }
        let broke = match answer.is_empty() {
            true => broke_when_asked,
            false => broke,
        };
        let read = stream.read_buf(&mut answer).await;
        if read.map_err(|error| broke(&error))? == 0 {
            return Err(broke(&io::ErrorKind::UnexpectedEof.into()));
        }
    };
    match status_of(&answer) {
        None => Err(ProxyError::Failed(ProxyFault::NotHttp)),
        Some(200..=299) if answer.len() == end + 4 => Ok(()),
        // What follows the answer comes through the tunnel.
        Some(200..=299) => Err(ProxyError::TooEarly(address)),
        Some(407) => Err(ProxyError::Failed(match credentials {
            Some(_) => ProxyFault::HttpWrongPassword,
            None => ProxyFault::HttpPasswordNeeded,
        })),
        Some(status @ (403 | 405)) => Err(ProxyError::Refused(ProxyRefusal::Forbidden {
            status,
            address: address.to_string(),
        })),
        Some(status) => Err(ProxyError::Refused(ProxyRefusal::Status {
            status,
            address: address.to_string(),
        })),
    }
}

/// The status of an answer of HTTP/1.x.
fn status_of(answer: &[u8]) -> Option<u16> {
    let rest = answer
        .strip_prefix(b"HTTP/1.1 ")
        .or(answer.strip_prefix(b"HTTP/1.0 "))?;
    let (digits, after) = rest.split_first_chunk::<3>()?;
    let status: u16 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (status >= 200 && matches!(after.first(), Some(b' ' | b'\r'))).then_some(status)
}

const VERSION: u8 = 5;
const NO_CREDENTIALS: u8 = 0;
const PASSWORD: u8 = 2;
const PASSWORD_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The first part of SOCKS 5 (RFC 1928, section 3; RFC 1929).
async fn greet_socks(
    stream: &mut TcpStream,
    credentials: Option<&ProxyCredentials>,
) -> Result<(), ProxyError> {
    let methods: &[u8] = match credentials {
        Some(_) => &[VERSION, 2, NO_CREDENTIALS, PASSWORD],
        None => &[VERSION, 1, NO_CREDENTIALS],
    };
    let written = stream.write_all(methods).await;
    written.map_err(|error| broke(&error))?;
    let [version, method] = read(stream).await?;
    if version != VERSION {
        return Err(ProxyError::Failed(ProxyFault::NotSocks));
    }
    let ProxyCredentials { user, password } = match (method, credentials) {
        (NO_CREDENTIALS, _) => return Ok(()),
        (PASSWORD, Some(credentials)) => credentials,
        (_, Some(_)) => return Err(ProxyError::Failed(ProxyFault::NoMethod)),
        (_, None) => return Err(ProxyError::Failed(ProxyFault::PasswordNeeded)),
    };
    let mut message = Zeroizing::new(Vec::with_capacity(3 + user.len() + password.len()));
    message.push(PASSWORD_VERSION);
    for text in [user, password] {
        message.push(u8::try_from(text.len()).expect("invariant: at most 255 bytes"));
        message.extend_from_slice(text.as_bytes());
    }
    let written = stream.write_all(&message).await;
    written.map_err(|error| broke(&error))?;
    match read(stream).await? {
        [_, 0] => Ok(()),
        [_, _] => Err(ProxyError::Failed(ProxyFault::WrongPassword)),
    }
}

/// The second part of SOCKS 5 (RFC 1928, sections 4 to 6).
async fn connect_socks(stream: &mut TcpStream, address: SocketAddr) -> Result<(), ProxyError> {
    let mut request = vec![VERSION, CONNECT, 0];
    match address.ip() {
        IpAddr::V4(ip) => {
            request.push(IPV4);
            request.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            request.push(IPV6);
            request.extend(ip.octets());
        }
    }
    request.extend(address.port().to_be_bytes());
    // The proxy has just answered the greeting. So if it closes the connection now, that is about the receiver.
    let closed = |error: &io::Error| match is_closed(error) {
        true => ProxyError::Refused(ProxyRefusal::Closed {
            address: address.to_string(),
        }),
        false => broke(error),
    };
    let written = stream.write_all(&request).await;
    written.map_err(|error| closed(&error))?;
    let mut answer = [0; 4];
    let read_first = stream.read_exact(&mut answer).await;
    read_first.map_err(|error| closed(&error))?;
    let [version, reply, _, kind] = answer;
    if version != VERSION {
        return Err(ProxyError::Failed(ProxyFault::NotSocks));
    }
    if reply != 0 {
        return Err(refused_by_socks(reply, address));
    }
    // The address from which the proxy calls is not used.
    let length = match kind {
        IPV4 => 4,
        IPV6 => 16,
        NAME => usize::from(read::<1>(stream).await?[0]),
        _ => return Err(ProxyError::Failed(ProxyFault::UnknownAddressKind)),
    };
    let mut rest = [0; 255 + 2];
    let read = stream.read_exact(&mut rest[..length + 2]).await;
    read.map(drop).map_err(|error| broke(&error))
}

/// What the proxy says with its reply.
fn refused_by_socks(reply: u8, address: SocketAddr) -> ProxyError {
    let why = match reply {
        2 => SocksRefusal::Forbidden,
        3 => SocksRefusal::NoNetwork,
        4 => SocksRefusal::NoHost,
        5 => SocksRefusal::Refused,
        6 => SocksRefusal::Silent,
        8 => SocksRefusal::OtherKind,
        1 | 7 => SocksRefusal::Failed,
        _ => SocksRefusal::Unknown,
    };
    ProxyError::Refused(ProxyRefusal::Socks {
        why,
        reply: reply.into(),
        address: address.to_string(),
    })
}

async fn read<const N: usize>(stream: &mut TcpStream) -> Result<[u8; N], ProxyError> {
    let mut bytes = [0; N];
    let read = stream.read_exact(&mut bytes).await;
    read.map_err(|error| broke(&error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_that_of_http_1() {
        fn check(answer: &str, expected: Option<u16>) {
            assert_eq!(status_of(answer.as_bytes()), expected, "{answer}");
        }
        check("HTTP/1.1 200 Connection established\r\n\r\n", Some(200));
        check("HTTP/1.0 407\r\n\r\n", Some(407));
        check("HTTP/1.1 502 Bad Gateway\r\n", Some(502));
        for wrong in [
            "HTTP/2 200 OK\r\n",
            "HTTP/1.1 20",
            "HTTP/1.1 2000 OK\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 abc\r\n",
            "SSH-2.0-x\r\n",
            "",
        ] {
            check(wrong, None);
        }
    }
}
