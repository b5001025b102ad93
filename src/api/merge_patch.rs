//! Merge patches (RFC 7396), on the text of JSON: what a patch does not name stays as it is, to the byte. Numbers that a
//! machine cannot hold exactly stay exact.

use crate::api::field_errors::{FieldErrors, member_pointer};
use crate::api::fields::{self, BadString};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Maximum depth of a patch.
const DEEPEST: usize = 128;

/// The patch of one value.
pub enum Patch<'a> {
    /// An object: each member patches the member of its name.
    Object(Vec<(Cow<'a, str>, Patch<'a>)>),
    /// Everything else replaces the value. `null` removes it.
    Value(&'a RawValue),
}

impl<'a> Patch<'a> {
    /// Reads the patch of the value at this JSON pointer. A name that is given twice in an object is noted in `errors`.
    pub fn read(text: &'a RawValue, pointer: &str, errors: &mut FieldErrors) -> Self {
        Self::read_to(text, pointer, DEEPEST, errors)
    }

    fn read_to(
        text: &'a RawValue,
        pointer: &str,
        deepest: usize,
        errors: &mut FieldErrors,
    ) -> Self {
        if !text.get().starts_with('{') {
            return Self::Value(text);
        }
        let Some(deepest) = deepest.checked_sub(1) else {
            errors.add(pointer, "this object is nested too deep");
            return Self::Value(text);
        };
        let (mut members, mut names) = (Vec::new(), HashSet::new());
        let read = fields::each_member(text.get(), |name, value| {
            if !names.insert(name.clone()) {
                errors.add_member(pointer, &name, "this field is given twice");
                return;
            }
            let inside = member_pointer(pointer, &name);
            let value = Self::read_to(value, &inside, deepest, errors);
            members.push((name, value));
        });
        if read.is_err() {
            // The grammar was checked before. So the only possible error is half a surrogate pair in a name.
            errors.add(pointer, BadString::Surrogate);
        }
        Self::Object(members)
    }

    /// Whether it removes the value.
    #[must_use]
    pub fn removes(&self) -> bool {
        matches!(self, Self::Value(value) if value.get() == "null")
    }

    /// Writes what becomes of a value, if there is one. A patch that removes it must not be asked.
    pub fn merge_into(&self, value: Option<&RawValue>, out: &mut String) {
        let patches = match self {
            Self::Value(value) => return out.push_str(value.get()),
            Self::Object(patches) => patches,
        };
        let mut before = Vec::new();
        if let Some(value) = value {
            // What is no object is replaced.
            let _ = fields::each_member(value.get(), |name, value| before.push((name, value)));
        }
        let by_name: HashMap<&str, &Self> = patches
            .iter()
            .map(|(name, patch)| (&**name, patch))
            .collect();
        // Of members with the same name, the last counts.
        let last: HashMap<&str, usize> = before
            .iter()
            .enumerate()
            .map(|(place, (name, _))| (&**name, place))
            .collect();
        let mut object = ObjectWriter::begin(out);
        for (place, (name, value)) in before.iter().enumerate() {
            match by_name.get(&**name) {
                _ if last.get(&**name) != Some(&place) => {}
                Some(patch) if patch.removes() => {}
                Some(patch) => patch.merge_into(Some(value), object.member(name)),
                None => object.member(name).push_str(value.get()),
            }
        }
        for (name, patch) in patches {
            if !last.contains_key(&**name) && !patch.removes() {
                patch.merge_into(None, object.member(name));
            }
        }
        object.end();
    }
}

/// Writes an object member by member.
pub struct ObjectWriter<'out> {
    out: &'out mut String,
    is_empty: bool,
}

impl<'out> ObjectWriter<'out> {
    /// Begins an object.
    pub fn begin(out: &'out mut String) -> Self {
        out.push('{');
        Self {
            out,
            is_empty: true,
        }
    }

    /// Begins a member. The caller writes its value.
    pub fn member(&mut self, name: &str) -> &mut String {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(',');
        }
        self.out.push_str(&Value::from(name).to_string());
        self.out.push(':');
        self.out
    }

    /// Ends the object.
    pub fn end(self) {
        self.out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).expect(text)
    }

    #[test]
    fn the_examples_of_the_rfc_hold() {
        fn check(before: &str, patch: &str, after: &str) {
            let mut errors = FieldErrors::default();
            let read = Patch::read(raw(patch), "", &mut errors);
            assert!(errors.is_empty(), "{patch}: {}", errors.summary());
            let mut merged = String::new();
            read.merge_into(Some(raw(before)), &mut merged);
            assert_eq!(merged, after, "{before} {patch}");
        }
        check(r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#);
        check(r#"{"a":"b"}"#, r#"{"a":null}"#, "{}");
        check(r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#);
        check(r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#);
        check(
            r#"{"a":{"b":"c"}}"#,
            r#"{"a":{"b":"d","c":null}}"#,
            r#"{"a":{"b":"d"}}"#,
        );
        check(r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#);
        check(r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#);
        check(r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#);
        check(r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#);
        check("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#);
        check("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#);
        // What is not named keeps its text.
        check(
            r#"{"a": 12345678901234567890123, "b":{ "c" : 1.0e2 }, "d":1,"d":2}"#,
            r#"{"a~/\"":"\u00e9"}"#,
            r#"{"a":12345678901234567890123,"b":{ "c" : 1.0e2 },"d":2,"a~/\"":"\u00e9"}"#,
        );
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        fn check(patch: &str, expected: &str) {
            let mut errors = FieldErrors::default();
            Patch::read(raw(patch), "/p", &mut errors);
            assert_eq!(errors.summary(), expected, "{patch}");
        }
        check(
            r#"{"a/b":{"c":1,"\u0063":null}}"#,
            "/p/a~1b/c: this field is given twice",
        );
        check(
            r#"{"\ud800":1}"#,
            "/p: the string contains a \\u escape that is half a surrogate pair",
        );
        let deep = r#"{"a":"#.repeat(DEEPEST + 1) + "1" + &"}".repeat(DEEPEST + 1);
        let mut errors = FieldErrors::default();
        Patch::read(raw(&deep), "", &mut errors);
        assert!(errors.summary().contains("nested too deep"));
        let deep = r#"{"a":"#.repeat(DEEPEST) + "1" + &"}".repeat(DEEPEST);
        check(&deep, "");
    }
}
