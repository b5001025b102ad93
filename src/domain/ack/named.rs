//! The ack rules that have a name.
//!
//! None may change: a stored notification names its rule. A provider's rule is here only if its own
//! documentation states it.

use super::condition::{Condition, JsonCondition, Statuses, TextCondition, XmlCondition};
use super::{AckRule, BadAckRule, Rule};
use serde_json::json;
use std::sync::{Arc, LazyLock};

/// A named rule: the rule, which answers it asks for, and where it comes from, both in a few words.
pub struct NamedRule {
    /// The rule.
    pub rule: AckRule,
    /// Which answers it accepts.
    pub accepts: &'static str,
    /// Who asks for such answers.
    pub source: &'static str,
}

static RULES: LazyLock<Vec<NamedRule>> = LazyLock::new(|| {
    let success = |exact| {
        Condition::Text(TextCondition {
            text: "success".to_string(),
            ignore_case: false,
            exact,
        })
    };
    vec![
        NamedRule {
            rule: AckRule::named("success", success(false)),
            accepts: "2xx with the body `success`, white space around it allowed",
            source: "Alipay's asynchronous notification; its samples print a newline",
        },
        NamedRule {
            rule: AckRule::named("exact", success(true)),
            accepts: "2xx with the body `success` and not a byte more",
            source: "receivers that compare the answer byte by byte",
        },
        NamedRule {
            rule: AckRule::named("standard-webhooks", Condition::Status(Statuses::Success)),
            accepts: "2xx, whatever the body",
            source: "the Standard Webhooks specification; Stripe, PayPal and others do the same",
        },
        NamedRule {
            rule: AckRule::named(
                "wechat-v2",
                Condition::Xml(XmlCondition {
                    element: "return_code".to_string(),
                    equals: "SUCCESS".to_string(),
                }),
            ),
            accepts: "2xx with XML whose `return_code` is `SUCCESS`",
            source: "WeChat Pay's payment notification, API v2",
        },
        NamedRule {
            rule: AckRule::named(
                "douyin",
                Condition::Json(JsonCondition {
                    pointer: "/err_no".to_string(),
                    equals: json!(0),
                }),
            ),
            accepts: "2xx with JSON whose `err_no` is 0",
            source: "Douyin's payment callback, which asks for `{\"err_no\":0,\"err_tips\":\"success\"}`",
        },
    ]
});

/// Every named rule.
#[must_use]
pub fn all() -> &'static [NamedRule] {
    &RULES
}

/// The names, in the order of the table.
#[must_use]
pub fn names() -> Vec<&'static str> {
    RULES.iter().filter_map(|named| named.rule.name()).collect()
}

impl AckRule {
    fn named(name: &'static str, condition: Condition) -> Self {
        Self(Arc::new(Rule {
            name: Some(name),
            condition,
        }))
    }

    /// The rule that is taken when none is given: `success`.
    #[must_use]
    pub fn standard() -> Self {
        Self::by_name("success").expect("invariant: success is a named rule")
    }

    /// The rule of that name.
    ///
    /// # Errors
    /// [`BadAckRule::Unknown`] lists the known names.
    pub fn by_name(name: &str) -> Result<Self, BadAckRule> {
        let mut rules = RULES.iter().map(|named| &named.rule);
        let found = rules.find(|rule| rule.name() == Some(name));
        found.cloned().ok_or_else(|| BadAckRule::Unknown {
            name: name.chars().take(64).collect(),
            known: names(),
        })
    }
}
