//! Destinations whose next attempts wait in the journal alone.

use super::destinations::acknowledged;
use super::{HOUR_MS, MINUTE_MS, Pager, at, lane_of, refusing, start_by_hand};
use crate::end_to_end::on_journaled_stores;
use crate::support::merchant::Reaction;
use crate::support::ringback::{Stores, with_ladder};

on_journaled_stores!(
    a_destination_whose_next_attempts_are_hours_away_is_told_and_not_forgotten,
    a_destination_with_nothing_pending_is_not_told,
);

async fn a_destination_whose_next_attempts_are_hours_away_is_told_and_not_forgotten(
    stores: Stores,
) {
    let server = start_by_hand(stores, |_| {}).await;
    let mut pager = Pager::start(&server).await;
    let mut shop = refusing().await;
    for id in ["a", "b", "c"] {
        server
            .register(with_ladder(id, &shop, &["15h", "15h"]))
            .await;
        shop.call().await;
        server.until_attempts(id, 1).await;
    }
    server.clock().advance(10 * MINUTE_MS);
    let alert = pager.alert(&server).await;
    assert_eq!(alert["type"], "destination.failing", "{alert}");
    let told = &alert["destinations"][0];
    assert_eq!(
        (&told["lane"], &told["since"]),
        (&lane_of(&shop).into(), &at(0))
    );
    assert_eq!(told["pending"], 3, "{alert}");
    // For hours nothing is called, and that is no recovery.
    for _ in 0..14 {
        server.clock().advance(HOUR_MS);
        assert!(pager.0.arrived().is_none());
    }
    shop.now_does(Reaction::success());
    server.clock().advance(HOUR_MS);
    for _ in 0..3 {
        shop.call().await;
    }
    for id in ["a", "b", "c"] {
        acknowledged(&server, &shop, id).await;
    }
    server.clock().advance(MINUTE_MS);
    let alert = pager.alert(&server).await;
    assert_eq!(alert["type"], "destination.recovered", "{alert}");
    assert_eq!(alert["since"], at(0), "{alert}");
    server.stop().await;
    assert!(pager.0.arrived().is_none());
}

async fn a_destination_with_nothing_pending_is_not_told(stores: Stores) {
    let server = start_by_hand(stores, |_| {}).await;
    let mut pager = Pager::start(&server).await;
    // Its only notification is a dead letter by now.
    let mut gone = refusing().await;
    server.register(with_ladder("gone", &gone, &[])).await;
    gone.call().await;
    server.until_state("gone", "dead").await;
    server.clock().advance(10 * MINUTE_MS);
    let mut shop = refusing().await;
    server.register(with_ladder("a", &shop, &["6h"])).await;
    shop.call().await;
    server.until_attempts("a", 1).await;
    server.clock().advance(10 * MINUTE_MS);
    let alert = pager.alert(&server).await;
    assert_eq!(alert["destinations"][0]["lane"], lane_of(&shop), "{alert}");
    assert_eq!(alert["count"], 1, "{alert}");
    server.stop().await;
}
