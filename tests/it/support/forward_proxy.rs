//! A proxy for outgoing calls, as a company has one: HTTP with `CONNECT`, and SOCKS 5. It notes what it is asked for.

use super::merchant::each_connection;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpStream;

/// What the proxy speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP/1.1.
    Http,
    /// SOCKS 5.
    Socks,
}

/// How the proxy treats requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manner {
    /// Connects.
    Connect,
    /// Connects, and closes without an answer if it cannot.
    ConnectOrClose,
    /// Answers with this, and closes.
    Answer(&'static [u8]),
    /// Closes at once.
    Close,
    /// Reads and says nothing.
    Hang,
}

/// A proxy.
#[derive(Clone)]
pub struct ForwardProxy {
    speaks: Speaks,
    address: SocketAddr,
    state: Arc<Mutex<ProxyState>>,
}

struct ProxyState {
    manner: Manner,
    /// `user:password`, if it asks for one.
    credentials: Option<&'static str>,
    asked: Vec<String>,
}

impl ForwardProxy {
    /// Starts one, which asks for these credentials (`user:password`) if there are any.
    pub async fn start(speaks: Speaks, credentials: Option<&'static str>) -> Self {
        let state = Arc::new(Mutex::new(ProxyState {
            manner: Manner::Connect,
            credentials,
            asked: Vec::new(),
        }));
        let shared = state.clone();
        let address = each_connection(move |stream| {
            let state = shared.clone();
            async move {
                let _ = serve(stream, speaks, &state).await;
            }
        })
        .await;
        Self {
            speaks,
            address,
            state,
        }
    }

    /// Its URL, with these credentials.
    pub fn url(&self, credentials: Option<&str>) -> String {
        let scheme = match self.speaks {
            Speaks::Http => "http",
            Speaks::Socks => "socks5",
        };
        let credentials = credentials.map_or(String::new(), |own| format!("{own}@"));
        format!("{scheme}://{credentials}{}", self.address)
    }

    /// From now on it treats new connections like this.
    pub fn now_does(&self, manner: Manner) {
        self.state.lock().expect("unharmed").manner = manner;
    }

    /// The destinations that it was asked for.
    pub fn asked(&self) -> Vec<String> {
        self.state.lock().expect("unharmed").asked.clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    speaks: Speaks,
    state: &Mutex<ProxyState>,
) -> std::io::Result<()> {
    let (manner, credentials) = {
        let state = state.lock().expect("unharmed");
        (state.manner.clone(), state.credentials)
    };
    match manner {
        Manner::Connect | Manner::ConnectOrClose => {}
        Manner::Close => return Ok(()),
        Manner::Hang => {
            let mut rest = [0; 1024];
            while stream.read(&mut rest).await? > 0 {}
            return Ok(());
        }
        Manner::Answer(bytes) => {
            if speaks == Speaks::Socks {
                let mut greeting = [0; 3];
                stream.read_exact(&mut greeting).await?;
                stream.write_all(&[5, 0]).await?;
            }
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await?;
            stream.write_all(bytes).await?;
            while stream.read(&mut request).await? > 0 {}
            return Ok(());
        }
    }
    let note = |destination: String| state.lock().expect("unharmed").asked.push(destination);
    let destination = match speaks {
        Speaks::Http => http(&mut stream, credentials).await?,
        Speaks::Socks => socks(&mut stream, credentials).await?,
    };
    let Some(destination) = destination else {
        return Ok(());
    };
    note(destination.clone());
    let (good, bad): (&[u8], &[u8]) = match speaks {
        Speaks::Http => (
            b"HTTP/1.1 200 Connection established\r\n\r\n",
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
        ),
        Speaks::Socks => (
            &[5, 0, 0, 1, 127, 0, 0, 1, 0, 80],
            &[5, 5, 0, 1, 0, 0, 0, 0, 0, 0],
        ),
    };
    match TcpStream::connect(&destination).await {
        Ok(mut onward) => {
            stream.write_all(good).await?;
            copy_bidirectional(&mut stream, &mut onward).await?;
        }
        Err(_) if manner == Manner::ConnectOrClose => {}
        Err(_) => stream.write_all(bad).await?,
    }
    Ok(())
}

/// Reads a `CONNECT`. `None` if it was refused.
async fn http(
    stream: &mut TcpStream,
    credentials: Option<&str>,
) -> std::io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    if let Some(credentials) = credentials {
        let expected = format!(
            "\r\nProxy-Authorization: Basic {}\r\n",
            STANDARD.encode(credentials)
        );
        if !head.contains(&expected) {
            let refusal =
                b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(refusal).await?;
            return Ok(None);
        }
    }
    let mut words = head.split(' ');
    assert_eq!(words.next(), Some("CONNECT"), "{head}");
    Ok(words.next().map(ToString::to_string))
}

/// Reads a request of SOCKS 5. `None` if it was refused.
async fn socks(
    stream: &mut TcpStream,
    credentials: Option<&str>,
) -> std::io::Result<Option<String>> {
    let mut start = [0; 2];
    stream.read_exact(&mut start).await?;
    let mut methods = vec![0; usize::from(start[1])];
    stream.read_exact(&mut methods).await?;
    if let Some(credentials) = credentials {
        if !methods.contains(&2) {
            stream.write_all(&[5, 0xff]).await?;
            return Ok(None);
        }
        stream.write_all(&[5, 2]).await?;
        let mut texts = Vec::new();
        assert_eq!(stream.read_u8().await?, 1);
        for _ in 0..2 {
            let mut text = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut text).await?;
            texts.push(String::from_utf8_lossy(&text).into_owned());
        }
        let is_right = texts.join(":") == credentials;
        stream.write_all(&[1, u8::from(!is_right)]).await?;
        if !is_right {
            return Ok(None);
        }
    } else {
        stream.write_all(&[5, 0]).await?;
    }
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    let ip: IpAddr = match request {
        [5, 1, 0, 1] => {
            let mut octets = [0; 4];
            stream.read_exact(&mut octets).await?;
            octets.into()
        }
        [5, 1, 0, 4] => {
            let mut octets = [0; 16];
            stream.read_exact(&mut octets).await?;
            octets.into()
        }
        other => panic!("an address is expected: {other:?}"),
    };
    let port = stream.read_u16().await?;
    Ok(Some(SocketAddr::new(ip, port).to_string()))
}
