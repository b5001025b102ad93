//! A server as it is after a day of work: destinations that are well, held and in trouble; notifications in every state; dead
//! letters of every kind; a job. Its clock is set by the test, from a day ago to now, so a day takes no time.

use crate::page::{make_key, operator};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::refusing_port::RefusingPort;
use crate::support::ringback::{Api, Server, Stores, config};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::clock::{Clock as _, ManualClock, SystemClock};
use ringback::domain::timestamp::display_ms;
use serde_json::{Value, json};
use std::time::Duration;

/// The topic of the notifications.
pub const TOPIC: &str = "payment.succeeded";
/// The order that got a login page as the answer to each attempt, and is dead.
pub const DEAD: &str = "order-20261120-1042";
/// The order that has failed some times, and waits for its next attempt.
pub const PENDING: &str = "order-20261121-1077";
/// An order that was delivered at the second attempt.
pub const DELIVERED: &str = "order-20261121-1063";

const LOGIN_PAGE: &str = "<!doctype html>\n<html>\n<head><title>Sign in | Moon Books</title></head>\n\
    <body>\n<form action=\"/login\">Please sign in to continue.</form>\n</body>\n</html>\n";
/// The intervals of the ladder `alipay`, in milliseconds.
const LADDER_MS: [i64; 7] = [
    240_000, 600_000, 600_000, 3_600_000, 7_200_000, 21_600_000, 53_880_000,
];

/// The server, and whom it calls.
pub struct Scene {
    /// The server.
    pub server: Server,
    /// The API with the operator's key.
    pub admin: Api,
    /// The id of the job that runs.
    pub job: String,
    /// When the order died that went down the whole ladder.
    dead_ms: i64,
    books: Merchant,
    cafe: Merchant,
    bikes: RefusingPort,
}

impl Scene {
    /// Sets everything up.
    pub async fn set() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut config = config(dir.path(), Stores::Embedded);
        // One call is to stay in flight.
        config.delivery.timeout = Duration::from_secs(600);
        let now_ms = SystemClock.now_ms();
        let ladder_ms: i64 = LADDER_MS.iter().sum();
        let clock = ManualClock::at(now_ms - ladder_ms - 1_500_000);
        let server = Server::open(config, Some(clock), Some(dir)).await;
        let admin = operator(&server).await;
        let login_page = Reaction::Answer(200, LOGIN_PAGE.into());
        let mut scene = Self {
            server,
            admin,
            job: String::new(),
            dead_ms: 0,
            books: Merchant::scripted(Vec::new(), login_page.clone()).await,
            cafe: Merchant::start().await,
            bikes: RefusingPort::take(),
        };
        scene.name_endpoints().await;
        scene.let_a_day_pass().await;
        scene.fail_in_other_ways().await;
        scene.work_this_morning().await;
        scene.act_as_staff().await;
        let rest_ms = now_ms - scene.server.clock().now_ms();
        scene.advance(rest_ms.max(0));
        scene.leave_one_in_flight().await;
        scene
    }

    /// The URL of a page.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url())
    }

    /// The path of the page of a notification.
    pub fn path(id: &str) -> String {
        format!("/ui/notifications/{TOPIC}/{id}")
    }

    /// Closes everything.
    pub async fn strike(self) {
        self.books.release();
        self.server.stop().await;
    }
}

impl Scene {
    async fn call(&self, method: Method, path: &str, asked: Value) -> Value {
        let (status, answer) = self.admin.call(method, path, Some(asked)).await;
        assert!(matches!(status, 200..=299), "{path}: {status} {answer}");
        answer
    }

    async fn name_endpoints(&self) {
        let bikes = format!("http://{}/notify", self.bikes.address());
        for (name, url, more) in [
            (
                "moon-books",
                self.books.url("/pay/notify"),
                json!({ "metadata": { "team": "south" } }),
            ),
            ("harbour-cafe", self.cafe.url("/callback"), json!({})),
            ("north-bikes", bikes, json!({ "timeout": "5s" })),
            (
                "old-mill",
                self.cafe.url("/mill"),
                json!({ "concurrency": 4, "rate": 20 }),
            ),
        ] {
            let mut asked = more;
            asked["url"] = json!(url);
            self.call(Method::PUT, &format!("/v1/endpoints/{name}"), asked)
                .await;
        }
        for (name, role) in [("desk-1", "support"), ("shop-backend", "producer")] {
            make_key(&self.admin, json!({ "name": name, "role": role })).await;
        }
    }

    /// Registers one for an endpoint. `more` has further fields.
    async fn register(&self, id: &str, endpoint: &str, more: Value) {
        let mut asked = json!({
            "topic": TOPIC, "id": id, "endpoint": endpoint,
            "content_type": "application/x-www-form-urlencoded",
            "body": format!("out_trade_no={id}&trade_status=TRADE_SUCCESS&total_amount=8.88"),
        });
        let fields = more.as_object().expect("an object").clone();
        asked.as_object_mut().expect("an object").extend(fields);
        self.admin.register(asked).await;
    }

    async fn get(&self, id: &str) -> Value {
        let path = format!("/v1/notifications/{TOPIC}/{id}");
        self.admin.call(Method::GET, &path, None).await.1
    }

    /// Waits until one is in a state, with so many attempts made.
    async fn until(&self, id: &str, state: &str, attempts: usize) {
        let waiting = async {
            loop {
                let view = self.get(id).await;
                if view["state"] == state && view["attempts_made"] == attempts {
                    return;
                }
                short_pause().await;
            }
        };
        within(&format!("{id} to be {state}"), waiting).await;
    }

    fn advance(&self, by_ms: i64) {
        self.server.clock().advance(by_ms);
    }

    /// One order goes down the whole ladder and gets a login page each time.
    async fn let_a_day_pass(&mut self) {
        self.register(DEAD, "moon-books", json!({ "priority": "high" }))
            .await;
        for (made, interval_ms) in LADDER_MS.iter().enumerate() {
            self.until(DEAD, "scheduled", made + 1).await;
            self.advance(*interval_ms);
        }
        self.until(DEAD, "dead", LADDER_MS.len() + 1).await;
        self.advance(1_000);
        self.dead_ms = self.server.clock().now_ms();
    }

    /// Others die of other causes.
    async fn fail_in_other_ways(&self) {
        let once = json!({ "ladder": { "intervals": [] } });
        for number in 1043..1046 {
            let id = format!("order-20261120-{number}");
            self.register(&id, "moon-books", once.clone()).await;
            self.until(&id, "dead", 1).await;
        }
        self.books
            .now_does(Reaction::Answer(500, "Internal Server Error".into()));
        for number in 1046..1048 {
            let id = format!("order-20261120-{number}");
            self.register(&id, "moon-books", once.clone()).await;
            self.until(&id, "dead", 1).await;
        }
        let again = json!({ "reason": "the shop says that it is back" });
        let path = format!("/v1/dead-letters/{TOPIC}/order-20261120-1046/replay");
        self.call(Method::POST, &path, again).await;
        self.until("order-20261120-1046", "dead", 2).await;
        self.books.now_does(Reaction::Answer(410, "gone".into()));
        let refused = json!({ "ladder": { "intervals": [] }, "ack": "standard-webhooks" });
        self.register("order-20261120-1048", "moon-books", refused)
            .await;
        self.until("order-20261120-1048", "dead", 1).await;
        let mut blocked = once;
        blocked["url"] = json!("https://10.1.2.3/notify");
        self.register("order-20261120-1049", "moon-books", blocked)
            .await;
        self.until("order-20261120-1049", "dead", 1).await;
    }

    /// Some are delivered, one after a failure; one goes on failing; a destination refuses connections.
    async fn work_this_morning(&self) {
        self.advance(600_000);
        self.books
            .now_does(Reaction::Answer(503, "try again later".into()));
        self.register(PENDING, "moon-books", json!({})).await;
        self.until(PENDING, "scheduled", 1).await;
        self.register(DELIVERED, "moon-books", json!({})).await;
        self.until(DELIVERED, "scheduled", 1).await;
        for number in 1050..1060 {
            let id = format!("order-20261121-{number}");
            self.register(&id, "harbour-cafe", json!({})).await;
            self.until(&id, "delivered", 1).await;
        }
        for number in 1090..1096 {
            let id = format!("order-20261121-{number}");
            self.register(&id, "north-bikes", json!({})).await;
        }
        let probed = async {
            let path = "/v1/lanes/endpoint%3Anorth-bikes";
            while self.admin.call(Method::GET, path, None).await.1["state"] != "probing" {
                short_pause().await;
            }
        };
        within("a destination to be probed", probed).await;
        self.books
            .now_does(Reaction::Answer(200, LOGIN_PAGE.into()));
        self.advance(60_000);
        let hold = json!({ "reason": "the mill moves to a new server, ticket 4711" });
        self.call(Method::POST, "/v1/lanes/endpoint%3Aold-mill/hold", hold)
            .await;
        for number in 1080..1083 {
            let id = format!("order-20261121-{number}");
            self.register(&id, "old-mill", json!({})).await;
        }
        self.register("order-20261121-1084", "old-mill", json!({ "delay": "2h" }))
            .await;
        let path = format!("/v1/notifications/{TOPIC}/order-20261121-1084");
        let cancelled = self.admin.call(Method::DELETE, &path, None).await;
        assert!(matches!(cancelled.0, 200..=299), "{cancelled:?}");
        self.advance(180_000);
        for id in [PENDING, DELIVERED] {
            self.until(id, "scheduled", 2).await;
        }
        self.books.now_does(Reaction::success());
        let path = format!("/v1/notifications/{TOPIC}/{DELIVERED}/retry");
        self.call(Method::POST, &path, json!({})).await;
        self.until(DELIVERED, "delivered", 3).await;
        self.books
            .now_does(Reaction::Answer(200, LOGIN_PAGE.into()));
        self.advance(600_000);
        self.until(PENDING, "scheduled", 3).await;
    }

    /// Somebody replays some as a job, slowly.
    async fn act_as_staff(&mut self) {
        self.books.now_does(Reaction::success());
        let asked = json!({
            "filter": { "topic": TOPIC, "cause": "ladder_exhausted", "from": display_ms(self.dead_ms) },
            "rate": 0.001, "reason": "the shop has repaired its sign-in",
        });
        let job = self
            .call(Method::POST, "/v1/dead-letters/replay", asked)
            .await;
        self.job = job["id"].as_str().expect("an id").to_string();
        let path = format!("/v1/jobs/{}", self.job);
        let waiting = async {
            while self.admin.call(Method::GET, &path, None).await.1["done"] != json!(1) {
                short_pause().await;
            }
        };
        within("the job to begin", waiting).await;
    }

    async fn leave_one_in_flight(&self) {
        self.books
            .now_does(Reaction::Held(Box::new(Reaction::success())));
        self.register("order-20261121-1099", "moon-books", json!({}))
            .await;
        self.until("order-20261121-1099", "in_flight", 0).await;
    }
}
