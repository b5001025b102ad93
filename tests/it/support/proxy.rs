//! A line between a server and one of its stores that can be disturbed in every way a network can.
//!
//! The proxy keeps its own port for as long as it lives and forwards bytes without understanding
//! them. What it does to them is changed at any time ([`Proxy::set`]) and holds for connections that
//! stand as well as for new ones. A single reply can be cut off too ([`Proxy::cut`]): the command
//! has been executed then, and its caller cannot know.

use reqwest::Url;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 256;
/// How many bytes are read at a time.
const CHUNK: usize = 64 * 1024;

/// What the line does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// Forwards everything.
    Passes,
    /// Nobody listens, and connections are broken off: the store is down.
    Refuses,
    /// Connections are accepted and closed at once, those that stand are broken off.
    Closes,
    /// Everything takes longer, in each direction.
    Delays {
        /// On the way to the store.
        there: Duration,
        /// On the way back.
        back: Duration,
    },
    /// What is sent to the store is held back until the line does something else.
    Holds,
    /// Connections are accepted and stand, and what is sent into them is gone. One that lost bytes
    /// never gets any again, also when the line passes: only its ends can give it up.
    Swallows,
}

/// Which reply is cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// The first one, whatever it is.
    Any,
    /// The one to a request that contains this.
    To(Vec<u8>),
    /// The one that contains this.
    With(Vec<u8>),
}

/// The line before one store. Ends when dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Keeps the port while nobody listens on it.
    _holder: TcpSocket,
    task: AbortHandle,
}

/// What is still to be cut off.
struct Trap {
    which: Cut,
    after: usize,
    times: usize,
    /// What the line does from the first cut on, if anything else.
    then: Option<Line>,
}

struct Shared {
    store: String,
    line: watch::Sender<Line>,
    obeyed: watch::Sender<Line>,
    trap: Mutex<Option<Trap>>,
    sprung: Notify,
    /// How many requests there were, and which of them are disturbed.
    requests: AtomicUsize,
    held_from: AtomicUsize,
    cut_at: AtomicUsize,
    held: Notify,
}

impl Proxy {
    /// Starts one before a store (`127.0.0.1:PORT`).
    pub fn start(store: String) -> Self {
        let holder = TcpSocket::new_v4().expect("a socket");
        holder.set_reuseaddr(true).expect("to be shared");
        let free = "127.0.0.1:0".parse().expect("an address");
        holder.bind(free).expect("a free port");
        let address = holder.local_addr().expect("bound");
        let shared = Arc::new(Shared {
            store,
            line: watch::Sender::new(Line::Passes),
            obeyed: watch::Sender::new(Line::Passes),
            trap: Mutex::default(),
            sprung: Notify::new(),
            requests: AtomicUsize::new(0),
            held_from: AtomicUsize::new(usize::MAX),
            cut_at: AtomicUsize::new(usize::MAX),
            held: Notify::new(),
        });
        let listener = listen(address);
        let task = tokio::spawn(accept(address, listener, shared.clone())).abort_handle();
        Self {
            address,
            shared,
            _holder: holder,
            task,
        }
    }

    /// Starts one before the store of a URL. Gives the URL of the line too.
    pub fn before(url: &str) -> (Self, String) {
        let mut url = Url::parse(url).expect("a URL");
        let line = Self::start(format!("127.0.0.1:{}", url.port().expect("a port")));
        url.set_port(Some(line.address().port())).expect("set");
        (line, url.to_string())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what the line does; returns when it does it, with connections that are there too.
    pub async fn set(&self, line: Line) {
        self.shared.line.send_replace(line);
        let mut obeyed = self.shared.obeyed.subscribe();
        let obeying = obeyed.wait_for(|obeyed| *obeyed == line);
        let obeyed = super::within("the line to change", obeying).await;
        drop(obeyed.expect("the proxy runs"));
    }

    /// Cuts off the next so many replies that fit, each after so many bytes, connection and all.
    pub fn cut(&self, which: Cut, after: usize, times: usize) {
        self.spring(which, after, times, None);
    }

    /// Cuts off one reply before its first byte, and from then on holds back what is sent.
    pub fn cut_and_hold(&self, which: Cut) {
        self.spring(which, 0, 1, Some(Line::Holds));
    }

    fn spring(&self, which: Cut, after: usize, times: usize, then: Option<Line>) {
        let trap = Trap {
            which,
            after,
            times,
            then,
        };
        *self.shared.trap.lock().expect("not poisoned") = Some(trap);
    }

    /// How many requests there were.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Holds back everything from the request on that is the one with this number, from 0, of all connections.
    pub fn hold_from(&self, number: usize) {
        self.shared.held_from.store(number, Ordering::Relaxed);
    }

    /// Completes when a request is held back because of [`Proxy::hold_from`].
    pub async fn holds(&self) {
        self.shared.held.notified().await;
    }

    /// Cuts off the reply to the request with this number, from 0, of all connections.
    pub fn cut_at(&self, number: usize) {
        self.shared.cut_at.store(number, Ordering::Relaxed);
    }

    /// Whether replies are still to be cut off.
    pub fn cuts(&self) -> bool {
        self.shared.trap.lock().expect("not poisoned").is_some()
    }

    /// Waits until a reply has been cut off.
    pub async fn has_cut(&self) {
        super::within("a reply to be cut off", self.shared.sprung.notified()).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn listen(address: SocketAddr) -> TcpListener {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("to be shared");
    socket.bind(address).expect("the port is held for us");
    socket.listen(BACKLOG).expect("nobody else listens")
}

async fn accept(address: SocketAddr, listener: TcpListener, shared: Arc<Shared>) {
    let mut listener = Some(listener);
    let mut line = shared.line.subscribe();
    let mut connections = JoinSet::new();
    loop {
        let now = *line.borrow_and_update();
        if now == Line::Refuses {
            listener = None;
        } else if listener.is_none() {
            listener = Some(listen(address));
        }
        if matches!(now, Line::Refuses | Line::Closes) {
            connections.shutdown().await;
        }
        shared.obeyed.send_replace(now);
        while connections.try_join_next().is_some() {}
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = line.changed() => match changed {
                Ok(()) => {}
                Err(_) => return,
            },
            accepted = accepted => {
                let Ok((stream, _)) = accepted else {
                    continue;
                };
                if now != Line::Closes {
                    connections.spawn(connection(stream, shared.clone()));
                }
            }
        }
    }
}

/// One connection: both directions, until either ends.
async fn connection(mut client: TcpStream, shared: Arc<Shared>) {
    if shared.line() == Line::Swallows {
        // Nothing gets through, not even that somebody wants a connection.
        swallow(&mut client).await;
        return;
    }
    let Ok(store) = TcpStream::connect(&shared.store).await else {
        return;
    };
    let _ = client.set_nodelay(true);
    let _ = store.set_nodelay(true);
    let (from_client, to_client) = client.into_split();
    let (from_store, to_store) = store.into_split();
    let state = State::default();
    tokio::select! {
        () = there(from_client, to_store, &shared, &state) => {}
        () = back(from_store, to_client, &shared, &state) => {}
    }
}

/// What the two directions of a connection know of each other.
#[derive(Default)]
struct State {
    /// After how many bytes the next reply is cut off.
    cut: Mutex<Option<usize>>,
    /// Bytes were lost, so nothing may follow them.
    lost: AtomicBool,
}

/// From the client to the store.
async fn there(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, state: &State) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        let bytes = &chunk[..read];
        if shared.line() == Line::Swallows {
            state.lost.store(true, Ordering::Relaxed);
        }
        if state.lost.load(Ordering::Relaxed) {
            continue;
        }
        if let Line::Delays { there, .. } = shared.line() {
            tokio::time::sleep(there).await;
        }
        let number = shared.requests.fetch_add(1, Ordering::Relaxed);
        if number == shared.held_from.load(Ordering::Relaxed) {
            shared.line.send_replace(Line::Holds);
            shared.held.notify_one();
        }
        let mut line = shared.line.subscribe();
        // Fails only when the sender is gone, and `shared` holds it.
        let _ = line.wait_for(|line| *line != Line::Holds).await;
        if let Some(after) = shared.sprung_by(bytes, true) {
            *state.cut.lock().expect("not poisoned") = Some(after);
        }
        if number == shared.cut_at.load(Ordering::Relaxed) {
            *state.cut.lock().expect("not poisoned") = Some(0);
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

/// From the store to the client.
async fn back(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, state: &State) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        let bytes = &chunk[..read];
        if shared.line() == Line::Swallows {
            state.lost.store(true, Ordering::Relaxed);
        }
        if state.lost.load(Ordering::Relaxed) {
            continue;
        }
        if let Line::Delays { back, .. } = shared.line() {
            tokio::time::sleep(back).await;
        }
        let cut = state.cut.lock().expect("not poisoned").take();
        if let Some(after) = cut.or_else(|| shared.sprung_by(bytes, false)) {
            let _ = to.write_all(&bytes[..after.min(read)]).await;
            shared.sprung.notify_one();
            return;
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
    if state.lost.load(Ordering::Relaxed) {
        // The store has given up, and nobody can tell the client.
        std::future::pending::<()>().await;
    }
}

/// Reads until the other end has had enough.
async fn swallow(from: &mut TcpStream) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(1..) = from.read(&mut chunk).await {}
}

impl Shared {
    fn line(&self) -> Line {
        *self.line.borrow()
    }

    /// Whether these bytes spring the trap; then after how many bytes the reply is cut.
    fn sprung_by(&self, bytes: &[u8], is_request: bool) -> Option<usize> {
        let holds = |pattern: &[u8]| bytes.windows(pattern.len()).any(|part| part == pattern);
        let mut trap = self.trap.lock().expect("not poisoned");
        let Trap {
            which,
            after,
            times,
            then,
        } = trap.as_mut()?;
        let springs = match which {
            Cut::Any => !is_request,
            Cut::To(pattern) => is_request && holds(pattern),
            Cut::With(pattern) => !is_request && holds(pattern),
        };
        if !springs {
            return None;
        }
        let after = *after;
        if let Some(then) = then {
            self.line.send_replace(*then);
        }
        *times -= 1;
        if *times == 0 {
            *trap = None;
        }
        Some(after)
    }
}
