//! The body of a notification, in memory or left in the journal.

use bytes::Bytes;

/// A notification's body. The journal stores every body. A schedule in memory keeps only some of them,
/// above all those of notifications that are due soon. For the others, the attempt reads the body from
/// the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The bytes are in memory.
    Here(Bytes),
    /// Only the journal has the bytes. The number is the body's length.
    InJournal(usize),
}

impl Body {
    /// The bytes, if they are in memory.
    #[must_use]
    pub fn here(&self) -> Option<&Bytes> {
        match self {
            Self::Here(bytes) => Some(bytes),
            Self::InJournal(_) => None,
        }
    }

    /// The length of the body in bytes, also if only the journal has it.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Here(bytes) => bytes.len(),
            Self::InJournal(len) => *len,
        }
    }

    /// Whether the body is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes of the body are in memory: all or none.
    #[must_use]
    pub fn held_len(&self) -> usize {
        self.here().map_or(0, Bytes::len)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Here(bytes)
    }
}
