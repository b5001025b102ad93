//! A server with a dead letter, whose merchant is in order again, and a person at the desk who has a key.

use crate::page::{make_key, operator};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Api, Server, Stores, with_ladder};
use serde_json::json;

/// The order that somebody calls about.
pub const ORDER: &str = "order-20261120-0042";
/// What the merchant answered while it was out of order.
pub const LOGIN_PAGE: &str = "<html><body>Please log in</body></html>";

/// The server and those around it.
pub struct Desk {
    /// The server. It needs a key.
    pub server: Server,
    /// The merchant. It holds each call back until it is released, and then acknowledges it.
    pub merchant: Merchant,
    /// The API with the operator's key.
    pub admin: Api,
    /// The API with the key of the support staff.
    pub support: Api,
}

impl Desk {
    /// Sets up the desk. Two attempts have failed.
    pub async fn open() -> Self {
        let login_page = Reaction::Answer(200, LOGIN_PAGE.into());
        let merchant = Merchant::scripted(Vec::new(), login_page).await;
        let server = Server::start(Stores::Embedded).await;
        let admin = operator(&server).await;
        let support = json!({ "name": "desk-1", "role": "support" });
        let support = make_key(&admin, support).await;
        admin.register(with_ladder(ORDER, &merchant, &["1s"])).await;
        admin.until_state(ORDER, "dead").await;
        merchant.now_does(Reaction::Held(Box::new(Reaction::success())));
        Self {
            server,
            merchant,
            admin,
            support,
        }
    }

    /// The URL of a page.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url())
    }

    /// The key of the support staff.
    pub fn key(&self) -> &str {
        self.support.key().expect("a key")
    }

    /// The path of the page of the order.
    pub fn path() -> String {
        format!("/ui/notifications/t/{ORDER}")
    }

    /// Closes the desk.
    pub async fn close(self) {
        self.server.stop().await;
    }
}
