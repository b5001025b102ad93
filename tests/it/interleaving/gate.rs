//! Holding every call to a store until the test lets it go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::{mpsc, oneshot};

/// What becomes of a call that was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is made, and answered.
    Made,
    /// It is made, and its reply is lost on its way.
    ReplyLost,
    /// It is made, and its caller has died before the reply came.
    Died,
}

/// A call that is held.
pub struct Held {
    /// Which server makes it.
    pub server: usize,
    /// Its name.
    pub name: &'static str,
    /// Lets it go.
    pub go: oneshot::Sender<Verdict>,
    /// Ends when the store has executed it.
    pub made: oneshot::Receiver<()>,
}

/// A call that is let go. Dropped when the store has executed it.
pub struct Passed {
    pub verdict: Verdict,
    _made: Option<oneshot::Sender<()>>,
}

impl Passed {
    fn unheld() -> Self {
        Self {
            verdict: Verdict::Made,
            _made: None,
        }
    }
}

const CLOSED: u8 = 0;
const OPEN: u8 = 1;
const DEAD: u8 = 2;

/// Where one server's calls are held.
#[derive(Clone)]
pub struct Gate {
    server: usize,
    state: Arc<AtomicU8>,
    held: mpsc::UnboundedSender<Held>,
}

impl Gate {
    /// Holds everything, and says so to `held`.
    pub fn closed(server: usize, held: mpsc::UnboundedSender<Held>) -> Self {
        Self {
            server,
            state: Arc::new(AtomicU8::new(CLOSED)),
            held,
        }
    }

    /// Holds nothing any more.
    pub fn open(&self) {
        self.state.store(OPEN, Ordering::Release);
    }

    /// The server has died: it makes no call any more.
    pub fn die(&self) {
        self.state.store(DEAD, Ordering::Release);
    }

    /// Waits until a call may be made.
    pub async fn pass(&self, name: &'static str) -> Passed {
        match self.state.load(Ordering::Acquire) {
            OPEN => return Passed::unheld(),
            DEAD => std::future::pending::<()>().await,
            _ => {}
        }
        let (go, gone) = oneshot::channel();
        let (executed, made) = oneshot::channel();
        let held = Held {
            server: self.server,
            name,
            go,
            made,
        };
        if self.held.send(held).is_err() {
            return Passed::unheld();
        }
        match gone.await {
            Ok(verdict) => Passed {
                verdict,
                _made: Some(executed),
            },
            // Nobody is left to let it go: the test opens the gate, or lets its server die.
            Err(_) if self.state.load(Ordering::Acquire) == DEAD => std::future::pending().await,
            Err(_) => Passed::unheld(),
        }
    }
}
