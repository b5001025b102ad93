//! The trace context of a request: which trace it belongs to, and which span of it made the request.
//!
//! The form is that of W3C Trace Context, Level 2 (<https://www.w3.org/TR/trace-context-2/>): the header `traceparent`, and
//! beside it `tracestate`, in which tracing systems keep their own values. Both come from outside. What the standard does
//! not allow is ignored, as it asks for, and is no error: a request is not refused because of its trace.

pub mod state;

use self::state::TraceState;
use std::fmt;

/// The length of a `traceparent` of version 00.
const LENGTH: usize = 55;
/// The flag of a caller that records its span.
const SAMPLED: u8 = 1;
/// The flag of a trace id that was made at random.
const RANDOM: u8 = 2;

/// The id of a trace. It is never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// The id of a span within its trace. It is never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// See the documentation of the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: TraceId,
    span_id: SpanId,
    flags: u8,
    state: Option<TraceState>,
}

impl TraceId {
    /// `None` if all bytes are zero.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl SpanId {
    /// `None` if all bytes are zero.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        self.0
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for TraceId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, out)
    }
}

/// 16 hexadecimal digits.
impl fmt::Display for SpanId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, out)
    }
}

impl TraceContext {
    /// The context of the first span of a trace, which is recorded.
    #[must_use]
    pub fn root(trace_id: TraceId, span_id: SpanId) -> Self {
        Self {
            trace_id,
            span_id,
            flags: SAMPLED,
            state: None,
        }
    }

    /// Reads the value of a `traceparent`. `None` if the standard does not allow it. A later version may have more at its
    /// end; what this version knows of it is read, and the rest is left out.
    #[must_use]
    pub fn parse(traceparent: &str) -> Option<Self> {
        let bytes = traceparent.as_bytes();
        let [version] = read_hex(bytes.get(..2)?)?;
        let may_be_longer = match version {
            0 => false,
            0xff => return None,
            _ => true,
        };
        match bytes.get(LENGTH) {
            None => {}
            Some(b'-') if may_be_longer => {}
            Some(_) => return None,
        }
        let dash = |at: usize| (bytes.get(at) == Some(&b'-')).then_some(at + 1);
        let (trace_at, span_at, flags_at) = (dash(2)?, dash(35)?, dash(52)?);
        let [flags] = read_hex(bytes.get(flags_at..LENGTH)?)?;
        Some(Self {
            trace_id: TraceId::from_bytes(read_hex(bytes.get(trace_at..span_at - 1)?)?)?,
            span_id: SpanId::from_bytes(read_hex(bytes.get(span_at..flags_at - 1)?)?)?,
            // All others are for later versions, which a sender of version 00 must set to zero.
            flags: flags & (SAMPLED | RANDOM),
            state: None,
        })
    }

    /// The same with this `tracestate`.
    #[must_use]
    pub fn with_state(self, state: Option<TraceState>) -> Self {
        Self { state, ..self }
    }

    /// The context of another span of the same trace.
    #[must_use]
    pub fn with_span(&self, span_id: SpanId) -> Self {
        Self {
            span_id,
            ..self.clone()
        }
    }

    /// The trace.
    #[must_use]
    pub fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    /// The span that makes the request.
    #[must_use]
    pub fn span_id(&self) -> SpanId {
        self.span_id
    }

    /// Whether that span is recorded.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The flags of the standard.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// What tracing systems keep beside it.
    #[must_use]
    pub fn state(&self) -> Option<&TraceState> {
        self.state.as_ref()
    }

    /// The value of the header `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> String {
        let Self {
            trace_id,
            span_id,
            flags,
            ..
        } = self;
        format!("00-{trace_id}-{span_id}-{flags:02x}")
    }

    /// About how many bytes it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.state.as_ref().map_or(0, |state| state.as_str().len())
    }
}

/// Reads so many bytes in hexadecimal. The standard allows lower case alone.
fn read_hex<const BYTES: usize>(digits: &[u8]) -> Option<[u8; BYTES]> {
    if digits.len() != BYTES * 2 {
        return None;
    }
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut read = [0; BYTES];
    for (byte, pair) in read.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(read)
}

fn write_hex(bytes: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    /// Reads it; `expected` is what is sent on.
    fn check(text: &str, expected: Option<&str>) {
        let read = TraceContext::parse(text).map(|context| context.traceparent());
        assert_eq!(read.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn the_form_is_that_of_the_standard() {
        let right = format!("00-{TRACE}-{SPAN}-01");
        check(&right, Some(&right));
        for length in 0..right.len() {
            check(&right[..length], None);
        }
        check(&format!("{right}-"), None);
        check(&format!("{right}0"), None);
        check(&format!(" {right}"), None);
        check("", None);
        check(&right.to_uppercase(), None);
        for at in 0..right.len() {
            for wrong in ["-", "0", "g", "A", "F", " ", "/", ":", "`", "\0"] {
                let mut text = right.clone();
                text.replace_range(at..=at, wrong);
                let is_dash = right.as_bytes()[at] == b'-';
                if (wrong == "-") == is_dash && matches!(wrong, "-" | "0") {
                    continue;
                }
                check(&text, None);
            }
        }
        // Bytes and characters are different things.
        check(&format!("00-{}é-{SPAN}-01", &TRACE[..30]), None);
        check(&format!("é0-{TRACE}-{SPAN}-01"), None);
    }

    #[test]
    fn ids_of_zeros_are_none() {
        let zeros = "0".repeat(32);
        check(&format!("00-{zeros}-{SPAN}-01"), None);
        check(&format!("00-{TRACE}-{}-01", &zeros[..16]), None);
        let least = format!("00-{}1-{}1-00", &zeros[..31], &zeros[..15]);
        check(&least, Some(&least));
        let most = format!("00-{}-{}-01", "f".repeat(32), "f".repeat(16));
        check(&most, Some(&most));
    }

    #[test]
    fn of_flags_those_that_are_known_are_sent_on() {
        for (flags, expected) in [
            ("00", "00"),
            ("01", "01"),
            ("02", "02"),
            ("03", "03"),
            ("04", "00"),
            ("ff", "03"),
            ("fc", "00"),
        ] {
            let expected = format!("00-{TRACE}-{SPAN}-{expected}");
            check(&format!("00-{TRACE}-{SPAN}-{flags}"), Some(&expected));
        }
        let sampled = |flags| {
            let context = TraceContext::parse(&format!("00-{TRACE}-{SPAN}-{flags}"));
            context.expect("right").is_sampled()
        };
        assert_eq!(
            ["00", "01", "02", "03"].map(sampled),
            [false, true, false, true]
        );
    }

    #[test]
    fn of_a_later_version_what_is_known_is_read() {
        let known = format!("00-{TRACE}-{SPAN}-01");
        for version in ["01", "cc", "fe"] {
            let later = format!("{version}-{TRACE}-{SPAN}-01");
            check(&later, Some(&known));
            check(&format!("{later}-"), Some(&known));
            check(&format!("{later}-what the future holds"), Some(&known));
            check(&format!("{later}."), None);
            check(&format!("{later}00"), None);
        }
        check(&format!("ff-{TRACE}-{SPAN}-01"), None);
    }

    #[test]
    fn another_span_is_of_the_same_trace() {
        let caller = TraceContext::parse(&format!("00-{TRACE}-{SPAN}-01")).expect("right");
        let state = TraceState::parse(["a=1"]);
        let own = caller
            .with_state(state)
            .with_span(SpanId::from_bytes([1; 8]).expect("right"));
        assert_eq!(
            own.traceparent(),
            format!("00-{TRACE}-{}-01", "01".repeat(8))
        );
        assert_eq!(own.state().map(TraceState::as_str), Some("a=1"));
        assert_eq!(own.trace_id().to_string(), TRACE);
    }
}
