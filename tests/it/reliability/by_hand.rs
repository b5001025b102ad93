//! What owners and support staff do to notifications by hand, while things are killed: each asks until it
//! is done or too late, and what was answered is written down.

use super::callers::{AGAIN_MS, Callers, MOST_TRIES};
use super::plan::{Change, Plan};
use crate::support::chance::Chance;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long support staff wait before they look at a dead letter again, or for it.
const STAFF_AGAIN_MS: std::ops::Range<u64> = 300..900;
/// How long after its move a notification is due.
const MOVED_TO: &str = "300ms";

impl Change {
    /// For messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::CancelElsewhere => "cancelled at another server",
            Self::Move => "moved",
            Self::Retry => "attempted by hand",
            Self::Replay => "replayed",
            Self::Discard => "discarded",
        }
    }

    /// Whether it ends a notification: no attempt may begin once it was answered.
    pub fn is_end(self) -> bool {
        match self {
            Self::Cancel | Self::CancelElsewhere | Self::Discard => true,
            Self::Move | Self::Retry | Self::Replay => false,
        }
    }

    /// Whether it is made to dead letters.
    fn is_for_dead(self) -> bool {
        match self {
            Self::Cancel | Self::CancelElsewhere | Self::Move | Self::Retry => false,
            Self::Replay | Self::Discard => true,
        }
    }

    fn request(self, plan: &Plan) -> (Method, String) {
        let of = |list: &str, verb: &str| format!("/v1/{list}/{}/{}{verb}", plan.topic, plan.id());
        match self {
            Self::Cancel | Self::CancelElsewhere => (Method::DELETE, of("notifications", "")),
            Self::Move => (Method::PATCH, of("notifications", "")),
            Self::Retry => (Method::POST, of("notifications", "/retry")),
            Self::Replay => (Method::POST, of("dead-letters", "/replay")),
            Self::Discard => (Method::DELETE, of("dead-letters", "")),
        }
    }

    /// The body of the request.
    fn body(self) -> Option<Value> {
        match self {
            Self::Move => Some(json!({ "delay": MOVED_TO })),
            Self::Cancel | Self::CancelElsewhere | Self::Retry | Self::Replay | Self::Discard => {
                None
            }
        }
    }

    /// Whether a notification in this state, which refuses the change, may allow it later.
    fn may_be_possible(self, state: &str) -> bool {
        match self {
            // It may be cancelled when the attempt that is in flight has ended. One that is moved may have been, by a request
            // whose answer was lost, and have been attempted since.
            Self::Cancel | Self::CancelElsewhere | Self::Move | Self::Retry => state == "in_flight",
            // Not dead yet.
            Self::Replay | Self::Discard => state == "in_flight" || state == "scheduled",
        }
    }

    fn again(self, chance: &mut Chance) -> Duration {
        chance.millis(match self {
            Self::Cancel | Self::CancelElsewhere | Self::Move | Self::Retry => AGAIN_MS,
            Self::Replay | Self::Discard => STAFF_AGAIN_MS,
        })
    }
}

impl Callers {
    /// Whether support staff see one in the state that the change is for. Nobody asks for a change of what
    /// cannot be changed, over and over.
    async fn is_seen_dead(&self, plan: &Plan, chance: &mut Chance) -> bool {
        let url = self.servers().any(None, chance);
        let path = format!("/v1/notifications/{}/{}", plan.topic, plan.id());
        match self.ask(url.as_deref(), Method::GET, &path, None).await {
            Some((200, view)) => view["state"] != "scheduled" && view["state"] != "in_flight",
            _ => false,
        }
    }

    /// Makes a change by hand, asking again until it is done or too late.
    pub async fn change(&self, plan: &Plan, change: Change, mut chance: Chance) {
        let by = self
            .answers()
            .by_number
            .entry(plan.number)
            .or_default()
            .by
            .clone();
        let but = by.filter(|_| change == Change::CancelElsewhere);
        let (method, path) = change.request(plan);
        let body = change.body();
        for _ in 0..MOST_TRIES {
            if change.is_for_dead() && !self.is_seen_dead(plan, &mut chance).await {
                tokio::time::sleep(change.again(&mut chance)).await;
                continue;
            }
            let url = self.servers().any(but.as_deref(), &mut chance);
            let asked = self
                .ask(url.as_deref(), method.clone(), &path, body.as_ref())
                .await;
            match asked {
                Some((200, _)) => {
                    let at = Instant::now();
                    let mut answers = self.answers();
                    *answers.changes.entry(change).or_default() += 1;
                    answers.by_number.entry(plan.number).or_default().changed = Some(at);
                    return;
                }
                Some((409, problem)) => {
                    let state = problem["state"].as_str().unwrap_or_default();
                    if !change.may_be_possible(state) {
                        return;
                    }
                }
                Some((503, _)) | None => {
                    let mut answers = self.answers();
                    let answered = answers.by_number.entry(plan.number).or_default();
                    // Where there was nobody to ask, nothing was asked.
                    answered.doubtful += u32::from(url.is_some());
                }
                Some((status, problem)) => {
                    let id = plan.id();
                    self.fault(format!(
                        "{change:?} of {id} was answered {status}: {problem}"
                    ));
                    return;
                }
            }
            tokio::time::sleep(change.again(&mut chance)).await;
        }
        self.fault(format!("{} was never {}", plan.id(), change.name()));
    }
}
