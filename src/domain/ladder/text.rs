//! The stored form of a ladder: the name of a named ladder, or the JSON of a custom one.

use super::{BadLadder, CustomLadder, Ladder};

impl Ladder {
    /// Reads a ladder's stored form, which [`Ladder::to_text`] wrote.
    ///
    /// # Errors
    /// [`BadLadder`] says what is wrong.
    pub fn from_text(text: &str) -> Result<Self, BadLadder> {
        if text.starts_with('{') {
            let custom =
                serde_json::from_str(text).map_err(|error| BadLadder::Shape(error.to_string()))?;
            Self::custom(&custom)
        } else {
            Self::by_name(text)
        }
    }

    /// The ladder's stored form: its name, or the JSON of a custom ladder.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self.0.name {
            Some(name) => name.to_string(),
            None => serde_json::to_string(&CustomLadder::of(&self.0))
                .expect("invariant: strings and numbers serialise"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ladder::named;

    #[test]
    fn ladders_survive_their_stored_form() {
        for (ladder, _) in named::all() {
            assert_eq!(Ladder::from_text(&ladder.to_text()).as_ref(), Ok(ladder));
        }
        let custom = r#"{"intervals":["10s","1m"],"window":"1h","repeat_last":true,"jitter":0.1}"#;
        let ladder = Ladder::from_text(custom).expect("valid");
        assert_eq!(ladder.to_text(), custom);
    }

    #[test]
    fn bad_ladders_are_named() {
        fn check(text: &str, expected: &str) {
            let error = Ladder::from_text(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        check("alipya", "unknown ladder `alipya`; known are alipay, ");
        check(r#"{"intervals":["10"]}"#, "`10` is not a duration");
        check(r#"{"intervals":["0s"]}"#, "at least 1ms");
        check(
            r#"{"intervals":["1s"],"repeat_last":true}"#,
            "needs at least one interval and a",
        );
        check(
            r#"{"intervals":[],"repeat_last":true,"window":"1h"}"#,
            "needs at least one",
        );
        check(
            r#"{"intervals":["1ms"],"repeat_last":true,"window":"1h"}"#,
            "at most 10000",
        );
        check(r#"{"intervals":["1s"],"window":"61d"}"#, "at most 60 days");
        check(r#"{"intervals":["1s"],"jitter":0.6}"#, "from 0 to 0.5");
        check(r#"{"intervals":["1s"],"jitter":-0.1}"#, "from 0 to 0.5");
        check(
            r#"{"intervals":["1s"],"windw":"1h"}"#,
            "unknown field `windw`",
        );
        let many = format!(r#"{{"intervals":[{}]}}"#, vec!["\"1s\""; 101].join(","));
        check(&many, "at most 100 intervals");
    }
}
