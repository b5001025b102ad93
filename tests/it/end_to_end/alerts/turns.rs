//! Which server makes the checks of what all servers see alike.

use super::destinations::fail;
use super::{MINUTE_MS, Pager, lane_of, refusing, with_alerts};
use crate::end_to_end::on_stores;
use crate::support::postgres::connect;
use crate::support::proxy::Line;
use crate::support::ringback::{BEGIN_MS, Server, Stores, before_redis, config};
use crate::support::{short_pause, within};
use ringback::clock::ManualClock;
use ringback::config::JournalConfig;

on_stores!(@ cut_off Postgres a_server_that_cannot_reach_redis_leaves_the_checks_to_the_other);

/// Waits until some server has the duty to check.
async fn until_one_checks(server: &Server) {
    let JournalConfig::Postgres(url) = &server.config().journal else {
        panic!("it has a journal in PostgreSQL");
    };
    let mut beside = connect(url.expose()).await;
    let checking = async {
        loop {
            let duties = "SELECT count(*) FROM duties WHERE name = 'alerts'";
            let duties = sqlx::query_scalar::<_, i64>(duties).fetch_one(&mut beside);
            if duties.await.expect("read") > 0 {
                return;
            }
            short_pause().await;
        }
    };
    within("a server to check", checking).await;
}

/// It reaches the journal, and could keep the duty as long as it lives.
async fn a_server_that_cannot_reach_redis_leaves_the_checks_to_the_other(stores: Stores) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut direct = config(dir.path(), stores);
    with_alerts(&mut direct);
    // What one server alone sees is told by that server.
    direct.alerts.store_after = None;
    let mut cut = direct.clone();
    let line = before_redis(&mut cut);
    let cut_off = Server::open(cut, Some(ManualClock::at(BEGIN_MS)), Some(dir)).await;
    until_one_checks(&cut_off).await;
    let clock = cut_off.clock().clone();
    let other = Server::open(direct, Some(clock), None).await;
    let mut pager = Pager::start(&other).await;
    line.set(Line::Refuses).await;
    let mut shop = refusing().await;
    fail(&other, &mut shop, "a").await;
    other.clock().advance(10 * MINUTE_MS);
    let alert = pager.alert(&other).await;
    assert_eq!(alert["type"], "destination.failing", "{alert}");
    assert_eq!(alert["destinations"][0]["lane"], lane_of(&shop), "{alert}");
    line.set(Line::Passes).await;
    cut_off.stop().await;
    other.stop().await;
    assert!(pager.0.arrived().is_none());
}
