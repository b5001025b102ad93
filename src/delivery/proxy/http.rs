//! A proxy that speaks HTTP/1.1.

use super::error::{ProxyError, broke, broke_when_asked};
use crate::domain::attempt_reason::{ProxyFault, ProxyRefusal};
use crate::domain::proxy_url::ProxyCredentials;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

/// Maximum bytes of the answer to `CONNECT`.
const LONGEST_ANSWER: usize = 16 * 1024;

/// `CONNECT` (RFC 9110, section 9.3.6).
pub(super) async fn connect(
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
