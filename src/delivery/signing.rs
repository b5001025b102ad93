//! Finds what signs an attempt, and waits if a key of the endpoint cannot be opened.
//!
//! A server that was started before the first key was added, and without the master key, cannot open the key. It must
//! not sign with another one: the receiver would refuse the call, and the attempt would be spent. So it keeps the
//! lease for [`WAIT`] and gives it back unused, without an attempt. Any server may claim the notification then,
//! also one that can open the key. While no server can, each lease costs one look at the endpoint per [`WAIT`].

use super::worker::Worker;
use crate::domain::endpoint::Endpoint;
use crate::domain::signers::Signers;
use crate::keyring::UnusableKey;
use crate::schedule::Lease;
use std::time::Duration;

/// How long a lease is kept if a key of its endpoint cannot be opened. Shorter than the margin of a lease, so the
/// lease does not expire, and no attempt is recorded as interrupted.
const WAIT: Duration = Duration::from_secs(1);

impl Worker {
    /// What signs an attempt under this lease. Returns `None` if a key cannot be opened: then nothing is sent, and
    /// the lease is released.
    pub(super) async fn find_signers(
        &self,
        lease: Lease,
        endpoint: Option<&Endpoint>,
    ) -> Option<(Lease, Signers)> {
        let Some(endpoint) = endpoint else {
            return Some((lease, Signers::default_secret()));
        };
        match self.endpoints.signers(endpoint, self.clock.now_ms()) {
            Ok(signers) => Some((lease, signers)),
            Err(unusable) => {
                self.log_unusable(endpoint, &unusable);
                tokio::select! {
                    () = tokio::time::sleep(WAIT) => {}
                    () = self.interrupt.cancelled() => {}
                    () = self.abandon.cancelled() => {}
                }
                self.release(lease).await;
                None
            }
        }
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
