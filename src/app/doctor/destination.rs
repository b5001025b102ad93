//! Whether a destination can be reached, and if not why: with the code that makes deliveries, up to the TLS handshake.

use super::finding::Finding;
use super::keys::master_key;
use crate::app::parts::http_client;
use crate::app::stores::{open_journal_beside, open_redis};
use crate::clock::SystemClock;
use crate::config::{ServeConfig, SettingsReview};
use crate::delivery::address_filter::Blocked;
use crate::delivery::reach::{ReachFailure, ReachTrial};
use crate::delivery::tls_profiles::TlsProfile;
use crate::domain::attempt::Outcome;
use crate::domain::call_trace::Phase;
use crate::domain::destination::Destination;
use crate::domain::duration::display_ms;
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::domain::http_version::HttpVersion;
use crate::endpoints::Endpoints;
use crate::endpoints::store::EndpointStore;
use crate::journal::{Journal, MASTER_KEY};
use crate::keyring::Keyring;
use crate::schedule::redis::Time;
use std::sync::Arc;
use std::time::Duration;

/// The instance name for the journal. It is never written, because nothing is.
pub(super) const INSTANCE: &str = "doctor";
/// How long reaching may take, if the time limit of an attempt is longer.
const LONGEST_REACHING: Duration = Duration::from_secs(12);

/// What is to be reached.
#[derive(Debug, Clone)]
pub enum ReachTarget {
    /// This URL.
    Url(Destination),
    /// The URL of this endpoint, with its TLS settings.
    Endpoint(EndpointName),
}

/// Tries to reach a destination.
pub async fn examine(review: &SettingsReview, target: &ReachTarget) -> Vec<Finding> {
    let config = &review.config;
    match target {
        ReachTarget::Url(destination) => {
            reach(config, destination, (None, HttpVersion::default())).await
        }
        ReachTarget::Endpoint(name) => match find(config, name).await {
            Ok((endpoint, keyring)) => reach_endpoint(config, &endpoint, keyring).await,
            Err(finding) => vec![finding],
        },
    }
}

/// Reads an endpoint and the keyring that opens its client key.
async fn find(config: &ServeConfig, name: &EndpointName) -> Result<(Endpoint, Keyring), Finding> {
    const SUBJECT: &str = "endpoint";
    let unread = |error: String| {
        let text = format!("the endpoint {name} cannot be read: {error}");
        Finding::problem(SUBJECT, text, "`ringback doctor` alone examines the stores")
    };
    let journal = open_journal_beside(&config.journal, INSTANCE).await;
    let journal = journal.map_err(|error| unread(format!("{error:#}")))?;
    let remembered = match &journal {
        Some(journal) => journal.recall(MASTER_KEY).await,
        None => Ok(None),
    };
    let remembered = remembered.map_err(|error| unread(error.to_string()))?;
    let found = master_key(config, remembered.as_deref());
    let (keyring, _) = found.map_err(|error| unread(error.to_string()))?;
    let store = store(config, journal.clone()).map_err(unread)?;
    let found = store.find(name).await;
    if let Some(journal) = journal {
        journal.close().await;
    }
    match found.map_err(|error| unread(error.to_string()))? {
        Some(stored) if !stored.is_removed => Ok((stored.endpoint, keyring)),
        Some(_) | None => {
            let text = format!("there is no endpoint {name}");
            Err(Finding::problem(
                SUBJECT,
                text,
                "`ringback endpoint list` names them",
            ))
        }
    }
}

fn store(config: &ServeConfig, journal: Option<Arc<dyn Journal>>) -> Result<EndpointStore, String> {
    if let Some(journal) = journal {
        return Ok(EndpointStore::Journal(journal));
    }
    let clock = Arc::new(SystemClock);
    let schedule = open_redis(&config.stores(), None, clock, Time::Server, None);
    let schedule = schedule.map_err(|error| format!("{error:#}"))?;
    let store = schedule.and_then(|schedule| EndpointStore::of(None, schedule));
    store.ok_or_else(|| "there is no store of endpoints".to_string())
}

async fn reach_endpoint(
    config: &ServeConfig,
    endpoint: &Endpoint,
    keyring: Keyring,
) -> Vec<Finding> {
    const SUBJECT: &str = "endpoint";
    let url = &endpoint.settings.url;
    let mut findings = vec![Finding::ok(
        SUBJECT,
        format!("{} has the URL {url}", endpoint.name),
    )];
    let endpoints = Endpoints::default().with_keyring(keyring);
    let client = http_client(config);
    match client.profiles().of(endpoint, &endpoints).await {
        Err(error) => {
            let text = format!("its TLS settings cannot be used: {error}");
            let mend = "give the server the master key of the journal, or set them again: `ringback endpoint set`";
            findings.push(Finding::problem("tls", text, mend));
        }
        Ok(profile) => {
            let http = endpoint.settings.http.unwrap_or_default();
            findings.extend(reach(config, url, (profile.as_deref(), http)).await);
        }
    }
    findings
}

async fn reach(
    config: &ServeConfig,
    destination: &Destination,
    how: (Option<&TlsProfile>, HttpVersion),
) -> Vec<Finding> {
    let tried = http_client(config)
        .reach(destination, how, LONGEST_REACHING)
        .await;
    findings_of(destination, &tried)
}

/// What each step of a trial says.
fn findings_of(destination: &Destination, tried: &ReachTrial) -> Vec<Finding> {
    let trace = &tried.trace;
    let address = trace.address.as_deref().unwrap_or("an address");
    let reached = [Phase::Dns, Phase::Connect, Phase::Tls];
    let mut phases: Vec<Phase> = reached
        .into_iter()
        .filter(|phase| trace.phase_us(*phase).is_some())
        .collect();
    if tried.failure.is_some() {
        // The last one has failed.
        phases.pop();
    }
    let mut findings: Vec<Finding> = phases
        .into_iter()
        .map(|phase| {
            let took = trace.phase_us(phase).unwrap_or(0) / 1_000;
            let took = display_ms(i64::try_from(took).unwrap_or(i64::MAX));
            match phase {
                Phase::Dns => Finding::ok("name", format!("the host name was resolved in {took}, and may be called")),
                Phase::Connect => Finding::ok(
                    "connection",
                    format!("a connection to {address} was opened in {took}"),
                ),
                Phase::Tls | Phase::FirstByte | Phase::Body => {
                    let version = trace.tls.map_or("TLS", |version| version.as_str());
                    Finding::ok(
                        "tls",
                        format!("the handshake (TLS {version}) took {took}, and the certificate is valid"),
                    )
                }
            }
        })
        .collect();
    match &tried.failure {
        Some(failure) => findings.push(finding_of(failure)),
        None => findings.push(Finding::ok(
            "destination",
            format!("{destination} can be reached; nothing was sent to it"),
        )),
    }
    findings
}

fn finding_of(failure: &ReachFailure) -> Finding {
    let text = failure.answer.reason.clone();
    if failure.is_of_proxy {
        let mend = "check --proxy, and that the proxy runs";
        return Finding::problem("proxy", text, mend);
    }
    match &failure.blocked {
        Some(Blocked::Internal { address, .. }) => {
            let mend =
                format!("if it may be called, start the server with --allow-destination {address}");
            return Finding::problem("address", text, &mend);
        }
        Some(Blocked::PlainHttp(_)) => {
            let mend = "use https, or start the server with --allow-http";
            return Finding::problem("address", text, mend);
        }
        None => {}
    }
    let (subject, mend) = match failure.answer.outcome {
        Outcome::Dns => (
            "name",
            "check the spelling of the host name, and the name servers of this machine: `getent hosts NAME`",
        ),
        Outcome::Tls => (
            "tls",
            "the receiver has to mend its certificate; a private authority is trusted by SSL_CERT_FILE, or for an endpoint by \
             `ringback endpoint set NAME --ca FILE`",
        ),
        Outcome::Timeout | Outcome::Connect => (
            "connection",
            "check that the receiver runs and listens on this port, and that no firewall on the way refuses this machine",
        ),
        Outcome::Acknowledged
        | Outcome::WrongAnswer
        | Outcome::HttpStatus
        | Outcome::Blocked
        | Outcome::Protocol
        | Outcome::Interrupted => ("destination", "check the URL"),
    };
    Finding::problem(subject, text, mend)
}
