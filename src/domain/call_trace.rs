//! How a call to a receiver went: how long it had to wait before it began, the address, and the time of each phase.
//!
//! Support staff see from it where a call was late, slow or stuck. A trace contains nothing of the request, and of the
//! answer only `Retry-After`.

use crate::domain::deferral::Deferral;
use crate::domain::http_version::HttpVersion;
use crate::domain::retry_after::RetryAfter;
use std::fmt::Write as _;

/// The phases of a call, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The host name is resolved.
    Dns,
    /// A TCP connection is opened.
    Connect,
    /// The TLS handshake.
    Tls,
    /// The request is sent, and the head of the answer is awaited.
    FirstByte,
    /// The body of the answer is read.
    Body,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 5] = [
        Self::Dns,
        Self::Connect,
        Self::Tls,
        Self::FirstByte,
        Self::Body,
    ];

    fn stored_name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "handshake",
            Self::FirstByte => "first",
            Self::Body => "body",
        }
    }
}

/// See the documentation of the module. What is not known is `None`: the phase was not reached, or not needed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallTrace {
    /// The address that was called, with its port. If no connection could be opened, the first one that was tried.
    pub address: Option<Box<str>>,
    /// Whether the call used a connection that an earlier call had opened.
    pub is_kept: bool,
    /// The version of TLS.
    pub tls: Option<TlsVersion>,
    /// Whether the connection speaks HTTP/2. All others speak HTTP/1.1.
    pub is_http2: bool,
    /// The version of the endpoint whose settings the call used.
    pub endpoint_version: Option<u32>,
    /// The ids of the keys of the endpoint that signed the call. Empty if the notification names no endpoint.
    pub key_ids: Box<[Box<str>]>,
    /// What the receiver asked for with `Retry-After` of a 429 or 503.
    pub retry_after: Option<RetryAfter>,
    /// For how long the attempt was deferred, and why.
    pub deferral: Option<Deferral>,
    /// How long each phase took, in microseconds, in the order of [`Phase::ALL`]. The last one that is known may
    /// have been broken off.
    phases_us: [Option<u64>; Phase::ALL.len()],
}

/// The versions of TLS that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl TlsVersion {
    /// The name of the version.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Tls12, Self::Tls13]
            .into_iter()
            .find(|version| version.as_str() == name)
    }
}

impl CallTrace {
    /// Whether there was a connection: the call used a kept one, or came beyond the phase in which one is opened.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        let later = [Phase::Tls, Phase::FirstByte, Phase::Body];
        self.is_kept || later.iter().any(|phase| self.phase_us(*phase).is_some())
    }

    /// Whether the call certainly ended before its request was sent: it got to a phase of opening a connection, and to none
    /// after.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        let opening = [Phase::Dns, Phase::Connect, Phase::Tls];
        let known = |phases: &[Phase]| phases.iter().any(|phase| self.phase_us(*phase).is_some());
        known(&opening) && !known(&[Phase::FirstByte, Phase::Body])
    }

    /// The version of HTTP that was spoken. `None` if no request was sent.
    #[must_use]
    pub fn http(&self) -> Option<HttpVersion> {
        self.phase_us(Phase::FirstByte)?;
        Some(if self.is_http2 {
            HttpVersion::Http2
        } else {
            HttpVersion::Http1
        })
    }

    /// How long a phase took, in microseconds.
    #[must_use]
    pub fn phase_us(&self, phase: Phase) -> Option<u64> {
        self.phases_us[phase as usize]
    }

    /// Sets how long a phase took, in microseconds.
    pub fn set_phase_us(&mut self, phase: Phase, took_us: u64) {
        self.phases_us[phase as usize] = Some(took_us);
    }

    /// The text in which stores keep a trace: words such as `to=192.0.2.1:443 kept tls=1.3 first=8120`, the
    /// phases in microseconds. Empty if nothing is known.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Written for each attempt, so without formatting what is text already.
        let mut words = Words(String::with_capacity(USUAL_TEXT));
        if let Some(address) = &self.address {
            words.add("to=", address);
        }
        if self.is_kept {
            words.add("kept", "");
        }
        if let Some(tls) = self.tls {
            words.add("tls=", tls.as_str());
        }
        if self.is_http2 {
            words.add("http=", HttpVersion::Http2.as_str());
        }
        if let Some(version) = self.endpoint_version {
            words.add_number("endpoint", version.into());
        }
        if let Some(asked) = self.retry_after {
            words.add("retry-after=", &asked.to_text());
        }
        if !self.key_ids.is_empty() {
            words.add("keys=", &self.key_ids.join(","));
        }
        if let Some(deferral) = self.deferral {
            words.add("deferred=", &deferral.to_text());
        }
        for phase in Phase::ALL {
            if let Some(took_us) = self.phase_us(phase) {
                words.add_number(phase.stored_name(), took_us);
            }
        }
        words.0
    }

    /// Reads what [`CallTrace::to_text`] wrote. Words of a later version are left out.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut trace = Self::default();
        for word in text.split_ascii_whitespace() {
            match word.split_once('=') {
                None => trace.is_kept |= word == "kept",
                Some(("to", address)) => trace.address = Some(address.into()),
                Some(("retry-after", asked)) => trace.retry_after = RetryAfter::from_text(asked),
                Some(("deferred", text)) => trace.deferral = Deferral::from_text(text),
                Some(("http", version)) => trace.is_http2 = version == HttpVersion::Http2.as_str(),
                Some(("tls", version)) => trace.tls = TlsVersion::from_name(version),
                Some(("endpoint", version)) => trace.endpoint_version = version.parse().ok(),
                Some(("keys", ids)) => {
                    let ids = ids.split(',').filter(|id| !id.is_empty());
                    trace.key_ids = ids.map(Into::into).collect();
                }
                Some((name, took_us)) => {
                    let phase = Phase::ALL
                        .into_iter()
                        .find(|phase| phase.stored_name() == name);
                    if let (Some(phase), Ok(took_us)) = (phase, took_us.parse()) {
                        trace.set_phase_us(phase, took_us);
                    }
                }
            }
        }
        trace
    }
}

/// Room for most texts of [`CallTrace::to_text`], in bytes.
const USUAL_TEXT: usize = 96;

/// Words with spaces between them.
struct Words(String);

impl Words {
    fn add(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(name);
        self.0.push_str(value);
    }

    fn add_number(&mut self, name: &str, number: u64) {
        self.add(name, "=");
        let _ = write!(self.0, "{number}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_survives_its_stored_form() {
        fn check(text: &str) -> CallTrace {
            let trace = CallTrace::from_text(text);
            assert_eq!(trace.to_text(), text);
            trace
        }
        assert_eq!(check(""), CallTrace::default());
        let whole = "to=[2001:db8::1]:443 kept tls=1.2 dns=1 connect=2 handshake=3 first=4 body=5";
        let trace = check(whole);
        assert!(trace.is_kept);
        let phases = Phase::ALL.map(|phase| trace.phase_us(phase));
        assert_eq!(phases, [Some(1), Some(2), Some(3), Some(4), Some(5)]);
        assert_eq!(
            check("to=192.0.2.1:80 endpoint=7").endpoint_version,
            Some(7)
        );
        let refused = check("to=192.0.2.1:80 connect=18446744073709551615");
        assert!(!refused.is_connected());
        assert!(check("to=192.0.2.1:80 connect=1 handshake=1").is_connected());
        assert!(check("to=192.0.2.1:80 kept").is_connected());
        assert_eq!(check("to=192.0.2.1:80 connect=1").http(), None);
        let spoken = check("to=192.0.2.1:80 first=1").http();
        assert_eq!(spoken, Some(HttpVersion::Http1));
        let spoken = check("to=192.0.2.1:80 tls=1.3 http=2 first=1").http();
        assert_eq!(spoken, Some(HttpVersion::Http2));
        for asked in ["30", "@1795163400", "unusable"] {
            let trace = check(&format!("to=192.0.2.1:80 retry-after={asked} first=4"));
            assert!(trace.retry_after.is_some(), "{asked}");
        }
        let trace = check("deferred=probing:90500 first=4");
        assert_eq!(trace.deferral.map(|deferral| deferral.ms), Some(90_500));
        let trace = check("to=192.0.2.1:80 endpoint=7 keys=key_1,default");
        assert_eq!(trace.endpoint_version, Some(7));
        assert_eq!(trace.key_ids, ["key_1".into(), "default".into()].into());
    }

    #[test]
    fn words_that_are_not_known_are_left_out() {
        fn check(text: &str, expected: &str) {
            assert_eq!(CallTrace::from_text(text).to_text(), expected, "{text}");
        }
        check(
            "later tls=1.4 http=3 first=-1 body= new=7 retry-after=soon deferred=sun:1",
            "",
        );
        check("  first=7\n body=x", "first=7");
        check("keys= first=7", "first=7");
        check("keys=a,,b", "keys=a,b");
    }
}
