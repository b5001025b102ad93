//! Sends one request over one connection and reads its answer.

use super::call_recorder::CallRecorder;
use super::failure::{closed_after_keeping, is_broken_off, not_answered, not_sent};
use super::judging::{BegunAnswer, Judging};
use super::pool::{Pool, ReceiverConnection};
use crate::domain::attempt::Answer;
use crate::domain::call_trace::Phase;
use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use std::time::Instant;

/// The result of an exchange.
pub enum ExchangeResult {
    /// An answer came, or the exchange failed and the answer says why.
    Answered(Answer),
    /// A kept connection was closed before a byte of the request was written. The receiver cannot have
    /// read the request, so it may be sent over another connection.
    Unsent,
    /// The lease expired before a byte of the request was written. The request is not sent.
    TooLate,
}

/// Sends a request and reads its answer. If no byte of the request was written before `until`, the
/// request is not sent. The connection returns to the pool if it can be used again.
pub async fn exchange(
    mut connection: ReceiverConnection,
    request: Request<Full<Bytes>>,
    judging: &Judging<'_>,
    origin: &str,
    pool: &Pool,
    until: Instant,
    recorder: &CallRecorder,
) -> ExchangeResult {
    let kept = connection.kept;
    connection.meter.begin(kept, until);
    recorder.uses(connection.address, connection.tls, kept);
    recorder.begin(Phase::FirstByte);
    let response = match connection.sender.try_send_request(request).await {
        Ok(response) => response,
        Err(_) if connection.meter.is_too_late() => return ExchangeResult::TooLate,
        // If `hyper` returns the request, it wrote no byte. If `hyper` does not return it, perhaps no byte
        // was written either: then the counts of the socket decide.
        Err(error) if kept && (error.message().is_some() || connection.meter.nothing_written()) => {
            return ExchangeResult::Unsent;
        }
        Err(error) => {
            let error = error.into_error();
            return ExchangeResult::Answered(if kept && is_broken_off(&error) {
                pool.failed(origin, Instant::now());
                closed_after_keeping()
            } else if error.is_canceled() {
                // The task of the connection has ended, or is about to. It knows why.
                drop(connection.sender);
                not_sent(&error, connection.broke.await.ok().as_ref())
            } else {
                not_answered(&error)
            });
        }
    };
    connection.meter.body_begins();
    recorder.begin(Phase::Body);
    // 421: the receiver does not serve this origin over this connection (RFC 9110, section 15.5.20).
    let says_it_closes =
        says_it_closes(response.headers()) || response.status() == StatusCode::MISDIRECTED_REQUEST;
    let mut begun = judging.begin(&response);
    let read = read(response, &mut begun).await;
    recorder.end();
    ExchangeResult::Answered(match read {
        Ok(whole) => {
            recorder.asks(begun.retry_after);
            if whole && !says_it_closes {
                pool.put(origin, connection, Instant::now());
            }
            begun.judge(whole)
        }
        Err(error) => begun.judge_broken(not_answered(&error)),
    })
}

/// Whether the receiver announces that it closes the connection after this answer. A connection that is
/// closed after such an announcement says nothing about the other connections of its origin.
fn says_it_closes(headers: &HeaderMap) -> bool {
    headers.get_all(CONNECTION).iter().any(|value| {
        let mut options = value.as_bytes().split(|byte| *byte == b',');
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
    })
}

/// Reads the body of an answer. Returns whether it is complete.
async fn read(
    response: Response<Incoming>,
    begun: &mut BegunAnswer<'_>,
) -> Result<bool, hyper::Error> {
    let mut incoming = response.into_body();
    while let Some(frame) = incoming.frame().await {
        // Trailers are not used.
        if let Ok(chunk) = frame?.into_data()
            && !begun.take_in(&chunk)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::reuse::TRIAL;
    use crate::delivery::socket::Socket;
    use crate::domain::ack::AckRule;
    use crate::domain::key::Key;
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use std::sync::OnceLock;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    const ORIGIN: &str = "http://shop.example";
    const LEFT_OPEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess";

    fn rule_and_key() -> (AckRule, Key) {
        let key = Key::new("payment.succeeded", "1").expect("a key");
        (AckRule::standard(), key)
    }

    /// A new connection, the receiver's end of it, and a task that completes when the connection has ended.
    async fn connect(pool: &Pool) -> (ReceiverConnection, TcpStream, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let stream = TcpStream::connect(address).await.expect("connects");
        let (receiver, _) = listener.accept().await.expect("accepts");
        let (socket, meter) = Socket::new(stream);
        let handshake = http1::handshake(TokioIo::new(socket)).await;
        let (mut sender, connection) = handshake.expect("no bytes are exchanged");
        let watcher = pool.watcher(ORIGIN);
        let id = watcher.id();
        let ended = tokio::spawn(async move {
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
        (connection, receiver, ended)
    }

    /// Sends a request over a connection.
    async fn call(pool: &Pool, connection: ReceiverConnection, until: Instant) -> ExchangeResult {
        let body = Full::new(Bytes::from_static(b"!"));
        let request = Request::post("/").header("Host", "shop.example").body(body);
        let request = request.expect("a request");
        let recorder = CallRecorder::default();
        let (ack, key) = rule_and_key();
        let judging = Judging {
            ack: &ack,
            key: &key,
            accepted: &OnceLock::new(),
            unfinished: &OnceLock::new(),
        };
        exchange(
            connection, request, &judging, ORIGIN, pool, until, &recorder,
        )
        .await
    }

    async fn deliver(
        pool: &Pool,
        connection: ReceiverConnection,
        receiver: &mut TcpStream,
        answer: &str,
    ) {
        let answering = async {
            let mut arrived = Vec::new();
            while arrived.last() != Some(&b'!') {
                receiver.read_buf(&mut arrived).await.expect("sent");
            }
            receiver.write_all(answer.as_bytes()).await.expect("taken");
        };
        let calling = call(pool, connection, Instant::now() + TRIAL);
        let (exchanged, ()) = tokio::join!(calling, answering);
        assert!(matches!(exchanged, ExchangeResult::Answered(answer) if answer.status.is_some()));
    }

    #[tokio::test]
    async fn an_announced_end_says_nothing_of_other_connections() {
        for announced in ["close", "x, Close", "keep-alive\r\nConnection: close"] {
            let pool = Pool::default();
            let (first, mut receiver, ended) = connect(&pool).await;
            deliver(&pool, first, &mut receiver, LEFT_OPEN).await;
            // The connection has stayed open for the trial time, so connections of this origin are used again.
            let later = Instant::now() + TRIAL;
            let kept = pool.take(ORIGIN, later).expect("kept");
            let answer = LEFT_OPEN.replacen("\r\n", &format!("\r\nConnection: {announced}\r\n"), 1);
            deliver(&pool, kept, &mut receiver, &answer).await;
            drop(receiver);
            ended.await.expect("no panic");
            let (next, _receiver, _) = connect(&pool).await;
            let id = next.id;
            pool.put(ORIGIN, next, later);
            let taken = pool.take(ORIGIN, later).map(|taken| taken.id);
            assert_eq!(taken, Some(id), "{announced}");
        }
    }

    #[tokio::test]
    async fn a_connection_to_the_wrong_server_is_not_used_again() {
        let pool = Pool::default();
        let (first, mut receiver, _ended) = connect(&pool).await;
        deliver(&pool, first, &mut receiver, LEFT_OPEN).await;
        let later = Instant::now() + TRIAL;
        let kept = pool.take(ORIGIN, later).expect("kept");
        let answer = LEFT_OPEN.replace("200 OK", "421 Misdirected Request");
        deliver(&pool, kept, &mut receiver, &answer).await;
        assert!(pool.take(ORIGIN, later).is_none());
    }

    #[tokio::test]
    async fn a_kept_connection_that_was_reset_before_the_request_costs_no_attempt() {
        let pool = Pool::default();
        let (mut kept, receiver, _ended) = connect(&pool).await;
        kept.kept = true;
        receiver.set_zero_linger().expect("set");
        // Nothing is awaited between the reset and the request, so the runtime has not noticed it.
        drop(receiver);
        let exchanged = call(&pool, kept, Instant::now() + TRIAL).await;
        assert!(matches!(exchanged, ExchangeResult::Unsent));
    }

    #[tokio::test]
    async fn nothing_is_sent_once_the_lease_is_over() {
        let pool = Pool::default();
        let (new, mut receiver, ended) = connect(&pool).await;
        let (mut kept, mut other_receiver, other_ended) = connect(&pool).await;
        kept.kept = true;
        for connection in [new, kept] {
            let exchanged = call(&pool, connection, Instant::now()).await;
            assert!(matches!(exchanged, ExchangeResult::TooLate));
        }
        ended.await.expect("no panic");
        other_ended.await.expect("no panic");
        let mut arrived = Vec::new();
        for receiver in [&mut receiver, &mut other_receiver] {
            receiver.read_to_end(&mut arrived).await.expect("closed");
        }
        assert!(arrived.is_empty(), "{arrived:?}");
    }

    #[test]
    fn an_end_is_announced_by_one_word() {
        fn check(values: &[&'static str], expected: bool) {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONNECTION, http::HeaderValue::from_static(value));
            }
            assert_eq!(says_it_closes(&headers), expected, "{values:?}");
        }
        check(&[], false);
        check(&["close"], true);
        check(&["CLOSE"], true);
        check(&["x, close"], true);
        check(&["close ,x"], true);
        check(&["keep-alive", "close"], true);
        check(&["keep-alive"], false);
        check(&["closed"], false);
        check(&["not close"], false);
    }
}
