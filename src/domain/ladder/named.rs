//! The named ladders: the retry schedules that payment providers publish.
//!
//! Named ladders have no jitter, because merchants rely on the published times. They must not change,
//! because a stored notification contains only the name of its ladder.

use super::{BadLadder, CustomLadder, Ladder};
use std::sync::{Arc, LazyLock};

/// The published source of a ladder's intervals, in a few words.
pub type Source = &'static str;

static LADDERS: LazyLock<Vec<(Ladder, Source)>> = LazyLock::new(|| {
    let named = Ladder::named;
    vec![
        (
            // Alipay's text says "until over 24h22m". The intervals sum up to 24h24m, so the last interval
            // is two minutes shorter.
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
            "tiered delay-queue designs; the window is the sum of the intervals",
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
            "Adyen's webhook documentation: 8h repeats until 30 days have passed",
        ),
    ]
});

/// Every named ladder with its source.
#[must_use]
pub fn all() -> &'static [(Ladder, Source)] {
    &LADDERS
}

/// The ladder with this name, with its source.
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

    /// The default ladder: `alipay`.
    #[must_use]
    pub fn standard() -> Self {
        Self::by_name("alipay").expect("invariant: alipay is a named ladder")
    }

    /// The named ladder with this name.
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
