//! Requests to a receiver that no server has sent.

use super::LARGEST_BODY;
use super::other_secret;
use super::program::Receiver;
use crate::support::ringback::secret;
use crate::support::within;
use reqwest::Client;
use std::time::{SystemTime, UNIX_EPOCH};

/// The present time, in seconds since 1970.
pub fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(now.expect("after 1970").as_secs()).expect("a time")
}

/// A request that no server has sent.
pub struct Forgery {
    id: String,
    timestamp: String,
    signatures: String,
    body: Vec<u8>,
}

impl Forgery {
    /// One with the right signature.
    pub fn signed(id: &str, timestamp_s: i64, body: &[u8]) -> Self {
        Self {
            id: id.to_string(),
            timestamp: timestamp_s.to_string(),
            signatures: secret().sign(id, timestamp_s, body),
            body: body.to_vec(),
        }
    }

    /// Sends it, without the headers that are empty. Status and body of the answer, if one came.
    pub async fn send(self, receiver: &Receiver) -> Option<(u16, String)> {
        let client = Client::builder().no_proxy().build().expect("a client");
        let mut request = client.post(receiver.url()).body(self.body);
        for (name, value) in [
            ("webhook-id", self.id),
            ("webhook-timestamp", self.timestamp),
            ("webhook-signature", self.signatures),
        ] {
            if !value.is_empty() {
                request = request.header(name, value);
            }
        }
        let answer = within("an answer", request.send()).await.ok()?;
        let status = answer.status().as_u16();
        let text = within("a body", answer.text()).await.ok()?;
        Some((status, text))
    }
}

/// What must be accepted, by its id.
pub fn accepted() -> Vec<(&'static str, Forgery)> {
    let now = now_s();
    let body = b"x".as_slice();
    let mut two = Forgery::signed("two-signatures", now, body);
    let other = other_secret().sign("two-signatures", now, body);
    two.signatures = format!("{other} {}", two.signatures);
    vec![
        ("two-signatures", two),
        // Far enough from the bound of 300 s for a slow machine.
        ("late", Forgery::signed("late", now - 240, body)),
        ("early", Forgery::signed("early", now + 240, body)),
        (
            "largest",
            Forgery::signed("largest", now, &vec![b'x'; LARGEST_BODY]),
        ),
    ]
}

/// What must be refused.
pub fn forgeries(body: &[u8]) -> Vec<(&'static str, Forgery)> {
    let now = now_s();
    let signed = |timestamp_s| Forgery::signed("forged", timestamp_s, body);
    let with = |change: &dyn Fn(&mut Forgery)| {
        let mut forgery = signed(now);
        change(&mut forgery);
        forgery
    };
    vec![
        ("too old", signed(now - 360)),
        ("too new", signed(now + 360)),
        ("before 1970", signed(-now)),
        ("a touched body", with(&|forgery| forgery.body.push(b'\n'))),
        ("no body", with(&|forgery| forgery.body.clear())),
        ("another id", with(&|forgery| forgery.id.push('x'))),
        ("no id", with(&|forgery| forgery.id.clear())),
        (
            "another time",
            with(&|forgery| forgery.timestamp = (now + 1).to_string()),
        ),
        (
            "no number",
            with(&|forgery| forgery.timestamp = "soon".into()),
        ),
        ("no time", with(&|forgery| forgery.timestamp.clear())),
        ("no signature", with(&|forgery| forgery.signatures.clear())),
        (
            "no version",
            with(&|forgery| drop(forgery.signatures.drain(..3))),
        ),
        (
            "half a signature",
            with(&|forgery| forgery.signatures.truncate(20)),
        ),
        (
            "another version",
            with(&|forgery| forgery.signatures.insert(2, 'a')),
        ),
        (
            "a version alone",
            with(&|forgery| forgery.signatures = "v1,".into()),
        ),
        (
            "another secret",
            with(&|forgery| forgery.signatures = other_secret().sign("forged", now, body)),
        ),
        // Signed by somebody who knows the secret, as every merchant does.
        ("a path", Forgery::signed("../escaped", now, body)),
        ("a hidden file", Forgery::signed(".hidden", now, body)),
        ("an empty id", Forgery::signed("", now, body)),
        ("a long id", Forgery::signed(&"x".repeat(65), now, body)),
    ]
}
