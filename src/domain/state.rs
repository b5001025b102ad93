//! Where a notification stands, and why a dead one is dead.

use serde::{Deserialize, Serialize};

/// The stored states. What the API shows as `in_flight` is [`State::Scheduled`] with a lease out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// An attempt lies ahead.
    Scheduled,
    /// The receiver acknowledged it.
    Delivered,
    /// Parked as a dead letter; [`Cause`] says why.
    Dead,
    /// Called off by its owner before it was delivered, or discarded as a dead letter.
    Cancelled,
}

/// Why a notification was parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Every interval of the ladder was used.
    LadderExhausted,
    /// The deadline cut the ladder short.
    WindowClosed,
    /// The receiver asked to stop (410).
    Refused,
    /// The address may not be called.
    Blocked,
}

/// How a notification ended: any state but scheduled, with a cause only if it is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The receiver acknowledged it.
    Delivered,
    /// It was parked, for this cause if one is known.
    Dead(Option<Cause>),
    /// Its owner called it off, or it was discarded.
    Cancelled,
}

impl End {
    /// The end that a state is; `None` of what is still scheduled.
    #[must_use]
    pub fn of(state: State, cause: Option<Cause>) -> Option<Self> {
        match state {
            State::Scheduled => None,
            State::Delivered => Some(Self::Delivered),
            State::Dead => Some(Self::Dead(cause)),
            State::Cancelled => Some(Self::Cancelled),
        }
    }

    /// The state that it is.
    #[must_use]
    pub fn state(self) -> State {
        match self {
            Self::Delivered => State::Delivered,
            Self::Dead(_) => State::Dead,
            Self::Cancelled => State::Cancelled,
        }
    }

    /// Why it is dead.
    #[must_use]
    pub fn cause(self) -> Option<Cause> {
        match self {
            Self::Dead(cause) => cause,
            Self::Delivered | Self::Cancelled => None,
        }
    }
}

/// Pairs each variant with its one name, for the wire, the columns and the logs.
macro_rules! named {
    ($type:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// Every variant, in the order of its definition.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the wire and in columns.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The variant of that name.
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
});
