//! Examines what a server with these settings would find, and changes nothing: `ringback doctor`.
//!
//! Each part returns findings. A part that fails is a finding too, so the others are examined nevertheless. Every part has
//! a time limit.

mod alerts;
mod clocks;
mod destination;
mod files;
pub mod finding;
mod journal;
mod keys;
mod limits;
mod listening;
mod redis_certificates;
mod schedule;
mod traces;

pub use destination::ReachTarget;

use super::stores::open_journal_beside;
use crate::config::{JournalConfig, SettingsReview};
use crate::journal::Journal;
use destination::INSTANCE;
use finding::Finding;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long the examination of one part may take.
const LONGEST_PART: Duration = Duration::from_secs(15);

/// Examines everything that a server needs.
pub async fn examine(review: &SettingsReview) -> Vec<Finding> {
    let config = &review.config;
    let mut findings = files::examine(config);
    let surveying = within("journal", journal::examine(config)).await;
    let (found, survey) = surveying.unwrap_or_else(|finding| (vec![finding], None));
    findings.extend(found);
    // What belongs to another journal is told only if this one is known.
    let is_new = survey.as_ref().is_some_and(|survey| !survey.has_id);
    let opened = match survey.filter(journal::can_be_read) {
        Some(_) => open(&config.journal, &mut findings).await,
        None => None,
    };
    let id = match (&config.journal, &opened) {
        (JournalConfig::None, _) => Some(crate::schedule::redis::NO_JOURNAL.to_string()),
        (_, Some(journal)) => Some(journal.id().to_string()),
        (_, None) => None,
    };
    let redis = within("redis", schedule::examine(config, id.as_deref(), is_new)).await;
    findings.extend(redis.unwrap_or_else(|finding| vec![finding]));
    let keys = within("keys", keys::examine(review, opened.as_deref())).await;
    findings.extend(keys.unwrap_or_else(|finding| vec![finding]));
    let listening = within("listen", listening::examine(config, opened.as_deref())).await;
    findings.extend(listening.unwrap_or_else(|finding| vec![finding]));
    findings.extend(limits::examine(config));
    close(opened).await;
    findings.extend(alerts::examine(review).await);
    let traces = within("traces", traces::examine(config)).await;
    findings.extend(traces.unwrap_or_else(|finding| vec![finding]));
    findings
}

/// Finds out whether a destination can be reached, and if not why.
pub async fn reach(review: &SettingsReview, target: &ReachTarget) -> Vec<Finding> {
    let reaching = destination::examine(review, target);
    let found = within("destination", reaching).await;
    found.unwrap_or_else(|finding| vec![finding])
}

/// Opens the journal for reading only.
async fn open(config: &JournalConfig, findings: &mut Vec<Finding>) -> Option<Arc<dyn Journal>> {
    let opened = within("journal", open_journal_beside(config, INSTANCE)).await;
    match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => {
            let text = format!("the journal cannot be read: {error:#}");
            let mend = "see the message, and `ringback audit`";
            findings.push(Finding::problem("journal", text, mend));
            None
        }
        Err(finding) => {
            findings.push(finding);
            None
        }
    }
}

async fn close(journal: Option<Arc<dyn Journal>>) {
    if let Some(journal) = journal {
        // Nothing was written, so a journal that does not close is no loss.
        let _ = timeout(LONGEST_PART, journal.close()).await;
    }
}

/// Runs a part, or says that it took too long.
async fn within<Found>(
    subject: &'static str,
    part: impl Future<Output = Found>,
) -> Result<Found, Finding> {
    timeout(LONGEST_PART, part).await.map_err(|_| {
        let text = format!("no answer within {} s", LONGEST_PART.as_secs());
        Finding::problem(
            subject,
            text,
            "look at the load of the store and of the network",
        )
    })
}
