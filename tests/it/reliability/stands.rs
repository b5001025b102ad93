//! How all notifications stand, as a server's lists show them.

use super::plan::{BY_HAND, LATER, Plan, TOPIC};
use crate::support::ringback::Api;
use reqwest::Method;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// How long it may take until all has ended, once nothing is killed any more. In long runs what was registered last may be due two and
/// a half minutes later.
const QUIET: Duration = Duration::from_secs(180 + 150);

/// How one notification stands in the end.
#[derive(Debug, Clone)]
pub struct Stand {
    /// Its topic.
    pub topic: String,
    /// Its state.
    pub state: String,
    /// Its webhook id.
    pub webhook_id: String,
    /// How many attempts were made.
    pub attempts_made: u64,
}

impl Stand {
    /// Whether the attempt that support staff wanted was made, however it ended.
    pub fn had_its_attempt_by_hand(&self) -> bool {
        self.topic == BY_HAND && self.attempts_made > 0
    }

    /// Whether it has ended, or is due much later.
    fn is_final(&self) -> bool {
        let is_over = self.state != "scheduled" && self.state != "in_flight";
        let is_scheduled = self.state == "scheduled";
        is_over || is_scheduled && (self.topic == LATER || self.had_its_attempt_by_hand())
    }
}

/// Waits until every notification but those due much later has ended: also what nobody asked for
/// again after a 503. Gives how all stand, by number, and whether they have ended in time.
pub async fn quiet(api: &Api) -> (HashMap<u32, Stand>, bool) {
    let waiting = async {
        loop {
            // All of them are asked for only when it looks as if they had ended. One is enough to know that they have not.
            let mut left = 0;
            for state in ["scheduled", "in_flight"] {
                let path = format!("/v1/notifications?topic={TOPIC}&state={state}&limit=1");
                let (status, page) = api.call(Method::GET, &path, None).await;
                assert_eq!(status, 200, "{page}");
                left += page["items"].as_array().expect("items").len();
            }
            if left == 0 {
                let stands = all(api).await;
                if stands.values().all(Stand::is_final) {
                    return stands;
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    match tokio::time::timeout(QUIET, waiting).await {
        Ok(stands) => (stands, true),
        // The account names what is missing.
        Err(_) => (all(api).await, false),
    }
}

async fn all(api: &Api) -> HashMap<u32, Stand> {
    let mut stands = HashMap::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/notifications?limit=1000&cursor={cursor}");
        let (status, page) = api.call(Method::GET, &path, None).await;
        assert_eq!(status, 200, "{page}");
        let text = |item: &Value, name: &str| item[name].as_str().expect("a text").to_string();
        for item in page["items"].as_array().expect("items") {
            let number = Plan::number_of(&text(item, "id")).expect("one of ours");
            let stand = Stand {
                topic: text(item, "topic"),
                state: text(item, "state"),
                webhook_id: text(item, "webhook_id"),
                attempts_made: item["attempts_made"].as_u64().expect("a number"),
            };
            stands.insert(number, stand);
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_string(),
            None => return stands,
        }
    }
}
