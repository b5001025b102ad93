//! The tasks of a running server: how they are watched, and how they are waited for.

use std::future::Future;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The tasks, in the order in which they are waited for.
pub(super) struct Tasks {
    stop: CancellationToken,
    broken: CancellationToken,
    running: Vec<(&'static str, JoinHandle<()>)>,
}

impl Tasks {
    /// No task runs.
    pub(super) fn new() -> Self {
        Self {
            stop: CancellationToken::new(),
            broken: CancellationToken::new(),
            running: Vec::new(),
        }
    }

    /// Tells the tasks to stop once it is cancelled.
    pub(super) fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs a part of the server.
    pub(super) fn run(
        &mut self,
        part: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.running.push((part, tokio::spawn(work)));
    }

    /// Runs a part that the server is of no use without: if it ends before the stop, the server is
    /// broken.
    pub(super) fn run_required(
        &mut self,
        part: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let (stop, broken) = (self.stop.clone(), self.broken.clone());
        // A task of its own, so that a panic is noticed.
        let work = tokio::spawn(work);
        self.run(part, async move {
            let ended = work.await;
            if let Err(error) = &ended {
                tracing::error!(%error, part, "a part of the server ended in a panic; this is a bug");
            }
            if ended.is_err() || !stop.is_cancelled() {
                broken.cancel();
            }
        });
    }

    /// Completes when a required part has ended although it was not stopped.
    pub(super) async fn broken(&self) {
        self.broken.cancelled().await;
    }

    /// Tells all tasks to stop.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits for one part after the other. `part` is the one that is waited for.
    pub(super) async fn wait(self, part: &mut &'static str) {
        for (name, task) in self.running {
            *part = name;
            if let Err(error) = task.await {
                tracing::error!(%error, part, "a part of the server ended in a panic; this is a bug");
            }
        }
    }
}
