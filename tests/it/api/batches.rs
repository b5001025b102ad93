//! Registering many at once.

use super::{Embedded, order};
use serde_json::{Value, json};

const BATCH: &str = "/v1/notifications/batch";

#[tokio::test]
async fn each_of_a_batch_gets_its_own_result_in_order() {
    let embedded = Embedded::start().await;
    embedded.server.register(&order("known")).await.is(201);
    let mut other = order("known");
    other["body"] = json!("different");
    let mut large = order("large");
    large["body"] = Value::String("x".repeat(256 * 1024 + 1));
    let batch = json!({"notifications": [
        order("1"), {"url": 5}, order("known"), other, large, 7, order("2"),
    ]});
    let reply = embedded.server.post_json(BATCH, &batch).await.is(200);
    let results = reply["results"].as_array().expect("a list");
    let statuses: Vec<u64> = results
        .iter()
        .filter_map(|result| result["status"].as_u64())
        .collect();
    assert_eq!(statuses, [201, 422, 200, 409, 413, 422, 201]);
    assert_eq!(results[0]["notification"]["id"], "1");
    assert_eq!(results[0]["notification"]["state"], "scheduled");
    assert!(results[0].get("problem").is_none());
    assert_eq!(results[1]["problem"]["errors"][0]["pointer"], "/topic");
    assert!(results[1].get("notification").is_none());
    assert_eq!(results[3]["problem"]["id"], "known");
    assert_eq!(
        results[3]["problem"]["type"],
        "urn:ringback:problem:mismatch"
    );
    assert_eq!(results[4]["problem"]["errors"][0]["pointer"], "/body");
    assert_eq!(results[5]["problem"]["errors"][0]["pointer"], "");
    assert_eq!(results[6]["notification"]["id"], "2");
}

#[tokio::test]
async fn a_batch_lists_the_first_errors_of_each() {
    let embedded = Embedded::start().await;
    let mut wrong = order("1");
    for number in 0..50 {
        wrong[format!("x{number}")] = json!(1);
    }
    let batch = json!({"notifications": [wrong, order("2")]});
    let reply = embedded.server.post_json(BATCH, &batch).await.is(200);
    let errors = reply["results"][0]["problem"]["errors"].as_array();
    let errors = errors.expect("a list");
    assert_eq!(errors.len(), 11);
    assert_eq!(errors[10]["detail"], "40 more errors are not listed");
    assert_eq!(reply["results"][1]["status"], 201);
}

#[tokio::test]
async fn the_first_of_a_key_in_a_batch_is_the_one_that_counts() {
    let embedded = Embedded::start().await;
    let mut other = order("1");
    other["body"] = json!("different");
    let batch = json!({"notifications": [order("1"), other, order("1")]});
    let reply = embedded.server.post_json(BATCH, &batch).await.is(200);
    let statuses: Vec<&Value> = (0..3)
        .map(|position| &reply["results"][position]["status"])
        .collect();
    assert_eq!(statuses, [201, 409, 200]);
}

#[tokio::test]
async fn a_batch_is_bounded() {
    let embedded = Embedded::start().await;
    let many = |count: usize| {
        let orders: Vec<Value> = (0..count)
            .map(|number| order(&number.to_string()))
            .collect();
        json!({ "notifications": orders })
    };
    let reply = embedded.server.post_json(BATCH, &many(0)).await.is(200);
    assert_eq!(reply, json!({"results": []}));
    let reply = embedded.server.post_json(BATCH, &many(1_000)).await.is(200);
    let results = reply["results"].as_array().expect("a list");
    assert_eq!(results.len(), 1_000);
    for (number, result) in results.iter().enumerate() {
        assert_eq!(result["status"], 201);
        assert_eq!(result["notification"]["id"], number.to_string());
    }
    let reply = embedded.server.post_json(BATCH, &many(1_001)).await;
    reply.is_problem(422, "fields");
    assert_eq!(reply.body["errors"][0]["pointer"], "/notifications");
    let mut padded = many(1).to_string();
    padded.push_str(&" ".repeat(16 * 1024 * 1024 - padded.len()));
    embedded
        .server
        .post_text(BATCH, padded.clone())
        .await
        .is(200);
    padded.push(' ');
    let reply = embedded.server.post_text(BATCH, padded).await;
    reply.is_problem(413, "too-large");
}

#[tokio::test]
async fn a_batch_that_is_none_is_refused_as_a_whole() {
    let embedded = Embedded::start().await;
    for (text, status, kind) in [
        ("[]", 422, "fields"),
        ("{}", 422, "fields"),
        (r#"{"notifications":[{}],"x":1}"#, 422, "fields"),
        (r#"{"notifications":[{}"#, 400, "malformed"),
        ("", 400, "malformed"),
    ] {
        let reply = embedded.server.post_text(BATCH, text).await;
        reply.is_problem(status, kind);
    }
}
