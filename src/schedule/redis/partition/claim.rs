//! Claiming from one partition, and putting off what cannot be read.

use super::{Partition, expiry, gone};
use crate::clock::Clock as _;
use crate::domain::lane::Lane;
use crate::domain::lease::Expiry;
use crate::schedule::envelope::{self, Decoded};
use crate::schedule::redis::claimed_lane::ClassMarks;
use crate::schedule::redis::writes::Settling;
use crate::schedule::{
    BareLease, CLOCKS_APART_MS, ClaimQuota, Claimed, Lease, PER_VISIT, ScheduleError,
    SettingsSource,
};

/// Maximum number of leases in one claim: a script must not block Redis for much longer than a millisecond.
const MOST_CLAIMED: usize = 128;
/// Maximum bytes of envelopes in one claim.
const MOST_CLAIMED_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of expired leases returned, and of ended entries forgotten, in one claim.
const MAX_EXPIRED_PER_CLAIM: usize = 256;
/// After how long an entry that cannot be read is due again, in milliseconds: meanwhile it may be repaired,
/// or a server of a newer version may claim it.
const UNREADABLE_MS: i64 = 60_000;

impl Partition {
    /// See [`crate::schedule::ScheduleLeases::claim`]; at most [`MOST_CLAIMED`] at a time. The lanes `skipped` get
    /// nothing.
    ///
    /// A claim that was not answered may have been executed nevertheless, and then no server would use its
    /// leases until they expire. So it is repeated with the same number, and gives them again.
    pub async fn claim(
        &self,
        quota: ClaimQuota,
        skipped: impl Iterator<Item = &Lane> + Send,
    ) -> Result<Claimed, ScheduleError> {
        let mut last = self.last_claim.lock().await;
        let number = match *last {
            (number, true) => number + 1,
            (number, false) => number,
        };
        *last = (number, false);
        let limits = &self.context.limits;
        // The part that is not claimed now can be kept as well.
        let unclaimed = quota.total.saturating_sub(MOST_CLAIMED);
        let kept_for_idle = quota.kept_for_idle.saturating_sub(unclaimed);
        let kept_for_troubled = quota.kept_for_troubled.saturating_sub(unclaimed);
        let mut command = self.context.call(&self.claim);
        command
            .arg(quota.total.min(MOST_CLAIMED))
            .arg(limits.lease_ms)
            .arg(PER_VISIT)
            .arg(
                limits
                    .remember_ms
                    .map(|ms| ms.to_string())
                    .unwrap_or_default(),
            )
            .arg(MOST_CLAIMED_BYTES)
            .arg(MAX_EXPIRED_PER_CLAIM)
            .arg(self.context.keys.claim())
            .arg(number)
            .arg(kept_for_idle)
            .arg(quota.doubtful)
            .arg(quota.probing)
            .arg(u8::from(limits.settings_source == SettingsSource::Journal))
            .arg(kept_for_troubled);
        for lane in skipped {
            command.arg(lane.as_str());
        }
        let mut reply = self
            .context
            .run(&self.claims, &self.claim, &command)
            .await?;
        *last = (number, true);
        let next_due_ms = Some(reply.number()?).filter(|at_ms| *at_ms >= 0);
        let is_limited = reply.number()? == 1;
        if reply.number()? == 1 {
            self.context.writes.report_loss();
        }
        let lost_ms = reply.number()?;
        let is_confirmed = self.context.server.servers().is_confirmed();
        let expiry = expiry(&mut reply)?;
        let (mut leases, mut bare_leases, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
        let mut marks = ClassMarks::default();
        while !reply.is_empty() {
            let key = reply.text()?;
            let envelope = reply.bytes()?;
            let (class, lane) = marks.read(reply.item()?)?;
            match envelope::decode_any(&key, &envelope) {
                Ok(Decoded::Bare(mut bare)) => {
                    bare.raise_fence |= lost_ms > 0 || !is_confirmed;
                    bare_leases.push(BareLease::granted(bare, expiry, class, lane));
                }
                Ok(Decoded::Whole(mut entry)) => {
                    // An entry that was accepted before a loss may have older progress here than in the
                    // journal, and the lease of a change by hand may be lost as well.
                    let may_be_older = !is_confirmed
                        || lost_ms > 0
                            && entry.notification.registered_ms <= lost_ms + CLOCKS_APART_MS;
                    entry.verify |= may_be_older;
                    entry.raise_fence |= may_be_older;
                    leases.push(Lease::granted(*entry, expiry).in_lane(class, lane));
                }
                // It must not be dropped, and an error here would delay all the others.
                Err(error) => {
                    tracing::error!(
                        notification = key,
                        %error,
                        "a notification in the schedule cannot be read, so it is not sent; it is claimed again in \
                         about a minute"
                    );
                    unreadable.push(key);
                }
            }
        }
        self.defer(unreadable, expiry);
        Ok(Claimed {
            leases,
            bare: bare_leases,
            next_due_ms,
            is_limited,
        })
    }

    /// Gives the leases on entries that cannot be read back, in the background. An entry whose lease is not
    /// given back can be claimed again when that expires.
    pub(super) fn defer(&self, keys: Vec<String>, expiry: Expiry) {
        let again_ms = self.context.clock.now_ms().saturating_add(UNREADABLE_MS);
        for key in keys {
            let settlements = self.settlements.clone();
            tokio::spawn(async move {
                let deferred = settlements.call(Settling::Defer(key.clone(), expiry, again_ms));
                if let Err(error) | Ok(Err(error)) = deferred.await.map_err(gone) {
                    tracing::debug!(
                        notification = key,
                        %error,
                        "settling the lease of an unreadable notification failed; if it is not settled, it expires, \
                         and then the notification is claimed again"
                    );
                }
            });
        }
    }
}
