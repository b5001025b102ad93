use super::*;
use crate::delivery::http2::connection::OpenedStream;
use crate::delivery::http2::origin::MOST_CONNECTIONS;
use crate::delivery::reuse::REMEMBERED;
use crate::delivery::socket::Socket;
use bytes::Bytes;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};

/// A receiver that allows so many calls at a time on each connection.
async fn receiver(calls: u32) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut builder = h2::server::Builder::new();
                builder.max_concurrent_streams(calls);
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

/// Opens a connection, and returns the place of its first call.
async fn open(pool: &Http2Pool, address: SocketAddr) -> CallPlace {
    let now = Instant::now();
    let opening = opening(pool, now);
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
    place
}

fn place(pool: &Http2Pool, now: Instant) -> CallPlace {
    let PlaceSearch::Send(place) = pool.look("origin", None, now) else {
        panic!("there is a place");
    };
    place
}

/// A pool with as many connections as an origin gets. Each has a call.
async fn full() -> (Http2Pool, Vec<CallPlace>) {
    let (pool, address) = (Http2Pool::default(), receiver(1).await);
    let mut places = Vec::new();
    while places.len() < MOST_CONNECTIONS {
        places.push(open(&pool, address).await);
    }
    (pool, places)
}

#[tokio::test]
async fn a_connection_that_has_been_silent_is_used_only_if_there_is_no_other() {
    let (pool, address) = (Http2Pool::default(), receiver(2).await);
    let mut first = open(&pool, address).await;
    let now = Instant::now();
    first.begin(now + Duration::from_secs(60), now);
    let second = place(&pool, now);
    let other = open(&pool, address).await;
    let (silent, answering) = (first.connection.id, other.connection.id);
    assert_eq!(second.connection.id, silent);
    drop((second, other));
    // It says nothing more after it was opened.
    let late = Instant::now() + Duration::from_secs(2);
    assert_eq!(place(&pool, now).connection.id, silent, "it has a call");
    assert_eq!(place(&pool, late).connection.id, answering);
    let alone = place(&pool, late);
    let both = place(&pool, late);
    let ids = [alone.connection.id, both.connection.id];
    assert_eq!(ids, [answering; 2]);
    assert_eq!(place(&pool, late).connection.id, silent);
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

#[tokio::test]
async fn a_connection_is_shared_although_its_other_calls_have_ended() {
    let (pool, address) = (Http2Pool::default(), receiver(2).await);
    let now = Instant::now();
    let until = now + Duration::from_secs(60);
    let mut first = open(&pool, address).await;
    first.begin(until, now);
    assert!(!first.closed_without_goaway(now), "it was alone");
    let mut second = place(&pool, now);
    second.begin(until, now);
    second.finish();
    drop(second);
    assert!(first.closed_without_goaway(now));
    // From now on, each call has a connection of its own.
    let alone = opening(&pool, now);
    assert!(!alone.is_shared);
}

#[test]
fn a_full_pool_looks_for_room_once_a_second() {
    let (mut origins, now) = (Http2Origins::default(), Instant::now());
    for number in 0..MOST_ORIGINS {
        assert!(origins.known(&number.to_string(), now).is_some());
    }
    let almost = now + REMEMBERED - Duration::from_millis(1);
    assert!(origins.known("another", almost).is_none());
    // All could be forgotten by now, and that is not looked at.
    assert!(origins.known("another", now + REMEMBERED).is_none());
    assert!(origins.known("another", almost + SWEEP_INTERVAL).is_some());
    assert_eq!(origins.by_name.len(), 1);
}
