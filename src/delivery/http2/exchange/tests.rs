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
    call_with(place, Bytes::from_static(b"!")).await
}

async fn call_with(place: CallPlace, body: Bytes) -> Http2Exchange {
    let request = Request::post("http://shop.example/").body(());
    let request = (request.expect("a request"), body);
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

/// Status 200, this `Content-Length`, and the body `success`, with these flags.
fn answer_of_length(length: u8, flags: u8) -> Vec<u8> {
    let head = b"\0\0\x05\x01\x04\0\0\0\x01\x88\x0f\x0d\x01";
    let body = b"\0\0\0\x01success";
    [&head[..], &[length, 0, 0, 7, 0, flags], &body[..]].concat()
}

/// Answers before the whole body has come, and closes the connection. Nothing is awaited between the two, so the caller finds
/// both at once. The socket is kept: closing it with unread bytes would reset the connection.
async fn answer_and_leave(mut receiver: TcpStream, answer: Vec<u8>) -> TcpStream {
    let mut arrived = Vec::new();
    while arrived.len() < 65_535 {
        receiver.read_buf(&mut arrived).await.expect("a call");
    }
    receiver
        .try_write(&[&answer[..], &GOAWAY[..]].concat())
        .expect("sent");
    receiver.shutdown().await.expect("closed");
    receiver
}

#[tokio::test]
async fn an_answer_that_came_before_the_whole_body_counts_if_it_has_its_length() {
    let cases = [
        (b'7', 1, Outcome::Acknowledged),
        (b'7', 0, Outcome::Acknowledged),
        (b'8', 0, Outcome::Protocol),
        (b'8', 1, Outcome::Protocol),
        (b'6', 1, Outcome::Protocol),
    ];
    for (length, flags, outcome) in cases {
        let pool = Http2Pool::default();
        let (place, receiver) = connect(&pool).await;
        // The receiver opens no window, so 65,535 bytes are sent.
        let body = Bytes::from(vec![b'x'; 100_000]);
        let answer = answer_of_length(length, flags);
        let (exchanged, _receiver) =
            tokio::join!(call_with(place, body), answer_and_leave(receiver, answer));
        let Http2Exchange::Answered(answer) = exchanged else {
            panic!("{length} {flags}: it was answered");
        };
        assert_eq!(answer.outcome, outcome, "{length} {flags}");
    }
}
