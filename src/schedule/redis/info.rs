//! Replies to single commands as text, and the fields of a reply to `INFO`.

use redis::Value;

/// The text of a reply; `None` if it is something else.
pub fn text(reply: &Value) -> Option<String> {
    match reply {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// One field of a reply to `INFO`, without blanks around it.
pub fn field<'info>(info: &'info str, name: &str) -> Option<&'info str> {
    let mut lines = info.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim())
}
