//! Reading the replies of the scripts, which are flat arrays, item by item.

use crate::schedule::ScheduleError;
use bytes::Bytes;
use redis::Value;

/// The reply of a script, read from the first item to the last.
pub struct ScriptReply {
    items: std::vec::IntoIter<Value>,
}

/// One item: a number or bytes.
pub enum Item {
    /// A number.
    Number(i64),
    /// Bytes.
    Bytes(Bytes),
}

impl ScriptReply {
    /// Starts reading.
    pub fn of(value: Value) -> Result<Self, ScheduleError> {
        match value {
            Value::Array(items) => Ok(Self {
                items: items.into_iter(),
            }),
            _ => Err(unreadable()),
        }
    }

    /// Whether all items were read.
    pub fn is_empty(&self) -> bool {
        self.items.len() == 0
    }

    /// The next item.
    pub fn item(&mut self) -> Result<Item, ScheduleError> {
        match self.items.next() {
            Some(Value::Int(number)) => Ok(Item::Number(number)),
            Some(Value::BulkString(bytes)) => Ok(Item::Bytes(bytes.into())),
            _ => Err(unreadable()),
        }
    }

    /// The next item, a number.
    pub fn number(&mut self) -> Result<i64, ScheduleError> {
        match self.item()? {
            Item::Number(number) => Ok(number),
            Item::Bytes(_) => Err(unreadable()),
        }
    }

    /// The next item, bytes.
    pub fn bytes(&mut self) -> Result<Bytes, ScheduleError> {
        match self.item()? {
            Item::Bytes(bytes) => Ok(bytes),
            Item::Number(_) => Err(unreadable()),
        }
    }

    /// The next item, text.
    pub fn text(&mut self) -> Result<String, ScheduleError> {
        String::from_utf8(self.bytes()?.into()).map_err(|_| unreadable())
    }
}

fn unreadable() -> ScheduleError {
    ScheduleError::Corrupt("a script's reply has an unexpected format".to_string())
}
