//! Splits a JSON object into its fields. Each field is the exact text that was received.
//!
//! The text is not parsed into a tree of values, for two reasons: bodies must not change by a byte, and
//! there may be ten thousand registrations a second. One pass finds where each field begins and ends. The
//! same pass checks the grammar of the whole text. It does not recurse, so deeply nested values do not
//! overflow the stack. Only known fields are decoded. Duplicate and unknown names are errors.

use crate::api::field_errors::{FieldErrors, Noted};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use thiserror::Error;

/// The error for a text that is not JSON or not of the expected kind.
#[derive(Debug, Error)]
pub enum UnreadableJson {
    /// The text is not JSON. The message contains the line and column.
    #[error("{0}")]
    Syntax(#[from] serde_json::Error),
    /// The text is JSON, but a value of another kind than expected.
    #[error(transparent)]
    Kind(#[from] WrongKind),
}

/// The error for a value of the wrong kind, for example a number where a string is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{expected} is expected, not {found}")]
pub struct WrongKind {
    /// The expected kind with its article: `a string`.
    pub expected: &'static str,
    /// The kind that was given, with its article: `a number`.
    pub found: &'static str,
}

/// The error for a value that is not a valid string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadString {
    /// The value is not a string.
    #[error(transparent)]
    Kind(#[from] WrongKind),
    /// The string contains half of a surrogate pair. That is not a character, so it cannot be sent as UTF-8.
    #[error("the string contains a \\u escape that is half a surrogate pair")]
    Surrogate,
}

/// Reads an object that may have only these fields. A duplicate or unknown field is added to `errors`.
/// `pointer` is the JSON pointer to the object.
///
/// # Errors
/// [`UnreadableJson`] if the text is not an object. The caller then reports this error instead of `errors`.
pub fn read<'a, const N: usize>(
    text: &'a str,
    names: &'static [&'static str; N],
    pointer: &str,
    errors: &mut FieldErrors,
) -> Result<[Option<&'a RawValue>; N], UnreadableJson> {
    let mut values = [None; N];
    each_member(text, |name, value| {
        match names.iter().position(|known| *known == name) {
            Some(position) if values[position].is_none() => values[position] = Some(value),
            Some(_) => {
                errors.add_member(pointer, &name, "this field is given twice");
            }
            None if names.is_empty() => {
                errors.add_member(pointer, &name, "unknown field; this object has no fields");
            }
            None => {
                let known = names.join(", ");
                errors.add_member(
                    pointer,
                    &name,
                    format_args!("unknown field; known are {known}"),
                );
            }
        }
    })?;
    Ok(values)
}

/// Calls `see` with every member of an object, in the order of the text.
///
/// # Errors
/// [`UnreadableJson`] if the text is not an object. `see` may have been called before the error was found.
pub fn each_member<'a>(
    text: &'a str,
    see: impl FnMut(Cow<'a, str>, &'a RawValue),
) -> Result<(), UnreadableJson> {
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(Members(see))
        .and_then(|()| json.end())
        .map_err(|error| unreadable(text, error, "an object"))
}

/// Returns the first elements of an array, at most `most`, and the number of all elements.
///
/// # Errors
/// [`UnreadableJson`] if the text is not an array.
pub fn elements(text: &str, most: usize) -> Result<(Vec<&RawValue>, usize), UnreadableJson> {
    let mut json = serde_json::Deserializer::from_str(text);
    let mut elements = Vec::new();
    json.deserialize_seq(Elements {
        kept: &mut elements,
        most,
    })
    .and_then(|count| json.end().map(|()| count))
    .map(|count| (elements, count))
    .map_err(|error| unreadable(text, error, "an array"))
}

/// The value of an optional field. `null` means the same as a missing field, because clients with fixed types
/// often send `null`.
#[must_use]
pub fn given(field: Option<&RawValue>) -> Option<&RawValue> {
    field.filter(|value| value.get() != "null")
}

/// Decodes a string. A string without escapes is borrowed.
///
/// # Errors
/// [`BadString`] if the value is not a valid string.
pub fn string(value: &RawValue) -> Result<Cow<'_, str>, BadString> {
    let text = value.get();
    let Some(inner) = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    else {
        return Err(wrong_kind(value, "a string").into());
    };
    if inner.contains('\\') {
        // The grammar was checked when the field was found. So the only possible error is half a surrogate
        // pair.
        serde_json::from_str(text)
            .map(Cow::Owned)
            .map_err(|_| BadString::Surrogate)
    } else {
        Ok(Cow::Borrowed(inner))
    }
}

/// Reads an optional string field.
///
/// # Errors
/// [`Noted`] if the value is not a string, or if `parse` refuses it.
pub fn optional<Value, Bad: fmt::Display>(
    field: Option<&RawValue>,
    pointer: &str,
    errors: &mut FieldErrors,
    parse: impl FnOnce(&str) -> Result<Value, Bad>,
) -> Result<Option<Value>, Noted> {
    let Some(value) = given(field) else {
        return Ok(None);
    };
    let text = string(value).map_err(|bad| errors.add(pointer, bad))?;
    parse(&text)
        .map(Some)
        .map_err(|bad| errors.add(pointer, bad))
}

/// Reads a required string field.
///
/// # Errors
/// [`Noted`] if the field is missing or not a string, or if `parse` refuses it.
pub fn required<Value, Bad: fmt::Display>(
    field: Option<&RawValue>,
    pointer: &str,
    errors: &mut FieldErrors,
    parse: impl FnOnce(&str) -> Result<Value, Bad>,
) -> Result<Value, Noted> {
    let Some(value) = field else {
        return Err(errors.add(pointer, "this field is missing"));
    };
    let text = string(value).map_err(|bad| errors.add(pointer, bad))?;
    parse(&text).map_err(|bad| errors.add(pointer, bad))
}

/// Reads a boolean or a number. Returns the default if the field is missing or wrong.
pub fn plain<'a, Value>(
    field: Option<&'a RawValue>,
    pointer: &str,
    expected: &'static str,
    errors: &mut FieldErrors,
) -> Value
where
    Value: serde::Deserialize<'a> + Default,
{
    let Some(field) = field else {
        return Value::default();
    };
    serde_json::from_str(field.get()).unwrap_or_else(|_| {
        errors.add(pointer, format_args!("{expected} is expected"));
        Value::default()
    })
}

/// Makes the error for a value of the wrong kind.
#[must_use]
pub fn wrong_kind(value: &RawValue, expected: &'static str) -> WrongKind {
    let found = match value.get().as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        Some(_) | None => "a number",
    };
    WrongKind { expected, found }
}

/// Turns an error of the parser into [`UnreadableJson`].
///
/// The parser reports a value of the wrong kind before it has read the rest of the text. If the rest is not
/// JSON, that error is more useful. So the text is parsed again to its end.
fn unreadable(text: &str, error: serde_json::Error, expected: &'static str) -> UnreadableJson {
    match error.classify() {
        Category::Io | Category::Syntax | Category::Eof => error.into(),
        Category::Data => match serde_json::from_str::<&RawValue>(text) {
            Ok(value) => wrong_kind(value, expected).into(),
            Err(syntax) => syntax.into(),
        },
    }
}

struct Members<See>(See);

impl<'de, See> Visitor<'de> for Members<See>
where
    See: FnMut(Cow<'de, str>, &'de RawValue),
{
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<Map: MapAccess<'de>>(mut self, mut map: Map) -> Result<(), Map::Error> {
        while let Some(name) = map.next_key_seed(Name)? {
            let value = map.next_value::<&'de RawValue>()?;
            (self.0)(name, value);
        }
        Ok(())
    }
}

struct Elements<'k, 'de> {
    kept: &'k mut Vec<&'de RawValue>,
    most: usize,
}

impl<'de> Visitor<'de> for Elements<'_, 'de> {
    type Value = usize;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array")
    }

    fn visit_seq<Seq: SeqAccess<'de>>(self, mut seq: Seq) -> Result<usize, Seq::Error> {
        while self.kept.len() < self.most {
            match seq.next_element::<&'de RawValue>()? {
                Some(element) => self.kept.push(element),
                None => return Ok(self.kept.len()),
            }
        }
        let mut count = self.kept.len();
        while seq.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

/// Reads a member's name. A name without escapes is borrowed; serde's own `Cow` would always copy it.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn fields_keep_the_text_received() {
        let mut errors = FieldErrors::default();
        let text = r#" {"b" : { "x" : [1 , 1.0e2] } , "\u0061":"\n"} "#;
        let [a, b, c] = read(text, &["a", "b", "c"], "", &mut errors).expect("an object");
        assert_eq!(a.map(RawValue::get), Some(r#""\n""#));
        assert_eq!(b.map(RawValue::get), Some(r#"{ "x" : [1 , 1.0e2] }"#));
        assert!(c.is_none() && errors.is_empty());
    }

    #[test]
    fn doubled_and_unknown_fields_are_noted() {
        let mut errors = FieldErrors::default();
        let text = r#"{"a":1,"\u0061":2,"x/y":3}"#;
        let [a] = read(text, &["a"], "/p", &mut errors).expect("an object");
        assert_eq!(a.map(RawValue::get), Some("1"), "the first counts");
        assert_eq!(
            errors.summary(),
            "/p/a: this field is given twice; /p/x~1y: unknown field; known are a"
        );
    }

    #[test]
    fn what_is_no_object_is_told_from_what_is_no_json() {
        fn check(text: &str, expected: &str) {
            let error = read(text, &["a"], "", &mut FieldErrors::default()).expect_err(text);
            assert_eq!(error.to_string(), expected, "{text}");
        }
        check("[]", "an object is expected, not an array");
        check("null", "an object is expected, not null");
        check("\"{}\"", "an object is expected, not a string");
        check("-1", "an object is expected, not a number");
        check("true", "an object is expected, not a boolean");
        check("[1,", "EOF while parsing a value at line 1 column 3");
        check("", "EOF while parsing a value at line 1 column 0");
        check("{}x", "trailing characters at line 1 column 3");
        check("{} {}", "trailing characters at line 1 column 4");
        check("{\"a\":NaN}", "expected value at line 1 column 6");
        check("{\"a\":01}", "invalid number at line 1 column 7");
        check("{\"a\":1,}", "trailing comma at line 1 column 8");
        check("{'a':1}", "key must be a string at line 1 column 2");
        check(
            "{\"a\":1 \"b\":2}",
            "expected `,` or `}` at line 1 column 8",
        );
        check(
            "{\"a\":\"\n\"}",
            "control character (\\u0000-\\u001F) found while parsing a string at line 1 column 6",
        );
        check("\u{feff}{}", "expected value at line 1 column 1");
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = "[".repeat(500_000) + &"]".repeat(500_000);
        let text = format!("{{\"a\":{deep}}}");
        let [a] = read(&text, &["a"], "", &mut FieldErrors::default()).expect("an object");
        assert_eq!(a.map(RawValue::get), Some(deep.as_str()));
        assert!(read(&deep, &["a"], "", &mut FieldErrors::default()).is_err());
        assert_eq!(elements(&deep, 1).expect("an array").1, 1);
        assert_eq!(elements(&format!("[1,{deep}]"), 1).expect("an array").1, 2);
        let open = "{\"a\":".repeat(500_000);
        assert!(read(&open, &["a"], "", &mut FieldErrors::default()).is_err());
    }

    #[test]
    fn strings_are_decoded_and_half_surrogates_refused() {
        fn check(text: &str, expected: Result<&str, &str>) {
            let got = string(raw(text)).map_err(|bad| bad.to_string());
            assert_eq!(got.as_deref().map_err(String::as_str), expected, "{text}");
        }
        const HALF: &str = "the string contains a \\u escape that is half a surrogate pair";
        check(r#""a b""#, Ok("a b"));
        check(r#""""#, Ok(""));
        check(r#""a\/b\u00e9\u0000\n""#, Ok("a/b\u{e9}\0\n"));
        check(r#""\ud83d\ude00""#, Ok("\u{1f600}"));
        check(r#""\ud800""#, Err(HALF));
        check(r#""\udc00\ud800""#, Err(HALF));
        check(r#""\ud800x""#, Err(HALF));
        check("1e999", Err("a string is expected, not a number"));
        check("null", Err("a string is expected, not null"));
    }

    #[test]
    fn elements_are_counted_beyond_the_bound() {
        fn check(text: &str, most: usize, kept: usize, count: usize) {
            let (elements, counted) = elements(text, most).expect("an array");
            assert_eq!((elements.len(), counted), (kept, count), "{text}");
        }
        check("[]", 2, 0, 0);
        check("[1,2]", 2, 2, 2);
        check("[1,2,3,4]", 2, 2, 4);
        assert!(elements("{}", 2).is_err());
    }
}
