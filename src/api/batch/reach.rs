//! What the stores did not take in time while a batch was registered, so that nothing else of the batch waits for the same.

use crate::api::problem::{Problem, ProblemKind};
use crate::domain::notification::Registration;
use crate::service::{Service, ServiceError};
use std::collections::HashMap;

/// Stores, or parts of them, that were out of reach for a registration of a batch, with the problem that it was answered with.
/// What needs them is answered likewise without a try, because each of them would wait for its own time-out.
#[derive(Debug, Default)]
pub(super) struct OutOfReach {
    /// The journal, or the schedule of a server without one.
    everything: Option<Problem>,
    /// The schedule. What is due later waits in the journal.
    schedule: Option<Problem>,
    /// Parts of a schedule of which others can be reached.
    parts: HashMap<usize, Problem>,
}

impl OutOfReach {
    /// The problem of a registration that need not be tried.
    pub(super) fn problem_of(
        &self,
        service: &Service,
        registration: &Registration,
    ) -> Option<&Problem> {
        if self.everything.is_some() {
            return self.everything.as_ref();
        }
        if self.schedule.is_none() && self.parts.is_empty() {
            return None;
        }
        let part = service.part_for(registration)?;
        self.schedule.as_ref().or_else(|| self.parts.get(&part))
    }

    /// Notes how a registration failed that needs this part of the schedule.
    pub(super) fn note(
        &mut self,
        service: &Service,
        part: Option<usize>,
        error: &ServiceError,
        problem: &Problem,
    ) {
        if problem.kind() != ProblemKind::Unavailable {
            return;
        }
        let problem = problem.clone();
        match (error, part) {
            (ServiceError::Schedule(_), Some(part)) if service.has_journal() => {
                match service.is_out_of_reach(part) {
                    true => self.parts.insert(part, problem),
                    false => self.schedule.replace(problem),
                };
            }
            _ => self.everything = Some(problem),
        }
    }
}
