//! One request over one connection, and its answer.

use super::failure::{closed_after_keeping, is_broken_off, not_answered};
use super::pool::{Connection, Pool};
use crate::domain::ack::AckRule;
use crate::domain::attempt::{Answer, KEPT_ANSWER_BYTES, READ_ANSWER_BYTES};
use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use std::time::Instant;

/// How it went.
pub enum Exchanged {
    /// An answer came, or it is known why none did.
    Answered(Answer),
    /// A kept connection was closed before a byte of the request was written to it: the receiver
    /// cannot have read any of it, so the request may be sent over another connection.
    Unsent,
}

/// Sends a request and reads its answer. Gives the connection back if it can be used again.
pub async fn exchange(
    mut connection: Connection,
    request: Request<Full<Bytes>>,
    ack: AckRule,
    origin: &str,
    pool: &Pool,
) -> Exchanged {
    let kept = connection.kept;
    connection.meter.begin(kept);
    let response = match connection.sender.try_send_request(request).await {
        Ok(response) => response,
        // What the library hands back, it has not begun to write; but a write that it has begun
        // may have been of no byte, and that is for the socket to say.
        Err(error) if kept && (error.message().is_some() || connection.meter.nothing_written()) => {
            return Exchanged::Unsent;
        }
        Err(error) => {
            let error = error.into_error();
            return Exchanged::Answered(if kept && is_broken_off(&error) {
                pool.failed(origin, Instant::now());
                closed_after_keeping()
            } else {
                not_answered(&error)
            });
        }
    };
    connection.meter.body_begins();
    let status = response.status().as_u16();
    let says_it_closes = says_it_closes(response.headers());
    let read = read(response).await;
    Exchanged::Answered(match read {
        Ok((body, whole)) => {
            if whole && !says_it_closes {
                pool.put(origin, connection, Instant::now());
            }
            ack.judge(status, &body, whole)
        }
        Err((mut body, error)) => {
            body.truncate(KEPT_ANSWER_BYTES);
            Answer {
                status: Some(status),
                body,
                ..not_answered(&error)
            }
        }
    })
}

/// Whether the receiver says that it closes the connection after this answer. That it then does so
/// says nothing about the others.
fn says_it_closes(headers: &HeaderMap) -> bool {
    headers.get_all(CONNECTION).iter().any(|value| {
        let mut options = value.as_bytes().split(|byte| *byte == b',');
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
    })
}

/// The body and whether it is whole, or what came of it before the error.
async fn read(response: Response<Incoming>) -> Result<(Vec<u8>, bool), (Vec<u8>, hyper::Error)> {
    let mut incoming = response.into_body();
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(chunk)) => {
                let room = READ_ANSWER_BYTES - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return Ok((body, false));
                }
            }
            // Trailers say nothing that is asked for.
            Ok(Err(_)) => {}
            Err(error) => return Err((body, error)),
        }
    }
    Ok((body, true))
}
