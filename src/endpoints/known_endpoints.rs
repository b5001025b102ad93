//! The endpoints that a server has read, by name, and how far the changes of the store are read with them.

use super::store::ChangesReached;
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::journal::EndpointRow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// See the documentation of the module. The default has none.
#[derive(Default)]
pub(super) struct KnownEndpoints {
    pub(super) by_name: BTreeMap<EndpointName, Arc<Endpoint>>,
    /// How far the changes were read.
    pub(super) reached: ChangesReached,
    /// Those that this server has changed since the last reading began. What that reading finds of them may be older; and
    /// what this server knows of them may be, if another server has changed them in the same moment.
    pub(super) changed_here: BTreeSet<EndpointName>,
    /// Names that rows have which cannot be read, or that are missing in the store. Each was logged once.
    pub(super) reported: BTreeSet<String>,
}

impl KnownEndpoints {
    /// Takes in the rows of a reading. Returns the names of those that this server has changed meanwhile: they are left as
    /// they are.
    pub(super) fn take_page(&mut self, rows: Vec<EndpointRow>) -> Vec<EndpointName> {
        let mut left = Vec::new();
        for row in rows {
            match EndpointName::parse(&row.name) {
                Ok(name) if self.changed_here.contains(&name) => left.push(name),
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
