//! HTTP/2 with a receiver that is not made of the library that Ringback uses: the one of Node.js.

use super::http2::{check, set, start, tested_often};
use crate::receivers::program::node;
use crate::support::tls::Authority;
use crate::support::within;
use serde_json::json;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// Prints its port, then a line for each connection and each call.
const RECEIVER: &str = "
const [, dir, closes] = process.argv;
const { readFileSync } = require('node:fs');
const read = (name) => readFileSync(`${dir}/${name}.pem`);
const settings = { maxConcurrentStreams: 4 };
const server = require('node:http2').createSecureServer({ key: read('key'), cert: read('certificate'), settings });
server.on('session', () => console.log('session'));
server.on('sessionError', (error) => console.log(`error ${error}`));
server.on('stream', (stream, headers) => {
  let length = 0;
  stream.on('data', (chunk) => { length += chunk.length; });
  stream.on('end', () => {
    console.log(`call ${headers[':authority']} ${length}`);
    stream.respond({ ':status': 200 });
    stream.end('success');
    if (closes === 'closes') stream.session.close();
  });
});
server.listen(0, '127.0.0.1', () => console.log(`port ${server.address().port}`));
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_made_to_a_receiver_of_node() {
    for closes in [false, true] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let private = Authority::new("Private");
        let identity = private.issue(&["127.0.0.1"]);
        for (name, pem) in [
            ("key", identity.key_pem()),
            ("certificate", identity.certificate_pem()),
        ] {
            std::fs::write(dir.path().join(format!("{name}.pem")), pem).expect("written");
        }
        let mut receiver = node()
            .args(["-e", RECEIVER])
            .arg(dir.path())
            .args(closes.then_some("closes"))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Node.js");
        let output = receiver.stdout.take().expect("piped");
        let mut lines = BufReader::new(output).lines();
        let first = within("the port", lines.next_line()).await.expect("a line");
        let first = first.expect("a line");
        let port = first.strip_prefix("port ").expect("a port").to_string();

        let server = start().await;
        let url = format!("https://127.0.0.1:{port}/notify");
        set(
            &server,
            "shop",
            json!({ "url": url, "http": "2", "ca": private.pem() }),
        )
        .await;
        let mut acknowledged = 0;
        for attempt in tested_often(&server, "shop", 12).await {
            // Node closes the connection while requests of other calls are on their way to it. Then the system resets the
            // connection, and what Node said before may be lost with that. Such a call is not made again at once,
            // because nobody knows whether it was processed.
            if closes && attempt["outcome"] == "protocol" {
                let reason = attempt["reason"].as_str().expect("a reason");
                assert!(reason.contains("the connection was closed"), "{reason}");
            } else {
                check(&attempt, "acknowledged", "2");
                acknowledged += 1;
            }
        }
        if !closes {
            let registration =
                json!({ "topic": "t", "id": "a", "endpoint": "shop", "body": "x".repeat(200_000) });
            server.register(registration).await;
            let view = server.until_state("a", "delivered").await;
            check(&view["attempts"][0], "acknowledged", "2");
            acknowledged += 1;
        }
        server.stop().await;

        receiver.kill().await.expect("killed");
        let (mut calls, mut sessions) = (0, 0);
        while let Ok(Some(line)) = lines.next_line().await {
            assert!(!line.starts_with("error"), "{line}");
            sessions += usize::from(line == "session");
            calls += usize::from(line.starts_with(&format!("call 127.0.0.1:{port} ")));
        }
        let most_calls = if closes { 12 } else { acknowledged };
        assert!(
            (acknowledged..=most_calls).contains(&calls),
            "each call was made once at most: {calls} of {acknowledged}"
        );
        // One that closes after each answer may get a connection for each call.
        let most = if closes { 12 } else { 4 };
        assert!((1..=most).contains(&sessions), "{sessions}");
    }
}
