//! The form in which stores keep an ack rule: its name, or the JSON of the caller's own.

use super::{AckRule, BadAckRule, CustomAck};
use crate::domain::lane::Lane;
use std::borrow::Cow;

const OF_ENDPOINT: &str = "endpoint:";

impl AckRule {
    /// The text in which stores keep the ack rule of a notification. If it waits in the lane of an endpoint, the text
    /// begins with `endpoint:`, and it ends there if the rule is that of the endpoint. A server of a version that
    /// knows no endpoints cannot read such a text, so it leaves the notification alone. Otherwise it would send it
    /// without the endpoint's settings.
    #[must_use]
    pub fn to_stored(own: Option<&Self>, lane: &Lane) -> Cow<'static, str> {
        let own = own.map_or(Cow::Borrowed(""), Self::to_text);
        match lane.is_of_endpoint() {
            true => format!("{OF_ENDPOINT}{own}").into(),
            false => own,
        }
    }

    /// Reads what [`AckRule::to_stored`] wrote.
    ///
    /// # Errors
    /// As [`AckRule::from_text`].
    pub fn own_from_stored(text: &str) -> Result<Option<Self>, BadAckRule> {
        match text.strip_prefix(OF_ENDPOINT) {
            Some("") => Ok(None),
            own => Self::from_text(own.unwrap_or(text)).map(Some),
        }
    }

    /// Reads what [`AckRule::to_text`] wrote: a name, or the JSON of a caller's own rule.
    ///
    /// # Errors
    /// [`BadAckRule`] says what is wrong.
    pub fn from_text(text: &str) -> Result<Self, BadAckRule> {
        if text.starts_with('{') {
            let custom =
                serde_json::from_str(text).map_err(|error| BadAckRule::Shape(error.to_string()))?;
            Self::custom(custom)
        } else {
            Self::by_name(text)
        }
    }

    /// The rule's name, or the JSON of a caller's own rule: the form in which stores keep it.
    #[must_use]
    pub fn to_text(&self) -> Cow<'static, str> {
        match self.0.name {
            Some(name) => Cow::Borrowed(name),
            None => serde_json::to_string(&CustomAck::of(&self.0.condition))
                .expect("invariant: strings and numbers serialise")
                .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ack::custom::{LONGEST_TEXT, LONGEST_VALUE};
    use crate::domain::ack::named;

    #[test]
    fn what_waits_for_an_endpoint_is_kept_apart() {
        let (lane, origin) = (
            Lane::from_name("endpoint:shop-1"),
            Lane::from_name("https://shop.example"),
        );
        let exact = AckRule::by_name("exact").expect("known");
        for (own, lane, expected) in [
            (None, &lane, "endpoint:"),
            (Some(&exact), &lane, "endpoint:exact"),
            (Some(&exact), &origin, "exact"),
        ] {
            let text = AckRule::to_stored(own, lane);
            assert_eq!(text, expected);
            assert_eq!(AckRule::own_from_stored(&text), Ok(own.cloned()));
        }
        assert!(AckRule::from_text("endpoint:").is_err());
        assert!(AckRule::from_text("endpoint:exact").is_err());
    }

    #[test]
    fn rules_survive_their_stored_form() {
        for named in named::all() {
            let text = named.rule.to_text();
            assert_eq!(
                AckRule::from_text(&text).as_ref(),
                Ok(&named.rule),
                "{text}"
            );
        }
        for text in [
            r#"{"text":"OK","ignore_case":true}"#,
            r#"{"text":" {id}\n","exact":true}"#,
            r#"{"status":"2xx"}"#,
            r#"{"status":[200,204,409]}"#,
            r#"{"json":{"pointer":"","equals":{"a":[1,null]}}}"#,
            r#"{"json":{"pointer":"/err_no","equals":0}}"#,
            r#"{"xml":{"element":"return_code","equals":""}}"#,
        ] {
            let rule = AckRule::from_text(text).expect(text);
            assert_eq!(rule.to_text(), text);
        }
    }

    #[test]
    fn bad_rules_are_refused() {
        fn check(text: &str, expected: &str) {
            let error = AckRule::from_text(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        check(
            "Success",
            "unknown ack rule `Success`; known are success, exact, ",
        );
        check("{}", "exactly one of `text`, `status`, `json` and `xml`");
        check(r#"{"text":"a","status":"2xx"}"#, "exactly one of");
        check(r#"{"ignore_case":true}"#, "exactly one of");
        check(
            r#"{"status":"2xx","ignore_case":true}"#,
            "go with `text` only",
        );
        check(
            r#"{"json":{"pointer":"","equals":1},"exact":true}"#,
            "go with `text` only",
        );
        check(r#"{"text":""}"#, "`text` is 1 to 256 bytes");
        check(r#"{"text":"OK\n"}"#, "without white space at its ends");
        check(r#"{"text":"OK","trim":true}"#, "unknown field `trim`");
        let long = |len| format!(r#"{{"text":"{}"}}"#, "x".repeat(len));
        check(&long(LONGEST_TEXT + 1), "`text` is 1 to 256 bytes");
        assert!(AckRule::from_text(&long(LONGEST_TEXT)).is_ok());
        for status in [
            "\"3xx\"",
            "[]",
            "[199]",
            "[300]",
            "[302]",
            "[399]",
            "[600]",
            "[200,200]",
        ] {
            check(
                &format!("{{\"status\":{status}}}"),
                "`status` is \"2xx\" or a list",
            );
        }
        check(r#"{"status":200}"#, "an ack rule is a name or an object");
        check(
            r#"{"json":{"pointer":"err_no","equals":0}}"#,
            "`pointer` is a JSON pointer",
        );
        check(
            r#"{"json":{"pointer":"/err_no"}}"#,
            "missing field `equals`",
        );
        let value = |len| {
            let equals = "x".repeat(len - 2);
            format!(r#"{{"json":{{"pointer":"","equals":"{equals}"}}}}"#)
        };
        check(&value(LONGEST_VALUE + 1), "at most 1024 bytes of JSON");
        assert!(AckRule::from_text(&value(LONGEST_VALUE)).is_ok());
        for element in ["", "a b", "a>", "<a", "a/"] {
            let text = format!(r#"{{"xml":{{"element":"{element}","equals":"x"}}}}"#);
            check(&text, "`element` is the name of an element");
        }
        check(
            r#"{"xml":{"element":"a","equals":" x"}}"#,
            "without white space",
        );
    }
}
