//! The form of an endpoint: its settings as texts, and what a form changes as a merge patch (RFC 7396).
//!
//! Only what differs from the settings that are there gets into the patch. So what the form does not show stays, and what it
//! shows stays as it is, to the byte, unless somebody changes it. The API reads the patch, with its rules.

use crate::api::endpoint_view::SettingsView;
use crate::api::fields::{each_member, string};
use crate::domain::endpoint::EndpointSettings;
use crate::page::form::FormFields;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// How the text of a field is written in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A string.
    Text,
    /// A name, or an object as JSON.
    Rule,
    /// A number.
    Number,
    /// `true` or `false`, chosen from a list.
    Flag,
    /// A string that is chosen from a list.
    Choice(&'static [&'static str]),
}

/// The fields of the form, with their names in the API.
pub const FIELDS: [(&str, FieldKind); 11] = [
    ("url", FieldKind::Text),
    ("ladder", FieldKind::Rule),
    ("ack", FieldKind::Rule),
    ("timeout", FieldKind::Text),
    ("concurrency", FieldKind::Number),
    ("rate", FieldKind::Number),
    ("retry_after", FieldKind::Flag),
    ("gone", FieldKind::Choice(&["park", "hold"])),
    ("after_outage_rate", FieldKind::Number),
    ("user_agent", FieldKind::Text),
    ("http", FieldKind::Choice(&["1.1", "2"])),
];

/// Up to this depth, objects are compared member by member. Ladders and rules are not deeper.
const DEEPEST: usize = 4;

/// The texts of the fields, in the order of [`FIELDS`]. A setting that is not set is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingTexts([String; FIELDS.len()]);

/// A field that begins with a brace and is no JSON: its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadJson(pub &'static str);

impl SettingTexts {
    /// What a form says. A field that it has not stays as it was before.
    pub fn typed(form: &FormFields, before: &Self) -> Self {
        let mut texts = before.clone();
        for ((name, _), text) in FIELDS.iter().zip(&mut texts.0) {
            if let Some(typed) = form.given(name) {
                *text = typed;
            }
        }
        texts
    }

    /// The settings of an endpoint.
    pub fn of(settings: &EndpointSettings) -> Self {
        let document = serde_json::to_string(&SettingsView::of(settings)).unwrap_or_default();
        let mut texts = Self::default();
        // The text was just written, so it can be read.
        let _ = each_member(&document, |name, value| {
            let place = FIELDS.iter().position(|(known, _)| *known == name);
            if let Some(place) = place {
                texts.0[place] = text_of(value);
            }
        });
        texts
    }

    /// The fields with their texts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, FieldKind, &str)> {
        let texts = self.0.iter().map(String::as_str);
        let fields = FIELDS.into_iter().zip(texts);
        fields.map(|((name, kind), text)| (name, kind, text))
    }

    /// The merge patch that makes these settings of those.
    ///
    /// # Errors
    /// [`BadJson`] names the first field that cannot be written into it.
    pub fn patch(&self, before: &Self) -> Result<String, BadJson> {
        let mut members = Vec::new();
        for ((name, kind, text), old) in self.iter().zip(&before.0) {
            if text != old {
                let json = json_of(kind, old, text).ok_or(BadJson(name))?;
                members.push(format!("\"{name}\":{json}"));
            }
        }
        Ok(format!("{{{}}}", members.join(",")))
    }
}

/// A value as a person types it.
fn text_of(value: &RawValue) -> String {
    match value.get() {
        "null" => String::new(),
        text if text.starts_with('"') => {
            string(value).map_or_else(|_| text.into(), Cow::into_owned)
        }
        // Numbers of calls have no fraction, as a rule.
        text => text.strip_suffix(".0").unwrap_or(text).to_string(),
    }
}

/// What a person has typed, as JSON. `None` if it begins with a brace and is none.
fn json_of(kind: FieldKind, before: &str, text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("null".to_string());
    }
    Some(match kind {
        FieldKind::Rule if text.starts_with('{') => {
            serde_json::from_str::<&RawValue>(text).ok()?;
            replacing(before, text, DEEPEST)
        }
        FieldKind::Number | FieldKind::Flag if is_plain(text) => text.to_string(),
        // The API says what it expects.
        FieldKind::Text
        | FieldKind::Rule
        | FieldKind::Number
        | FieldKind::Flag
        | FieldKind::Choice(_) => Value::from(text).to_string(),
    })
}

fn is_plain(text: &str) -> bool {
    let value: Result<Value, _> = serde_json::from_str(text);
    value.is_ok_and(|value| value.is_number() || value.is_boolean())
}

/// The patch that puts one value in the place of another: of two objects, it removes the members that the new one has not.
fn replacing(before: &str, after: &str, deepest: usize) -> String {
    let (Some(old), Some(new)) = (members(before), members(after)) else {
        return after.to_string();
    };
    let Some(deepest) = deepest.checked_sub(1) else {
        return after.to_string();
    };
    let of = |members: &[(Cow<'_, str>, String)], name: &str| {
        let found = members.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    let mut parts = Vec::new();
    for (name, value) in &new {
        let before = of(&old, name).unwrap_or_default();
        let value = replacing(&before, value, deepest);
        parts.push(format!("{}:{value}", Value::from(&**name)));
    }
    let gone = old.iter().filter(|(name, _)| of(&new, name).is_none());
    parts.extend(gone.map(|(name, _)| format!("{}:null", Value::from(&**name))));
    format!("{{{}}}", parts.join(","))
}

/// The members of an object; `None` if the text is none.
fn members(text: &str) -> Option<Vec<(Cow<'_, str>, String)>> {
    let mut members = Vec::new();
    let read = each_member(text, |name, value| {
        members.push((name, value.get().to_string()))
    });
    read.ok().map(|()| members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::endpoint_document::{parse, patched};
    use std::time::Duration;

    const LONGEST: Duration = Duration::from_secs(15);

    fn settings(document: &str) -> EndpointSettings {
        parse(document, LONGEST).expect(document).settings
    }

    fn with(mut texts: SettingTexts, changes: &[(&str, &str)]) -> SettingTexts {
        for (name, text) in changes {
            let place = FIELDS.iter().position(|(known, _)| known == name);
            texts.0[place.expect("a field")] = (*text).to_string();
        }
        texts
    }

    const BEFORE: &str = r#"{"url":"https://shop.example/n","rate":10,"ladder":{"intervals":["1s","2s"],"jitter":0.1},
        "headers":{"x-a":"b"},"metadata":{"n":12345678901234567890123},"user_agent":"a \"b\"","retry_after":false}"#;

    #[test]
    fn what_is_not_changed_is_not_in_the_patch() {
        let before = settings(BEFORE);
        let texts = SettingTexts::of(&before);
        assert_eq!(texts.patch(&texts), Ok("{}".to_string()));
        let find = |name: &str| {
            let found = texts.iter().find(|(known, ..)| *known == name);
            found.map(|(.., text)| text.to_string()).expect("a field")
        };
        assert_eq!(find("rate"), "10");
        assert_eq!(find("retry_after"), "false");
        assert_eq!(find("user_agent"), "a \"b\"");
        assert_eq!(find("concurrency"), "");
    }

    #[test]
    fn a_change_becomes_a_patch_that_leaves_the_rest() {
        let before = settings(BEFORE);
        let shown = SettingTexts::of(&before);
        let check = |changes: &[(&str, &str)], expected: &str| {
            let patch = with(shown.clone(), changes).patch(&shown).expect("a patch");
            assert_eq!(patch, expected);
            let after = patched(&before, &patch, LONGEST).expect(&patch).settings;
            assert_eq!(after.metadata, before.metadata, "{patch}");
            assert_eq!(after.headers, before.headers, "{patch}");
            assert_eq!(
                SettingTexts::of(&after),
                with(shown.clone(), changes),
                "{patch}"
            );
        };
        check(&[("rate", "0.5")], r#"{"rate":0.5}"#);
        check(
            &[("rate", ""), ("concurrency", "3")],
            r#"{"concurrency":3,"rate":null}"#,
        );
        check(&[("retry_after", "true")], r#"{"retry_after":true}"#);
        check(
            &[("gone", "hold"), ("http", "2")],
            r#"{"gone":"hold","http":"2"}"#,
        );
        check(&[("ladder", "wechat")], r#"{"ladder":"wechat"}"#);
    }

    #[test]
    fn an_object_replaces_the_one_before() {
        fn check(before: &str, after: &str, expected: &str) {
            assert_eq!(
                replacing(before, after, DEEPEST),
                expected,
                "{before} {after}"
            );
        }
        check("standard", r#"{"a":1}"#, r#"{"a":1}"#);
        check(r#"{"a":1}"#, r#"{"b":2}"#, r#"{"b":2,"a":null}"#);
        check(
            r#"{"a":{"b":1,"c":2}}"#,
            r#"{"a":{"b":3}}"#,
            r#"{"a":{"b":3,"c":null}}"#,
        );
        check(r#"{"a":{"b":1}}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#);
        let texts = |text| with(SettingTexts::default(), &[("ack", text)]);
        let bad = texts("{\"a\":").patch(&SettingTexts::default());
        assert_eq!(bad, Err(BadJson("ack")));
        // Deep nesting is not followed.
        let deep = r#"{"a":"#.repeat(5_000) + "1" + &"}".repeat(5_000);
        assert!(replacing(&deep, &deep, DEEPEST).len() >= deep.len());
    }

    #[test]
    fn what_is_no_number_is_refused_by_the_api() {
        let texts = with(
            SettingTexts::default(),
            &[("url", "https://a.example"), ("rate", "fast")],
        );
        let document = texts.patch(&SettingTexts::default()).expect("a document");
        assert_eq!(document, r#"{"url":"https://a.example","rate":"fast"}"#);
        assert!(parse(&document, LONGEST).is_err());
    }
}
