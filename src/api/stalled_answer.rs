//! Answers that the client does not read.
//!
//! Without a limit, a client that sends requests and reads no answer keeps its connection, the answers and their memory for
//! as long as it likes, because its system goes on acknowledging. So writing an answer fails if too little of it was taken
//! for too long. The connection is closed then.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// The longest time for a client to take [`LEAST_BYTES`] of an answer, or the rest of it.
///
/// Systems tell of room for more only when about a third of what they buffer was taken, which is up to 1 MB near by. So a
/// client that reads 10 KB per second is slow enough to be given up at worst.
const LONGEST_STALL: Duration = Duration::from_secs(120);
/// So much of an answer a client must take in [`LONGEST_STALL`].
const LEAST_BYTES: usize = 16 * 1024;

/// Watches the writes to one connection. It has no timer as long as everything is taken at once.
#[derive(Debug, Default)]
pub(super) struct StallLimit(Option<Stall>);

/// The time since the client did not take everything.
#[derive(Debug)]
struct Stall {
    until: Pin<Box<Sleep>>,
    /// Bytes that it took since then.
    taken: usize,
}

impl StallLimit {
    /// Passes on the result of writing `bytes` bytes, or fails if the client has taken too little for too long.
    pub(super) fn pass(
        &mut self,
        context: &mut Context<'_>,
        bytes: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match (&written, &mut self.0) {
            (Poll::Ready(Ok(written)), Some(stall)) if *written < bytes => {
                stall.taken += written;
                if stall.taken >= LEAST_BYTES {
                    self.0 = None;
                }
            }
            (Poll::Ready(_), _) => self.0 = None,
            (Poll::Pending, stall) => {
                let stall = stall.get_or_insert_with(|| Stall {
                    until: Box::pin(tokio::time::sleep(LONGEST_STALL)),
                    taken: 0,
                });
                if stall.until.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// What passes of writes of 1 MiB, each of which comes 40 s after the one before. `None` is one that must wait.
    async fn passed(taken: &[Option<usize>]) -> Vec<Option<Result<usize, io::ErrorKind>>> {
        const BYTES: usize = 1 << 20;
        let mut limit = StallLimit::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut passed = Vec::new();
        for taken in taken {
            let written = taken.map_or(Poll::Pending, |taken| Poll::Ready(Ok(taken)));
            passed.push(match limit.pass(&mut context, BYTES, written) {
                Poll::Ready(written) => Some(written.map_err(|error| error.kind())),
                Poll::Pending => None,
            });
            tokio::time::advance(Duration::from_secs(40)).await;
        }
        passed
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_or_too_little_is_given_up() {
        let timed_out = Some(Err(io::ErrorKind::TimedOut));
        let nothing = passed(&[None, None, None, None]).await;
        assert_eq!(nothing, [None, None, None, timed_out]);
        let little = passed(&[None, Some(10), None, Some(10), None]).await;
        let expected = [None, Some(Ok(10)), None, Some(Ok(10)), timed_out];
        assert_eq!(little, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_enough_has_time_again() {
        let all = Some(1 << 20);
        for enough in [Some(LEAST_BYTES), all] {
            let passed = passed(&[None, None, enough, None, None, None]).await;
            let expected = [None, None, enough.map(Ok), None, None, None];
            assert_eq!(passed, expected);
        }
    }
}
