//! The collector that gets the traces: whether it can be reached, and takes them. It is sent one request without a span, so
//! it records nothing.
//!
//! A finding is a warning at most: a server works without its collector, and drops the spans.

use super::destination::INSTANCE;
use super::finding::Finding;
use crate::config::{OtlpEndpoint, ServeConfig};
use crate::telemetry::traces::collector::Collector;

const SUBJECT: &str = "traces";

/// Asks the collector, if the settings name one.
pub async fn examine(config: &ServeConfig) -> Vec<Finding> {
    let Some(endpoint) = &config.traces.endpoint else {
        return Vec::new();
    };
    let finding = match Collector::of(&config.traces) {
        Ok(Some(collector)) => finding_of(endpoint, collector.probe(INSTANCE).await),
        Ok(None) => return Vec::new(),
        Err(error) => {
            let text = format!("no request can be made to the collector: {error:#}");
            Finding::warning(SUBJECT, text, "check SSL_CERT_FILE and --otlp-headers")
        }
    };
    vec![finding]
}

/// What the answer to a request without a span says, or why there was none.
fn finding_of(endpoint: &OtlpEndpoint, answer: Result<u16, String>) -> Finding {
    let status = match answer {
        Ok(200..=299) => {
            let text = format!("the collector at {endpoint} takes traces");
            return Finding::ok(SUBJECT, text);
        }
        Ok(status) => status,
        Err(why) => {
            let text =
                format!("the collector cannot be reached at {endpoint}, so traces are lost: {why}");
            let mend = "check that the collector runs, and --otlp-endpoint: OTLP over HTTP is usually at port 4318";
            return Finding::warning(SUBJECT, text, mend);
        }
    };
    let text = format!("the collector at {endpoint} answered {status}, so traces may be lost");
    let mend = match status {
        401 | 403 => "give it the key that it asks for with --otlp-headers-file",
        404 | 405 | 415 => {
            "check --otlp-endpoint, to which /v1/traces is added, and that the collector takes OTLP over HTTP in protobuf"
        }
        300..=399 => {
            "it leads elsewhere, which is not followed: name that URL with --otlp-endpoint"
        }
        429 | 502..=504 => {
            "it is overloaded, or what is behind it cannot be reached: look at its log"
        }
        _ => "look at the log of the collector",
    };
    Finding::warning(SUBJECT, text, mend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::finding::FindingLevel;

    #[test]
    fn each_answer_says_what_to_do() {
        let endpoint = OtlpEndpoint::parse("http://127.0.0.1:4318").expect("a URL");
        let check = |answer: Result<u16, &str>, mend: Option<&str>| {
            let finding = finding_of(&endpoint, answer.map_err(ToString::to_string));
            let url = "http://127.0.0.1:4318/v1/traces";
            assert!(finding.text.contains(url), "{finding:?}");
            let expected = match mend {
                None => FindingLevel::Ok,
                Some(_) => FindingLevel::Warning,
            };
            assert_eq!(finding.level, expected, "{finding:?}");
            let said = finding.mend.as_deref().unwrap_or_default();
            assert!(said.contains(mend.unwrap_or_default()), "{finding:?}");
        };
        check(Ok(200), None);
        check(Ok(202), None);
        check(Ok(307), Some("name that URL"));
        check(Ok(401), Some("--otlp-headers-file"));
        check(Ok(404), Some("/v1/traces is added"));
        check(Ok(503), Some("overloaded"));
        check(Ok(500), Some("log of the collector"));
        check(Err("Connection refused"), Some("port 4318"));
    }
}
