//! The stories of the demonstration. A story says how a notification is registered, what the merchant answers,
//! and which result is expected.

/// The topic of all notifications.
pub const TOPIC: &str = "payment.succeeded";

/// An answer of the merchant: a status and a body.
pub type ScriptedReply = (u16, &'static str);

const SUCCESS: ScriptedReply = (200, "success");
const FAIL: ScriptedReply = (200, "fail");
pub const PAGE: ScriptedReply = (200, "<html><body>Please log in</body></html>");

/// The change by hand that is made while a story runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twist {
    /// No change is made.
    None,
    /// The notification is replayed after it has become a dead letter.
    Replayed,
    /// The notification is cancelled before it is due.
    Cancelled,
}

/// One notification of the demonstration.
#[derive(Debug)]
pub struct Story {
    /// The notification's id.
    pub id: &'static str,
    /// A short description of the story.
    pub title: &'static str,
    /// The intervals of the ladder.
    pub intervals: &'static [&'static str],
    /// The delay of the first attempt.
    pub delay: &'static str,
    /// The merchant's answers, one for each call. The last answer is repeated.
    pub replies: &'static [ScriptedReply],
    /// The change by hand.
    pub twist: Twist,
    /// The expected last state.
    pub ends: &'static str,
    /// The expected number of attempts.
    pub attempts: usize,
}

/// All stories. The intervals 1s 1s 2s of the first two stand for Alipay's 4m 10m 10m.
pub static STORIES: &[Story] = &[
    Story {
        id: "order-1",
        title: "success at once",
        intervals: &["1s", "1s", "2s"],
        delay: "0s",
        replies: &[SUCCESS],
        twist: Twist::None,
        ends: "delivered",
        attempts: 1,
    },
    Story {
        id: "order-2",
        title: "`fail` twice, then success",
        intervals: &["1s", "1s", "2s"],
        delay: "0s",
        replies: &[FAIL, FAIL, SUCCESS],
        twist: Twist::None,
        ends: "delivered",
        attempts: 3,
    },
    Story {
        id: "order-3",
        title: "a login page; dead; replayed",
        intervals: &["1s"],
        delay: "0s",
        replies: &[PAGE, PAGE, SUCCESS],
        twist: Twist::Replayed,
        ends: "delivered",
        attempts: 3,
    },
    Story {
        id: "order-4",
        title: "due in 4s, cancelled before",
        intervals: &["1s"],
        delay: "4s",
        replies: &[SUCCESS],
        twist: Twist::Cancelled,
        ends: "cancelled",
        attempts: 0,
    },
    Story {
        id: "order-5",
        title: "due in 3s",
        intervals: &["1s"],
        delay: "3s",
        replies: &[SUCCESS],
        twist: Twist::None,
        ends: "delivered",
        attempts: 1,
    },
];
