//! An open HTTP/2 connection to a receiver.

use super::connection_end::ConnectionEnd;
use super::state::ConnectionState;
use super::task::run;
use super::watched_stream::WatchedStream;
use crate::delivery::reuse::MOST_AGE;
use crate::delivery::socket::Meter;
use crate::domain::attempt::READ_ANSWER_BYTES;
use crate::domain::call_trace::TlsVersion;
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

/// Maximum number of calls in flight on one connection. Receivers usually allow 100 or 128, and may allow fewer.
const MOST_CALLS: usize = 100;
/// What a receiver may send of one body before it waits: more than the part of a body that is read, so that an answer
/// that is too long is told from one that is not.
const STREAM_WINDOW: u32 = READ_ANSWER_BYTES as u32 + 16 * 1024;
/// What it may send of all bodies together: enough for all calls, so that no answer waits for another.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * MOST_CALLS as u32;
/// Maximum bytes of all headers of an answer, by the count of HTTP/2: each takes 32 bytes more than its text.
const MOST_HEADER_BYTES: u32 = 64 * 1024;
/// Maximum bytes of a body that wait in the memory of a connection because the receiver reads slowly.
const MOST_UNSENT_BYTES: usize = 64 * 1024;
/// Maximum number of calls that were broken off and of which frames may still come. More are treated as unknown.
const MOST_RESET_CALLS: usize = 100;
/// For how long frames of a call that was broken off may come.
const RESET_REMEMBERED: Duration = Duration::from_secs(5);
/// After so many answers that break the rules, the connection is closed.
const MOST_BAD_ANSWERS: usize = 20;

/// An open connection. It is closed when nothing names it any more.
pub struct Http2Connection {
    /// The number of this connection in its pool.
    pub id: u64,
    /// The address of the receiver.
    pub address: Option<SocketAddr>,
    /// The version of TLS that it speaks, if it does.
    pub tls: Option<TlsVersion>,
    /// What is known about it.
    pub state: Arc<ConnectionState>,
    opened: Instant,
    sender: SendRequest<Bytes>,
    /// Tells the task that nothing names the connection any more.
    _named: oneshot::Sender<Infallible>,
}

/// What is known of a connection before HTTP/2 is spoken.
pub struct OpenedStream<Stream> {
    /// The stream, over TLS if the URL says so.
    pub stream: Stream,
    /// Counts the bytes of the socket below.
    pub meter: Arc<Meter>,
    /// The address of the receiver.
    pub address: Option<SocketAddr>,
    /// The version of TLS.
    pub tls: Option<TlsVersion>,
}

impl Http2Connection {
    /// Starts HTTP/2 on a stream, and waits for the first words of the receiver, so that no request is sent to what
    /// does not speak HTTP/2. `changed` is called whenever calls that wait for the connection should look again.
    ///
    /// # Errors
    /// Why there is no connection. No request was sent.
    pub async fn start<Stream>(
        opened: OpenedStream<Stream>,
        id: u64,
        changed: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, ConnectionEnd>
    where
        Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let now = Instant::now();
        let state = Arc::new(ConnectionState::new(opened.meter, now));
        let stream = WatchedStream::new(opened.stream, state.clone());
        let started = builder().handshake(stream).await;
        let (sender, connection) = started.map_err(|error| {
            let end = state.end();
            end.unwrap_or_else(|| ConnectionEnd::of(&error))
        })?;
        let (named, unnamed) = oneshot::channel();
        let (begun, first_words) = oneshot::channel();
        tokio::spawn(run(connection, state.clone(), (begun, unnamed), changed));
        let connection = Self {
            id,
            address: opened.address,
            tls: opened.tls,
            state,
            opened: now,
            sender,
            _named: named,
        };
        match first_words.await {
            Ok(()) => Ok(connection),
            Err(_) => Err((connection.state.end()).unwrap_or_else(ConnectionEnd::silent)),
        }
    }

    /// What sends requests.
    pub fn sender(&self) -> SendRequest<Bytes> {
        self.sender.clone()
    }

    /// How many calls it may have in flight: as many as the receiver allows, within our own bound.
    pub fn most_calls(&self) -> usize {
        self.sender.current_max_send_streams().min(MOST_CALLS)
    }

    /// Whether new calls may use it.
    pub fn takes_calls(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.opened) < MOST_AGE && self.state.takes_calls(now)
    }

    /// Whether it will take no new calls any more.
    pub fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.opened) >= MOST_AGE
            || self.state.is_leaving()
            || self.state.is_misdirected()
            || self.state.end().is_some()
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MOST_HEADER_BYTES)
        .max_send_buffer_size(MOST_UNSENT_BYTES)
        // The settings of the receiver are awaited before the first call, so this is never used up.
        .initial_max_send_streams(MOST_CALLS)
        .max_concurrent_reset_streams(MOST_RESET_CALLS)
        .reset_stream_duration(RESET_REMEMBERED)
        .max_local_error_reset_streams(Some(MOST_BAD_ANSWERS));
    builder
}
