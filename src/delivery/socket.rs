//! A TCP connection to a receiver that counts the bytes written and read.
//!
//! The bytes are counted on the socket, below TLS and HTTP, because the HTTP library does not report
//! enough for three rules:
//!
//! * A request may be sent again only if no byte of it was written.
//! * The first byte of a request may be written only while its lease is in force. A process may be
//!   suspended right before the write. When it continues, it may write before its time limits fire.
//! * The bytes of an answer are limited. The library skips interim answers (`100 Continue`,
//!   `103 Early Hints`) without a limit and without giving way to other tasks. So a receiver that sends
//!   only interim answers would occupy a thread of the runtime, and time limits would not fire.

use crate::domain::attempt_reason::ConnectionReason;
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Maximum bytes read until the head of an answer is complete, interim answers included. Also the maximum
/// of a TLS handshake.
const MOST_BEFORE_BODY_BYTES: u64 = 256 * 1024;
/// Maximum bytes read after the head of an answer. Far more than the part of a body that is used
/// ([`READ_ANSWER_BYTES`](crate::domain::attempt::READ_ANSWER_BYTES)), because small chunks and small TLS
/// records can take many times the bytes of their content.
const MOST_FOR_BODY_BYTES: u64 = 1024 * 1024;
/// Maximum bytes that each call may read on a connection that calls share.
const MOST_OF_CALL_BYTES: u64 = MOST_BEFORE_BODY_BYTES + MOST_FOR_BODY_BYTES;

/// The receiver sent more bytes than an answer may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{}", ConnectionReason::TooManyBytes)]
pub struct TooManyBytes;

/// The receiver closed the connection before a byte of the request was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the connection was closed before the request was written")]
pub struct ClosedBefore;

/// The lease of the call expired before a byte of the request was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the lease expired before the request was written")]
pub struct LeaseOver;

/// The counts of one connection, shared between the socket and the call that uses it.
#[derive(Debug)]
pub struct Meter {
    /// Bytes written since the call began.
    written: AtomicU64,
    /// How many more bytes may be read.
    allowance: AtomicU64,
    /// Whether the next write must first check that the connection is still open, because it was kept.
    check: AtomicBool,
    /// Until when the first byte of a request may be written. `None` before the first call.
    until: Mutex<Option<Instant>>,
    /// Whether several calls use the connection at the same time.
    shared: AtomicBool,
}

impl Meter {
    fn new() -> Self {
        Self {
            written: AtomicU64::new(0),
            allowance: AtomicU64::new(MOST_BEFORE_BODY_BYTES),
            check: AtomicBool::new(false),
            until: Mutex::new(None),
            shared: AtomicBool::new(false),
        }
    }

    /// Notes that a call begins. Its first byte may be written only before `until`. `kept` says that an
    /// earlier call used the connection.
    pub fn begin(&self, kept: bool, until: Instant) {
        *self.until() = Some(until);
        self.written.store(0, Ordering::Release);
        self.allowance
            .store(MOST_BEFORE_BODY_BYTES, Ordering::Release);
        self.check.store(kept, Ordering::Release);
    }

    /// Notes that an earlier call used the connection and none uses it now, so the next write first checks that it is open.
    pub fn check_before_write(&self) {
        self.check.store(true, Ordering::Release);
    }

    /// Notes that this many calls use the connection at the same time, of which the first lease expires at `until`.
    /// Nothing is written after that. Each new call may read as many bytes as a call that has a connection alone.
    pub fn share(&self, calls: usize, is_new: bool, until: Option<Instant>) {
        *self.until() = until;
        self.shared.store(true, Ordering::Release);
        let most = MOST_BEFORE_BODY_BYTES + MOST_OF_CALL_BYTES * calls as u64;
        let more = if is_new { MOST_OF_CALL_BYTES } else { 0 };
        let update = |left: u64| Some((left + more).min(most));
        let _ = (self.allowance).fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
    }

    /// Notes that the head of the answer is complete.
    pub fn body_begins(&self) {
        self.allowance.store(MOST_FOR_BODY_BYTES, Ordering::Release);
    }

    /// Whether no byte has been written since the call began.
    pub fn nothing_written(&self) -> bool {
        self.written.load(Ordering::Acquire) == 0
    }

    /// Locks `until`. It is valid after a panic under the lock too, because it is set in one step.
    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no byte of the request was written, and it is now too late to write the first. On a shared connection,
    /// it is not known here which request a byte belongs to, so it is too late for each byte. That breaks no call that
    /// could go on: a lease expires after the time limit of its call, unless this process was suspended.
    pub fn is_too_late(&self) -> bool {
        (self.nothing_written() || self.shared.load(Ordering::Acquire))
            && self.until().is_some_and(|until| Instant::now() >= until)
    }

    fn wrote(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::AcqRel);
    }

    fn read(&self, bytes: usize) -> Result<(), TooManyBytes> {
        let less = |left: u64| left.checked_sub(bytes as u64);
        self.allowance
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
            .map(drop)
            .map_err(|_| TooManyBytes)
    }
}

/// A TCP connection that counts its bytes in a [`Meter`].
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    meter: Arc<Meter>,
}

impl Socket {
    /// Creates a socket over `stream`, and the meter that counts its bytes.
    pub fn new(stream: TcpStream) -> (Self, Arc<Meter>) {
        let meter = Arc::new(Meter::new());
        let socket = Self {
            stream,
            meter: meter.clone(),
        };
        (socket, meter)
    }

    /// Fails if it is too late to write the first byte, because the lease has expired, or if a kept connection
    /// has been closed. It asks the kernel whether the connection is open, because the runtime may not have
    /// noticed yet that it is closed.
    fn check(&self) -> io::Result<()> {
        if self.meter.is_too_late() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, LeaseOver));
        }
        // A load is cheaper than a swap, and most writes have nothing to check.
        if !self.meter.check.load(Ordering::Acquire)
            || !self.meter.check.swap(false, Ordering::AcqRel)
        {
            return Ok(());
        }
        match SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit()]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
            // Between two calls a receiver sends nothing, except a TLS message when it closes. So any byte
            // counts as a close. If the byte meant something else, the only cost is a new connection.
            Ok(_) => Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                ClosedBefore,
            )),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let bytes = buffer.filled().len() - before;
        Poll::Ready(self.meter.read(bytes).map_err(io::Error::other))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.meter.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
        self.meter.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// An instant that does not come during a test.
    fn later() -> Instant {
        Instant::now() + Duration::from_secs(3_600)
    }

    async fn pair() -> (Socket, Arc<Meter>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let stream = TcpStream::connect(address).await.expect("connects");
        let (receiver, _) = listener.accept().await.expect("accepts");
        let (socket, meter) = Socket::new(stream);
        (socket, meter, receiver)
    }

    #[test]
    fn an_answer_may_take_so_many_bytes_and_no_more() {
        let meter = Meter::new();
        let most = usize::try_from(MOST_BEFORE_BODY_BYTES).expect("fits");
        meter.begin(false, later());
        assert_eq!(meter.read(most - 1), Ok(()));
        assert_eq!(meter.read(1), Ok(()));
        assert_eq!(meter.read(1), Err(TooManyBytes));
        let most = usize::try_from(MOST_FOR_BODY_BYTES).expect("fits");
        meter.body_begins();
        assert_eq!(meter.read(most), Ok(()));
        assert_eq!(meter.read(1), Err(TooManyBytes));
        meter.begin(true, later());
        assert_eq!(meter.read(1), Ok(()));
    }

    #[test]
    fn a_shared_connection_may_take_so_many_bytes_for_each_call() {
        let meter = Meter::new();
        let base = usize::try_from(MOST_BEFORE_BODY_BYTES).expect("fits");
        let of_call = usize::try_from(MOST_OF_CALL_BYTES).expect("fits");
        meter.share(1, true, Some(later()));
        meter.share(2, true, Some(later()));
        assert_eq!(meter.read(base + 2 * of_call), Ok(()));
        assert_eq!(meter.read(1), Err(TooManyBytes));
        // What a call has not read does not remain for those that follow.
        for _ in 0..100 {
            meter.share(1, true, Some(later()));
            meter.share(0, false, None);
        }
        assert_eq!(meter.read(base), Ok(()));
        assert_eq!(meter.read(1), Err(TooManyBytes));
    }

    #[tokio::test]
    async fn nothing_is_written_to_a_shared_connection_when_a_lease_is_over() {
        let (mut socket, meter, _receiver) = pair().await;
        meter.share(1, true, Some(later()));
        socket.write_all(b"first").await.expect("in time");
        meter.share(2, true, Some(Instant::now()));
        let error = socket.write(b"second").await.expect_err("too late");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        meter.share(0, false, None);
        socket.write_all(b"goodbye").await.expect("no call waits");
    }

    #[tokio::test]
    async fn what_is_written_counts_from_the_beginning_of_a_call() {
        let (mut socket, meter, _receiver) = pair().await;
        assert!(meter.nothing_written());
        socket.write_all(b"x").await.expect("sends");
        assert!(!meter.nothing_written());
        meter.begin(true, later());
        assert!(meter.nothing_written());
        socket.write_all(b"x").await.expect("sends");
        assert!(!meter.nothing_written());
    }

    #[tokio::test]
    async fn nothing_is_written_to_a_kept_connection_that_was_closed() {
        let (mut socket, meter, mut receiver) = pair().await;
        socket.write_all(b"first").await.expect("sends");
        receiver.read_exact(&mut [0; 5]).await.expect("arrives");
        drop(receiver);
        meter.begin(true, later());
        let error = socket.write(b"second").await.expect_err("closed");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        assert!(meter.nothing_written());
        let (mut socket, meter, receiver) = pair().await;
        receiver.set_zero_linger().expect("set");
        drop(receiver);
        meter.check_before_write();
        let error = socket.write(b"first").await.expect_err("reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(meter.nothing_written());
        // A new connection is not checked, so the bytes are written although the receiver has closed it.
        let (mut socket, meter, receiver) = pair().await;
        drop(receiver);
        meter.begin(false, later());
        socket.write_all(b"first").await.expect("sends");
        assert!(!meter.nothing_written());
    }

    #[tokio::test]
    async fn nothing_is_begun_once_it_is_too_late_and_what_was_begun_goes_on() {
        let (mut socket, meter, mut receiver) = pair().await;
        // Bytes before the first call, such as those of a TLS handshake, have no such limit.
        socket.write_all(b"hello").await.expect("sends");
        meter.begin(true, Instant::now());
        assert!(meter.is_too_late());
        let error = socket.write(b"request").await.expect_err("too late");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(meter.nothing_written());
        meter.begin(true, later());
        socket.write_all(b"head").await.expect("in time");
        *meter.until() = Some(Instant::now());
        socket.write_all(b", body").await.expect("goes on");
        assert!(!meter.is_too_late());
        drop(socket);
        let mut arrived = String::new();
        receiver.read_to_string(&mut arrived).await.expect("text");
        assert_eq!(arrived, "hellohead, body");
    }
}
