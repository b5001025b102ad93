//! What a notification sends, as the journal has it: the content type, the headers of the caller and the body.

use crate::domain::ack::AckRule;
use crate::domain::body::Body;
use crate::domain::headers::Headers;

/// What a notification sends, and the answer that it expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The rule that says which answers acknowledge the notification; `None` if it is that of the endpoint.
    pub ack: Option<AckRule>,
    /// The content type of the body.
    pub content_type: String,
    /// The headers and the body. `None` if they are not kept any more.
    pub content: Option<PayloadContent>,
}

/// The part of a payload that is deleted some time after the notification has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadContent {
    /// The headers that the caller added.
    pub headers: Headers,
    /// The body, or its length if only that was read.
    pub body: Body,
}

/// The longest body that is read with what else an attempt needs, in bytes. Most are shorter, and a look-up of their own costs as
/// much as that of everything else. Longer ones are read when there is memory for them.
pub const SHORT_BODY: usize = 4_096;

/// Whether the bodies of the notifications of a page are read. If not, their lengths are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageBodies {
    /// Of all that the statement has read.
    All,
    /// Of none.
    None,
}

/// Whether bodies are read, or only their lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyReading {
    /// The bodies are read.
    Read,
    /// Only the lengths of the bodies are read.
    LengthOnly,
}
