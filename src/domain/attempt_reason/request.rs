//! What a receiver asked for with its answer, and what followed.

use crate::domain::sentence::sentences;

sentences!(
    /// What a receiver asked for, and what followed. It continues the sentence of the attempt.
    RequestReason {
        Stopped = ": the receiver asks for no more calls";
        NotStopped = ", which counts like any other failure here";
        MovedToDeadline { asks: AskedWait, to: String, from: String } = "; {asks} (Retry-After), so the next attempt is at {to}, when the window closes, and not at {from}";
        Moved { asks: AskedWait, to: String, from: String } = "; {asks} (Retry-After), so the next attempt is at {to} and not at {from}";
        NotEarlier { asks: AskedWait } = "; {asks} (Retry-After), and the next attempt is not before that anyway";
        AtTheEnd { asks: AskedWait } = "; {asks} (Retry-After), but the window closes when the next attempt is due";
        NoneLeft { asks: AskedWait } = "; {asks} (Retry-After), but no attempt is left";
        Unusable = "; its Retry-After is not one number of seconds or one HTTP date within 60 days, so it changes nothing";
        NotFollowed { asks: AskedWait } = "; {asks} (Retry-After), which is not followed here";
    }
);

sentences!(
    /// The wait that a receiver asks for.
    AskedWait {
        Unclear = "the receiver asks to wait";
        Until { at: String } = "the receiver asks to wait until {at}";
        For { long: String } = "the receiver asks to wait {long}";
    }
);
