//! The bytes to deliver, or where they are kept.

use bytes::Bytes;

/// A notification's body. A schedule in memory leaves the bodies of notifications that are not due
/// soon to the journal, which has all of them; the attempt reads its body there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The very bytes.
    Here(Bytes),
    /// The journal alone has them; this many.
    InJournal(usize),
}

impl Body {
    /// The bytes, if they are here.
    #[must_use]
    pub fn here(&self) -> Option<&Bytes> {
        match self {
            Self::Here(bytes) => Some(bytes),
            Self::InJournal(_) => None,
        }
    }

    /// How many bytes it has, wherever they are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Here(bytes) => bytes.len(),
            Self::InJournal(len) => *len,
        }
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes of it are held in memory.
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
