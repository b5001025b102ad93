//! What a call needs beside the notification: the URL, the ack rule, and what its endpoint says at this moment.

use super::lookups::LookupShare;
use super::tls_profiles::TlsProfile;
use crate::domain::ack::AckRule;
use crate::domain::destination::Destination;
use crate::domain::endpoint::Endpoint;
use crate::domain::headers::Headers;
use crate::domain::http_version::HttpVersion;
use crate::domain::ladder::Ladder;
use crate::domain::lane::Lane;
use crate::domain::notification::Notification;
use crate::domain::receiver_requests::{FollowedRequests, GonePolicy};
use crate::domain::signers::Signers;
use crate::domain::trace_context::TraceContext;
use std::sync::{Arc, LazyLock};

/// The rule of an endpoint that chooses none.
static STANDARD: LazyLock<AckRule> = LazyLock::new(AckRule::standard);

/// The target of one call.
#[derive(Clone, Copy)]
pub struct CallTarget<'call> {
    /// The URL to call.
    pub url: &'call Destination,
    /// The rule that judges the answer.
    pub ack: &'call AckRule,
    /// The endpoint that the notification names.
    pub endpoint: Option<&'call Endpoint>,
    /// What signs the request.
    pub signers: &'call Signers,
    /// The TLS configuration of the endpoint, if it has one of its own.
    pub tls: Option<&'call TlsProfile>,
    /// Which part of the look-ups its host name may take.
    pub share: LookupShare,
    /// The trace that the call belongs to. That of the registration, unless the attempt has a span of its own.
    pub trace: Option<&'call TraceContext>,
}

impl<'call> CallTarget<'call> {
    /// The target of a notification, whose call these sign, with this TLS configuration. `None` if it names an endpoint that is not given.
    #[must_use]
    pub fn of(
        notification: &'call Notification,
        endpoint: Option<&'call Arc<Endpoint>>,
        (signers, tls): (&'call Signers, Option<&'call TlsProfile>),
    ) -> Option<Self> {
        let endpoint = endpoint.map(AsRef::as_ref);
        if notification.lane.is_of_endpoint() && endpoint.is_none() {
            return None;
        }
        let settings = endpoint.map(|endpoint| &endpoint.settings);
        let own = notification.destination.as_ref();
        let ack = notification.ack.as_ref();
        Some(Self {
            url: own.or(settings.map(|settings| &settings.url))?,
            ack: ack
                .or(settings.and_then(|settings| settings.ack.as_ref()))
                .unwrap_or(&STANDARD),
            endpoint,
            signers,
            tls,
            share: LookupShare::Proven,
            trace: notification.headers.trace(),
        })
    }

    /// Whether the lane is held if the receiver asks for no more calls. A registration may have a URL of its own; an answer
    /// from another origin than the endpoint's does not speak for the receiver of all others.
    #[must_use]
    pub fn holds_when_gone(&self) -> bool {
        self.endpoint.is_some_and(|endpoint| {
            let own = &endpoint.settings;
            own.gone == Some(GonePolicy::Hold) && Lane::of(self.url).ok() == Lane::of(&own.url).ok()
        })
    }

    /// Which requests of the receiver are followed for a notification with this ladder.
    #[must_use]
    pub fn followed(&self, ladder: &Ladder) -> FollowedRequests {
        let mut followed = FollowedRequests::of(ladder, self.ack);
        if let Some(endpoint) = self.endpoint {
            let own = &endpoint.settings;
            followed.retry_after = own.retry_after.unwrap_or(followed.retry_after);
            followed.gone |= own.gone.is_some();
        }
        followed
    }

    /// The version of HTTP that is asked for.
    #[must_use]
    pub fn http(&self) -> HttpVersion {
        let own = self.endpoint.and_then(|endpoint| endpoint.settings.http);
        own.unwrap_or_default()
    }

    /// The headers of the endpoint; a notification's own replace those with the same name.
    #[must_use]
    pub fn headers(&self) -> Option<&'call Headers> {
        self.endpoint.map(|endpoint| &endpoint.settings.headers)
    }
}
