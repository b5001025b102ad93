//! The states of a notification, and the causes for which it becomes dead.

use serde::{Deserialize, Serialize};

/// The stored states. The API shows [`State::Scheduled`] as `in_flight` while the notification is leased: for
/// an attempt or, for a moment, for a change by hand or a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Another attempt will be made.
    Scheduled,
    /// The receiver acknowledged the notification.
    Delivered,
    /// The notification is a dead letter: no more attempts are made. [`Cause`] says why.
    Dead,
    /// The notification was cancelled before it was delivered, or it was discarded as a dead letter.
    Cancelled,
}

/// Why a notification became a dead letter, or was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Every interval of the ladder was used.
    LadderExhausted,
    /// The window of the series closed before the last interval of the ladder.
    WindowClosed,
    /// The receiver asked for no more calls, with the status 410.
    Refused,
    /// The address filter forbids the receiver's address.
    Blocked,
    /// Of a cancelled notification: a higher number of its order was registered.
    Superseded,
}

impl Cause {
    /// Whether a dead letter can have this cause.
    #[must_use]
    pub fn is_of_dead(self) -> bool {
        match self {
            Self::LadderExhausted | Self::WindowClosed | Self::Refused | Self::Blocked => true,
            Self::Superseded => false,
        }
    }
}

/// How a notification ended: a state other than scheduled, and the cause if it is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The receiver acknowledged the notification.
    Delivered,
    /// The notification became a dead letter, for this cause if it is known.
    Dead(Option<Cause>),
    /// The notification was cancelled, or discarded as a dead letter.
    Cancelled,
}

impl End {
    /// The end for a state and a cause; `None` if the state is scheduled.
    #[must_use]
    pub fn of(state: State, cause: Option<Cause>) -> Option<Self> {
        match state {
            State::Scheduled => None,
            State::Delivered => Some(Self::Delivered),
            State::Dead => Some(Self::Dead(cause)),
            State::Cancelled => Some(Self::Cancelled),
        }
    }

    /// The state of a notification with this end.
    #[must_use]
    pub fn state(self) -> State {
        match self {
            Self::Delivered => State::Delivered,
            Self::Dead(_) => State::Dead,
            Self::Cancelled => State::Cancelled,
        }
    }

    /// Why the notification is dead, if it is.
    #[must_use]
    pub fn cause(self) -> Option<Cause> {
        match self {
            Self::Dead(cause) => cause,
            Self::Delivered | Self::Cancelled => None,
        }
    }
}

/// Gives each variant of an enum a name. The same name is used in the API, in database columns and in logs.
macro_rules! named {
    ($type:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// Every variant, in the order of its definition.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name in the API, in database columns and in logs.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The variant with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use named;

named!(State {
    Scheduled = "scheduled",
    Delivered = "delivered",
    Dead = "dead",
    Cancelled = "cancelled",
});

named!(Cause {
    LadderExhausted = "ladder_exhausted",
    WindowClosed = "window_closed",
    Refused = "refused",
    Blocked = "blocked",
    Superseded = "superseded",
});
