//! What is said of a notification that cannot be read.

/// A notification whose row cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableNotification {
    /// Its topic and id, or the number of its row if these cannot be read either.
    pub name: String,
    /// What is wrong.
    pub problem: String,
}
