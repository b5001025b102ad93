//! Finds what signs an attempt and what TLS shows, and waits if a key of the endpoint cannot be opened.
//!
//! A server that was started before the first key was added, and without the master key, cannot open the key. It must
//! not sign with another one: the receiver would refuse the call, and the attempt would be spent. So it releases the
//! lease, and skips the lane of the endpoint from then on ([`crate::schedule::skipped`]), so that another server claims
//! the notification in its turn. It opens the keys again four times a second, and skips the lane no more when it can.
//!
//! A server that does not know the endpoint, or cannot read it, skips the lane as well (`lease_endpoint.rs`).
//!
//! A server that cannot sign with the default keys of the others ([`crate::endpoints::default_keys`]) does the same with
//! everything that they would sign.
//!
//! The list of skipped lanes is bounded. A notification beyond it is due again after [`DEFERRAL_MS`], and so is one
//! whose certificates cannot be used by any server.

use super::tls_profiles::{TlsProfile, UnusableProfile};
use super::worker::Worker;
use crate::domain::deferral::Lacked;
use crate::domain::endpoint::Endpoint;
use crate::domain::signers::Signers;
use crate::keyring::UnusableKey;
use crate::schedule::skipped::SkipCause;
use crate::schedule::{Lease, Settlement};
use std::sync::Arc;

/// How long a notification waits whose lane is not skipped, in milliseconds.
const DEFERRAL_MS: i64 = 1_000;
/// How long a notification waits after the proxy failed, in milliseconds. While it fails, everything that is due
/// comes here again after this time.
const PROXY_DEFERRAL_MS: i64 = 3_000;

impl Worker {
    /// What signs an attempt that names no endpoint, if that can be opened: [`Worker::find_signers`] without its waits.
    pub(super) fn default_signers(&self, endpoint: Option<&Endpoint>) -> Option<Signers> {
        match endpoint {
            None => self.endpoints.signers(None, self.clock.now_ms()).ok(),
            Some(_) => None,
        }
    }

    /// What signs an attempt under this lease, and the TLS configuration of its endpoint. Returns `None` if a key
    /// cannot be opened: then nothing is sent, and the lease is settled.
    pub(super) async fn find_signers(
        &self,
        lease: Box<Lease>,
        endpoint: Option<&Endpoint>,
    ) -> Option<(Box<Lease>, Signers, Option<Arc<TlsProfile>>)> {
        let profile = match endpoint {
            Some(endpoint) => self.client.profiles().of(endpoint, &self.endpoints).await,
            None => Ok(None),
        };
        let others_may_send = match (
            self.endpoints.signers(endpoint, self.clock.now_ms()),
            profile,
        ) {
            (Ok(signers), Ok(profile)) => return Some((lease, signers, profile)),
            (Err(unusable), _) => {
                self.log_unusable(endpoint, &unusable);
                true
            }
            (Ok(_), Err(unusable)) => {
                self.log_unusable_profile(endpoint, &unusable);
                matches!(unusable, UnusableProfile::Key(_))
            }
        };
        match others_may_send {
            true => self.leave_to_others(lease, SkipCause::Key).await,
            false => self.defer_unsent(lease).await,
        }
        None
    }

    /// Settles a lease of a notification that this server cannot send now and another one may, and skips its lane.
    pub(super) async fn leave_to_others(&self, lease: Box<Lease>, cause: SkipCause) {
        // Before the lease is settled, so that no claim after it gets the notification again.
        let lane = &lease.entry.notification.lane;
        let is_skipped = self.schedule.skipped_lanes().skip(lane, cause);
        match (is_skipped, cause) {
            // Due as before: another server may send it at once. Its attempt will say why it comes late.
            (true, SkipCause::Key) => {
                let due_ms = lease.entry.progress.next_due_ms();
                self.settle(lease, Settlement::Defer(due_ms)).await;
            }
            (true, SkipCause::Endpoint) => self.release(lease).await,
            (false, SkipCause::Key) => self.defer_unsent(lease).await,
            (false, SkipCause::Endpoint) => self.defer_without_capacity(lease).await,
        }
    }

    /// Settles a lease of a notification that cannot be signed now: it is due again in a moment.
    async fn defer_unsent(&self, lease: Box<Lease>) {
        let again_ms = self.clock.now_ms().saturating_add(DEFERRAL_MS);
        self.settle(lease, Settlement::Defer(again_ms)).await;
    }

    /// Tries again to open the keys of the endpoints whose lanes are skipped. If this server does not know the endpoint of a
    /// skipped lane, that may have been removed; then what names it is ended. So such a lane is not skipped any more if
    /// `asks_again`. Returns whether any lane can be claimed for again.
    pub(super) fn review_skipped_lanes(&self, asks_again: bool) -> bool {
        let now_ms = self.clock.now_ms();
        self.schedule.skipped_lanes().retain(|lane| {
            let Some(name) = lane.endpoint() else {
                return self.endpoints.signers(None, now_ms).is_err();
            };
            let Some(endpoint) = self.endpoints.known_for(&name, now_ms) else {
                // One that is known cannot be read now.
                return !asks_again || self.endpoints.known(&name).is_some();
            };
            self.endpoints.signers(Some(&endpoint), now_ms).is_err()
                || !self.opens_client_key(&endpoint)
        })
    }

    /// Whether the key of the client certificate of an endpoint can be opened, if it has one.
    fn opens_client_key(&self, endpoint: &Endpoint) -> bool {
        let tls = endpoint.settings.tls.as_ref();
        tls.and_then(|tls| tls.identity()).is_none_or(|identity| {
            let (keyring, name) = (self.endpoints.keyring(), endpoint.name.as_str());
            keyring.open_client_key(name, &identity.sealed_key).is_ok()
        })
    }

    fn log_unusable_profile(&self, endpoint: Option<&Endpoint>, unusable: &UnusableProfile) {
        if let Some(endpoint) = endpoint.filter(|endpoint| self.unusable_keys.is_new(endpoint)) {
            tracing::error!(
                endpoint = %endpoint.name, version = endpoint.version, why = %unusable,
                "the client certificate or the authorities of an endpoint cannot be used, so this server sends nothing to \
                 the endpoint; give this server the master key of the others and start it again, or set them again"
            );
        }
    }

    /// Lets a notification wait that was not sent because the proxy failed. No attempt is spent, and the lane counts
    /// nothing: the receiver has not failed.
    pub(super) async fn defer_without_proxy(&self, lease: Box<Lease>, why: &str) {
        tracing::debug!(
            notification = %lease.entry.notification.key, why,
            "a notification was not sent, because the proxy failed; it is due again in a moment"
        );
        let again_ms = self.clock.now_ms().saturating_add(PROXY_DEFERRAL_MS);
        let settlement = Settlement::DeferWithout(Lacked::Proxy, again_ms);
        self.settle(lease, settlement).await;
    }

    /// Logs a key once. Without an endpoint, the log says already that the default keys cannot sign.
    fn log_unusable(&self, endpoint: Option<&Endpoint>, UnusableKey { key_id, why }: &UnusableKey) {
        if let Some(endpoint) = endpoint.filter(|endpoint| self.unusable_keys.is_new(endpoint)) {
            tracing::error!(
                endpoint = %endpoint.name, version = endpoint.version, key = key_id, why,
                "a signing key of an endpoint cannot be opened, so this server sends nothing to the endpoint; give \
                 this server the master key of the others and start it again"
            );
        }
    }
}
