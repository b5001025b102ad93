//! The plots over time on the overview.

use super::{Browser, make_key, operator, signed_in};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::postgres::connect;
use crate::support::ringback::{Server, Stores, registration, with_ladder};
use crate::support::{short_pause, within};
use ringback::clock::Clock as _;
use ringback::config::JournalConfig;
use serde_json::json;

/// The plot with this name.
fn plot<'page>(page: &'page str, name: &str) -> &'page str {
    let begin = format!("<title id=\"plot-{name}-title\">");
    let before = page.split(&begin).next().expect("a part").len();
    let figure = page[..before].rfind("<figure").expect("a figure");
    let rest = &page[figure..];
    &rest[..rest.find("</figure>").expect("its end")]
}

/// The number beside the title of a plot.
fn total(page: &str, name: &str) -> String {
    let (_, rest) = (plot(page, name))
        .split_once("<span class=\"plot-total\">")
        .expect("a number");
    rest.split('<').next().expect("its end").to_string()
}

/// The widths of the hatched areas of a plot.
fn gaps(page: &str, name: &str) -> Vec<String> {
    let areas = plot(page, name).split("<rect class=\"plot-gap\"").skip(1);
    let width = |area: &str| {
        let (_, rest) = area.split_once("width=\"").expect("a width");
        rest.split('"').next().expect("its end").to_string()
    };
    areas.map(width).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_without_a_server_is_no_time_without_attempts() {
    let mut merchant = Merchant::scripted(vec![Reaction::success()], Reaction::fail()).await;
    let server = Server::start_by_hand(Stores::Embedded).await;
    let (config, clock) = (server.config().clone(), server.clock().clone());
    server.register(registration("1", &merchant)).await;
    server.until_state("1", "delivered").await;
    server.register(with_ladder("2", &merchant, &[])).await;
    server.until_state("2", "dead").await;
    let directory = server.stop_and_keep().await;
    // Nothing is at work for nine whole minutes. Then there is a server without attempts.
    clock.turn_to(clock.now_ms() + 10 * 60_000);
    let server = Server::open(config, Some(clock.clone()), directory).await;
    let mut browser = Browser::of(&server);
    // The second server has not written at once that it is at work.
    let reading = async {
        loop {
            let page = browser.get("/ui/?hours=1").await.is(200).text;
            let (_, table) = page.split_once("id=\"plots-table\"").expect("a table");
            if table.contains("no attempts") {
                return page;
            }
        }
    };
    let page = within("the second server to be counted", reading).await;
    let totals = ["delivered", "failed", "dead"].map(|name| total(&page, name));
    assert_eq!(totals, ["1", "1", "1"], "{page}");
    for name in ["delivered", "failed", "dead", "lateness"] {
        // The 49 minutes before the first server, and the nine between the two.
        assert_eq!(gaps(&page, name), ["81.67%", "15%"], "{name}: {page}");
    }
    assert!(plot(&page, "delivered").contains("08:30 UTC: Delivered: 1"));
    let failed = plot(&page, "failed");
    assert!(
        failed.contains("08:30 UTC: not answered as agreed: 1"),
        "{failed}"
    );
    assert!(failed.contains("<strong>1</strong>"), "{failed}");
    assert!(plot(&page, "lateness").contains("plot-step plot-p99"));
    assert!(page.contains("no data: no server was at work"), "{page}");
    assert!(page.contains("bars without data: 58."), "{page}");
    // In the table, what is not known is no 0 either.
    let (_, table) = page.split_once("id=\"plots-table\"").expect("a table");
    assert!(table.contains("no data</span>"), "{table}");
    let chinese = browser.with("accept-language", "zh").get("/ui/").await;
    assert!(chinese.is(200).text.contains("最近几小时"));
    server.stop().await;
    while merchant.arrived().is_some() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counts_of_all_servers_are_added_up_and_outlive_them() {
    const MANY: usize = 40;
    let mut merchant = Merchant::start().await;
    let one = Server::start(Stores::Postgres).await;
    let config = one.config().clone();
    let other = Server::open(config.clone(), None, None).await;
    for number in 0..MANY {
        let asked = registration(&number.to_string(), &merchant);
        match number % 2 {
            0 => one.register(asked).await,
            _ => other.register(asked).await,
        };
    }
    for number in 0..MANY {
        one.until_state(&number.to_string(), "delivered").await;
    }
    other.stop().await;
    let one = one.restart().await;
    let mut browser = Browser::of(&one);
    let page = browser.get("/ui/?hours=24").await.is(200).text;
    assert_eq!(total(&page, "delivered"), MANY.to_string(), "{page}");
    assert_eq!(total(&page, "failed"), "0", "{page}");
    assert!(page.contains("All servers together."), "{page}");
    let JournalConfig::Postgres(url) = &config.journal else {
        panic!("it has a journal in PostgreSQL");
    };
    let mut beside = connect(url.expose()).await;
    let counting = "SELECT count(DISTINCT server) FROM activity";
    let servers: i64 = sqlx::query_scalar(counting)
        .fetch_one(&mut beside)
        .await
        .expect("read");
    assert!(servers >= 2, "each of them has written: {servers}");
    one.stop().await;
    while merchant.arrived().is_some() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_journal_a_server_shows_its_own_counts_and_says_so() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::RedisOnly).await;
    server.register(registration("1", &merchant)).await;
    server.until_state("1", "delivered").await;
    let mut browser = Browser::of(&server);
    let showing = async {
        loop {
            let page = browser.get("/ui/").await.is(200).text;
            if total(&page, "delivered") == "1" {
                return page;
            }
            short_pause().await;
        }
    };
    let page = within("the plots", showing).await;
    assert!(page.contains("counts of this server alone"), "{page}");
    server.stop().await;
    while merchant.arrived().is_some() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_shown_is_in_the_address_and_not_for_everybody() {
    let server = Server::start(Stores::Embedded).await;
    let admin = operator(&server).await;
    let mut browser = signed_in(&admin).await;
    for (asked, bars, current) in [
        ("", "5 min", "6"),
        ("?hours=1", "1 min", "1"),
        ("?hours=24", "15 min", "24"),
        ("?hours=%3Cscript%3E", "5 min", "6"),
        ("?hours=-1", "5 min", "6"),
    ] {
        let page = browser.get(&format!("/ui/{asked}")).await.is(200).text;
        assert!(
            page.contains(&format!("Each bar: {bars}.")),
            "{asked}: {page}"
        );
        let link = format!("href=\"/ui/?hours={current}#plots\" aria-current=\"true\"");
        assert!(page.contains(&link), "{asked}: {page}");
    }
    let shop = json!({ "name": "shop", "role": "producer" });
    let mut producer = signed_in(&make_key(&admin, shop).await).await;
    let page = producer.get("/ui/").await.is(200).text;
    assert!(!page.contains("plot"), "{page}");
    server.stop().await;
}
