//! A receiver that writes HTTP/2 frame by frame, so that it can break every rule.

use super::merchant::each_connection;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
/// The bytes before the first frame of a caller.
const PREFACE: usize = 24;

/// A frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The first words of a receiver.
pub fn settings() -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[])
}

/// The head of an answer with status 200 and these headers.
pub fn head(headers: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, &block(headers))
}

/// Status 200 and these headers, compressed.
pub fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    // Status 200 is in the static table of HPACK.
    let mut block = vec![0x88];
    for (name, value) in headers {
        block.push(0);
        for text in [name, value] {
            text_into(&mut block, text);
        }
    }
    block
}

/// An interim answer.
pub fn interim() -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, b"\x08\x03103")
}

/// The body of the answer, all of it.
pub fn body(bytes: &[u8]) -> Vec<u8> {
    frame(DATA, END_STREAM, 1, bytes)
}

/// The first words of a receiver that allows so many calls at a time on a connection.
pub fn settings_allowing(calls: u32) -> Vec<u8> {
    let payload = [&[0, 3][..], &calls.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &payload)
}

/// GOAWAY: calls after this one were not processed.
pub fn go_away(last: u32, code: u32) -> Vec<u8> {
    let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
    frame(GOAWAY, 0, 0, &payload)
}

/// A text in HPACK (RFC 7541, section 5.2), not compressed.
fn text_into(block: &mut Vec<u8>, text: &str) {
    let mut rest = text.len();
    if rest < 127 {
        block.push(rest as u8);
    } else {
        block.push(127);
        rest -= 127;
        while rest >= 128 {
            block.push((rest % 128) as u8 | 128);
            rest /= 128;
        }
        block.push(rest as u8);
    }
    block.extend(text.as_bytes());
}

/// What a receiver does on each of its connections, in this order.
#[derive(Debug, Clone, Default)]
pub struct FrameScript {
    /// It sends this at once.
    pub first: Vec<u8>,
    /// So many calls get no answer before the one that gets `answer`.
    pub ignored: usize,
    /// It sends this after the head of the first call that is not ignored.
    pub answer: Vec<u8>,
    /// Then this again and again, if there is any.
    pub flood: Vec<u8>,
    /// It closes the connection. Else it reads on and says nothing.
    pub closes: bool,
    /// It closes the connection as soon as its settings are acknowledged.
    pub closes_early: bool,
    /// It answers pings.
    pub answers_pings: bool,
    /// It answers each call whose body has come whole with `success`.
    pub answers_whole_calls: bool,
    /// It says of each part of a body, for the stream and for the connection, that it takes as much again.
    pub widens: bool,
}

/// A receiver that follows a script for each connection; the last one is for all that follow.
pub struct FrameReceiver {
    address: SocketAddr,
    opened: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

impl FrameReceiver {
    /// Starts one.
    pub async fn start(scripts: Vec<FrameScript>) -> Self {
        let (opened, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (opened.clone(), calls.clone());
        let address = each_connection(move |stream| {
            let number = counts.0.fetch_add(1, Ordering::SeqCst);
            let script = scripts[number.min(scripts.len() - 1)].clone();
            let calls = counts.1.clone();
            async move {
                let _ = follow(stream, script, &calls).await;
            }
        })
        .await;
        Self {
            address,
            opened,
            calls,
        }
    }

    /// The URL to call.
    pub fn url(&self) -> String {
        format!("http://{}/notify", self.address)
    }

    /// How many connections were opened to it.
    pub fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    /// How many calls have begun to arrive.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

async fn follow(
    mut stream: TcpStream,
    script: FrameScript,
    calls: &AtomicUsize,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.write_all(&script.first).await?;
    if script.closes && script.answer.is_empty() {
        return leave(stream).await;
    }
    let mut preface = [0; PREFACE];
    stream.read_exact(&mut preface).await?;
    let (mut ignored, mut is_answered) = (0, false);
    loop {
        let (kind, flags, id, payload) = read_frame(&mut stream).await?;
        if script.widens && kind == DATA && !payload.is_empty() {
            let more = u32::try_from(payload.len()).expect("short").to_be_bytes();
            let updates = [0, id].map(|of| frame(WINDOW_UPDATE, 0, of, &more));
            stream.write_all(&updates.concat()).await?;
        }
        match kind {
            SETTINGS if flags & ACK != 0 && script.closes_early => return leave(stream).await,
            SETTINGS if flags & ACK == 0 && !script.first.is_empty() => {
                stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await?;
            }
            PING if flags & ACK == 0 && script.answers_pings => {
                stream.write_all(&frame(PING, ACK, 0, &payload)).await?;
            }
            DATA if flags & END_STREAM != 0 && script.answers_whole_calls => {
                let head = frame(HEADERS, END_HEADERS, id, &block(&[]));
                let body = frame(DATA, END_STREAM, id, b"success");
                stream.write_all(&[head, body].concat()).await?;
            }
            HEADERS => {
                calls.fetch_add(1, Ordering::SeqCst);
                if ignored < script.ignored {
                    ignored += 1;
                    continue;
                }
                if std::mem::replace(&mut is_answered, true) {
                    continue;
                }
                stream.write_all(&script.answer).await?;
                while !script.flood.is_empty() {
                    stream.write_all(&script.flood).await?;
                }
                if script.closes {
                    return leave(stream).await;
                }
            }
            _ => {}
        }
    }
}

/// Closes a connection. What the caller has sent is read, so that it sees an end and no reset.
async fn leave(mut stream: TcpStream) -> std::io::Result<()> {
    stream.shutdown().await?;
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}

async fn read_frame(stream: &mut TcpStream) -> std::io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut header = [0; 9];
    stream.read_exact(&mut header).await?;
    let [a, b, c, kind, flags, id @ ..] = header;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    stream.read_exact(&mut payload).await?;
    Ok((kind, flags, u32::from_be_bytes(id), payload))
}
