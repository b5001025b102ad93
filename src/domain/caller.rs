//! The caller of a request: what its API key permits.

use crate::domain::api_key::{ApiKeyName, ApiKeyRecord, KeyTopics};
use crate::domain::role::Role;

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The name of its API key. `None` for the key of the settings, and where no key is needed.
    pub name: Option<ApiKeyName>,
    /// Its role.
    pub role: Role,
    /// The topics to which it is bound. `None`: all.
    pub topics: Option<KeyTopics>,
}

impl Caller {
    /// Everybody, where no key is needed, and whoever has the key of the settings.
    #[must_use]
    pub fn operator() -> Self {
        Self {
            name: None,
            role: Role::Operator,
            topics: None,
        }
    }

    /// Whoever has this key.
    #[must_use]
    pub fn of(record: &ApiKeyRecord) -> Self {
        Self {
            name: Some(record.name.clone()),
            role: record.role,
            topics: record.topics.clone(),
        }
    }

    /// Whether the caller may do something with notifications of this topic.
    #[must_use]
    pub fn may_use(&self, topic: &str) -> bool {
        self.topics
            .as_ref()
            .is_none_or(|topics| topics.contain(topic))
    }
}
