//! Makes one call over HTTP/2.
//!
//! A request is sent again only if it was certainly not processed: it was not written, the receiver refused it
//! (REFUSED_STREAM), or the receiver left and said that it came too late (GOAWAY). After everything else, the receiver
//! may have acted on it, and the attempt has failed.

use super::connection_end::ConnectionEnd;
use super::exchange::{Http2Exchange, exchange};
use super::origin::MOST_CONNECTIONS;
use super::pool::{CallPlace, Http2Pool, OpenedPlace, Opening, PlaceSearch};
use crate::delivery::call_recorder::CallRecorder;
use crate::delivery::connector::{ConnectError, Negotiated, ReceiverConnector};
use crate::delivery::judging::Judging;
use crate::delivery::lookups::LookupShare;
use crate::delivery::pool::{Pool, ReceiverConnection};
use crate::delivery::tls_profiles::TlsProfile;
use crate::domain::attempt::Answer;
use bytes::Bytes;
use http::Request;
use std::time::Instant;
use url::Url;

/// How often a request may be sent again that was not processed.
const MOST_REPEATS: usize = 2;
/// How many kept connections may end before the request was written, besides: as many as there can be.
const MOST_ENDED_BEFORE_REQUEST: usize = MOST_CONNECTIONS;
/// How many connections one call may open. With as many repeats, further ones are wanted only if the receiver allowed no
/// calls on one of these.
const MOST_OPENINGS: usize = 1 + MOST_REPEATS;

/// Makes calls over HTTP/2.
#[derive(Default)]
pub struct Http2Caller {
    pool: Http2Pool,
}

/// Where a call goes, and over which connections.
pub struct Http2Route<'call> {
    /// Opens connections.
    pub connector: &'call ReceiverConnector,
    /// The connections of receivers that chose HTTP/1.1.
    pub http1: &'call Pool,
    /// The URL.
    pub url: &'call Url,
    /// Names all that decides which connections of HTTP/1.1 may be used.
    pub origin: &'call str,
    /// Likewise of HTTP/2.
    pub shared_as: &'call str,
    /// The TLS configuration of the endpoint.
    pub profile: Option<&'call TlsProfile>,
    /// For the look-up of the name.
    pub share: LookupShare,
    /// When the time limit of the call ends.
    pub call_ends: Instant,
}

/// The result of a call.
pub enum Http2Result {
    /// An answer came, or the call failed and the answer says why.
    Answered(Answer),
    /// The lease expired before the request was written. Nothing was sent.
    TooLate,
    /// No connection could be opened. Nothing was sent.
    NotConnected(ConnectError),
    /// The receiver chose HTTP/1.1. Nothing was sent.
    ChoseHttp1(ReceiverConnection),
}

impl Http2Caller {
    /// Makes a call. `request` makes the request, as often as it is sent. The lease of the call expires at `until`.
    pub async fn call(
        &self,
        route: &Http2Route<'_>,
        (request, body): (impl Fn() -> Result<Request<()>, Answer>, &Bytes),
        judging: &Judging<'_>,
        until: Instant,
        recorder: &CallRecorder,
    ) -> Http2Result {
        let (mut repeats, mut ended_before_request) = (0, 0);
        let mut openings = 0;
        let mut avoided = None;
        loop {
            let place = match self.place(route, avoided, &mut openings, recorder).await {
                Ok(PlaceOrHttp1::Place(place)) => place,
                Ok(PlaceOrHttp1::Http1(connection)) => return Http2Result::ChoseHttp1(connection),
                Err(error) => return Http2Result::NotConnected(error),
            };
            let request = match request() {
                Ok(request) => (request, body.clone()),
                Err(answer) => return Http2Result::Answered(answer),
            };
            match exchange(place, request, judging, until, recorder).await {
                Http2Exchange::Answered(answer) => return Http2Result::Answered(answer),
                Http2Exchange::TooLate => return Http2Result::TooLate,
                Http2Exchange::NotProcessed(unprocessed) => {
                    let (count, most) = match unprocessed.ended_before_request {
                        true => (&mut ended_before_request, MOST_ENDED_BEFORE_REQUEST),
                        false => (&mut repeats, MOST_REPEATS),
                    };
                    if *count == most {
                        return Http2Result::Answered(unprocessed.answer);
                    }
                    *count += 1;
                    avoided = Some(unprocessed.connection);
                }
            }
        }
    }

    /// Waits for a place on a connection, or opens one. `openings`: how many the call has opened.
    async fn place(
        &self,
        route: &Http2Route<'_>,
        avoided: Option<u64>,
        openings: &mut usize,
        recorder: &CallRecorder,
    ) -> Result<PlaceOrHttp1, ConnectError> {
        loop {
            match self.pool.look(route.shared_as, avoided, Instant::now()) {
                PlaceSearch::Send(place) => return Ok(PlaceOrHttp1::Place(place)),
                PlaceSearch::Open(_) if *openings >= MOST_OPENINGS => {
                    return Err(ConnectionEnd::no_calls().into());
                }
                PlaceSearch::Open(opening) => {
                    *openings += 1;
                    if let Some(opened) = open(route, opening, recorder).await? {
                        return Ok(opened);
                    }
                }
                PlaceSearch::Wait(waiting) => {
                    recorder.awaits(waiting.awaited.clone());
                    waiting.wait().await;
                }
            }
        }
    }
}

/// A place on a connection, or a connection of its own that speaks HTTP/1.1.
enum PlaceOrHttp1 {
    Place(CallPlace),
    Http1(ReceiverConnection),
}

/// Opens a connection. `None` if it is in the pool, and the receiver allows no calls on it at present.
async fn open(
    route: &Http2Route<'_>,
    opening: Opening,
    recorder: &CallRecorder,
) -> Result<Option<PlaceOrHttp1>, ConnectError> {
    if let Some(kept) = route.http1.take(route.origin, Instant::now()) {
        return Ok(Some(PlaceOrHttp1::Http1(kept)));
    }
    let to = (route.origin, route.profile, route.share, route.call_ends);
    let kept_as = (opening.id, opening.on_change());
    let opened = (route.connector).open_http2(route.url, to, route.http1, kept_as, recorder);
    match opened.await? {
        Negotiated::Http1(connection) => {
            opening.chose_http1(Instant::now());
            Ok(Some(PlaceOrHttp1::Http1(connection)))
        }
        Negotiated::Http2(connection) => match opening.opened(connection, Instant::now()) {
            OpenedPlace::Place(place) => Ok(Some(PlaceOrHttp1::Place(place))),
            OpenedPlace::Full => Ok(None),
            OpenedPlace::NoCalls => Err(ConnectionEnd::no_calls().into()),
        },
    }
}
