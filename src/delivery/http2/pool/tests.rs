use super::*;
use crate::delivery::http2::connection::OpenedStream;
use crate::delivery::socket::Socket;
use bytes::Bytes;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};

/// A receiver that allows one call at a time on each connection.
async fn receiver() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut builder = h2::server::Builder::new();
                builder.max_concurrent_streams(1);
                let connection = builder.handshake::<_, Bytes>(stream).await;
                let mut connection = connection.expect("a caller");
                while connection.accept().await.is_some() {}
            });
        }
    });
    address
}

fn opening(pool: &Http2Pool, now: Instant) -> Opening {
    let PlaceSearch::Open(opening) = pool.look("origin", None, now) else {
        panic!("a connection is to be opened");
    };
    opening
}

fn waiting(pool: &Http2Pool, now: Instant) -> WaitingCall {
    let PlaceSearch::Wait(waiting) = pool.look("origin", None, now) else {
        panic!("there is no place");
    };
    waiting
}

async fn told(waiting: WaitingCall) {
    let told = tokio::time::timeout(Duration::from_secs(10), waiting.wait());
    told.await.expect("it is told");
}

/// A pool with as many connections as an origin gets. Each has a call.
async fn full() -> (Http2Pool, Vec<CallPlace>) {
    let (pool, address) = (Http2Pool::default(), receiver().await);
    let mut places = Vec::new();
    while places.len() < 8 {
        let now = Instant::now();
        let opening = opening(&pool, now);
        let stream = TcpStream::connect(address).await.expect("connects");
        let (stream, meter) = Socket::new(stream);
        let stream = OpenedStream {
            stream,
            meter,
            address: Some(address),
            tls: None,
        };
        let connection = Http2Connection::start(stream, opening.id, opening.on_change()).await;
        let OpenedPlace::Place(place) = opening.opened(connection.expect("HTTP/2"), now) else {
            panic!("it has room");
        };
        places.push(place);
    }
    (pool, places)
}

#[tokio::test]
async fn calls_that_wait_are_told_when_the_connections_are_too_old() {
    let later = Instant::now() + Duration::from_secs(3_600);
    let (pool, _places) = full().await;
    let told_by_sweep = waiting(&pool, Instant::now());
    pool.lock().sweep(later);
    told(told_by_sweep).await;
    let (pool, mut places) = full().await;
    let told_by_look = waiting(&pool, Instant::now());
    let _opening = opening(&pool, later);
    told(told_by_look).await;
    let told_by_release = waiting(&pool, later);
    drop(places.pop());
    told(told_by_release).await;
}
