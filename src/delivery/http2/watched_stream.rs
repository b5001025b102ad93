//! A stream, above TLS, that observes the frames that pass, and keeps the errors that the library would reduce to a
//! text.

use super::frames::{Found, FrameFinder, PREFACE_BYTES, kind};
use super::state::ConnectionState;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// See the documentation of the module.
pub struct WatchedStream<Stream> {
    stream: Stream,
    state: Arc<ConnectionState>,
    incoming: FrameFinder,
    outgoing: FrameFinder,
}

impl<Stream> WatchedStream<Stream> {
    /// Observes this stream, over which nothing of HTTP/2 has passed yet.
    pub fn new(stream: Stream, state: Arc<ConnectionState>) -> Self {
        Self {
            stream,
            state,
            incoming: FrameFinder::after(0),
            outgoing: FrameFinder::after(PREFACE_BYTES),
        }
    }

    fn came(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            self.state.closed();
            return Ok(());
        }
        let now = Instant::now();
        let mut checked = Ok(());
        let state = &self.state;
        self.incoming.read(bytes, |found| {
            if checked.is_ok() {
                checked = state.came(found, now);
            }
        });
        checked.map_err(io::Error::other)
    }

    fn wrote(&mut self, bytes: &[u8]) {
        let state = &self.state;
        self.outgoing.read(bytes, |found| {
            let Found::Frame(frame) = found else {
                return;
            };
            match frame.kind {
                kind::HEADERS => state.wrote(frame.stream),
                kind::DATA => state.wrote_body(frame.length, Instant::now()),
                _ => {}
            }
        });
    }

    fn checked<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            self.state.broke(error);
        }
        result
    }
}

impl<Stream: AsyncRead + Unpin> AsyncRead for WatchedStream<Stream> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let has_room = buffer.remaining() > 0;
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        self.checked(read)?;
        let bytes = &buffer.filled()[before..];
        Poll::Ready(if has_room { self.came(bytes) } else { Ok(()) })
    }
}

impl<Stream: AsyncWrite + Unpin> AsyncWrite for WatchedStream<Stream> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        let written = self.checked(written)?;
        self.wrote(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices));
        let written = self.checked(written)?;
        let mut left = written;
        for slice in slices {
            let part = left.min(slice.len());
            self.wrote(&slice[..part]);
            left -= part;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        Poll::Ready(self.checked(flushed))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
