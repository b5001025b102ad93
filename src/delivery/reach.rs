//! Finds out whether a receiver can be reached: looks its name up, connects and makes the TLS handshake, as a call does, and
//! sends no request.

use super::address_filter::Blocked;
use super::call_recorder::CallRecorder;
use super::connector::ConnectError;
use super::failure::{blocked, not_connected, without_answer};
use super::http_client::HttpClient;
use super::lookups::LookupShare;
use super::proxy::ProxyError;
use super::resolver::ResolveError;
use super::tls_profiles::TlsProfile;
use crate::domain::attempt::{Answer, Outcome};
use crate::domain::attempt_reason::{ConnectionReason, UnsentReason};
use crate::domain::call_trace::CallTrace;
use crate::domain::destination::Destination;
use crate::domain::duration;
use crate::domain::http_version::HttpVersion;
use crate::domain::url_parts::UrlParts;
use std::time::{Duration, Instant};

/// How it was tried to reach a receiver.
#[derive(Debug)]
pub struct ReachTrial {
    /// How far it came, and how long each phase took.
    pub trace: CallTrace,
    /// Why the receiver cannot be reached; `None` if it was.
    pub failure: Option<ReachFailure>,
}

/// Why a receiver cannot be reached.
#[derive(Debug)]
pub struct ReachFailure {
    /// What a call would be recorded as.
    pub answer: Answer,
    /// The refusal of the address filter, if that is why.
    pub blocked: Option<Blocked>,
    /// Whether the proxy failed, so that nothing is known of the receiver.
    pub is_of_proxy: bool,
}

impl ReachFailure {
    fn of(answer: Answer) -> Self {
        Self {
            answer,
            blocked: None,
            is_of_proxy: false,
        }
    }

    fn of_blocked(error: Blocked) -> Self {
        Self {
            answer: blocked(&error),
            blocked: Some(error),
            is_of_proxy: false,
        }
    }

    fn of_connecting(error: &ConnectError) -> Self {
        if let Some(ResolveError::Blocked(error)) = error.downcast_ref() {
            return Self::of_blocked(error.clone());
        }
        match error.downcast_ref::<ProxyError>() {
            Some(failed @ ProxyError::Failed(_)) => Self {
                is_of_proxy: true,
                ..Self::of(without_answer(Outcome::Connect, failed.reason()))
            },
            Some(ProxyError::Refused(_) | ProxyError::Closed | ProxyError::TooEarly(_)) | None => {
                Self::of(not_connected(error.as_ref()))
            }
        }
    }
}

impl HttpClient {
    /// Tries to reach a destination, with the TLS configuration of its endpoint if it has one, and asking for this version of
    /// HTTP. Sends no request. Takes no longer than `limit`, nor than the time limit of an attempt.
    pub async fn reach(
        &self,
        destination: &Destination,
        (profile, http): (Option<&TlsProfile>, HttpVersion),
        limit: Duration,
    ) -> ReachTrial {
        let limit = limit.min(self.timeout());
        let recorder = CallRecorder::default();
        let until = Instant::now() + limit;
        let trying = self.try_to_reach(destination, (profile, http), until, &recorder);
        let failure = match tokio::time::timeout(limit, trying).await {
            Ok(tried) => tried.err(),
            Err(_) => {
                let limit_ms = limit.as_millis().try_into().unwrap_or(0);
                let limit = duration::display_ms(limit_ms);
                let reason = match recorder.awaited() {
                    Some(awaited) => ConnectionReason::NotOpenedWhile { limit, awaited },
                    None => ConnectionReason::NotOpenedInTime { limit },
                };
                Some(ReachFailure::of(without_answer(Outcome::Timeout, reason)))
            }
        };
        ReachTrial {
            trace: recorder.into_trace(),
            failure,
        }
    }

    async fn try_to_reach(
        &self,
        destination: &Destination,
        (profile, http): (Option<&TlsProfile>, HttpVersion),
        until: Instant,
        recorder: &CallRecorder,
    ) -> Result<(), ReachFailure> {
        let unreadable = || {
            let reason = UnsentReason::UnreadableUrl;
            ReachFailure::of(without_answer(Outcome::Blocked, reason))
        };
        let url = destination.url().ok_or_else(unreadable)?;
        let connector = match self.connector_of(UrlParts::of(&url)) {
            Ok(Some(connector)) => connector,
            Ok(None) => return Err(unreadable()),
            Err(error) => return Err(ReachFailure::of_blocked(error)),
        };
        let how = (profile, http, LookupShare::Proven, until);
        let reached = Box::pin(connector.reach(&url, how, recorder)).await;
        reached.map_err(|error| ReachFailure::of_connecting(&error))
    }
}
