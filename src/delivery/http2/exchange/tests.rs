use super::*;
use crate::delivery::http2::connection::OpenedStream;
use crate::delivery::http2::pool::{Http2Pool, OpenedPlace, PlaceSearch};
use crate::delivery::socket::Socket;
use crate::domain::ack::AckRule;
use crate::domain::attempt::Outcome;
use crate::domain::key::Key;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
/// The body `!` of the first call.
const BODY: [u8; 10] = [0, 0, 1, 0, 1, 0, 0, 0, 1, b'!'];
/// Status 200, and the body `success`.
const ANSWER: &[u8] = b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x07\0\x01\0\0\0\x01success";

/// A place on a new connection, and the receiver's end of it.
async fn connect(pool: &Http2Pool) -> (CallPlace, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let stream = TcpStream::connect(address).await.expect("connects");
    let (mut receiver, _) = listener.accept().await.expect("accepts");
    receiver.write_all(&SETTINGS).await.expect("sent");
    let (stream, meter) = Socket::new(stream);
    let opened = OpenedStream {
        stream,
        meter,
        address: Some(address),
        tls: None,
    };
    let now = Instant::now();
    let PlaceSearch::Open(opening) = pool.look("origin", None, now) else {
        panic!("there is no connection");
    };
    let connection = Http2Connection::start(opened, opening.id, opening.on_change()).await;
    let OpenedPlace::Place(place) = opening.opened(connection.expect("HTTP/2"), now) else {
        panic!("it has room");
    };
    (place, receiver)
}

async fn call(place: CallPlace) -> Http2Exchange {
    let request = Request::post("http://shop.example/").body(());
    let request = (request.expect("a request"), Bytes::from_static(b"!"));
    let (ack, accepted) = (AckRule::standard(), OnceLock::new());
    let judging = Judging {
        ack: &ack,
        key: &Key::new("payment.succeeded", "1").expect("a key"),
        accepted: &accepted,
        unfinished: &OnceLock::new(),
    };
    let until = Instant::now() + Duration::from_secs(60);
    exchange(place, request, &judging, until, &CallRecorder::default()).await
}

async fn answer(receiver: &mut TcpStream) {
    let mut arrived = Vec::new();
    while !arrived.windows(BODY.len()).any(|bytes| bytes == BODY) {
        receiver.read_buf(&mut arrived).await.expect("a call");
    }
    receiver.write_all(ANSWER).await.expect("sent");
}

#[tokio::test]
async fn a_kept_connection_that_has_ended_before_the_request_costs_no_attempt() {
    let ends: [(&str, &[u8], bool); 4] = [
        ("closed", &[], false),
        ("reset", &[], true),
        ("left", &GOAWAY, false),
        ("asked", &PING, false),
    ];
    for (name, last_frame, resets) in ends {
        let pool = Http2Pool::default();
        let (place, mut receiver) = connect(&pool).await;
        let (first, ()) = tokio::join!(call(place), answer(&mut receiver));
        let Http2Exchange::Answered(first) = first else {
            panic!("{name}: it was answered");
        };
        assert_eq!(first.outcome, Outcome::Acknowledged, "{name}");
        // Nothing is awaited between the end and the request, so the runtime has not noticed it.
        receiver.try_write(last_frame).expect("sent");
        if resets {
            receiver.set_zero_linger().expect("set");
        }
        drop(receiver);
        let PlaceSearch::Send(place) = pool.look("origin", None, Instant::now()) else {
            panic!("{name}: it is kept");
        };
        let Http2Exchange::NotProcessed(unprocessed) = call(place).await else {
            panic!("{name}: nothing was written");
        };
        assert!(unprocessed.ended_before_request, "{name}");
    }
}
