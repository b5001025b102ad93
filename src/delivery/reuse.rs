//! Knowing whether a call went over a connection that had been used before.
//!
//! A server may close an idle connection at the very moment a call is written into it. Such a call
//! fails without an answer and without having been read, and the merchant is not to blame. The HTTP
//! client does not tell; but it opens new connections through a layer of ours, within the task that
//! makes the call, so a call during which none was opened went over an old one.

use std::cell::Cell;
use std::future::Future;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

tokio::task_local! {
    static OPENED: Cell<bool>;
}

/// Makes a call, and says whether it can only have gone over a connection used before.
pub async fn watch<Call: Future>(call: Call) -> (Call::Output, bool) {
    OPENED
        .scope(Cell::new(false), async {
            let output = call.await;
            (output, !OPENED.with(Cell::get))
        })
        .await
}

/// The layer around the client's connector.
#[derive(Debug, Clone, Copy)]
pub struct Watched;

/// The client's connector, watched.
#[derive(Debug, Clone)]
pub struct WatchedConnector<Connector>(Connector);

impl<Connector> Layer<Connector> for Watched {
    type Service = WatchedConnector<Connector>;

    fn layer(&self, connector: Connector) -> Self::Service {
        WatchedConnector(connector)
    }
}

impl<Connector: Service<Target>, Target> Service<Target> for WatchedConnector<Connector> {
    type Response = Connector::Response;
    type Error = Connector::Error;
    type Future = Connector::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, target: Target) -> Self::Future {
        // Outside of a watched call there is nobody to tell.
        let _ = OPENED.try_with(|opened| opened.set(true));
        self.0.call(target)
    }
}
