//! The order of notifications of one lane: a key, a number, and what the numbers mean.

use crate::domain::state::named;
use thiserror::Error;

/// Maximum length of an order key, in bytes.
pub const LONGEST_ORDER_KEY: usize = 128;
/// The largest number. JSON readers that know no integers keep numbers up to here exactly.
pub const LARGEST_ORDER_NUMBER: i64 = 9_007_199_254_740_991;

/// The place of a notification in the order of those with the same key in its lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderPlace {
    key: Box<str>,
    number: i64,
    mode: OrderMode,
}

/// What the numbers of an order key mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderMode {
    /// Only the highest number matters: it ends the lower ones that wait.
    Latest,
    /// Each number waits until the lower ones have ended.
    Strict,
}

named!(OrderMode {
    Latest = "latest",
    Strict = "strict",
});

/// The error for an order key or a number that is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadOrder {
    /// The key is empty, too long, or not printable ASCII.
    #[error("an order key is 1 to {LONGEST_ORDER_KEY} printable ASCII characters")]
    Key,
    /// The number is out of range.
    #[error("an order number is an integer from 0 to {LARGEST_ORDER_NUMBER}")]
    Number,
}

/// Why a registration cannot have the place in the order that it asks for. Nothing is kept then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OrderConflict {
    /// Another notification has this number.
    #[error("another notification of this order key has this number")]
    NumberTaken,
    /// The order key has the other mode.
    #[error(
        "this order key is used with another mode; a key keeps the mode of its first registration"
    )]
    OtherMode,
    /// A higher number of a strict order was sent already.
    #[error(
        "a higher number of this order key was sent already, so this one can no longer be sent before it"
    )]
    Passed,
}

impl OrderPlace {
    /// Checks the parts.
    ///
    /// # Errors
    /// [`BadOrder`] says which part is not valid.
    pub fn new(key: &str, number: i64, mode: OrderMode) -> Result<Self, BadOrder> {
        check_order_key(key)?;
        if !(0..=LARGEST_ORDER_NUMBER).contains(&number) {
            return Err(BadOrder::Number);
        }
        let key = key.into();
        Ok(Self { key, number, mode })
    }

    /// The key. It counts within its lane.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The number.
    #[must_use]
    pub fn number(&self) -> i64 {
        self.number
    }

    /// What the numbers of this key mean.
    #[must_use]
    pub fn mode(&self) -> OrderMode {
        self.mode
    }
}

/// Checks an order key.
///
/// # Errors
/// [`BadOrder::Key`].
pub fn check_order_key(key: &str) -> Result<(), BadOrder> {
    let is_printable = key.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    match !key.is_empty() && key.len() <= LONGEST_ORDER_KEY && is_printable {
        true => Ok(()),
        false => Err(BadOrder::Key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_numbers_have_bounds() {
        let check = |key: &str, number, expected| {
            let place = OrderPlace::new(key, number, OrderMode::Latest);
            assert_eq!(place.err(), expected, "{key} {number}");
        };
        check("o", 0, None);
        check(&"o".repeat(128), LARGEST_ORDER_NUMBER, None);
        check("", 0, Some(BadOrder::Key));
        check(&"o".repeat(129), 0, Some(BadOrder::Key));
        check("a\nb", 0, Some(BadOrder::Key));
        check("\u{e9}", 0, Some(BadOrder::Key));
        check("o", -1, Some(BadOrder::Number));
        check("o", LARGEST_ORDER_NUMBER + 1, Some(BadOrder::Number));
    }
}
