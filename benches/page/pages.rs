//! The pages and searches that are measured.

use crate::browser::Browser;
use crate::fill::{self, Registered};
use std::fmt;

/// Requests before the measurement, after which the caches are as in a server that is in use.
const WARM_UP: usize = 5;

/// A page, and the address of each request to it.
pub struct MeasuredPage {
    pub name: &'static str,
    address: Box<dyn Fn(u64) -> String>,
}

/// What was measured of a page.
pub struct Measured {
    name: &'static str,
    p50_us: u128,
    pub p99_us: u128,
    most_us: u128,
    bytes: usize,
}

impl Measured {
    /// What a page may take, in microseconds.
    pub const GOAL_US: u128 = 50_000;
}

impl fmt::Display for Measured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: u128| us as f64 / 1e3;
        write!(
            out,
            "{:62} {:>7.1} {:>7.1} {:>7.1} {:>6}",
            self.name,
            ms(self.p50_us),
            ms(self.p99_us),
            ms(self.most_us),
            self.bytes / 1_024
        )
    }
}

impl MeasuredPage {
    /// Requests the page so often, each time with another address if it has several.
    pub async fn measure(&self, browser: &mut Browser, requests: usize) -> Measured {
        let (mut took, mut bytes) = (Vec::with_capacity(requests), 0);
        for number in 0..WARM_UP + requests {
            let address = (self.address)(number as u64);
            let answer = browser.get(&address).await;
            assert!(
                matches!(answer.status, 200 | 303),
                "{address}: {} {}",
                answer.status,
                answer.text
            );
            if number >= WARM_UP {
                took.push(answer.took.as_micros());
                bytes = bytes.max(answer.text.len());
            }
        }
        took.sort_unstable();
        let at = |percent: usize| took[(took.len() * percent).div_ceil(100).max(1) - 1];
        Measured {
            name: self.name,
            p50_us: at(50),
            p99_us: at(99),
            most_us: at(100),
            bytes,
        }
    }
}

fn page(name: &'static str, address: impl Fn(u64) -> String + 'static) -> MeasuredPage {
    MeasuredPage {
        name,
        address: Box::new(address),
    }
}

fn fixed(name: &'static str, address: &'static str) -> MeasuredPage {
    page(name, move |_| address.to_string())
}

/// A search for a text.
fn search(name: &'static str, text: impl Fn(u64) -> String + 'static) -> MeasuredPage {
    page(name, move |number| {
        let text = text(number);
        let text: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
        format!("/ui/search?q={text}")
    })
}

/// A destination that is another one for each request.
fn lane(number: u64) -> String {
    let lane = fill::lane(fill::ENDPOINTS + number * 37 % (fill::LANES - fill::ENDPOINTS));
    url::form_urlencoded::byte_serialize(lane.as_bytes()).collect()
}

/// All pages, of a journal with so many notifications.
pub fn all(notifications: u64, registered: Registered) -> Vec<MeasuredPage> {
    // Spread over the whole journal.
    let spread = move |number: u64| 1 + number * 15_485_863 % notifications;
    let dead = move |number: u64| spread(number) / 100 * 100 + fill::A_DEAD_ONE;
    vec![
        fixed("overview, 6 hours", "/ui/"),
        fixed("overview, 1 hour", "/ui/?hours=1"),
        fixed("overview, 24 hours", "/ui/?hours=24"),
        page("a notification, delivered", move |number| {
            fill::path(spread(number) / 100 * 100 + fill::A_DELIVERED_ONE)
        }),
        page("a notification, dead", move |number| {
            fill::path(dead(number))
        }),
        search("search: a whole id", move |number| fill::id(spread(number))),
        search("search: an id that does not exist", |number| {
            format!("nothing-{number}")
        }),
        search("search: a webhook id", move |number| {
            registered.webhook_id(spread(number))
        }),
        search("search: the beginning of an id, of 10", move |number| {
            let id = fill::id(spread(number));
            id[..id.len() - 1].to_string()
        }),
        search("search: the beginning of an id, of 1,000", move |number| {
            let id = fill::id(spread(number));
            id[..id.len() - 3].to_string()
        }),
        search("search: the beginning of an id, of 10,000", move |number| {
            let id = fill::id(spread(number));
            id[..id.len() - 4].to_string()
        }),
        search("search: the beginning of all ids", |_| "order-".to_string()),
        search("search: a part of all URLs", |_| "/notify/".to_string()),
        search("search: a host name, one destination of 1,000", |number| {
            format!("m{}.shop.example", 100 + number)
        }),
        search("search: a part of a URL, one of 50,000", |_| {
            "/notify/rare".to_string()
        }),
        search("search: a part of a URL that does not exist", |_| {
            "nowhere.example".to_string()
        }),
        search("search: the name of an endpoint", |_| "shop-1".to_string()),
        fixed("search: everything", "/ui/search"),
        fixed("list: pending", "/ui/search?state=scheduled"),
        fixed("list: delivered", "/ui/search?state=delivered"),
        fixed("list: cancelled", "/ui/search?state=cancelled"),
        fixed("list: a topic", "/ui/search?topic=invoice.sent"),
        page("list: a destination", |number| {
            format!("/ui/search?lane={}", lane(number))
        }),
        page("list: a destination, pending", |number| {
            format!("/ui/search?state=scheduled&lane={}", lane(number))
        }),
        page("list: a destination, cancelled", |number| {
            format!("/ui/search?state=cancelled&lane={}", lane(number))
        }),
        page("list: a destination, dead", |number| {
            format!("/ui/search?state=dead&lane={}", lane(number))
        }),
        page(
            "list: a destination, dead, a cause, since 7 days",
            |number| {
                let lane = lane(number);
                format!("/ui/search?state=dead&lane={lane}&cause=ladder_exhausted&from=7d")
            },
        ),
        page("list: a destination, a topic, since 2 days", |number| {
            format!(
                "/ui/search?topic=invoice.sent&lane={}&from=2d",
                lane(number)
            )
        }),
        fixed("dead letters", "/ui/dead-letters"),
        fixed(
            "dead letters of a frequent cause",
            "/ui/dead-letters?cause=ladder_exhausted",
        ),
        fixed(
            "dead letters of a rare cause",
            "/ui/dead-letters?cause=blocked",
        ),
        fixed(
            "dead letters of a topic",
            "/ui/dead-letters?topic=invoice.sent",
        ),
        page("dead letters of a destination", |number| {
            format!("/ui/dead-letters?lane={}", lane(number))
        }),
        page("dead letters of a destination and a cause", |number| {
            format!("/ui/dead-letters?cause=window_closed&lane={}", lane(number))
        }),
        fixed(
            "dead letters, part of an id that does not exist",
            "/ui/dead-letters?id_contains=nowhere",
        ),
        fixed("destinations", "/ui/destinations"),
        page("a destination", |number| {
            format!("/ui/destinations/{}", lane(number))
        }),
        fixed("endpoints", "/ui/endpoints"),
        fixed("an endpoint", "/ui/endpoints/shop-1"),
        fixed("default keys", "/ui/default-keys"),
        fixed("API keys", "/ui/keys"),
        fixed("jobs", "/ui/jobs"),
        fixed("audit log", "/ui/audit-log"),
        fixed("audit log of a frequent actor", "/ui/audit-log?actor=anna"),
        fixed("audit log of nobody", "/ui/audit-log?actor=nobody"),
        page("plan: replay all of a destination", |number| {
            format!("/ui/dead-letters/plan?lane={}", lane(number))
        }),
    ]
}
