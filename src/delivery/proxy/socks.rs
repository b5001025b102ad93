//! A proxy that speaks SOCKS 5.

use super::error::{ProxyError, broke, is_closed};
use crate::domain::attempt_reason::{ProxyFault, ProxyRefusal, SocksRefusal};
use crate::domain::proxy_url::ProxyCredentials;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

const VERSION: u8 = 5;
const NO_CREDENTIALS: u8 = 0;
const PASSWORD: u8 = 2;
const PASSWORD_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The first part of SOCKS 5 (RFC 1928, section 3; RFC 1929).
pub(super) async fn greet(
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
pub(super) async fn connect(stream: &mut TcpStream, address: SocketAddr) -> Result<(), ProxyError> {
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
        return Err(refused(reply, address));
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
fn refused(reply: u8, address: SocketAddr) -> ProxyError {
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
