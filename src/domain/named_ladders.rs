//! The ladders that providers publish, by name.
//!
//! Merchants watch the published times, so none of these is ever jittered, and none may change:
//! a stored notification names its ladder.

use crate::domain::ladder::Ladder;
use std::sync::LazyLock;

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
