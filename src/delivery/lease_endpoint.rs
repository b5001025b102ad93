//! Finds the endpoint that a leased notification names.

use super::failure::without_answer;
use super::worker::{CallMade, Worker};
use crate::domain::ack::AckRule;
use crate::domain::attempt::Outcome;
use crate::domain::attempt_reason::UnsentReason;
use crate::domain::call_trace::CallTrace;
use crate::domain::endpoint::Endpoint;
use crate::domain::receiver_requests::FollowedRequests;
use crate::health::{Backoff, Store};
use crate::schedule::Lease;
use crate::schedule::skipped::SkipCause;
use std::sync::Arc;
use std::time::Instant;

impl Worker {
    /// The endpoint that a leased notification names, as it is now; `None` inside if it names none. Returns `None` if
    /// nothing is sent under this lease, which is settled then.
    ///
    /// A journal that was restored from a backup may not know the endpoint, and Redis may have lost it. Then the
    /// notification waits until it is set again. It does not keep its permit meanwhile: thousands may wait for one endpoint,
    /// and other destinations need the permits. So this server skips the lane until it knows the endpoint.
    ///
    /// Another endpoint may have been made under the name of one that was removed. What was registered for the old one
    /// ends as a dead letter: the new one must not get it.
    pub(super) async fn find_endpoint(
        &self,
        lease: Box<Lease>,
    ) -> Option<(Box<Lease>, Option<Arc<Endpoint>>)> {
        let Some(name) = lease.entry.notification.lane.endpoint() else {
            return Some((lease, None));
        };
        let registered_ms = lease.entry.notification.registered_ms;
        let store = match self.recorder {
            Some(_) => Store::Journal,
            None => Store::Schedule,
        };
        let mut backoff = Backoff::new(&self.health, store);
        loop {
            let is_temporary = match self.endpoints.of_pending(&name, registered_ms).await {
                Ok(Some(endpoint)) if endpoint.is_meant_by(registered_ms) => {
                    return Some((lease, Some(endpoint)));
                }
                Ok(Some(_)) => {
                    self.end_unsent(lease).await;
                    return None;
                }
                Ok(None) => {
                    if self.endpoints.report_missing(&name) {
                        tracing::error!(
                            endpoint = %name,
                            "there is no endpoint of this name, which pending notifications name; they wait; set the \
                             endpoint again"
                        );
                    }
                    false
                }
                Err(error) => {
                    tracing::debug!(
                        notification = %lease.entry.notification.key,
                        %error,
                        "the endpoint of a notification cannot be read now; trying again"
                    );
                    // Other servers can read it, since it was registered after this one did so last. What is pending for an
                    // endpoint that this one does not know may have nobody else.
                    error.may_pass() && self.endpoints.known(&name).is_none()
                }
            };
            if !is_temporary {
                Box::pin(self.leave_to_others(lease, SkipCause::Endpoint)).await;
                return None;
            }
            if !self
                .wait_for_journal(lease.expires_ms(), &mut backoff)
                .await
            {
                self.release(lease).await;
                return None;
            }
        }
    }

    /// Ends a notification that means an endpoint which was removed, without a call.
    async fn end_unsent(&self, lease: Box<Lease>) {
        let leased_ms = lease.expires_ms() - self.schedule.limits().lease_ms;
        let mut trace = CallTrace::default();
        trace.deferral = lease.deferral;
        let made = CallMade {
            measured: Instant::now(),
            started_ms: self.clock.now_ms().max(leased_ms),
            answer: without_answer(Outcome::Blocked, UnsentReason::EndpointMadeAgain),
            trace,
            span: None,
            followed: FollowedRequests::of(&lease.entry.notification.ladder, &AckRule::standard()),
            holds_when_gone: false,
        };
        Box::pin(self.conclude(lease, made)).await;
    }
}
