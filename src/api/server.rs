//! The HTTP server of the API: accepts connections and serves their requests.
//!
//! The number of connections is limited. Further connections wait to be accepted. A connection that sends no
//! complete request head within a time limit is closed, and so is one whose client does not read its answer, so that slow
//! or idle clients do not keep their place for ever. If a client is answered before it has sent its whole request, it gets
//! time to read the answer ([`crate::api::unread`]).

use crate::api::unread::{ConnectionService, LentStream};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Maximum number of connections at once.
const MOST_CONNECTIONS: usize = 4_096;
/// Maximum bytes of a request that are read at once, and maximum length of its head.
const MOST_BUFFERED_BYTES: usize = 16 * 1024;
/// Maximum time until a request's head has arrived. The idle time before the request counts too.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Wait after a connection could not be accepted. The usual cause is that the process has no free file
/// descriptor.
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(100);
/// Shortest time between two log lines about connections that could not be accepted.
const ACCEPT_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// How long a stopping server waits for the requests in flight.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves requests until `stop` is cancelled. Then waits for the requests in flight.
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
    let mut logged: Option<Instant> = None;
    while let Some((permit, accepted)) = stop.run_until_cancelled(accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                if logged.is_none_or(|logged| logged.elapsed() >= ACCEPT_LOG_INTERVAL) {
                    logged = Some(Instant::now());
                    tracing::warn!(
                        %error,
                        "the API cannot accept a connection now; callers wait, and it tries again"
                    );
                }
                tokio::time::sleep(ACCEPT_BACK_OFF).await;
                continue;
            }
        };
        // Without TCP_NODELAY, a small answer would wait for the client's delayed acknowledgement.
        let _ = stream.set_nodelay(true);
        let service = ConnectionService::new(router.clone());
        let unread = service.unread();
        let (stream, left) = LentStream::new(stream);
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // If a client closes the connection early, nothing is logged. If a request could not be parsed,
            // the client got an error answer and needs time to read it.
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
