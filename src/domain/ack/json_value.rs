//! JSON from outside, read as it is written.
//!
//! `serde_json` reads an object whose only member has the name of its own marker for raw text as the value within that text,
//! also from a receiver. Values that are compared are read without that.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// The largest integer up to which every integer is a floating-point number of its own.
pub(super) const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

/// A value as it is written.
pub(super) struct PlainValue(pub(super) Value);

impl<'de> Deserialize<'de> for PlainValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor).map(Self)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(PlainValue(item)) = items.next_element()? {
            read.push(item);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some((name, PlainValue(member))) = members.next_entry::<String, _>()? {
            read.insert(name, member);
        }
        Ok(Value::Object(read))
    }
}

/// How deep a value with which an answer is compared may be nested. The store keeps it within other values, and reads 127 levels.
pub const DEEPEST_EQUALS: usize = 16;

/// Reads a value with which answers can be compared; `None` if this is no JSON, is nested deeper than [`DEEPEST_EQUALS`], or has
/// a number that cannot be kept as it is written.
#[must_use]
pub fn read_equals(text: &str) -> Option<Value> {
    let PlainValue(value) = serde_json::from_str(text).ok()?;
    is_comparable(&value, DEEPEST_EQUALS).then_some(value)
}

/// Reads a value as it is written.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    PlainValue::deserialize(deserializer).map(|PlainValue(value)| value)
}

/// Whether a value is nested no deeper than this, and all its numbers are the ones that were written.
fn is_comparable(value: &Value, depth: usize) -> bool {
    match value {
        Value::Number(number) => {
            // An integer that does not fit in 64 bits is read as a floating-point number.
            !number.is_f64()
                || number
                    .as_f64()
                    .is_some_and(|number| number.abs() < LARGEST_EXACT)
        }
        Value::Array(items) => depth > 0 && items.iter().all(|item| is_comparable(item, depth - 1)),
        Value::Object(members) => {
            depth > 0
                && members
                    .values()
                    .all(|member| is_comparable(member, depth - 1))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Option<Value> {
        serde_json::from_str(text)
            .ok()
            .map(|PlainValue(value)| value)
    }

    #[test]
    fn values_are_read_as_by_the_library() {
        for text in [
            "null",
            "true",
            "0",
            "-1",
            "18446744073709551615",
            "-9223372036854775808",
            "1.5",
            "0e0",
            "1e300",
            "\"\\u00e9\\n\"",
            "[]",
            "[1,[2,{}]]",
            "{\"a\":{\"b\":[null]},\"c\":\"\"}",
            " [ 1 , 2 ] ",
        ] {
            assert_eq!(plain(text), serde_json::from_str(text).ok(), "{text}");
        }
        for bad in [
            "",
            "[",
            "{\"a\"}",
            "01",
            "1 2",
            "nul",
            "\"\\ud800\"",
            "1e999",
        ] {
            assert_eq!(plain(bad), None, "{bad}");
        }
        let deep = format!("{}1{}", "[".repeat(128), "]".repeat(128));
        assert_eq!(plain(&deep), None);
    }

    #[test]
    fn a_name_that_means_something_to_the_library_means_nothing_here() {
        let text = r#"{"$serde_json::private::RawValue":"{\"err_no\":0}"}"#;
        let read = plain(text).expect("read");
        assert_eq!(read.pointer("/err_no"), None);
        assert_eq!(read["$serde_json::private::RawValue"], "{\"err_no\":0}");
    }

    #[test]
    fn what_is_compared_is_not_deep_and_exact() {
        fn check(text: &str, expected: bool) {
            assert_eq!(
                is_comparable(&plain(text).expect(text), 2),
                expected,
                "{text}"
            );
        }
        check("[[1]]", true);
        check("{\"a\":{\"b\":1}}", true);
        check("[[[1]]]", false);
        check("[{\"a\":[]}]", false);
        check("18446744073709551615", true);
        check("18446744073709551616", false);
        check("[-0.5, 9007199254740991.0]", true);
        check("[9007199254740992.0]", false);
        check("1e300", false);
    }
}
