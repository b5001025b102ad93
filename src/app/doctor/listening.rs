//! The addresses to listen on: whether they are free, who answers there, and whether the API needs a key.

use super::finding::Finding;
use crate::config::{ApiKey, ServeConfig};
use crate::journal::Journal;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// How long a program that listens on the address may take to answer.
const LONGEST_ANSWERING: Duration = Duration::from_secs(2);
/// Maximum bytes of its answer.
const LONGEST_ANSWER: u64 = 4 * 1024;
const KEYS: &str = "api keys";

/// Looks at the addresses and at the API keys. `journal`: if it can be read.
pub async fn examine(config: &ServeConfig, journal: Option<&dyn Journal>) -> Vec<Finding> {
    let mut findings = vec![api_keys(config, journal).await];
    findings.push(address("listen", "--listen", config.api.listen).await);
    if let Some(own) = config.api.metrics_listen {
        findings.push(address("metrics-listen", "--metrics-listen", own).await);
    }
    findings
}

async fn api_keys(config: &ServeConfig, journal: Option<&dyn Journal>) -> Finding {
    let kept = match journal {
        Some(journal) => journal.api_keys().await,
        None => Ok(Vec::new()),
    };
    let many = match kept {
        Ok(kept) => kept.len() + usize::from(config.api.key.is_some()),
        Err(error) => {
            let text = format!("the API keys cannot be read: {error}");
            return Finding::problem(KEYS, text, "see the message");
        }
    };
    if let Some(weakness) = config.api.key.as_ref().and_then(ApiKey::weakness) {
        return Finding::warning(KEYS, weakness, ApiKey::ADVICE);
    }
    let listen = config.api.listen;
    match (many, listen.ip().is_loopback()) {
        (0, true) => Finding::ok(
            KEYS,
            "there is none, so every program on this machine may use the API; make one with `ringback key add`",
        ),
        (0, false) => Finding::problem(
            KEYS,
            format!(
                "others than this machine can reach {listen}, and there is no API key, so the server does not start"
            ),
            "set --api-key-file FILE (or RINGBACK_API_KEY), or listen on 127.0.0.1",
        ),
        (1, _) => Finding::ok(KEYS, "there is 1, and the API needs it"),
        (many, _) => Finding::ok(
            KEYS,
            format!("there are {many}, and the API needs one of them"),
        ),
    }
}

async fn address(subject: &'static str, flag: &str, address: SocketAddr) -> Finding {
    if address.port() == 0 {
        return Finding::ok(subject, format!("{address}: any free port is taken"));
    }
    let error = match TcpListener::bind(address).await {
        Ok(_) => return Finding::ok(subject, format!("{address} is free")),
        Err(error) => error,
    };
    let other = format!("give another address with {flag}");
    match error.kind() {
        io::ErrorKind::AddrInUse if is_ringback(address).await => {
            let text = format!("a Ringback server answers on {address} already");
            Finding::ok(subject, text)
        }
        io::ErrorKind::AddrInUse => {
            let text = format!("another program listens on {address}");
            let mend = format!("{other}, or end that program: `ss -ltnp` names it");
            Finding::problem(subject, text, &mend)
        }
        io::ErrorKind::AddrNotAvailable => {
            let text = format!("this machine does not have the address {address}");
            Finding::problem(subject, text, &other)
        }
        io::ErrorKind::PermissionDenied => {
            let text = format!("this user may not listen on {address}");
            let mend = format!("{other}, with a port above 1023");
            Finding::problem(subject, text, &mend)
        }
        _ => Finding::problem(
            subject,
            format!("cannot listen on {address}: {error}"),
            &other,
        ),
    }
}

/// Whether what listens there answers as a server of Ringback.
async fn is_ringback(listening: SocketAddr) -> bool {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let address = SocketAddr::new(ip, listening.port());
    let asking = async {
        let health = ask(address, "/healthz").await?;
        // A listener for metrics alone has no other route.
        let is_api = health.ends_with("{\"status\":\"ok\"}");
        Ok::<_, io::Error>(is_api || health.contains("urn:ringback:problem:"))
    };
    matches!(timeout(LONGEST_ANSWERING, asking).await, Ok(Ok(true)))
}

async fn ask(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
