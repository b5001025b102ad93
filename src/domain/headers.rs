//! The HTTP headers that a caller adds to a delivery, and the headers that a caller may not set.
//!
//! The trace context of the request that registered a notification is one of them, but no part of the content: it is kept
//! apart, and the same registration may come again with another. Stores keep it among the headers, under names with a
//! capital letter, which names of callers never have. So it needs no place of its own in either store, a notification
//! without one costs nothing more, and a server of an earlier version sends it on as it is.

use super::trace_context::TraceContext;
use super::trace_context::state::TraceState;
use thiserror::Error;

/// Maximum number of headers that a caller may add.
pub const MOST_HEADERS: usize = 32;
/// Maximum total bytes of all header names and values.
pub const MOST_BYTES: usize = 8 * 1024;

/// Headers that a caller may not set. HTTP itself sets most of them (RFC 9110, "Connection" and hop-by-hop
/// fields); the dispatcher sets `content-type` and `user-agent`.
const RESERVED: [&str; 14] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];
const RESERVED_PREFIXES: [&str; 2] = ["webhook-", "ringback-"];

/// The names under which stores keep a trace context.
const STORED_TRACEPARENT: &str = "Traceparent";
const STORED_TRACESTATE: &str = "Tracestate";

/// Checked headers: pairs of a lower-case name and a value, sorted by name; and the trace context of the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers {
    pairs: Vec<(String, String)>,
    trace: Option<Box<TraceContext>>,
}

/// Why a header is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadHeader {
    /// The name is empty or contains a character that HTTP does not allow in names.
    #[error("a header name is made of letters, digits and !#$%&'*+-.^_`|~")]
    Name,
    /// The value contains a control character other than tab, or a character that is not ASCII.
    #[error("a header value is printable ASCII")]
    Value,
    /// The dispatcher or HTTP itself sets this header.
    #[error("this header is set by the dispatcher or by HTTP itself")]
    Reserved,
    /// The same name is given twice. Upper and lower case are not distinguished.
    #[error("this header is given twice")]
    Twice,
    /// There are too many headers.
    #[error("a notification has at most {MOST_HEADERS} headers")]
    TooMany,
    /// The headers are too long together.
    #[error("all header names and values together are at most {MOST_BYTES} bytes")]
    TooLong,
}

impl Headers {
    /// Adds one header.
    ///
    /// # Errors
    /// [`BadHeader`] says which rule the header breaks.
    pub fn insert(&mut self, name: &str, value: &str) -> Result<(), BadHeader> {
        let name = name.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(BadHeader::Name);
        }
        if RESERVED.contains(&name.as_str())
            || RESERVED_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
        {
            return Err(BadHeader::Reserved);
        }
        if !value
            .bytes()
            .all(|byte| byte == b'\t' || (0x20..=0x7e).contains(&byte))
        {
            return Err(BadHeader::Value);
        }
        if self.pairs.len() == MOST_HEADERS {
            return Err(BadHeader::TooMany);
        }
        if self.bytes() + name.len() + value.len() > MOST_BYTES {
            return Err(BadHeader::TooLong);
        }
        match self
            .pairs
            .binary_search_by(|(known, _)| known.as_str().cmp(&name))
        {
            Ok(_) => Err(BadHeader::Twice),
            Err(position) => {
                self.pairs.insert(position, (name, value.to_string()));
                Ok(())
            }
        }
    }

    /// Wraps headers that were read from a store. They were checked before they were stored.
    #[must_use]
    pub fn from_stored(mut pairs: Vec<(String, String)>) -> Self {
        let mut take = |name: &str| {
            let position = pairs.iter().position(|(known, _)| known == name)?;
            Some(pairs.remove(position).1)
        };
        let (parent, state) = (take(STORED_TRACEPARENT), take(STORED_TRACESTATE));
        let trace = parent.and_then(|parent| {
            let state = TraceState::parse(state.as_deref());
            Some(TraceContext::parse(&parent)?.with_state(state))
        });
        Self {
            pairs,
            trace: trace.map(Box::new),
        }
    }

    /// The pairs that stores keep for the trace context, before those of [`Headers::pairs`]. None if there is none.
    #[must_use]
    pub fn stored_trace(&self) -> Vec<(&'static str, String)> {
        let Some(trace) = &self.trace else {
            return Vec::new();
        };
        let mut pairs = vec![(STORED_TRACEPARENT, trace.traceparent())];
        pairs.extend((trace.state()).map(|state| (STORED_TRACESTATE, state.as_str().to_owned())));
        pairs
    }

    /// The trace context of the request that registered the notification.
    #[must_use]
    pub fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_deref()
    }

    /// The same headers with this trace context.
    #[must_use]
    pub fn with_trace(self, trace: Option<TraceContext>) -> Self {
        Self {
            trace: trace.map(Box::new),
            ..self
        }
    }

    /// The pairs of name and value, sorted by name.
    #[must_use]
    pub fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    /// The total bytes of all names and values, and of the trace context.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let pairs = self.pairs.iter();
        let pairs: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
        pairs + self.trace().map_or(0, TraceContext::bytes)
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_checked_one_by_one() {
        fn check(name: &str, value: &str, expected: Option<BadHeader>) {
            assert_eq!(
                Headers::default().insert(name, value).err(),
                expected,
                "{name}: {value}"
            );
        }
        check("X-Request-Id", "42", None);
        check("authorization", "Bearer a b", None);
        check("", "x", Some(BadHeader::Name));
        check("x y", "x", Some(BadHeader::Name));
        check("x:y", "x", Some(BadHeader::Name));
        check("x", "a\r\nInjected: 1", Some(BadHeader::Value));
        check("x", "é", Some(BadHeader::Value));
        for name in [
            "Host",
            "Content-Length",
            "TRANSFER-ENCODING",
            "Content-Type",
            "User-Agent",
        ] {
            check(name, "x", Some(BadHeader::Reserved));
        }
        for name in [
            "Webhook-Id",
            "webhook-signature",
            "Ringback-Attempt",
            "ringback-x",
        ] {
            check(name, "x", Some(BadHeader::Reserved));
        }
    }

    #[test]
    fn headers_are_bounded_and_unique() {
        let mut headers = Headers::default();
        assert_eq!(headers.insert("b", "1"), Ok(()));
        assert_eq!(headers.insert("A", "2"), Ok(()));
        assert_eq!(headers.insert("a", "3"), Err(BadHeader::Twice));
        assert_eq!(
            headers.pairs(),
            [("a".into(), "2".into()), ("b".into(), "1".into())]
        );
        assert_eq!(
            headers.insert("c", &"x".repeat(MOST_BYTES)),
            Err(BadHeader::TooLong)
        );
        for number in 2..MOST_HEADERS {
            assert_eq!(headers.insert(&format!("h{number}"), ""), Ok(()));
        }
        assert_eq!(headers.insert("one-more", ""), Err(BadHeader::TooMany));
    }

    #[test]
    fn a_trace_context_is_stored_among_the_headers() {
        let mut own = Headers::default();
        own.insert("traceparent", "mine").expect("a header");
        own.insert("a", "1").expect("a header");
        let parent = format!("00-{}-{}-01", "ab".repeat(16), "cd".repeat(8));
        for state in [None, TraceState::parse(["x=1,y=2"])] {
            let trace = TraceContext::parse(&parent).expect("right");
            let headers = own.clone().with_trace(Some(trace.with_state(state)));
            let pairs = headers.stored_trace().into_iter();
            let pairs = pairs.map(|(name, value)| (name.to_string(), value));
            let pairs = pairs.chain(headers.pairs().iter().cloned()).collect();
            assert_eq!(Headers::from_stored(pairs), headers);
            assert_ne!(headers, own);
        }
        assert_eq!(own.stored_trace(), []);
        assert_eq!(Headers::from_stored(own.pairs().to_vec()), own);
        // What is damaged is left out.
        let damaged = vec![(STORED_TRACEPARENT.to_string(), "00-".to_string())];
        assert_eq!(Headers::from_stored(damaged), Headers::default());
        let alone = vec![(STORED_TRACESTATE.to_string(), "a=1".to_string())];
        assert_eq!(Headers::from_stored(alone), Headers::default());
    }
}
