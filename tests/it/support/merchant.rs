//! A merchant that does what the test tells it, down to the bytes on the wire.
//!
//! Ready-made HTTP mocks cannot reset a connection, hang, or send half an answer, which is what
//! merchants do.

use ringback::domain::signature::SigningSecret;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

/// What the merchant does with one call.
#[derive(Debug, Clone)]
pub enum Reaction {
    /// Answers with a status and a body.
    Answer(u16, Vec<u8>),
    /// Answers with these very bytes and keeps the connection open.
    Raw(Vec<u8>),
    /// Answers with these very bytes and closes the connection.
    RawThenClose(Vec<u8>),
    /// Closes the connection without a word.
    Close,
    /// Resets the connection.
    Reset,
    /// Never answers.
    Hang,
    /// Sends a head, then body bytes without end.
    Endless,
    /// Sends the first, then the second again and again without end.
    Flood(Vec<u8>, Vec<u8>),
    /// Sends the first, then the second one byte at a time, slowly and without end.
    Drip(Vec<u8>, Vec<u8>),
    /// Answers with these very bytes and resets the connection.
    RawThenReset(Vec<u8>),
    /// Waits until the test lets go ([`Merchant::release`]), then does the other.
    Held(Box<Reaction>),
}

/// Most bytes that a flood writes at once.
const FLOOD_BYTES: usize = 256 * 1024;

/// The time between two bytes of a merchant that drips.
const DRIP: Duration = Duration::from_millis(100);

impl Reaction {
    /// The acknowledgement.
    pub fn success() -> Self {
        Self::Answer(200, b"success".to_vec())
    }

    /// A refusal with a 200.
    pub fn fail() -> Self {
        Self::Answer(200, b"fail".to_vec())
    }
}

/// A call as it arrived.
#[derive(Debug, Clone)]
pub struct Call {
    /// Method and path.
    pub request_line: String,
    /// Names as they were written, with their values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Which connection it came on: 0, 1, ...
    pub connection: usize,
}

impl Call {
    /// The value of a header, by its name in whatever case.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map_or_else(
                || panic!("no header {name} in {self:?}"),
                |(_, value)| value,
            )
    }

    /// Whether one of its signatures is that of this secret.
    pub fn is_signed_by(&self, secret: &SigningSecret) -> bool {
        let timestamp = self.header("Webhook-Timestamp");
        let now_s = timestamp.parse().expect("a number");
        let (id, signature) = (self.header("Webhook-Id"), self.header("Webhook-Signature"));
        (secret.verify(id, timestamp, signature, &self.body, now_s)).is_ok()
    }

    /// The attempt's number.
    pub fn attempt(&self) -> u32 {
        self.header("Ringback-Attempt").parse().expect("a number")
    }
}

#[derive(Default)]
struct Script {
    next: VecDeque<Reaction>,
    then: Option<Reaction>,
}

/// A merchant on a free port of the loopback. Ends when dropped.
pub struct Merchant {
    address: SocketAddr,
    script: Arc<Mutex<Script>>,
    released: Arc<Notify>,
    open: watch::Sender<()>,
    calls: mpsc::UnboundedReceiver<Call>,
    task: JoinHandle<()>,
}

impl Merchant {
    /// Starts one that acknowledges everything.
    pub async fn start() -> Self {
        Self::scripted(Vec::new(), Reaction::success()).await
    }

    /// Starts one that does these things in turn, and then always the last.
    pub async fn scripted(next: Vec<Reaction>, then: Reaction) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let script = Arc::new(Mutex::new(Script {
            next: next.into(),
            then: Some(then),
        }));
        let released = Arc::new(Notify::new());
        let (sender, calls) = mpsc::unbounded_channel();
        let open = watch::Sender::new(());
        let task = tokio::spawn({
            let (script, released) = (script.clone(), released.clone());
            let open = open.clone();
            async move {
                for connection in 0.. {
                    let Ok((stream, _)) = listener.accept().await else {
                        return;
                    };
                    let _ = stream.set_nodelay(true);
                    let conversation = Conversation {
                        stream,
                        connection,
                        script: script.clone(),
                        released: released.clone(),
                        calls: sender.clone(),
                    };
                    let mut hung_up = open.subscribe();
                    tokio::spawn(async move { conversation.run(&mut hung_up).await });
                }
            }
        });
        Self {
            address,
            script,
            released,
            open,
            calls,
            task,
        }
    }

    /// The URL of a path on this merchant.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Changes what it does from now on.
    pub fn now_does(&self, then: Reaction) {
        let mut script = self.script.lock().expect("not poisoned");
        script.next.clear();
        script.then = Some(then);
    }

    /// Lets one held call go on.
    pub fn release(&self) {
        self.released.notify_one();
    }

    /// Closes the connections that wait for a call, and waits until all are closed.
    pub async fn hang_up(&self) {
        self.open.send_replace(());
        super::within("the connections to be closed", self.open.closed()).await;
    }

    /// The next call that arrives, or has arrived.
    pub async fn call(&mut self) -> Call {
        super::within("a call at the merchant", self.calls.recv())
            .await
            .expect("it is listening")
    }

    /// A call that has arrived and was not looked at.
    pub fn arrived(&mut self) -> Option<Call> {
        self.calls.try_recv().ok()
    }
}

impl Drop for Merchant {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One connection, and what is needed to answer on it.
struct Conversation {
    stream: TcpStream,
    connection: usize,
    script: Arc<Mutex<Script>>,
    released: Arc<Notify>,
    calls: mpsc::UnboundedSender<Call>,
}

impl Conversation {
    async fn run(mut self, hung_up: &mut watch::Receiver<()>) {
        let mut buffer = Vec::new();
        loop {
            let call = tokio::select! {
                call = read_call(&mut self.stream, &mut buffer, self.connection) => call,
                _ = hung_up.changed() => None,
            };
            let Some(call) = call else {
                return;
            };
            let mut reaction = {
                let mut script = self.script.lock().expect("not poisoned");
                let next = script.next.pop_front().or_else(|| script.then.clone());
                next.expect("there is always a last reaction")
            };
            // The test may have ended already.
            let _ = self.calls.send(call);
            while let Reaction::Held(then) = reaction {
                self.released.notified().await;
                reaction = *then;
            }
            if !react(&mut self.stream, reaction).await {
                return;
            }
        }
    }
}

/// Does it; says whether the conversation goes on.
async fn react(stream: &mut TcpStream, reaction: Reaction) -> bool {
    match reaction {
        Reaction::Answer(status, body) => {
            let head = format!(
                "HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let bytes = [head.into_bytes(), body].concat();
            stream.write_all(&bytes).await.is_ok()
        }
        Reaction::Raw(bytes) => stream.write_all(&bytes).await.is_ok(),
        Reaction::RawThenClose(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            false
        }
        Reaction::Close => false,
        Reaction::Reset => {
            // Zero linger turns the close into a reset.
            let _ = stream.set_zero_linger();
            false
        }
        Reaction::Hang => {
            // Until the other side gives up.
            let _ = stream.read(&mut [0; 1]).await;
            false
        }
        Reaction::Endless => {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let mut alive = stream.write_all(head).await.is_ok();
            while alive {
                alive = stream.write_all(b"7\r\nsuccess\r\n").await.is_ok();
            }
            false
        }
        Reaction::Flood(first, again) => {
            let many = again.repeat(FLOOD_BYTES.div_ceil(again.len()));
            let mut alive = stream.write_all(&first).await.is_ok();
            while alive {
                alive = stream.write_all(&many).await.is_ok();
            }
            false
        }
        Reaction::Drip(first, again) => {
            let mut alive = stream.write_all(&first).await.is_ok();
            for byte in again.iter().cycle() {
                if !alive {
                    break;
                }
                // No wait for anything: the slowness is what the merchant does.
                tokio::time::sleep(DRIP).await;
                alive = stream.write_all(&[*byte]).await.is_ok();
            }
            false
        }
        Reaction::RawThenReset(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.set_zero_linger();
            false
        }
        Reaction::Held(_) => unreachable!("unwrapped by the caller"),
    }
}

/// Starts a server on a free port of the loopback; returns its address.
pub async fn each_connection<F>(
    mut serve: impl FnMut(TcpStream) -> F + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

async fn read_call(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    connection: usize,
) -> Option<Call> {
    let head_end = loop {
        if let Some(position) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break position;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    buffer.drain(..head_end + 4);
    let mut lines = head.split("\r\n");
    let request_line = lines.next().unwrap_or_default().to_string();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(0, |(_, value)| value.parse().expect("a length"));
    while buffer.len() < length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = buffer.drain(..length).collect();
    Some(Call {
        request_line,
        headers,
        body,
        connection,
    })
}
