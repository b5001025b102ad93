//! A receiver that speaks HTTP/2 and does what the test tells it, call by call.

use super::merchant::each_connection;
use super::tls::read_call;
use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::request::Parts;
use http::{Request, Response};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// What all connections of a receiver share.
#[derive(Clone)]
struct Shared {
    builder: Builder,
    report: mpsc::UnboundedSender<Http2Call>,
    opened: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    http1_calls: Arc<AtomicUsize>,
}

/// A receiver that speaks HTTP/2. If HTTP/1.1 was negotiated, it answers with `success`.
pub struct Http2Receiver {
    address: SocketAddr,
    scheme: &'static str,
    calls: mpsc::UnboundedReceiver<Http2Call>,
    opened: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    http1_calls: Arc<AtomicUsize>,
}

/// A call that waits for what the test does with it.
pub struct Http2Call {
    /// The number of its connection: 0, 1, ...
    pub connection: usize,
    /// Method, URL and headers.
    pub head: Parts,
    /// The body.
    pub body: Vec<u8>,
    respond: SendResponse<Bytes>,
    commands: mpsc::UnboundedSender<Command>,
}

/// What a connection does.
enum Command {
    /// Takes no more calls, and ends when those in flight have (GOAWAY).
    Leave,
    /// Ends at once with this error (GOAWAY).
    Abort(Reason),
    /// Closes without a word.
    Close,
}

impl Http2Receiver {
    /// Starts one, over TLS with this configuration if there is one.
    pub async fn start(tls: Option<ServerConfig>) -> Self {
        Self::start_as(tls, |_| {}).await
    }

    /// Likewise, with changes to what it says of itself.
    pub async fn start_as(tls: Option<ServerConfig>, change: impl FnOnce(&mut Builder)) -> Self {
        Self::start_ending(tls, change, false).await
    }

    /// Starts one without TLS. Each connection that it closes is reset.
    pub async fn start_resetting() -> Self {
        Self::start_ending(None, |_| {}, true).await
    }

    async fn start_ending(
        tls: Option<ServerConfig>,
        change: impl FnOnce(&mut Builder),
        resets: bool,
    ) -> Self {
        let mut builder = Builder::new();
        change(&mut builder);
        let (report, calls) = mpsc::unbounded_channel();
        let shared = Shared {
            builder,
            report,
            opened: Arc::default(),
            closed: Arc::default(),
            http1_calls: Arc::default(),
        };
        let (opened, http1_calls) = (shared.opened.clone(), shared.http1_calls.clone());
        let closed = shared.closed.clone();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let acceptor = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let address = each_connection(move |stream| {
            let (shared, acceptor) = (shared.clone(), acceptor.clone());
            let _ = stream.set_nodelay(true);
            if resets {
                let _ = stream.set_zero_linger();
            }
            let number = shared.opened.fetch_add(1, Ordering::SeqCst);
            async move {
                let Some(acceptor) = acceptor else {
                    serve(stream, number, &shared).await;
                    shared.closed.fetch_add(1, Ordering::SeqCst);
                    return;
                };
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    return serve(stream, number, &shared).await;
                }
                while read_call(&mut stream).await {
                    shared.http1_calls.fetch_add(1, Ordering::SeqCst);
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess";
                    let _ = stream.write_all(answer).await;
                }
            }
        })
        .await;
        Self {
            address,
            scheme,
            calls,
            opened,
            closed,
            http1_calls,
        }
    }

    /// The URL to call.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}/notify?a=1", self.scheme, self.port())
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many connections were opened to it.
    pub fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    /// Waits until so many connections without TLS are closed.
    pub async fn until_closed(&self, count: usize) {
        let closing = async {
            while self.closed.load(Ordering::SeqCst) < count {
                super::short_pause().await;
            }
        };
        super::within("the connections to be closed", closing).await;
    }

    /// How many calls came over HTTP/1.1.
    pub fn http1_calls(&self) -> usize {
        self.http1_calls.load(Ordering::SeqCst)
    }

    /// The next call.
    pub async fn call(&mut self) -> Http2Call {
        let call = super::within("a call over HTTP/2", self.calls.recv()).await;
        call.expect("the receiver listens")
    }

    /// The next calls.
    pub async fn calls(&mut self, count: usize) -> Vec<Http2Call> {
        let mut calls = Vec::new();
        while calls.len() < count {
            calls.push(self.call().await);
        }
        calls
    }

    /// A call that has arrived.
    pub fn arrived(&mut self) -> Option<Http2Call> {
        self.calls.try_recv().ok()
    }
}

/// The connections of these calls.
pub fn connections(calls: &[Http2Call]) -> BTreeSet<usize> {
    calls.iter().map(|call| call.connection).collect()
}

impl Http2Call {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let value = self.head.headers.get(name)?;
        Some(value.to_str().expect("a text"))
    }

    /// Answers.
    pub fn answer(&mut self, status: u16, body: impl Into<Bytes>) {
        let head = Response::builder().status(status).body(()).expect("a head");
        self.answer_with(head, body);
    }

    /// Answers with this head.
    pub fn answer_with(&mut self, head: Response<()>, body: impl Into<Bytes>) {
        let stream = self.respond.send_response(head, false);
        let _ = stream.and_then(|mut stream| stream.send_data(body.into(), true));
    }

    /// Answers with `success`.
    pub fn acknowledge(mut self) {
        self.answer(200, "success");
    }

    /// Sends the head of an answer, and then nothing.
    pub fn begin_answer(&mut self) -> h2::SendStream<Bytes> {
        let stream = self.respond.send_response(Response::new(()), false);
        stream.expect("the call is open")
    }

    /// Ends the call without an answer.
    pub fn reset(mut self, reason: Reason) {
        self.respond.send_reset(reason);
    }

    /// Waits until the caller resets the call.
    pub async fn was_reset(mut self) -> Reason {
        let reset = std::future::poll_fn(|context| self.respond.poll_reset(context));
        super::within("a reset", reset).await.expect("a reset")
    }

    /// Begins an answer, and waits until the caller resets the call.
    pub async fn was_reset_after_beginning(mut self) -> Reason {
        let mut stream = self.begin_answer();
        let reset = std::future::poll_fn(|context| stream.poll_reset(context));
        super::within("a reset", reset).await.expect("a reset")
    }

    /// The connection takes no more calls, and ends when those in flight have.
    pub fn leave(&self) {
        let _ = self.commands.send(Command::Leave);
    }

    /// The connection ends with this error.
    pub fn abort_connection(&self, reason: Reason) {
        let _ = self.commands.send(Command::Abort(reason));
    }

    /// The connection is closed without a word.
    pub fn close_connection(&self) {
        let _ = self.commands.send(Command::Close);
    }
}

async fn serve<Stream>(stream: Stream, number: usize, shared: &Shared)
where
    Stream: AsyncRead + AsyncWrite + Unpin,
{
    let Ok(mut connection) = shared.builder.handshake::<_, Bytes>(stream).await else {
        return;
    };
    let (commands, mut commanded) = mpsc::unbounded_channel();
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else {
                    return;
                };
                let (report, commands) = (shared.report.clone(), commands.clone());
                tokio::spawn(report_call(request, respond, number, report, commands));
            }
            Some(command) = commanded.recv() => match command {
                Command::Leave => connection.graceful_shutdown(),
                Command::Abort(reason) => connection.abrupt_shutdown(reason),
                Command::Close => return,
            },
        }
    }
}

async fn report_call(
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    connection: usize,
    report: mpsc::UnboundedSender<Http2Call>,
    commands: mpsc::UnboundedSender<Command>,
) {
    let (head, mut stream) = request.into_parts();
    let mut body = Vec::new();
    while let Some(chunk) = stream.data().await {
        let Ok(chunk) = chunk else {
            return;
        };
        let _ = stream.flow_control().release_capacity(chunk.len());
        body.extend_from_slice(&chunk);
    }
    let _ = report.send(Http2Call {
        connection,
        head,
        body,
        respond,
        commands,
    });
}
