//! Finds what signs an attempt and what TLS shows, and waits if a key of the endpoint cannot be opened.
//!
//! A server that was started before the first key was added, and without the master key, cannot open the key. It must
//! not sign with another one: the receiver would refuse the call, and the attempt would be spent. So it settles the
//! lease without an attempt, and the notification is due again after [`DEFERRAL_MS`]. All servers know that instant, so
//! one that can open the key claims the notification as probably as one that cannot. If the lease were kept and
//! then released, the server that released it would be the first to claim it again, every time.

use super::tls_profiles::{TlsProfile, UnusableProfile};
use super::worker::Worker;
use crate::domain::endpoint::Endpoint;
use crate::domain::signers::Signers;
use crate::keyring::UnusableKey;
use crate::schedule::{Lease, Settlement};
use std::sync::Arc;

/// How long a notification waits until a server tries again to open the keys of its endpoint, in milliseconds.
const DEFERRAL_MS: i64 = 1_000;
/// How long a notification waits after the proxy failed, in milliseconds. While it fails, everything that is due
/// comes here again after this time.
const PROXY_DEFERRAL_MS: i64 = 3_000;

impl Worker {
    /// What signs an attempt under this lease, and the TLS configuration of its endpoint. Returns `None` if a key cannot be opened: then nothing is sent, and
    /// the notification is due again after [`DEFERRAL_MS`].
    pub(super) async fn find_signers(
        &self,
        lease: Lease,
        endpoint: Option<&Endpoint>,
    ) -> Option<(Lease, Signers, Option<Arc<TlsProfile>>)> {
        let Some(endpoint) = endpoint else {
            return Some((lease, Signers::default_secret(), None));
        };
        let profile = self.client.profiles().of(endpoint, &self.endpoints).await;
        match self.endpoints.signers(endpoint, self.clock.now_ms()) {
            Ok(signers) => match profile {
                Ok(profile) => return Some((lease, signers, profile)),
                Err(unusable) => self.log_unusable_profile(endpoint, &unusable),
            },
            Err(unusable) => self.log_unusable(endpoint, &unusable),
        }
        let again_ms = self.clock.now_ms().saturating_add(DEFERRAL_MS);
        self.settle(lease, Settlement::Defer(again_ms)).await;
        None
    }

    fn log_unusable_profile(&self, endpoint: &Endpoint, unusable: &UnusableProfile) {
        if self.unusable_keys.is_new(endpoint) {
            tracing::error!(
                endpoint = %endpoint.name, version = endpoint.version, why = %unusable,
                "the client certificate or the authorities of an endpoint cannot be used, so this server sends nothing to \
                 the endpoint; give this server the master key of the others and start it again, or set them again"
            );
        }
    }

    /// Lets a notification wait that was not sent because the proxy failed. No attempt is spent, and the lane counts
    /// nothing: the receiver has not failed.
    pub(super) async fn defer_without_proxy(&self, lease: Lease, why: &str) {
        tracing::debug!(
            notification = %lease.entry.notification.key, why,
            "a notification was not sent, because the proxy failed; it is due again in a moment"
        );
        let again_ms = self.clock.now_ms().saturating_add(PROXY_DEFERRAL_MS);
        self.settle(lease, Settlement::Defer(again_ms)).await;
    }

    fn log_unusable(&self, endpoint: &Endpoint, UnusableKey { key_id, why }: &UnusableKey) {
        if self.unusable_keys.is_new(endpoint) {
            tracing::error!(
                endpoint = %endpoint.name, version = endpoint.version, key = key_id, why,
                "a signing key of an endpoint cannot be opened, so this server sends nothing to the endpoint; give \
                 this server the master key of the others and start it again"
            );
        }
    }
}
