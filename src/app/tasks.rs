//! Runs the tasks of a server, notices a task that ends too early, and waits for the tasks at a stop.

use std::future::Future;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The tasks of a server.
pub(super) struct Tasks {
    stop: CancellationToken,
    /// Cancelled when a required task has ended too early.
    broken: CancellationToken,
    /// In the order in which a stop waits for them.
    running: Vec<(&'static str, JoinHandle<()>)>,
}

impl Tasks {
    /// No tasks yet.
    pub(super) fn new() -> Self {
        Self {
            stop: CancellationToken::new(),
            broken: CancellationToken::new(),
            running: Vec::new(),
        }
    }

    /// The token that is cancelled when the tasks must stop.
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

    /// Runs a part of the server that the server needs. If the part ends before the stop, [`Tasks::broken`]
    /// completes.
    pub(super) fn run_required(
        &mut self,
        part: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let (stop, broken) = (self.stop.clone(), self.broken.clone());
        // The work runs in a task of its own, so that its panic can be observed here.
        let work = tokio::spawn(work);
        self.run(part, async move {
            let ended = work.await;
            if let Err(error) = &ended {
                tracing::error!(
                    %error,
                    part,
                    "the server part `{part}` panicked, which is a bug; the server cannot work without it, so it ends"
                );
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

    /// Waits for one task after the other. Sets `part` to the name of the task that it waits for.
    pub(super) async fn wait(self, part: &mut &'static str) {
        for (name, task) in self.running {
            *part = name;
            if let Err(error) = task.await {
                tracing::error!(
                    %error,
                    part,
                    "the server part `{part}` had panicked before the server stopped, which is a bug; the server \
                     continued without it"
                );
            }
        }
    }
}
