//! An endpoint: a receiver that is registered under a name, with everything that its calls need.
//!
//! A notification that names an endpoint waits in the endpoint's own lane. The ladder of a notification is fixed
//! when it is registered. Everything else is taken from the endpoint at each attempt, so a change of the endpoint
//! holds for notifications that are pending.

use crate::domain::ack::AckRule;
use crate::domain::call_rate::CallRate;
use crate::domain::certificates::Certificates;
use crate::domain::destination::Destination;
use crate::domain::endpoint_keys::EndpointKeys;
pub use crate::domain::endpoint_name::{BadEndpointName, EndpointName};
use crate::domain::endpoint_tls::{ClientIdentity, EndpointTls};
use crate::domain::headers::Headers;
use crate::domain::http_version::HttpVersion;
use crate::domain::ladder::Ladder;
use crate::domain::lane_settings::LaneLimits;
use crate::domain::receiver_requests::GonePolicy;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::num::NonZeroU32;

/// Maximum number of endpoints. Every server has all of them in memory.
pub const MOST_ENDPOINTS: usize = 50_000;
/// Maximum length of a `User-Agent`, in bytes.
pub const LONGEST_USER_AGENT: usize = 256;
/// Maximum length of the metadata, in bytes of JSON.
pub const LARGEST_METADATA: usize = 8 * 1024;
/// The shortest time limit of a call, in milliseconds.
pub const SHORTEST_TIMEOUT_MS: i64 = 100;

/// The names of the three headers that carry the signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureHeaders {
    /// The header with the webhook id.
    pub id: String,
    /// The header with the instant that was signed.
    pub timestamp: String,
    /// The header with the signatures.
    pub signature: String,
}

impl Default for SignatureHeaders {
    /// The names of Standard Webhooks 1.0.0.
    fn default() -> Self {
        Self {
            id: "webhook-id".to_string(),
            timestamp: "webhook-timestamp".to_string(),
            signature: "webhook-signature".to_string(),
        }
    }
}

impl SignatureHeaders {
    /// The three names.
    #[must_use]
    pub fn names(&self) -> [&str; 3] {
        [&self.id, &self.timestamp, &self.signature]
    }

    /// Checks one name. The names of Standard Webhooks are allowed here; all other names follow the rules of
    /// headers that a caller may set. Returns it in lower case.
    ///
    /// # Errors
    /// Says which rule the name breaks.
    pub fn check_name(name: &str) -> Result<String, String> {
        let name = name.to_ascii_lowercase();
        if !Self::default().names().contains(&name.as_str()) {
            Headers::default()
                .insert(&name, "")
                .map_err(|bad| bad.to_string())?;
        }
        Ok(name)
    }
}

/// What calls to an endpoint need. All fields were checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSettings {
    /// The URL to call.
    pub url: Destination,
    /// The retry schedule of notifications that choose none.
    pub ladder: Option<Ladder>,
    /// The ack rule of notifications that choose none.
    pub ack: Option<AckRule>,
    /// The time limit of a call, in milliseconds. The limit of the server holds too.
    pub timeout_ms: Option<i64>,
    /// How many calls are made: the limits of its lane.
    pub limits: LaneLimits,
    /// Whether `Retry-After` of a 429 or 503 may delay the next attempt; `None`: as the ladder says.
    pub retry_after: Option<bool>,
    /// What a 410 does; `None`: as the ladder and the ack rule say.
    pub gone: Option<GonePolicy>,
    /// At which rate a job sends what failed during an outage, when a call is answered again; `None`: each
    /// notification waits for its ladder.
    pub after_outage_rate: Option<CallRate>,
    /// Headers of every call. A header of the notification replaces one with the same name.
    pub headers: Headers,
    /// The `User-Agent` of every call.
    pub user_agent: Option<String>,
    /// The names of the headers that carry the signature.
    pub signature_headers: SignatureHeaders,
    /// The version of HTTP that calls speak; `None`: HTTP/1.1.
    pub http: Option<HttpVersion>,
    /// Whom TLS trusts, and what it shows. `None`: as the server.
    pub tls: Option<EndpointTls>,
    /// A JSON object of the caller's own, as a text. It is returned and not used.
    pub metadata: Option<String>,
    /// When the endpoint was made, if one of the same name had been removed before, in milliseconds since 1970. The
    /// store sets it: see [`Endpoint::is_meant_by`].
    pub made_again_ms: Option<i64>,
}

/// An endpoint as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name.
    pub name: EndpointName,
    /// How often it was set: 1 at first. It goes on after the endpoint was removed and set again.
    pub version: u32,
    /// What its calls need.
    pub settings: EndpointSettings,
    /// What signs its calls.
    pub keys: EndpointKeys,
    /// When it was first set, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last set, in milliseconds since 1970.
    pub changed_ms: i64,
}

impl Endpoint {
    /// Whether a notification that names this endpoint, and was registered at this instant, means this one. Otherwise it
    /// means one that was removed since: the name may belong to somebody else by now, who must not get its data.
    ///
    /// An endpoint that the store has lost and that was set again is the same: nobody removed it.
    #[must_use]
    pub fn is_meant_by(&self, registered_ms: i64) -> bool {
        let made_again_ms = self.settings.made_again_ms;
        made_again_ms.is_none_or(|made_again_ms| registered_ms >= made_again_ms)
    }
}

/// The stored form of the settings.
#[derive(Serialize, Deserialize)]
struct StoredSettings<'text> {
    #[serde(borrow)]
    url: Cow<'text, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ladder: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ack: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concurrency: Option<NonZeroU32>,
    /// Calls per 1,000 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gone: Option<Cow<'text, str>>,
    /// Notifications per 1,000 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after_outage_rate: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_agent: Option<String>,
    #[serde(default)]
    signature_headers: SignatureHeaders,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    http: Option<Cow<'text, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_certificate: Option<String>,
    /// Encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<String>,
    /// The journals read this member by its name, and by the comma before it: see the migrations `order_of_endpoints`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made_again_ms: Option<i64>,
}

impl EndpointSettings {
    /// The text in which stores keep the settings.
    ///
    /// # Panics
    /// Never: strings and numbers can be written as JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        let tls = self.tls.as_ref();
        let identity = tls.and_then(EndpointTls::identity);
        let pem = |certificates: &Certificates| certificates.as_str().to_string();
        let stored = StoredSettings {
            url: Cow::Borrowed(self.url.as_str()),
            ladder: self.ladder.as_ref().map(Ladder::to_text),
            ack: self.ack.as_ref().map(|ack| ack.to_text().into_owned()),
            timeout_ms: self.timeout_ms,
            concurrency: self.limits.concurrency,
            rate: self.limits.rate.map(CallRate::to_stored),
            retry_after: self.retry_after,
            gone: self.gone.map(|gone| Cow::Borrowed(gone.as_str())),
            after_outage_rate: self.after_outage_rate.map(CallRate::to_stored),
            headers: self.headers.pairs().to_vec(),
            user_agent: self.user_agent.clone(),
            signature_headers: self.signature_headers.clone(),
            http: (self.http).map(|version| Cow::Borrowed(version.as_str())),
            ca: tls.and_then(EndpointTls::ca).map(pem),
            client_certificate: identity.map(|identity| pem(&identity.certificate)),
            client_key: identity.map(|identity| identity.sealed_key.clone()),
            metadata: self.metadata.clone(),
            made_again_ms: self.made_again_ms,
        };
        serde_json::to_string(&stored).expect("invariant: strings and numbers serialise")
    }

    /// Reads what [`EndpointSettings::to_text`] wrote.
    ///
    /// # Errors
    /// Says what cannot be read.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let stored: StoredSettings<'_> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        let certificates = |text: String| Certificates::from_stored(&text);
        let rate = |stored: Option<u32>| match stored {
            Some(stored) => CallRate::from_stored(stored)
                .map(Some)
                .ok_or("a rate is out of bounds"),
            None => Ok(None),
        };
        let identity = match (stored.client_certificate, stored.client_key) {
            (Some(certificate), Some(sealed_key)) => Some(ClientIdentity {
                certificate: certificates(certificate),
                sealed_key,
            }),
            (None, None) => None,
            _ => return Err("a client certificate and its key do not come together".to_string()),
        };
        Ok(Self {
            url: Destination::from_stored(&stored.url),
            ladder: (stored.ladder.as_deref().map(Ladder::from_text).transpose())
                .map_err(|bad| bad.to_string())?,
            ack: (stored.ack.as_deref().map(AckRule::from_text).transpose())
                .map_err(|bad| bad.to_string())?,
            timeout_ms: stored.timeout_ms,
            limits: LaneLimits {
                concurrency: stored.concurrency,
                rate: rate(stored.rate)?,
            },
            retry_after: stored.retry_after,
            gone: match stored.gone {
                Some(name) => Some(GonePolicy::from_name(&name).ok_or("unknown: gone")?),
                None => None,
            },
            after_outage_rate: rate(stored.after_outage_rate)?,
            headers: Headers::from_stored(stored.headers),
            user_agent: stored.user_agent,
            signature_headers: stored.signature_headers,
            http: (stored.http.as_deref().map(HttpVersion::parse).transpose())
                .map_err(|bad| bad.to_string())?,
            tls: EndpointTls::of(stored.ca.map(certificates), identity),
            metadata: stored.metadata,
            made_again_ms: stored.made_again_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_their_stored_form() {
        let mut headers = Headers::default();
        headers.insert("X-Shop", "\"1\"").expect("a header");
        let plain = EndpointSettings {
            url: Destination::parse("https://shop.example/\"notify").expect("a url"),
            ladder: None,
            ack: None,
            timeout_ms: None,
            limits: LaneLimits::default(),
            retry_after: None,
            gone: None,
            after_outage_rate: None,
            headers: Headers::default(),
            user_agent: None,
            signature_headers: SignatureHeaders::default(),
            http: None,
            tls: None,
            metadata: None,
            made_again_ms: None,
        };
        let full = EndpointSettings {
            ladder: Some(Ladder::by_name("wechat").expect("known")),
            ack: Some(AckRule::from_text(r#"{"status":"2xx"}"#).expect("a rule")),
            timeout_ms: Some(5_000),
            limits: LaneLimits {
                concurrency: NonZeroU32::new(3),
                rate: CallRate::per_second(0.5).ok(),
            },
            retry_after: Some(false),
            gone: Some(GonePolicy::Hold),
            after_outage_rate: CallRate::per_second(20.0).ok(),
            headers,
            user_agent: Some("Pay/1".to_string()),
            signature_headers: SignatureHeaders {
                id: "x-id".to_string(),
                ..SignatureHeaders::default()
            },
            http: Some(HttpVersion::Http2),
            tls: EndpointTls::of(
                Some(Certificates::from_stored("-----BEGIN 1\n")),
                Some(ClientIdentity {
                    certificate: Certificates::from_stored("-----BEGIN 2\n"),
                    sealed_key: "sealed".to_string(),
                }),
            ),
            metadata: Some(r#"{"owner":"eu"}"#.to_string()),
            made_again_ms: Some(1_000),
            ..plain.clone()
        };
        for settings in [plain, full] {
            let read = EndpointSettings::from_text(&settings.to_text());
            assert_eq!(read, Ok(settings));
        }
        assert!(EndpointSettings::from_text("{}").is_err());
    }

    #[test]
    fn the_standard_names_of_the_signature_are_the_only_reserved_ones_allowed() {
        fn check(name: &str, expected: Result<&str, ()>) {
            let checked = SignatureHeaders::check_name(name);
            assert_eq!(
                checked.as_deref().map_err(|_| ()),
                expected,
                "{name}: {checked:?}"
            );
        }
        check("Webhook-Id", Ok("webhook-id"));
        check("X-Shop-Signature", Ok("x-shop-signature"));
        check("Host", Err(()));
        check("webhook-other", Err(()));
        check("ringback-topic", Err(()));
        check("x y", Err(()));
        check("", Err(()));
    }
}
