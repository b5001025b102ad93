//! The span of an attempt, with the attributes that OpenTelemetry has for HTTP clients and our own.
//!
//! It contains no bodies, signatures or headers, no names and passwords, and of a query only the names of its parameters. The
//! reason of a failed attempt is left out, since it may quote the answer; the history of the notification has it.

use crate::domain::attempt::{Attempt, Outcome};
use crate::domain::destination::Destination;
use crate::domain::notification::Notification;
use crate::domain::trace_context::TraceContext;
use crate::telemetry::traces::Tracer;
use crate::telemetry::traces::span::{OpenSpan, SpanAttribute};
use url::Url;

/// What is written in the place of a value in a query, as OpenTelemetry has it.
const REDACTED: &str = "REDACTED";

/// The span of an attempt that is being made.
pub(super) struct AttemptSpan {
    span: OpenSpan,
    attributes: Vec<SpanAttribute>,
}

impl AttemptSpan {
    /// Begins the span of a call to this URL. `None` if the span of the registration was not recorded.
    pub(super) fn begin(
        tracer: &Tracer,
        notification: &Notification,
        url: &Destination,
    ) -> Option<Box<Self>> {
        let span = tracer.begin_call(notification.headers.trace())?;
        let mut attributes: Vec<SpanAttribute> = vec![("http.request.method", "POST".into())];
        if let Some(url) = url.url() {
            attributes.extend(url.host_str().map(|host| ("server.address", host.into())));
            let port = url.port_or_known_default().map(i64::from);
            attributes.extend(port.map(|port| ("server.port", port.into())));
            attributes.push(("url.full", shown(url).as_str().into()));
        }
        Some(Box::new(Self { span, attributes }))
    }

    /// The trace context that is sent.
    pub(super) fn context(&self) -> &TraceContext {
        self.span.context()
    }

    /// Ends the span with the attempt.
    pub(super) fn end(self, notification: &Notification, attempt: &Attempt) {
        let Self {
            span,
            mut attributes,
        } = self;
        let Attempt { answer, trace, .. } = attempt;
        let outcome = answer.outcome;
        let status = answer.status.map(i64::from);
        attributes.extend(status.map(|status| ("http.response.status_code", status.into())));
        if let Some(address) = trace.address.as_deref()
            && let Some((host, port)) = address.rsplit_once(':')
        {
            let host = host.trim_matches(['[', ']']);
            attributes.push(("network.peer.address", host.into()));
            let port = port.parse::<i64>().ok();
            attributes.extend(port.map(|port| ("network.peer.port", port.into())));
        }
        let version = trace.http().map(|version| version.as_str().into());
        attributes.extend(version.map(|version| ("network.protocol.version", version)));
        if attempt.number > 1 {
            let again = i64::from(attempt.number) - 1;
            attributes.push(("http.request.resend_count", again.into()));
        }
        let failure = match outcome {
            Outcome::Acknowledged => None,
            Outcome::HttpStatus
            | Outcome::WrongAnswer
            | Outcome::Timeout
            | Outcome::Connect
            | Outcome::Tls
            | Outcome::Dns
            | Outcome::Blocked
            | Outcome::Protocol
            | Outcome::Interrupted => Some(outcome.as_str()),
        };
        if let Some(failure) = failure {
            let status = answer.status.filter(|status| *status >= 400);
            let kind = status.map_or_else(|| failure.to_string(), |status| status.to_string());
            attributes.push(("error.type", kind.as_str().into()));
        }
        attributes.extend([
            ("ringback.topic", notification.key.topic().into()),
            ("ringback.id", notification.key.id().into()),
            (
                "ringback.webhook_id",
                notification.webhook_id.to_string().as_str().into(),
            ),
            ("ringback.lane", notification.lane.as_str().into()),
            ("ringback.series", i64::from(attempt.series).into()),
            ("ringback.attempt", i64::from(attempt.number).into()),
            ("ringback.outcome", outcome.as_str().into()),
        ]);
        if let Some(deferral) = trace.deferral {
            attributes.push(("ringback.deferred_ms", deferral.ms.into()));
            attributes.push(("ringback.deferred_by", deferral.by.as_str().into()));
        }
        span.end("POST", attributes, failure.map(str::to_string));
    }
}

/// The URL without secrets: no name and password, no fragment, and no values in the query.
fn shown(mut url: Url) -> String {
    // These fail only for URLs without a host, which are never called.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    let Some(query) = url.query() else {
        return url.into();
    };
    let parameter = |parameter: &str| match parameter.split_once('=') {
        // The end of a value in Base64 looks like a name without a value.
        Some((name, value)) if !value.trim_matches('=').is_empty() => format!("{name}={REDACTED}"),
        // A query without names is a value.
        Some(_) | None if !parameter.is_empty() => REDACTED.to_string(),
        Some(_) | None => String::new(),
    };
    let query: Vec<String> = query.split('&').map(parameter).collect();
    url.set_query(Some(&query.join("&")));
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_secrets() {
        fn check(url: &str, expected: &str) {
            assert_eq!(shown(Url::parse(url).expect("a URL")), expected);
        }
        check("https://shop.example/notify", "https://shop.example/notify");
        check(
            "https://me:hunter2@shop.example:8443/a?token=hunter2&b=&c#hunter2",
            "https://shop.example:8443/a?token=REDACTED&REDACTED&REDACTED",
        );
        check(
            "https://shop.example?hunter2",
            "https://shop.example/?REDACTED",
        );
        check(
            "https://shop.example/cb?aHVudGVyMg==",
            "https://shop.example/cb?REDACTED",
        );
        check("https://shop.example/?", "https://shop.example/?");
        check(
            "https://shop.example/?a=1=2&&b",
            "https://shop.example/?a=REDACTED&&REDACTED",
        );
    }
}
