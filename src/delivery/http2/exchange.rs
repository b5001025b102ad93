//! Sends one request over an HTTP/2 connection and reads its answer.

use super::connection::Http2Connection;
use super::connection_end::{ConnectionEnd, is_refused};
use super::pool::CallPlace;
use super::state::ConnectionState;
use crate::delivery::call_recorder::CallRecorder;
use crate::delivery::judging::Judging;
use crate::domain::attempt::Answer;
use crate::domain::call_trace::Phase;
use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Error, SendStream};
use http::{Request, StatusCode};
use std::future::poll_fn;
use std::pin::pin;
use std::time::Instant;

/// The result of an exchange.
pub enum Http2Exchange {
    /// An answer came, or the exchange failed and the answer says why.
    Answered(Answer),
    /// The receiver did not process the request: it says so, or the request was not written. So it may be sent again, over
    /// another connection.
    NotProcessed(Unprocessed),
    /// The lease expired before the request was written. Nothing was sent.
    TooLate,
}

/// A request that was not processed.
pub struct Unprocessed {
    /// What is recorded if it is not sent again.
    pub answer: Answer,
    /// The number of its connection.
    pub connection: u64,
    /// Whether the connection was kept from earlier calls, and nothing of the request was written.
    pub ended_before_request: bool,
}

/// Sends a request and reads its answer. If the request was not written before `until`, it is not sent. A call that is
/// dropped before it has ended resets its stream (`CANCEL`), and the other calls on the connection go on.
pub async fn exchange(
    mut place: CallPlace,
    (request, body): (Request<()>, Bytes),
    judging: &Judging<'_>,
    until: Instant,
    recorder: &CallRecorder,
) -> Http2Exchange {
    let now = Instant::now();
    if now >= until {
        return Http2Exchange::TooLate;
    }
    let connection = place.connection.clone();
    recorder.uses(connection.address, connection.tls, place.kept);
    recorder.speaks_http2();
    recorder.begin(Phase::FirstByte);
    place.begin(until, now);
    let calling = send_and_receive(&connection, (request, body), judging, recorder);
    let received = calling.await;
    place.finish();
    let (stream, error) = match received {
        StreamResult::Answer(answer) => return Http2Exchange::Answered(answer),
        StreamResult::NotSent(error) => (u32::MAX, error),
        StreamResult::Failed(stream, error) => (stream, error),
    };
    let state = &connection.state;
    let end = end_of(&error, state);
    if is_refused(&error) || state.is_unprocessed(stream) {
        return if Instant::now() >= until {
            Http2Exchange::TooLate
        } else {
            Http2Exchange::NotProcessed(Unprocessed {
                answer: end.answer(),
                connection: connection.id,
                ended_before_request: place.kept && state.is_unwritten(stream),
            })
        };
    }
    let is_closed = error.is_io() && state.is_closed_without_goaway();
    if is_closed && place.closed_without_goaway(Instant::now()) {
        return Http2Exchange::Answered(ConnectionEnd::closed_between().answer());
    }
    Http2Exchange::Answered(end.answer())
}

/// How far a request came.
enum StreamResult {
    /// An answer was judged, whole or not.
    Answer(Answer),
    /// The connection took no request.
    NotSent(Error),
    /// No answer came on this stream.
    Failed(u32, Error),
}

async fn send_and_receive(
    connection: &Http2Connection,
    (request, body): (Request<()>, Bytes),
    judging: &Judging<'_>,
    recorder: &CallRecorder,
) -> StreamResult {
    let mut sender = connection.sender();
    if let Err(error) = poll_fn(|context| sender.poll_ready(context)).await {
        return StreamResult::NotSent(error);
    }
    let (response, stream) = match sender.send_request(request, body.is_empty()) {
        Ok(sent) => sent,
        // An error of ours is not cured by another connection.
        Err(error) if error.reason().is_none() && !error.is_io() => {
            return StreamResult::Answer(ConnectionEnd::of(&error).answer());
        }
        Err(error) => return StreamResult::NotSent(error),
    };
    drop(sender);
    let id = response.stream_id().as_u32();
    let mut sending = pin!(send(stream, body, &connection.state));
    let mut receiving = pin!(receive(response, &connection.state, judging, recorder));
    let mut is_sent = false;
    // The receiver may answer before it has the whole body.
    let received = loop {
        tokio::select! {
            biased;
            received = &mut receiving => break received,
            () = &mut sending, if !is_sent => is_sent = true,
        }
    };
    match received {
        Ok(answer) => StreamResult::Answer(answer),
        Err(error) => StreamResult::Failed(id, error),
    }
}

/// Sends the body as fast as the receiver takes it. If that fails, the answer tells why.
async fn send(mut stream: SendStream<Bytes>, body: Bytes, state: &ConnectionState) {
    let mut unsent = UnsentBody { body, state };
    while !unsent.body.is_empty() {
        stream.reserve_capacity(unsent.body.len());
        let Some(Ok(room)) = poll_fn(|context| stream.poll_capacity(context)).await else {
            return;
        };
        let part = unsent.body.split_to(room.min(unsent.body.len()));
        if stream.send_data(part, unsent.body.is_empty()).is_err() {
            return;
        }
    }
}

/// What is not sent yet of the body of a call. If something is left when the call ends, the connection is told.
struct UnsentBody<'call> {
    body: Bytes,
    state: &'call ConnectionState,
}

impl Drop for UnsentBody<'_> {
    fn drop(&mut self) {
        if !self.body.is_empty() {
            self.state.ended_unsent();
        }
    }
}

/// Reads the answer. Fails if there is none.
async fn receive(
    response: ResponseFuture,
    state: &ConnectionState,
    judging: &Judging<'_>,
    recorder: &CallRecorder,
) -> Result<Answer, Error> {
    let response = response.await?;
    if response.status() == StatusCode::MISDIRECTED_REQUEST {
        state.misdirected();
    }
    recorder.begin(Phase::Body);
    let mut begun = judging.begin(&response);
    let mut stream = response.into_body();
    let mut is_whole = true;
    // The window of the stream is larger than what is read, so it needs no update. Trailers are not used.
    while let Some(chunk) = stream.data().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            // A receiver may answer before it has the whole body, and close the connection at once. The library then reports
            // that the connection is closed, although the end of the answer came before. The length tells that it is whole.
            Err(error) if error.is_io() && begun.has_its_length() => break,
            Err(error) => {
                recorder.end();
                return Ok(begun.judge_broken(end_of(&error, state).answer()));
            }
        };
        if !begun.take_in(&chunk) {
            is_whole = false;
            break;
        }
    }
    recorder.end();
    recorder.asks(begun.retry_after);
    Ok(begun.judge(is_whole))
}

/// Why a call failed. What the socket and TLS said is known to the connection only.
fn end_of(error: &Error, state: &ConnectionState) -> ConnectionEnd {
    if error.is_io() {
        state.end().unwrap_or_else(ConnectionEnd::closed)
    } else {
        ConnectionEnd::of(error)
    }
}

#[cfg(test)]
mod tests;
