//! The settings of the traces: where they are sent, and which are recorded.
//!
//! The values have the form of the variables that OpenTelemetry defines for its exporters
//! (<https://opentelemetry.io/docs/specs/otel/protocol/exporter/>), `OTEL_EXPORTER_OTLP_ENDPOINT` and
//! `OTEL_EXPORTER_OTLP_HEADERS`. Those variables themselves are not read: every setting of this program has one name, and a
//! platform that sets them for all its programs would switch the export on without a word in the settings.

use super::values::quoted;
use crate::domain::headers::Headers;
use std::fmt;
use url::Url;

/// The path of traces below the URL of a collector.
const TRACES_PATH: &str = "/v1/traces";
/// Maximum length of the URL, in bytes.
const LONGEST_URL: usize = 2_048;

/// The settings of the traces.
#[derive(Debug, Clone)]
pub struct TraceConfig {
    /// Where spans are sent. `None`: none are recorded.
    pub endpoint: Option<OtlpEndpoint>,
    /// The headers of the requests that send them.
    pub headers: Option<OtlpHeaders>,
    /// The part of the requests without a `traceparent` whose traces are recorded, from 0 to 1.
    pub sample_ratio: f64,
}

/// The URL of a collector of OpenTelemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpEndpoint(Url);

/// The headers of requests to a collector. They contain its keys.
#[derive(Clone, PartialEq, Eq)]
pub struct OtlpHeaders(Headers);

impl Default for TraceConfig {
    fn default() -> Self {
        Self {
            endpoint: None,
            headers: None,
            sample_ratio: 1.0,
        }
    }
}

impl OtlpEndpoint {
    /// Reads the URL of a collector, to which the path of traces is added.
    ///
    /// # Errors
    /// Says what is wrong, without repeating the URL, because it may contain a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let right = "not a URL like http://127.0.0.1:4318 or https://otlp.example/otlp";
        let mut url = Url::parse(text).map_err(|_| right)?;
        let is_http = matches!(url.scheme(), "http" | "https");
        let has_host = url.host_str().is_some_and(|host| !host.is_empty());
        if text.len() > LONGEST_URL || !is_http || !has_host || url.port() == Some(0) {
            return Err(right.into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "the URL may not contain a name or password; use `otlp-headers-file`".into(),
            );
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(
                "the URL may not contain a query; the path of traces is added to it".into(),
            );
        }
        let path = url.path().trim_end_matches('/');
        if path.ends_with(TRACES_PATH) {
            return Err(format!(
                "{TRACES_PATH} is added to the URL, so leave it out"
            ));
        }
        let path = format!("{path}{TRACES_PATH}");
        url.set_path(&path);
        Ok(Self(url))
    }

    /// Where requests with spans go.
    #[must_use]
    pub fn traces_url(&self) -> &Url {
        &self.0
    }
}

/// Scheme, host, port and path. There are no secrets in it.
impl fmt::Display for OtlpEndpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

impl OtlpHeaders {
    /// Reads headers such as `authorization=Basic%20YTpi,x-scope-orgid=shop`. Values may be percent-encoded.
    ///
    /// # Errors
    /// Says what is wrong, without repeating a value.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut headers = Headers::default();
        for (number, header) in (1..).zip(text.split(',')) {
            let pair = header.split_once('=');
            let (name, value) =
                pair.ok_or("not a list of headers like authorization=Basic%20YTpi")?;
            let value = percent_decoded(value.trim()).ok_or_else(|| {
                format!("the value of header {number} is not percent-encoded ASCII")
            })?;
            let inserted = headers.insert(name.trim(), &value);
            inserted.map_err(|error| format!("header {number}: {error}"))?;
        }
        Ok(Self(headers))
    }

    /// The headers, only for sending them.
    #[must_use]
    pub fn expose(&self) -> &[(String, String)] {
        self.0.pairs()
    }
}

impl fmt::Debug for OtlpHeaders {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("OtlpHeaders(..)")
    }
}

/// Decodes `%20` and the like. `None` if what follows a percent sign is not the code of an ASCII character.
fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut decoded = parts.next()?.to_string();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        let is_hex = code.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = u8::from_str_radix(code, 16).ok().filter(|_| is_hex)?;
        decoded.push(code.is_ascii().then_some(char::from(code))?);
        decoded.push_str(rest);
    }
    Some(decoded)
}

/// Reads the part of the traces that is recorded.
pub(super) fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text
        .parse()
        .ok()
        .filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| format!("{} is not a number from 0 to 1, such as 0.05", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_traces_is_added_to_the_url() {
        fn check(text: &str, expected: Result<&str, &str>) {
            match (OtlpEndpoint::parse(text), expected) {
                (Ok(endpoint), Ok(expected)) => assert_eq!(endpoint.to_string(), expected),
                (Err(problem), Err(part)) => {
                    assert!(problem.contains(part), "{text}: {problem}");
                    assert!(!problem.contains("hunter2"), "{problem}");
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        check(
            "http://127.0.0.1:4318",
            Ok("http://127.0.0.1:4318/v1/traces"),
        );
        check(
            "http://127.0.0.1:4318/",
            Ok("http://127.0.0.1:4318/v1/traces"),
        );
        check(
            "https://o.example/otlp/",
            Ok("https://o.example/otlp/v1/traces"),
        );
        check("http://[::1]:4318", Ok("http://[::1]:4318/v1/traces"));
        check("http://o.example/v1/traces", Err("leave it out"));
        check("http://me:hunter2@o.example", Err("otlp-headers-file"));
        check("http://o.example/?key=hunter2", Err("query"));
        check("http://o.example:0", Err("not a URL like"));
        for wrong in [
            "127.0.0.1:4318",
            "grpc://o.example:4317",
            "http://",
            "",
            "/v1",
        ] {
            check(wrong, Err("not a URL like"));
        }
        let longest = format!("http://o.example/{}", "a".repeat(LONGEST_URL - 17));
        assert!(OtlpEndpoint::parse(&longest).is_ok());
        check(&format!("{longest}a"), Err("not a URL like"));
    }

    #[test]
    fn headers_are_a_list_and_are_not_shown() {
        fn check(text: &str, expected: Option<&[(&str, &str)]>) {
            let read = OtlpHeaders::parse(text);
            if let Err(problem) = &read {
                assert!(!problem.contains("hunter2"), "{problem}");
            }
            assert!(!format!("{read:?}").contains("hunter2"));
            let read = read.ok().map(|headers| headers.expose().to_vec());
            let expected = expected.map(|pairs| {
                let pairs = pairs
                    .iter()
                    .map(|(name, value)| (name.to_string(), value.to_string()));
                Vec::from_iter(pairs)
            });
            assert_eq!(read, expected, "{text}");
        }
        check("api-key=hunter2", Some(&[("api-key", "hunter2")]));
        check(
            "X-B = 2 , Authorization=Basic%20YTpi==",
            Some(&[("authorization", "Basic YTpi=="), ("x-b", "2")]),
        );
        check("a=%41%2c%3D", Some(&[("a", "A,=")]));
        check("a=", Some(&[("a", "")]));
        for wrong in [
            "",
            "hunter2",
            "a=1,",
            "=hunter2",
            "a b=hunter2",
            "a=hunter2,A=hunter2",
            "a=hunter2%0a",
            "a=hunter2%0",
            "a=hunter2%",
            "a=hunter2%gg",
            "a=hunter2%+1",
            "a=hunter2%c3%a9",
            "a=hunter2é",
            "content-type=hunter2",
            "host=hunter2",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_ratio_is_between_zero_and_one() {
        for right in ["0", "1", "0.05", "1e-3", "1.0"] {
            assert!(ratio(right).is_ok(), "{right}");
        }
        for wrong in ["-0.1", "1.0001", "NaN", "inf", "", "5%", "half"] {
            assert!(ratio(wrong).is_err(), "{wrong}");
        }
    }
}
