//! Why a call over HTTP/2 got no answer.

use crate::domain::sentence::sentences;

sentences!(
    /// Why an HTTP/2 connection, or a call over one, ended without an answer.
    Http2Reason {
        LeftWith { code: String } = "the receiver ended the HTTP/2 connection with an error ({code})";
        ClosedBetween = "several calls used the connection, and the receiver closed it before an answer began, without saying which calls it had read (no GOAWAY); it may have read this one";
        Http1 = "the receiver answered with HTTP/1.1 before a request was sent, so it does not speak HTTP/2 here; set `http` of the endpoint to 1.1";
        NotHttp2 = "before a request was sent, the receiver sent something that is not HTTP/2; perhaps another protocol is spoken on this port";
        Silent = "before a request was sent, the receiver closed the connection and said nothing in HTTP/2; perhaps it speaks only HTTP/1.1";
        NoCalls = "the receiver allows no calls on its HTTP/2 connections (SETTINGS_MAX_CONCURRENT_STREAMS is 0), so nothing was sent";
        TooManyFrames = "the receiver sent too many HTTP/2 frames that belong to no answer, so the connection was closed";
        NotSendable { error: String } = "the request cannot be sent over HTTP/2: {error}";
        CallRefused = "the receiver refused the call again and again without processing it (REFUSED_STREAM); perhaps it is overloaded or restarting";
        Http1Required = "the receiver takes this call over HTTP/1.1 only (HTTP_1_1_REQUIRED); set `http` of the endpoint to 1.1";
        BrokenOff { code: String } = "the receiver broke off the call before the answer was complete ({code})";
        BadAnswer = "the answer breaks the rules of HTTP/2, or its headers are larger than 64 KiB";
        TooMuch = "the receiver sent far too large headers or too many HTTP/2 frames, so the connection was closed";
        BrokeRules { code: String } = "the receiver broke the rules of HTTP/2 ({code})";
    }
);
