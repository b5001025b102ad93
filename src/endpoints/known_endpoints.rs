//! The endpoints that a server has read, by name, and how far the changes of the store are read with them.

use super::store::ChangesReached;
use crate::clock::millis;
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::journal::EndpointRow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// For how long after a complete reading has begun what it has found may be used for what is registered meanwhile, in
/// milliseconds. Readings follow each other faster, unless the store fails.
pub(super) const KNOWN_FOR_MS: i64 = 2_000;

/// See the documentation of the module. The default has none.
#[derive(Default)]
pub(super) struct KnownEndpoints {
    pub(super) by_name: BTreeMap<EndpointName, Arc<Endpoint>>,
    /// How far the changes were read.
    pub(super) reached: ChangesReached,
    /// Those that this server has changed and has not read since, with the number of the change. What a reading finds of them
    /// may be older; and what this server knows of them may be, if another server has changed them in the same moment.
    pub(super) changed_here: BTreeMap<EndpointName, u64>,
    /// The number of the last change.
    changes: u64,
    /// When the last complete reading began.
    pub(super) confirmed: Option<Confirmed>,
    /// Names that rows have which cannot be read, or that are missing in the store. Each was logged once.
    pub(super) reported: BTreeSet<String>,
}

/// When a reading began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Confirmed {
    /// In milliseconds since 1970, by the clock that the servers share.
    pub(super) at_ms: i64,
    /// By the clock of this process, which is not set back.
    pub(super) at: Instant,
}

impl KnownEndpoints {
    /// Whether what was read may be used for something that was registered at this instant.
    pub(super) fn counts_for(&self, registered_ms: i64, now_ms: i64) -> bool {
        self.confirmed.is_some_and(|confirmed| {
            // The clock may have been set back since.
            let began_ms = now_ms.saturating_sub(millis(confirmed.at.elapsed()));
            registered_ms <= began_ms.min(confirmed.at_ms).saturating_add(KNOWN_FOR_MS)
        })
    }

    /// Notes that this server has changed an endpoint.
    pub(super) fn note_change(&mut self, name: &EndpointName) {
        self.changes += 1;
        self.changed_here.insert(name.clone(), self.changes);
    }

    /// Takes in the rows of a reading. Returns the names of those that this server has changed meanwhile: they are left as
    /// they are.
    pub(super) fn take_page(&mut self, rows: Vec<EndpointRow>) -> Vec<EndpointName> {
        let mut left = Vec::new();
        for row in rows {
            match EndpointName::parse(&row.name) {
                Ok(name) if self.changed_here.contains_key(&name) => left.push(name),
                Ok(_) | Err(_) => self.take(row),
            }
        }
        left
    }

    /// Takes in a row. A row that cannot be read makes its endpoint unknown: to use its last settings would be to
    /// ignore a change.
    pub(super) fn take(&mut self, row: EndpointRow) {
        match row.read {
            Ok(stored) => {
                self.reported.remove(&row.name);
                let name = stored.endpoint.name.clone();
                if stored.is_removed {
                    self.by_name.remove(&name);
                } else {
                    self.by_name.insert(name, Arc::new(stored.endpoint));
                }
            }
            Err(why) => {
                self.by_name.retain(|name, _| name.as_str() != row.name);
                if self.reported.insert(row.name.clone()) {
                    tracing::error!(
                        endpoint = row.name,
                        why,
                        "there is an endpoint that this server cannot read; notifications that name it wait; \
                         set it again, or update this server if another version wrote it"
                    );
                }
            }
        }
    }

    /// Forgets those of `before` that the store does not have any more, not even as removed ones: it has lost them.
    pub(super) fn forget_lost(&mut self, before: Vec<EndpointName>, names: &BTreeSet<String>) {
        let lost: Vec<EndpointName> = (before.into_iter())
            .filter(|name| !names.contains(name.as_str()))
            .filter(|name| self.by_name.remove(name).is_some())
            .collect();
        if let Some(first) = lost.first() {
            tracing::error!(
                lost = lost.len(),
                endpoint = %first,
                "Redis has lost endpoints, of which the log names the first; registrations that name them are refused, \
                 and what is still pending for them waits; set them again"
            );
        }
    }
}
