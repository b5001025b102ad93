//! The stories of the demonstration: what is registered, what the merchant answers, how it must end.

/// The topic of all notifications.
pub const TOPIC: &str = "payment.succeeded";

/// What the merchant answers: a status and a body.
pub type ScriptedReply = (u16, &'static str);

const SUCCESS: ScriptedReply = (200, "success");
const FAIL: ScriptedReply = (200, "fail");
pub const PAGE: ScriptedReply = (200, "<html><body>Please log in</body></html>");

/// What people do to a notification while its story runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twist {
    /// Nothing.
    None,
    /// It is replayed once it is dead.
    Replayed,
    /// It is cancelled before it is due.
    Cancelled,
}

/// One notification of the demonstration.
#[derive(Debug)]
pub struct Story {
    /// Its id.
    pub id: &'static str,
    /// What happens to it.
    pub title: &'static str,
    /// Its ladder's intervals.
    pub intervals: &'static [&'static str],
    /// Its delay.
    pub delay: &'static str,
    /// What the merchant answers, call by call; the last answer is repeated.
    pub replies: &'static [ScriptedReply],
    /// What people do to it.
    pub twist: Twist,
    /// In which state it must end.
    pub ends: &'static str,
    /// After how many attempts.
    pub attempts: usize,
}

/// All of them. The second ladder is Alipay's in fast motion: 1s 1s 2s for 4m 10m 10m.
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
