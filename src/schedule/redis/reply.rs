//! Reading the flat replies of the scripts, item by item.

use crate::schedule::ScheduleError;
use bytes::Bytes;
use redis::Value;

/// What a script answered, read from front to back.
pub struct ScriptReply {
    items: std::vec::IntoIter<Value>,
}

/// One item that may stand for "nothing" or for an envelope.
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

    /// Whether all was read.
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
    ScheduleError::Corrupt("a script's reply has another shape than expected".to_string())
}
