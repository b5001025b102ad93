//! The ladders that providers publish, by name.
//!
//! Merchants watch the published times, so none of these is ever jittered, and none may change:
//! a stored notification names its ladder.

use super::{BadLadder, CustomLadder, Ladder};
use std::sync::{Arc, LazyLock};

/// Where a ladder's intervals come from, in a few words.
pub type Source = &'static str;

static LADDERS: LazyLock<Vec<(Ladder, Source)>> = LazyLock::new(|| {
    let named = Ladder::named;
    vec![
        (
            // "Until over 24h22m", which cuts the last interval (the sum is 24h24m) by two minutes.
            named(
                "alipay",
                &["4m", "10m", "10m", "1h", "2h", "6h", "15h"],
                false,
                Some("24h22m"),
            ),
            "Alipay's asynchronous notification, current text",
        ),
        (
            named(
                "alipay-2m",
                &["2m", "10m", "10m", "1h", "2h", "6h", "15h"],
                false,
                Some("24h22m"),
            ),
            "Alipay's older first step; also Antom",
        ),
        (
            named(
                "wechat",
                &[
                    "15s", "15s", "30s", "3m", "10m", "20m", "30m", "30m", "30m", "60m", "3h",
                    "3h", "3h", "6h", "6h",
                ],
                false,
                Some("24h4m"),
            ),
            "WeChat Pay's payment notification",
        ),
        (
            named(
                "tiered",
                &["15s", "3m", "10m", "30m", "30m", "1h", "2h", "6h", "15h"],
                false,
                None,
            ),
            "tiered delay-queue designs; no window stated, so the sum",
        ),
        (
            named(
                "standard-webhooks",
                &["5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"],
                false,
                None,
            ),
            "the Standard Webhooks specification's example schedule",
        ),
        (
            named(
                "mollie",
                &["1m", "2m", "4m", "8m", "16m", "29m", "1h", "2h", "22h"],
                false,
                Some("26h"),
            ),
            "Mollie's webhook documentation",
        ),
        (
            named(
                "checkout",
                &["5m", "10m", "15m", "30m", "1h", "4h", "12h", "12h"],
                false,
                None,
            ),
            "Checkout.com's webhook documentation",
        ),
        (
            named(
                "adyen",
                &[
                    "9s", "18s", "27s", "2m", "5m", "10m", "15m", "30m", "1h", "2h", "4h", "8h",
                ],
                true,
                Some("30d"),
            ),
            "Adyen's webhook documentation: every 8h after the list, up to 30 days",
        ),
    ]
});

/// Every named ladder with its source.
#[must_use]
pub fn all() -> &'static [(Ladder, Source)] {
    &LADDERS
}

/// The ladder of that name with its source.
#[must_use]
pub fn find(name: &str) -> Option<&'static (Ladder, Source)> {
    LADDERS
        .iter()
        .find(|(ladder, _)| ladder.name() == Some(name))
}

/// The names, in the order of the table.
#[must_use]
pub fn names() -> Vec<&'static str> {
    LADDERS
        .iter()
        .filter_map(|(ladder, _)| ladder.name())
        .collect()
}

impl Ladder {
    fn named(
        name: &'static str,
        intervals: &[&str],
        repeat_last: bool,
        window: Option<&str>,
    ) -> Self {
        let custom = CustomLadder {
            intervals: intervals.iter().map(ToString::to_string).collect(),
            window: window.map(ToString::to_string),
            repeat_last,
            jitter: 0.0,
        };
        let mut steps = custom
            .check()
            .expect("invariant: the named ladders are valid");
        steps.name = Some(name);
        Self(Arc::new(steps))
    }

    /// The ladder that is taken when none is named: `alipay`.
    #[must_use]
    pub fn standard() -> Self {
        Self::by_name("alipay").expect("invariant: alipay is a named ladder")
    }

    /// One of the named ladders.
    ///
    /// # Errors
    /// [`BadLadder::Unknown`] lists the known names.
    pub fn by_name(name: &str) -> Result<Self, BadLadder> {
        find(name)
            .map(|(ladder, _)| ladder.clone())
            .ok_or_else(|| BadLadder::Unknown {
                name: name.chars().take(64).collect(),
                known: names(),
            })
    }
}
