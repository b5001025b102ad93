//! The progress of a story: the API's last answer and the calls that arrived at the merchant. Also compares the
//! result with the expected one.

use super::merchant::ArrivedCall;
use super::stories::{PAGE, Story, TOPIC, Twist};
use crate::domain::timestamp::parse_ms;
use serde_json::Value;

/// A cancelled notification must not be sent until this long after its due time.
const SILENCE_MS: i64 = 500;

/// The progress of a story.
#[derive(Debug)]
pub struct StoryProgress {
    /// The story.
    pub story: &'static Story,
    /// The state in the API's last answer.
    pub state: String,
    /// Why the notification is dead, if it is.
    pub cause: Option<String>,
    /// The number of future attempts.
    pub attempts_left: u64,
    /// Whether the story's change by hand was made.
    pub stepped_in: bool,
    /// When the first attempt was due, in milliseconds since 1970.
    first_due_ms: Option<i64>,
    webhook_id: String,
    outcomes: Vec<String>,
    /// By how much each attempt started after it was due, in milliseconds.
    pub late_ms: Vec<i64>,
    /// The calls that arrived at the merchant.
    pub calls: Vec<ArrivedCall>,
}

impl StoryProgress {
    /// The progress before the story begins.
    pub fn new(story: &'static Story) -> Self {
        Self {
            story,
            state: String::new(),
            cause: None,
            attempts_left: 0,
            stepped_in: false,
            first_due_ms: None,
            webhook_id: String::new(),
            outcomes: Vec::new(),
            late_ms: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Stores the API's answer about the notification. Returns whether the output must be redrawn.
    pub fn see(&mut self, answer: &Value) -> bool {
        let text = |name: &str| answer[name].as_str().map(str::to_string);
        let before = (self.state.clone(), self.attempts_left);
        self.state = text("state").unwrap_or_default();
        self.cause = text("cause");
        self.attempts_left = answer["attempts_left"].as_u64().unwrap_or(0);
        self.webhook_id = text("webhook_id").unwrap_or_default();
        let instant = |value: &Value| value.as_str().and_then(|text| parse_ms(text).ok());
        if self.first_due_ms.is_none() {
            self.first_due_ms = instant(&answer["next_attempt_at"]);
        }
        // Some answers of the API do not contain the attempts.
        if let Some(attempts) = answer["attempts"].as_array().filter(|all| !all.is_empty()) {
            let outcome = |attempt: &Value| attempt["outcome"].as_str().map(str::to_string);
            self.outcomes = attempts.iter().filter_map(outcome).collect();
            let late_ms = |attempt: &Value| {
                Some(instant(&attempt["started_at"])? - instant(&attempt["due_at"])?)
            };
            self.late_ms = attempts.iter().filter_map(late_ms).collect();
        }
        before != (self.state.clone(), self.attempts_left)
    }

    /// Stores a call that arrived at the merchant. If it is the first attempt of a delayed notification, returns
    /// how many milliseconds after its due time it arrived.
    pub fn hear(&mut self, call: &ArrivedCall) -> Option<i64> {
        self.calls.push(call.clone());
        let delayed = self.story.delay != "0s" && self.calls.len() == 1;
        let first_due_ms = self.first_due_ms.filter(|_| delayed)?;
        Some(call.at_ms - first_due_ms)
    }

    /// Whether the story has ended as expected.
    pub fn over(&self, now_ms: i64) -> bool {
        let acted = self.story.twist == Twist::None || self.stepped_in;
        // The journal records an attempt after the merchant has answered it, so the records are checked too.
        let recorded = self.outcomes.len() >= self.story.attempts;
        // A cancelled notification must not be sent at its due time, so the story continues until then.
        let silent = self.story.twist != Twist::Cancelled
            || self
                .first_due_ms
                .is_none_or(|due_ms| now_ms > due_ms + SILENCE_MS);
        acted && recorded && silent && self.state == self.story.ends
    }

    /// The results that are not as expected.
    pub fn problems(&self) -> Vec<String> {
        let story = self.story;
        let mut problems = Vec::new();
        let mut expect = |held: bool, problem: String| {
            if !held {
                problems.push(format!("{TOPIC} {}: {problem}", story.id));
            }
        };
        expect(
            self.state == story.ends,
            format!("the state is {}, not {}", self.state, story.ends),
        );
        expect(
            self.calls.len() == story.attempts,
            format!("{} calls, not {}", self.calls.len(), story.attempts),
        );
        expect(
            self.calls.iter().all(|call| call.verified),
            "a call had a wrong signature".to_string(),
        );
        expect(
            self.calls
                .iter()
                .all(|call| call.webhook_id == self.webhook_id),
            "a call had another Webhook-Id".to_string(),
        );
        let page = story.replies.first() == Some(&PAGE);
        let wrong = self.outcomes.iter().filter(|name| *name == "wrong_answer");
        expect(
            !page || wrong.count() == 2,
            "the login page did not count as a wrong answer".to_string(),
        );
        problems
    }
}
