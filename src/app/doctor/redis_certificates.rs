//! Until when the certificates for TLS connections to Redis can be used.

use super::finding::Finding;
use crate::config::RedisTls;
use crate::domain::timestamp;

/// A certificate that expires within 14 days is named, in milliseconds.
const EXPIRES_SOON_MS: i64 = 14 * 86_400_000;

/// Until when the certificates for TLS connections can be used. That an authority has expired is no obstacle: only what Redis
/// shows is checked. But who renews authorities may have forgotten this file.
pub(super) fn expiries(tls: &RedisTls, now_ms: i64) -> Vec<Finding> {
    const SUBJECT: &str = "redis certificates";
    const MEND: &str =
        "put a new one into its file: it is used by the next connection, without a restart";
    // They were read a moment ago, with the settings.
    let Ok((_, found)) = tls.load() else {
        return Vec::new();
    };
    let finding = |name: &str, at_ms: i64, is_checked: bool| {
        let at = timestamp::display_ms(at_ms);
        match at_ms - now_ms {
            ..=0 if is_checked => {
                Finding::problem(SUBJECT, format!("{name} expired on {at}"), MEND)
            }
            ..=0 => Finding::warning(SUBJECT, format!("{name} expired on {at}"), MEND),
            1..EXPIRES_SOON_MS => {
                Finding::warning(SUBJECT, format!("{name} expires on {at}"), MEND)
            }
            _ => Finding::ok(SUBJECT, format!("{name} is valid until {at}")),
        }
    };
    let ca = found.ca.and_then(|ca| ca.last_expires_ms());
    let client = found.client.and_then(|(shown, _)| shown.next_expires_ms());
    (ca.map(|at_ms| finding("redis-ca", at_ms, false))
        .into_iter())
    .chain(client.map(|at_ms| finding("redis-client-certificate", at_ms, true)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::finding::FindingLevel;
    use crate::redis_tls::RedisClientFiles;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    #[test]
    fn a_certificate_is_named_two_weeks_before_it_expires() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["redis.example".to_string()]).expect("a name");
        params.not_after = date_time_ymd(2030, 2, 3);
        let path = |name: &str| dir.path().join(name);
        let certificate = params.self_signed(&key).expect("made").pem();
        std::fs::write(path("ca.pem"), &certificate).expect("written");
        std::fs::write(path("client.key"), key.serialize_pem()).expect("written");
        let tls = RedisTls {
            ca: Some(path("ca.pem")),
            client: Some(RedisClientFiles {
                certificate: path("ca.pem"),
                key: path("client.key"),
            }),
        };
        let until_ms = timestamp::parse_ms("2030-02-03T00:00:00Z").expect("a time");
        let (ok, warning) = (FindingLevel::Ok, FindingLevel::Warning);
        for (before_ms, of_ca, of_client, said) in [
            (EXPIRES_SOON_MS, ok, ok, "is valid until 2030-02-03"),
            (
                EXPIRES_SOON_MS - 1,
                warning,
                warning,
                "expires on 2030-02-03",
            ),
            (1, warning, warning, "expires on 2030-02-03"),
            (0, warning, FindingLevel::Problem, "expired on 2030-02-03"),
        ] {
            let found = expiries(&tls, until_ms - before_ms);
            let levels: Vec<_> = found.iter().map(|finding| finding.level).collect();
            assert_eq!(levels, [of_ca, of_client], "{before_ms}");
            for (finding, name) in found.iter().zip(["redis-ca ", "redis-client-certificate "]) {
                let text = &finding.text;
                assert!(text.starts_with(name) && text.contains(said), "{text}");
            }
        }
    }
}
