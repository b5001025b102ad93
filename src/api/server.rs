//! Accepting connections for the API.
//!
//! A connection that sends no complete request head in time is closed, so that slow or idle clients
//! cannot use up the permits; there is a bound on connections, and beyond it they wait to be
//! accepted. A client that was answered while it was still sending is given the time to read the answer
//! ([`crate::api::unread`]).

use crate::api::unread::{ConnectionService, LentStream};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Maximum number of connections at once.
const MOST_CONNECTIONS: usize = 4_096;
/// Bytes of a request that are read at once; also most bytes of its head.
const MOST_BUFFERED_BYTES: usize = 16 * 1024;
/// How long a client may take to send a request's head, idle time between requests included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Wait after a failed accept: most likely the process is out of file descriptors.
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(100);
/// How long stopping waits for requests in flight.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves until `stop` is cancelled, then lets the requests in flight end.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MOST_BUFFERED_BYTES)
        .keep_alive(true);
    let accept = async || {
        let permit = permits.clone().acquire_owned().await;
        let permit = permit.expect("invariant: the permits are never closed");
        (permit, listener.accept().await)
    };
    while let Some((permit, accepted)) = stop.run_until_cancelled(accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the API cannot accept a connection now; trying again");
                tokio::time::sleep(ACCEPT_BACK_OFF).await;
                continue;
            }
        };
        // Without it small answers wait for the client's delayed acknowledgement.
        let _ = stream.set_nodelay(true);
        let service = ConnectionService::new(router.clone());
        let unread = service.unread();
        let (stream, left) = LentStream::new(stream);
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // That a client breaks off is not logged. One whose request was not understood was answered.
            let not_understood = connection.await.is_err_and(|error| error.is_parse());
            if not_understood || unread.load(Ordering::Acquire) {
                left.linger().await;
            }
            drop(permit);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(STOP_TIMEOUT, graceful.shutdown()).await;
}
