//! Remembers which endpoints have a key that cannot be opened, so that the log says each once.

use crate::domain::endpoint::{Endpoint, EndpointName};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The number of endpoints that are remembered as logged.
const MOST_LOGGED: usize = 10_000;

/// The versions of the endpoints whose keys could not be opened. Each is logged once.
#[derive(Default)]
pub(super) struct UnusableKeys(Mutex<HashMap<EndpointName, u32>>);

impl UnusableKeys {
    /// Whether this is the first time for this version of the endpoint.
    pub(super) fn is_new(&self, endpoint: &Endpoint) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() >= MOST_LOGGED {
            logged.clear();
        }
        logged.insert(endpoint.name.clone(), endpoint.version) != Some(endpoint.version)
    }
}
