//! A story as far as it has come: what the API and the merchant have answered so far, and what of that is
//! not as it should be.

use super::merchant::ArrivedCall;
use super::stories::{PAGE, Story, TOPIC, Twist};
use crate::domain::timestamp::parse_ms;
use serde_json::Value;

/// How long after a cancelled notification would have been due its silence counts.
const SILENCE_MS: i64 = 500;

/// A story as far as it has come.
#[derive(Debug)]
pub struct StoryProgress {
    /// The story that is played.
    pub story: &'static Story,
    /// The state that the API gave last.
    pub state: String,
    /// Why it is dead, if it is.
    pub cause: Option<String>,
    /// Attempts that lie ahead.
    pub attempts_left: u64,
    /// Whether people have done their part.
    pub stepped_in: bool,
    /// When its first attempt was due, in milliseconds since 1970.
    first_due_ms: Option<i64>,
    webhook_id: String,
    outcomes: Vec<String>,
    /// By how much each attempt started after it was due, in milliseconds.
    pub late_ms: Vec<i64>,
    /// What arrived at the merchant.
    pub calls: Vec<ArrivedCall>,
}

impl StoryProgress {
    /// Before it begins.
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

    /// Takes over the API's answer about the notification; whether that changes what is shown.
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
        // Not every answer of the API lists the attempts.
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

    /// Takes in what arrived at the merchant; how late it was, if this was its first attempt and
    /// that was registered for later.
    pub fn hear(&mut self, call: &ArrivedCall) -> Option<i64> {
        self.calls.push(call.clone());
        let delayed = self.story.delay != "0s" && self.calls.len() == 1;
        let first_due_ms = self.first_due_ms.filter(|_| delayed)?;
        Some(call.at_ms - first_due_ms)
    }

    /// Whether nothing more is to come.
    pub fn over(&self, now_ms: i64) -> bool {
        let acted = self.story.twist == Twist::None || self.stepped_in;
        // Both sides count: an answer reaches the journal after the merchant has given it.
        let recorded = self.outcomes.len() >= self.story.attempts;
        // A cancelled one must have let its due time pass in silence.
        let silent = self.story.twist != Twist::Cancelled
            || self
                .first_due_ms
                .is_none_or(|due_ms| now_ms > due_ms + SILENCE_MS);
        acted && recorded && silent && self.state == self.story.ends
    }

    /// What did not turn out as it should.
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
            format!("it is {}, not {}", self.state, story.ends),
        );
        expect(
            self.calls.len() == story.attempts,
            format!("{} calls, not {}", self.calls.len(), story.attempts),
        );
        expect(
            self.calls.iter().all(|call| call.verified),
            "a call was not signed rightly".to_string(),
        );
        expect(
            self.calls
                .iter()
                .all(|call| call.webhook_id == self.webhook_id),
            "a call came under another Webhook-Id".to_string(),
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
