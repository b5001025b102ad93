use super::*;
use crate::delivery::lookups::SystemResolver;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

/// More than the buffers of the sockets hold.
const LARGE: usize = 64 * 1024 * 1024;

fn connector() -> ReceiverConnector {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let filter = AddressFilter {
        allowed: vec!["127.0.0.0/8".parse().expect("a network")],
        allow_http: true,
    };
    let tls = TlsConfigs::of(crate::tls_roots::client_config());
    let lookups = Arc::new(Lookups::new(Arc::new(SystemResolver)));
    ReceiverConnector::new(Arc::new(filter), Scheme::Http, tls, None, lookups)
}

/// Opens a connection. Returns it and the receiver's end of it.
async fn connect() -> (ReceiverConnection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let url = Url::parse(&format!("http://{address}/")).expect("a URL");
    let until = Instant::now() + Duration::from_secs(60);
    let to = ("origin", None, LookupShare::Proven, until);
    let (pool, recorder) = (Pool::default(), CallRecorder::default());
    let connector = connector();
    let opening = connector.open(&url, to, &pool, &recorder);
    let (opened, accepted) = tokio::join!(opening, listener.accept());
    (opened.expect("a connection"), accepted.expect("accepted").0)
}

async fn within<T>(what: &str, signal: impl Future<Output = T>) -> T {
    let awaited = timeout(LONGEST_CLOSING + Duration::from_secs(8), signal).await;
    awaited.unwrap_or_else(|_| panic!("{what} lasts too long"))
}

/// Waits until no connection is open any more.
async fn all_ended() {
    while Handle::current().metrics().num_alive_tasks() > 0 {
        tokio::task::yield_now().await;
    }
}

fn request() -> Request<Full<Bytes>> {
    let body = Full::new(Bytes::from(vec![b'x'; LARGE]));
    Request::post("/")
        .header("Host", "a")
        .body(body)
        .expect("a request")
}

async fn read_something(receiver: &mut TcpStream) {
    receiver.read_exact(&mut [0; 64]).await.expect("a request");
}

#[tokio::test]
async fn a_receiver_that_answers_and_does_not_read_the_rest_keeps_no_connection_open() {
    let (mut connection, mut receiver) = connect().await;
    let calling = async {
        let answer = connection.sender.try_send_request(request()).await;
        let answer = answer
            .map_err(|error| error.into_error())
            .expect("an answer");
        answer.into_body().collect().await.expect("whole")
    };
    let answering = async {
        read_something(&mut receiver).await;
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess";
        receiver.write_all(answer).await.expect("sent");
    };
    let (answer, ()) = tokio::join!(calling, answering);
    assert_eq!(answer.to_bytes(), "success");
    drop(connection);
    within("a connection that nobody uses", all_ended()).await;
    drop(receiver);
}

#[tokio::test]
async fn a_call_that_was_broken_off_keeps_no_connection_open() {
    let (mut connection, mut receiver) = connect().await;
    let calling = connection.sender.try_send_request(request());
    tokio::select! {
        _ = calling => panic!("nothing was answered"),
        () = read_something(&mut receiver) => {}
    }
    drop(connection);
    within("a connection that nobody uses", all_ended()).await;
    drop(receiver);
}
