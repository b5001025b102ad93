//! Answers that are sent before the request's body was read to its end.
//!
//! Such an answer is for example: busy, no key, too large, unknown route. If a server answers and closes the
//! connection while the client is still sending, the connection is reset. Many clients then report a broken
//! pipe instead of the answer. So the rest of a small body is read before the answer is sent, and the
//! connection stays open. For a large body, the answer is sent at once and says that the connection will be
//! closed. Then the bytes that still arrive are read and dropped, within limits ([`LeftStream::linger`]).

use crate::api::stalled_answer::StallLimit;
use axum::Router;
use axum::body::HttpBody;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::convert::Infallible;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tower_service::Service as _;

/// If at most this many bytes of a body are left, they are read before the answer is sent.
const SMALL_BYTES: u64 = 64 * 1024;
/// Maximum time to read these bytes.
const SMALL_TIME: Duration = Duration::from_millis(250);
/// Maximum bytes that are read and dropped after the answer. It is more than the largest permitted body,
/// because many clients read the answer only after they have sent the whole body.
const MOST_DROPPED_BYTES: usize = 64 * 1024 * 1024;
/// Maximum time to read and drop bytes after the answer.
const LINGER_TIME: Duration = Duration::from_secs(30);
/// Maximum time without a byte while bytes are read and dropped.
const LINGER_IDLE_TIME: Duration = Duration::from_secs(5);
/// Size of the buffer for dropped bytes.
const DROPPED_AT_ONCE: usize = 8 * 1024;

/// A place for a value that was lent. The borrower puts the value there when the borrower is dropped.
type LeftBehind<T> = Arc<Mutex<Option<T>>>;

/// The service that answers the requests of one connection.
#[derive(Clone)]
pub struct ConnectionService {
    router: Router,
    unread: Arc<AtomicBool>,
}

impl ConnectionService {
    /// Makes a service with these routes.
    pub fn new(router: Router) -> Self {
        Self {
            router,
            unread: Arc::default(),
        }
    }

    /// A flag for the time after the connection has ended. It is true if an answer was sent before the whole
    /// body of its request was read.
    pub fn unread(&self) -> Arc<AtomicBool> {
        self.unread.clone()
    }
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (mut router, unread) = (self.router.clone(), self.unread.clone());
        if request.body().is_end_stream() {
            return Box::pin(async move { router.call(request).await });
        }
        Box::pin(async move {
            let waits_for_consent = request.headers().contains_key(header::EXPECT);
            let left = LeftBehind::default();
            let request = request.map(|body| LentBody {
                body: Some(body),
                left: left.clone(),
            });
            let mut response = router.call(request).await?;
            let left = take(&left);
            if let Some(left) = left
                && (waits_for_consent || !read_small(left).await)
            {
                unread.store(true, Ordering::Release);
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok(response)
        })
    }
}

/// A request's body that is lent to a handler. If the handler has not read all of it, the rest is given back
/// when this value is dropped.
struct LentBody {
    body: Option<Incoming>,
    left: LeftBehind<Incoming>,
}

impl HttpBody for LentBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let none = SizeHint::with_exact(0);
        self.body.as_ref().map_or(none, HttpBody::size_hint)
    }
}

impl Drop for LentBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take()
            && !body.is_end_stream()
        {
            put(&self.left, body);
        }
    }
}

/// Reads the rest of a body if it is small. Returns whether the end of the body was reached.
async fn read_small(mut body: Incoming) -> bool {
    let reading = async {
        let mut bytes = 0;
        while body.size_hint().lower() + bytes <= SMALL_BYTES {
            match body.frame().await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => {
                    bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                }
            }
        }
        false
    };
    tokio::time::timeout(SMALL_TIME, reading)
        .await
        .unwrap_or(false)
}

/// A connection that is lent to the HTTP server. It is given back when this value is dropped. Writing to it fails if the
/// client does not read (see `stalled_answer`).
pub struct LentStream {
    stream: Option<TcpStream>,
    left: LeftBehind<TcpStream>,
    stall: StallLimit,
}

/// The place to which a [`LentStream`] gives its connection back.
pub struct LeftStream(LeftBehind<TcpStream>);

impl LentStream {
    /// Lends a connection, and returns the place to which it will be given back.
    pub fn new(stream: TcpStream) -> (Self, LeftStream) {
        let left = LeftBehind::default();
        let lent = Self {
            stream: Some(stream),
            left: left.clone(),
            stall: StallLimit::default(),
        };
        (lent, LeftStream(left))
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        let stream = self.get_mut().stream.as_mut();
        Pin::new(stream.expect("invariant: the stream is given back only on drop"))
    }
}

impl Drop for LentStream {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            put(&self.left, stream);
        }
    }
}

impl LeftStream {
    /// Reads and drops the bytes that the client still sends, within limits, so that the client can read the
    /// answer.
    pub async fn linger(self) {
        let Some(mut stream) = take(&self.0) else {
            return;
        };
        let reading = async {
            // Tells the client that the answer is complete. A client that reads it may stop sending.
            stream.shutdown().await?;
            let mut dropped = vec![0; DROPPED_AT_ONCE];
            let mut bytes = 0;
            while bytes < MOST_DROPPED_BYTES {
                let read = stream.read(&mut dropped);
                match tokio::time::timeout(LINGER_IDLE_TIME, read).await {
                    Ok(Ok(0)) | Err(_) => break,
                    Ok(read) => bytes += read?,
                }
            }
            io::Result::Ok(())
        };
        // If this fails, the client has closed the connection. Nothing more can be done for it.
        let _ = tokio::time::timeout(LINGER_TIME, reading).await;
    }
}

impl AsyncRead for LentStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl AsyncWrite for LentStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().stream().poll_write(context, bytes);
        self.get_mut().stall.pass(context, bytes.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        let written = self.as_mut().stream().poll_write_vectored(context, slices);
        self.get_mut().stall.pass(context, bytes, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream
            .as_ref()
            .is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}

/// No code panics while it holds the lock, so a poisoned lock is safe to use.
fn put<T>(slot: &LeftBehind<T>, value: T) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
}

fn take<T>(slot: &LeftBehind<T>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}
