//! Which fields of an endpoint differ between two versions of it, by their names in the API and without their values.

use crate::domain::endpoint::{Endpoint, EndpointSettings};
use crate::domain::endpoint_keys::{EndpointKey, EndpointKeys};
use crate::domain::endpoint_tls::EndpointTls;

/// What differs between two versions of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointDifferences {
    /// The names of the settings.
    pub settings: Vec<&'static str>,
    /// Whether the signing keys differ, also if only the end of one does.
    pub has_other_keys: bool,
    /// The ids of the signing keys that only the later version has.
    pub added_keys: Vec<String>,
    /// The ids of the signing keys that only the earlier version has, without those that had ended.
    pub removed_keys: Vec<String>,
    /// The ids of those that had ended.
    pub forgotten_keys: Vec<String>,
}

impl EndpointDifferences {
    /// Compares two versions at an instant in milliseconds since 1970.
    #[must_use]
    pub fn between(before: &Endpoint, after: &Endpoint, now_ms: i64) -> Self {
        let only_in = |some: &EndpointKeys, others: &EndpointKeys| {
            let is_there = |key: &EndpointKey| others.list().iter().any(|other| other.id == key.id);
            let only = some.list().iter().filter(|key| !is_there(key));
            only.cloned().collect::<Vec<_>>()
        };
        let ids = |keys: Vec<EndpointKey>| keys.into_iter().map(|key| key.id).collect();
        let (removed, forgotten) = only_in(&before.keys, &after.keys)
            .into_iter()
            .partition(|key| key.signs_at(now_ms));
        Self {
            settings: settings(&before.settings, &after.settings),
            has_other_keys: before.keys != after.keys,
            added_keys: ids(only_in(&after.keys, &before.keys)),
            removed_keys: ids(removed),
            forgotten_keys: ids(forgotten),
        }
    }
}

fn settings(before: &EndpointSettings, after: &EndpointSettings) -> Vec<&'static str> {
    // Every field is named, so that none is forgotten.
    let EndpointSettings {
        url,
        ladder,
        ack,
        timeout_ms,
        limits,
        retry_after,
        gone,
        after_outage_rate,
        headers,
        user_agent,
        signature_headers,
        http,
        tls,
        metadata,
        // The store sets it.
        made_again_ms: _,
    } = before;
    let ca = |tls: &Option<EndpointTls>| tls.as_ref().and_then(|tls| tls.ca().cloned());
    let identity = |tls: &Option<EndpointTls>| {
        let identity = tls.as_ref().and_then(EndpointTls::identity).cloned();
        identity.map(|identity| (identity.certificate, identity.sealed_key))
    };
    let (before_identity, after_identity) = (identity(tls).unzip(), identity(&after.tls).unzip());
    let compared = [
        ("url", *url != after.url),
        ("ladder", *ladder != after.ladder),
        ("ack", *ack != after.ack),
        ("timeout", *timeout_ms != after.timeout_ms),
        (
            "concurrency",
            limits.concurrency != after.limits.concurrency,
        ),
        ("rate", limits.rate != after.limits.rate),
        ("retry_after", *retry_after != after.retry_after),
        ("gone", *gone != after.gone),
        (
            "after_outage_rate",
            *after_outage_rate != after.after_outage_rate,
        ),
        ("headers", *headers != after.headers),
        ("user_agent", *user_agent != after.user_agent),
        (
            "signature_headers",
            *signature_headers != after.signature_headers,
        ),
        ("http", *http != after.http),
        ("ca", ca(tls) != ca(&after.tls)),
        ("client_certificate", before_identity.0 != after_identity.0),
        ("client_key", before_identity.1 != after_identity.1),
        ("metadata", *metadata != after.metadata),
    ];
    let differing = compared.into_iter().filter(|(_, differs)| *differs);
    differing.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::endpoint::EndpointName;
    use crate::domain::signing_key::KeyKind;

    fn key(id: &str, signs_until_ms: Option<i64>) -> EndpointKey {
        EndpointKey {
            id: id.to_string(),
            kind: KeyKind::Symmetric,
            sealed: "sealed".to_string(),
            public_key: None,
            created_ms: 0,
            signs_until_ms,
        }
    }

    fn endpoint(settings: &str, keys: Vec<EndpointKey>) -> Endpoint {
        Endpoint {
            name: EndpointName::parse("shop").expect("a name"),
            version: 1,
            settings: EndpointSettings::from_text(settings).expect("settings"),
            keys: EndpointKeys::stored(keys),
            created_ms: 0,
            changed_ms: 0,
        }
    }

    #[test]
    fn a_difference_is_named_without_its_value() {
        fn check(before: &str, after: &str, expected: &[&str]) {
            let (before, after) = (endpoint(before, vec![]), endpoint(after, vec![]));
            let found = EndpointDifferences::between(&before, &after, 5);
            assert_eq!(found.settings, expected);
            assert!(!found.has_other_keys);
        }
        let plain = r#"{"url":"https://a.example/"}"#;
        check(plain, plain, &[]);
        check(
            plain,
            r#"{"url":"https://b.example/","rate":5,"headers":[["x-a","secret"]],"metadata":"{}"}"#,
            &["url", "rate", "headers", "metadata"],
        );
        check(
            r#"{"url":"https://a.example/","made_again_ms":5}"#,
            plain,
            &[],
        );
    }

    #[test]
    fn keys_that_had_ended_are_told_apart() {
        let settings = r#"{"url":"https://a.example/"}"#;
        let before = endpoint(settings, vec![key("a", None), key("b", Some(5))]);
        let after = endpoint(settings, vec![key("c", None)]);
        let found = EndpointDifferences::between(&before, &after, 5);
        assert!(found.has_other_keys);
        assert_eq!(found.added_keys, ["c"]);
        assert_eq!(found.removed_keys, ["a"]);
        assert_eq!(found.forgotten_keys, ["b"]);
        let ending = endpoint(settings, vec![key("a", Some(9)), key("b", Some(5))]);
        let found = EndpointDifferences::between(&before, &ending, 5);
        assert!(found.has_other_keys && found.added_keys.is_empty());
        assert!(found.removed_keys.is_empty() && found.forgotten_keys.is_empty());
    }
}
