use super::*;
use crate::delivery::reuse::{MOST_AGE, REMEMBERED, TRIAL};
use crate::delivery::socket::Socket;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

const ORIGIN: &str = "https://shop.example";

/// A new connection that waits for a request, and the receiver's end of it.
async fn connect(pool: &Pool) -> (ReceiverConnection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let stream = TcpStream::connect(address).await.expect("connects");
    let (receiver, _) = listener.accept().await.expect("accepts");
    let (socket, meter) = Socket::new(stream);
    let handshake = http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake.expect("no bytes are exchanged");
    let watcher = pool.watcher(ORIGIN);
    let id = watcher.id();
    tokio::spawn(async move {
        let _ = connection.await;
        watcher.ended();
    });
    sender.ready().await.expect("open");
    let connection = ReceiverConnection {
        sender,
        meter,
        opened: Instant::now(),
        kept: false,
        id,
        address: None,
        tls: None,
        broke: oneshot::channel().1,
    };
    (connection, receiver)
}

/// A pool whose origin has passed the trial, and the instant at which it passed.
async fn trusting() -> (Pool, Instant) {
    let pool = Pool::default();
    let now = Instant::now();
    let (first, _receiver) = connect(&pool).await;
    pool.put(ORIGIN, first, now);
    let later = now + TRIAL;
    assert!(pool.take(ORIGIN, later).is_some());
    (pool, later)
}

#[tokio::test]
async fn the_connection_that_was_used_last_is_taken_first() {
    let (pool, now) = trusting().await;
    let (first, _receiver) = connect(&pool).await;
    let (second, _receiver_too) = connect(&pool).await;
    let ids = [first.id, second.id];
    pool.put(ORIGIN, first, now);
    pool.put(ORIGIN, second, now);
    assert!(pool.take("https://other.example", now).is_none());
    let taken = pool.take(ORIGIN, now).expect("kept");
    assert_eq!((taken.id, taken.kept), (ids[1], true));
    assert_eq!(pool.take(ORIGIN, now).map(|taken| taken.id), Some(ids[0]));
    assert!(pool.take(ORIGIN, now).is_none());
}

#[tokio::test]
async fn a_connection_in_use_is_not_used_for_ever() {
    let (pool, now) = trusting().await;
    let (mut connection, _receiver) = connect(&pool).await;
    let young = MOST_AGE - Duration::from_millis(1);
    connection.opened = now;
    pool.put(ORIGIN, connection, now);
    for seconds in 1..60 {
        let later = now + Duration::from_secs(seconds);
        let connection = pool.take(ORIGIN, later).expect("young");
        pool.put(ORIGIN, connection, later);
    }
    let connection = pool.take(ORIGIN, now + young).expect("young");
    pool.put(ORIGIN, connection, now + young);
    assert!(pool.take(ORIGIN, now + MOST_AGE).is_none());
    assert_eq!(pool.lock().idle, 0);
    let (mut connection, _receiver) = connect(&pool).await;
    connection.opened = now;
    pool.put(ORIGIN, connection, now + MOST_AGE);
    assert_eq!(pool.lock().idle, 0);
}

#[tokio::test]
async fn an_origin_keeps_so_many_connections_and_no_more() {
    let (pool, now) = trusting().await;
    let mut receivers = Vec::new();
    for _ in 0..=MOST_IDLE_PER_ORIGIN {
        let (connection, receiver) = connect(&pool).await;
        pool.put(ORIGIN, connection, now);
        receivers.push(receiver);
    }
    assert_eq!(pool.lock().idle, MOST_IDLE_PER_ORIGIN);
    let taken = std::iter::from_fn(|| pool.take(ORIGIN, now)).count();
    assert_eq!(taken, MOST_IDLE_PER_ORIGIN);
    assert_eq!(pool.lock().idle, 0);
}

#[tokio::test]
async fn what_is_idle_for_too_long_is_closed_and_forgotten_in_the_end() {
    let (pool, now) = trusting().await;
    let (connection, _receiver) = connect(&pool).await;
    pool.put(ORIGIN, connection, now);
    pool.lock().sweep(now + IDLE - Duration::from_millis(1));
    assert_eq!(pool.lock().idle, 1);
    pool.lock().sweep(now + IDLE);
    assert_eq!(pool.lock().idle, 0);
    assert_eq!(pool.lock().origins.len(), 1);
    pool.lock().sweep(now + REMEMBERED);
    assert_eq!(pool.lock().origins.len(), 0);
}

#[test]
fn a_full_pool_looks_for_room_once_a_second() {
    let (mut pool, now) = (PoolState::default(), Instant::now());
    for number in 0..MOST_ORIGINS {
        assert!(pool.known(&number.to_string(), now).is_some());
    }
    let almost = now + REMEMBERED - Duration::from_millis(1);
    assert!(pool.known("another", almost).is_none());
    // All could be forgotten by now, and that is not looked at.
    assert!(pool.known("another", now + REMEMBERED).is_none());
    assert!(pool.known("another", almost + SWEEP_INTERVAL).is_some());
    assert_eq!(pool.origins.len(), 1);
}

#[tokio::test]
async fn a_connection_that_the_receiver_closes_is_noticed() {
    let (pool, now) = trusting().await;
    let (connection, receiver) = connect(&pool).await;
    pool.put(ORIGIN, connection, now);
    drop(receiver);
    while pool.lock().idle > 0 {
        tokio::task::yield_now().await;
    }
    // The connection closed within the trial time, so the trial has begun again.
    let (connection, _receiver) = connect(&pool).await;
    pool.put(ORIGIN, connection, now);
    assert!(pool.take(ORIGIN, now).is_none());
}

#[tokio::test]
async fn after_a_failure_nothing_is_kept() {
    let (pool, now) = trusting().await;
    let (connection, _receiver) = connect(&pool).await;
    pool.put(ORIGIN, connection, now);
    pool.failed(ORIGIN, now);
    let (connection, _receiver) = connect(&pool).await;
    pool.put(ORIGIN, connection, now);
    assert!(pool.take(ORIGIN, now).is_none());
    assert_eq!(pool.lock().idle, 0);
}
