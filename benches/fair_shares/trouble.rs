//! Destinations in trouble.
//!
//! Each has an address of its own in 127.0.0.0/8, so each is a lane of its own; one listener serves them all.

use crate::load;
use crate::server::Setup;
use std::fmt;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// How long a slow destination takes to answer: less than the default time limit.
const SLOW: Duration = Duration::from_secs(9);

/// A kind of destinations in trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// No destinations at all, to compare the others with.
    Nobody,
    /// 40 that never answer, with 50 notifications each.
    Hanging40,
    /// One that never answers, with 10,000 notifications.
    Hanging1,
    /// 1,000 that never answer, with 10 notifications each.
    Hanging1000,
    /// 1,000 that refuse the connection, with 10 notifications each.
    Refusing1000,
    /// 200 that answer after nine seconds, with 50 notifications each.
    Slow200,
}

/// The destinations. They end when this value is dropped.
pub struct Destinations {
    listening: Option<JoinHandle<()>>,
}

impl Trouble {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Nobody,
        Self::Hanging40,
        Self::Hanging1,
        Self::Hanging1000,
        Self::Refusing1000,
        Self::Slow200,
    ];

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.to_string() == name)
    }

    fn destinations(self) -> usize {
        match self {
            Self::Nobody => 0,
            Self::Hanging40 => 40,
            Self::Hanging1 => 1,
            Self::Hanging1000 | Self::Refusing1000 => 1_000,
            Self::Slow200 => 200,
        }
    }

    fn notifications(self) -> usize {
        match self {
            Self::Nobody => 0,
            Self::Hanging40 => 40 * 50,
            Self::Hanging1 | Self::Hanging1000 | Self::Refusing1000 => 10_000,
            Self::Slow200 => 200 * 50,
        }
    }

    /// Starts the destinations, and registers their notifications, which are all due at `due_ms`.
    pub async fn register(self, setup: &Setup, due_ms: u64) -> Destinations {
        let listener = TcpListener::bind("0.0.0.0:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let listening = match self {
            Self::Nobody | Self::Refusing1000 => None,
            Self::Hanging40 | Self::Hanging1 | Self::Hanging1000 => Some(listen(listener, hang)),
            Self::Slow200 => Some(listen(listener, answer_slowly)),
        };
        let url = |number: usize| {
            let (high, low) = (number / 250, number % 250 + 1);
            format!("http://127.77.{high}.{low}:{port}/notify")
        };
        let urls: Vec<String> = (0..self.destinations()).map(url).collect();
        let due_ms = (0..self.notifications()).map(|_| due_ms);
        load::register_to(setup, &urls, due_ms).await;
        Destinations { listening }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Nobody => "nobody",
            Self::Hanging40 => "hanging-40",
            Self::Hanging1 => "hanging-1",
            Self::Hanging1000 => "hanging-1000",
            Self::Refusing1000 => "refusing-1000",
            Self::Slow200 => "slow-200",
        })
    }
}

impl Drop for Destinations {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

fn listen<Serving>(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> Serving + Send + 'static,
) -> JoinHandle<()>
where
    Serving: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream));
            while connections.try_join_next().is_some() {}
        }
    })
}

/// Reads what comes and never answers.
async fn hang(mut stream: TcpStream) {
    let mut buffer = [0; 4_096];
    while stream.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
}

/// Acknowledges each call after [`SLOW`]. A call fits into the buffer and comes in one piece.
async fn answer_slowly(mut stream: TcpStream) {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess";
    let mut buffer = [0; 4_096];
    while stream.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {
        tokio::time::sleep(SLOW).await;
        if stream.write_all(ANSWER).await.is_err() {
            return;
        }
    }
}
