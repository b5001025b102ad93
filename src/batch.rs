//! Calls a store in batches: while one call is in flight, the requests for the next call are collected.
//!
//! An idle store is called at once with a single request, and under load the batches become larger. Before a
//! batch is collected, the other ready tasks of this thread usually run, because many of them are about to add
//! a request. Only one call is in flight at a time, so requests keep their order.
//!
//! Between idle and busy, a fast store would be called for every few requests, and most of what a call costs it
//! does not depend on their number. So calls whose replies may come a little later begin at least
//! [`BatchLimits::spacing`] after the one before.
//!
//! A request that has waited too long, or whose caller has stopped waiting, is not executed. Otherwise,
//! while a store does not answer, callers would wait for one time-out after the other, and their requests
//! would be executed long after they had stopped waiting.

use std::future::Future;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// The limits of a batch and of its queue.
#[derive(Debug, Clone, Copy)]
pub struct BatchLimits {
    /// Maximum number of requests in one call.
    pub requests: usize,
    /// Maximum bytes of the requests in one call. A larger request gets a call of its own.
    pub bytes: usize,
    /// Maximum number of requests in the queue. If the queue is full, callers wait for a place in it.
    pub queue: usize,
    /// Shortest time from the beginning of a call to that of the next.
    pub spacing: Duration,
}

/// How long a request may wait until its batch is called.
pub const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// Why a request got no reply: it waited too long, the process is stopping, or the call panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the request got no reply: it waited too long in the queue, or its call failed")]
pub struct BatchLost;

struct QueuedRequest<Request, Reply> {
    request: Request,
    reply: oneshot::Sender<Reply>,
    since: Instant,
}

impl<Request, Reply> QueuedRequest<Request, Reply> {
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed() && self.since.elapsed() <= LONGEST_WAIT
    }
}

/// Collects requests into batches, in a task of its own. Dropping it ends the task.
#[derive(Debug)]
pub struct Batcher<Request, Reply> {
    queue: mpsc::Sender<QueuedRequest<Request, Reply>>,
}

impl<Request, Reply> Batcher<Request, Reply>
where
    Request: Send + 'static,
    Reply: Send + 'static,
{
    /// Starts the task. `weigh` returns the number of bytes of a request. `call` executes a batch and returns
    /// one reply per request, in order.
    pub fn start<Call, Calling>(
        limits: BatchLimits,
        weigh: fn(&Request) -> usize,
        mut call: Call,
    ) -> Self
    where
        Call: FnMut(Vec<Request>) -> Calling + Send + 'static,
        Calling: Future<Output = Vec<Reply>> + Send + 'static,
    {
        let (queue, mut waiting) = mpsc::channel::<QueuedRequest<Request, Reply>>(limits.queue);
        tokio::spawn(async move {
            let mut held: Option<QueuedRequest<Request, Reply>> = None;
            let mut next_call = Instant::now();
            loop {
                let first = match held.take() {
                    Some(queued) => queued,
                    None => match waiting.recv().await {
                        Some(queued) => queued,
                        None => return,
                    },
                };
                match Instant::now() < next_call {
                    true => tokio::time::sleep_until(next_call).await,
                    false => tokio::task::yield_now().await,
                }
                if !first.is_wanted() {
                    continue;
                }
                let mut bytes = weigh(&first.request);
                let mut requests = vec![first.request];
                let mut replies = vec![first.reply];
                while requests.len() < limits.requests {
                    let Ok(queued) = waiting.try_recv() else {
                        break;
                    };
                    if !queued.is_wanted() {
                        continue;
                    }
                    bytes += weigh(&queued.request);
                    if bytes > limits.bytes {
                        held = Some(queued);
                        break;
                    }
                    requests.push(queued.request);
                    replies.push(queued.reply);
                }
                next_call = Instant::now() + limits.spacing;
                // The call runs in a task of its own. If it panics, its callers get `BatchLost`, and the next
                // batches are still called.
                let results = tokio::spawn(call(requests)).await.unwrap_or_default();
                for (reply, result) in replies.into_iter().zip(results) {
                    // `send` fails if the caller has stopped waiting. Then no one needs the reply.
                    let _ = reply.send(result);
                }
            }
        });
        Self { queue }
    }

    /// Adds one request to the queue and waits for its reply.
    ///
    /// # Errors
    /// [`BatchLost`] if there is no reply; the request may or may not have been executed.
    pub async fn call(&self, request: Request) -> Result<Reply, BatchLost> {
        let (reply, replied) = oneshot::channel();
        let since = Instant::now();
        let queued = QueuedRequest {
            request,
            reply,
            since,
        };
        match self.queue.try_send(queued) {
            Ok(()) => {}
            Err(TrySendError::Full(queued)) => {
                let sending = self.queue.send(queued);
                let sent = Box::pin(tokio::time::timeout(LONGEST_WAIT, sending)).await;
                sent.map_err(|_| BatchLost)?.map_err(|_| BatchLost)?;
            }
            Err(TrySendError::Closed(_)) => return Err(BatchLost),
        }
        replied.await.map_err(|_| BatchLost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn a_panic_costs_one_batch_and_no_more() {
        let limits = BatchLimits {
            requests: 1,
            bytes: 1,
            queue: 1,
            spacing: Duration::ZERO,
        };
        let batcher = Batcher::start(
            limits,
            |_: &bool| 0,
            |requests: Vec<bool>| async move {
                assert!(!requests[0], "asked to panic");
                requests
            },
        );
        assert_eq!(batcher.call(true).await, Err(BatchLost));
        assert_eq!(batcher.call(false).await, Ok(false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waited_too_long_or_lost_its_caller_is_not_executed() {
        let (gate, executed) = (
            Arc::new(Semaphore::new(0)),
            Arc::new(Mutex::new(Vec::<u8>::new())),
        );
        let limits = BatchLimits {
            requests: 1,
            bytes: 100,
            queue: 10,
            spacing: Duration::ZERO,
        };
        let batcher = Arc::new(Batcher::start(limits, |_: &u8| 1, {
            let (gate, executed) = (gate.clone(), executed.clone());
            move |requests: Vec<u8>| {
                let (gate, executed) = (gate.clone(), executed.clone());
                async move {
                    gate.acquire().await.expect("open").forget();
                    executed.lock().expect("held").extend(&requests);
                    requests
                }
            }
        }));
        let call = |request| {
            let batcher = batcher.clone();
            tokio::spawn(async move { batcher.call(request).await })
        };
        let first = call(1);
        tokio::task::yield_now().await;
        let (late, gone) = (call(2), call(3));
        tokio::task::yield_now().await;
        gone.abort();
        tokio::time::advance(LONGEST_WAIT + Duration::from_millis(1)).await;
        let fresh = call(4);
        tokio::task::yield_now().await;
        gate.add_permits(10);
        assert_eq!(first.await.expect("no panic"), Ok(1), "it was in flight");
        assert_eq!(late.await.expect("no panic"), Err(BatchLost));
        assert_eq!(fresh.await.expect("no panic"), Ok(4));
        assert_eq!(*executed.lock().expect("held"), [1, 4]);
    }

    #[tokio::test]
    async fn requests_during_a_call_go_into_the_next_call() {
        let gate = Arc::new(Semaphore::new(0));
        let limits = BatchLimits {
            requests: 3,
            bytes: 100,
            queue: 10,
            spacing: Duration::ZERO,
        };
        let batcher = Arc::new(Batcher::start(limits, |_: &usize| 40, {
            let gate = gate.clone();
            move |requests: Vec<usize>| {
                let gate = gate.clone();
                async move {
                    gate.acquire().await.expect("open").forget();
                    let together = requests.len();
                    requests
                        .into_iter()
                        .map(|request| (request, together))
                        .collect()
                }
            }
        }));
        let mut callers = Vec::new();
        for request in 0..4 {
            let batcher = batcher.clone();
            callers.push(tokio::spawn(async move { batcher.call(request).await }));
            tokio::task::yield_now().await;
        }
        gate.add_permits(10);
        let mut replies = Vec::new();
        for caller in callers {
            replies.push(caller.await.expect("no panic").expect("executed"));
        }
        assert_eq!(
            replies.iter().map(|reply| reply.0).collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
        // A request has 40 bytes and a call at most 100, so a call has at most two requests.
        assert!(replies.iter().all(|reply| reply.1 <= 2), "{replies:?}");
        assert!(replies.iter().any(|reply| reply.1 == 2), "{replies:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn calls_begin_some_time_after_the_one_before_and_an_idle_store_is_called_at_once() {
        let spacing = Duration::from_millis(3);
        let limits = BatchLimits {
            requests: 10,
            bytes: 100,
            queue: 10,
            spacing,
        };
        let begun = Instant::now();
        let batcher = Batcher::start(
            limits,
            |_: &()| 1,
            move |requests: Vec<()>| async move {
                let called = (begun.elapsed(), requests.len());
                requests.into_iter().map(|()| called).collect()
            },
        );
        let call = || async { batcher.call(()).await.expect("executed") };
        assert_eq!(call().await, (Duration::ZERO, 1));
        // These come while the next call has to wait, and so are one call.
        assert_eq!(tokio::join!(call(), call()), ((spacing, 2), (spacing, 2)));
        tokio::time::advance(2 * spacing).await;
        assert_eq!(call().await, (3 * spacing, 1));
    }
}
