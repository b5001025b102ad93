//! The task that runs one HTTP/2 connection until it ends.

use super::connection_end::ConnectionEnd;
use super::state::{ConnectionState, SILENT_BEFORE_PING};
use super::watched_stream::WatchedStream;
use bytes::Bytes;
use h2::client::Connection;
use h2::{Ping, PingPong};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// How often it is looked whether the receiver is silent.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the closing of a connection may take that is not used any more.
const LONGEST_CLOSING: Duration = Duration::from_secs(2);

/// Runs a connection. `begun` is told when the settings of the receiver have come, and dropped if the connection ends
/// before; `unnamed` ends when nothing names the connection any more. `changed` is called after every change that
/// calls may wait for, and at the end.
pub async fn run<Stream>(
    mut connection: Connection<WatchedStream<Stream>, Bytes>,
    state: Arc<ConnectionState>,
    (begun, mut unnamed): (oneshot::Sender<()>, oneshot::Receiver<Infallible>),
    changed: impl Fn(),
) where
    Stream: AsyncRead + AsyncWrite + Unpin,
{
    let mut begun = Some(begun);
    let mut pings = connection.ping_pong();
    let mut is_asked = false;
    let mut is_named = true;
    let mut checks = interval(CHECK_INTERVAL);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut closing = Box::pin(sleep(LONGEST_CLOSING));
    loop {
        let progress = poll_fn(|context| {
            let polled = Pin::new(&mut connection).poll(context);
            // The library has taken in what came, and found nothing wrong with it.
            if polled.is_pending() && state.take_change() {
                if state.has_settings()
                    && let Some(begun) = begun.take()
                {
                    let _ = begun.send(());
                }
                changed();
            }
            polled
        });
        tokio::select! {
            biased;
            ended = progress => {
                if let Err(error) = ended {
                    state.ended(ConnectionEnd::of(&error));
                }
                break;
            }
            () = answered(&mut pings), if is_asked => is_asked = false,
            () = state.ask.notified(), if !is_asked => is_asked = ask(&mut pings),
            _ = checks.tick(), if !is_asked => {
                if state.silent_for(Instant::now()) >= SILENT_BEFORE_PING {
                    is_asked = ask(&mut pings);
                }
            }
            _ = &mut unnamed, if is_named => {
                is_named = false;
                closing = Box::pin(sleep(LONGEST_CLOSING));
            }
            () = &mut closing, if !is_named => break,
        }
    }
    state.closed();
    drop(begun);
    changed();
}

/// Asks the receiver whether it is still there. Returns whether it was asked.
fn ask(pings: &mut Option<PingPong>) -> bool {
    let pings = pings.as_mut();
    pings.is_some_and(|pings| pings.send_ping(Ping::opaque()).is_ok())
}

/// Waits for the answer. If the connection ends before, `run` notices.
async fn answered(pings: &mut Option<PingPong>) {
    let Some(pings) = pings else {
        return;
    };
    if poll_fn(|context| pings.poll_pong(context)).await.is_err() {
        std::future::pending().await
    }
}
