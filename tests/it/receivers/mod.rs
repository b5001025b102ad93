//! The receivers in `docs/receivers`, called by a server and by forgers.

mod forgery;
pub mod program;

use crate::support::ringback::{Server, Stores, secret};
use crate::support::{LONGEST_WAIT, install_tls};
use forgery::{Forgery, accepted, forgeries, now_s};
use program::{Language, Program, Receiver, Store};
use ringback::domain::signature::SigningSecret;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;

/// The largest body that the receivers take.
const LARGEST_BODY: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_receiver_in_python_does_what_its_document_says() {
    check_mandatory(Language::Python).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_receiver_in_node_does_what_its_document_says() {
    check_mandatory(Language::Node).await;
}

/// Not every machine has these. The output names those that were tried, also without `--nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_in_those_other_languages_that_are_installed_do_what_their_document_says() {
    let mut tried = 0;
    for language in [
        Language::PythonWithLibrary,
        Language::Php,
        Language::Java,
        Language::Go,
    ] {
        let is_installed = language.is_installed().await;
        let what = match is_installed {
            true => "is tried",
            false => "is NOT tried, since it is not installed or too old",
        };
        // The macros that print are captured by the test harness.
        let said = writeln!(std::io::stderr(), "receiver in {}: {what}", language.name());
        said.expect("standard error");
        if is_installed {
            check(language).await;
            tried += 1;
        }
    }
    assert!(
        tried > 0,
        "none of these is installed, so this test shows nothing; `make test` fetches the Python package"
    );
}

async fn check_mandatory(language: Language) {
    assert!(
        language.is_installed().await,
        "{} is not on PATH, or is too old; run the tests by `make test`, which finds or installs it",
        language.name()
    );
    check(language).await;
}

async fn check(language: Language) {
    let program = Program::prepare(language).await;
    install_tls();
    // The limit of an attempt is not what is tested, and a busy machine may take long to write a file.
    let server = Server::start_as(Stores::Embedded, |config| {
        config.delivery.timeout = LONGEST_WAIT;
    })
    .await;
    keeps_what_a_server_sends(&program, &server).await;
    keeps_a_repetition_once(&program, &server).await;
    refuses_what_another_secret_signed(&program, &server).await;
    refuses_forgeries(&program).await;
    answers_500_when_it_cannot_store(&program).await;
    does_not_work_without_a_secret(&program).await;
    server.stop().await;
}

/// A secret that is not the server's.
fn other_secret() -> SigningSecret {
    SigningSecret::from_random(&[7; 32])
}

fn registration(id: &str, receiver: &Receiver) -> Value {
    json!({ "topic": "t", "id": id, "url": receiver.url(), "ladder": { "intervals": [] } })
}

fn webhook_id(view: &Value) -> &str {
    view["webhook_id"].as_str().expect("a webhook id")
}

async fn keeps_what_a_server_sends(program: &Program, server: &Server) {
    let store = Store::new();
    // The secret is being changed; the server signs with the new one already.
    // White space at the ends does not count.
    let secrets = format!(" {} {}\r\n", other_secret().expose(), secret().expose());
    let mut receiver = Receiver::start(program, &secrets, &store).await;
    let large = "付".repeat(80_000);
    let texts = [
        ("application/json", r#"{ "b":1.00, "a" : "\u4ed8款" }"#),
        (
            "application/x-www-form-urlencoded",
            "out_trade_no=1&total_amount=8.88&subject=a+b%20c",
        ),
        ("text/plain", "\u{feff}a\r\n\u{0}\n"),
        ("text/plain", ""),
        ("application/json", &large),
    ];
    for (number, (content_type, text)) in texts.into_iter().enumerate() {
        let id = format!("text-{number}");
        let mut asked = registration(&id, &receiver);
        asked["content_type"] = json!(content_type);
        asked["body"] = json!(text);
        server.register(asked).await;
        let view = server.until_state(&id, "delivered").await;
        receiver.says("stored", webhook_id(&view)).await;
        assert_eq!(store.body(webhook_id(&view)), text.as_bytes(), "{id}");
    }
    let mut asked = registration("bytes", &receiver);
    asked["content_type"] = json!("application/octet-stream");
    // All three bytes that UTF-8 never contains, and one that it does.
    asked["body_base64"] = json!("//7AAA==");
    server.register(asked).await;
    if program.language == Language::PythonWithLibrary {
        let view = server.until_state("bytes", "dead").await;
        assert_eq!(view["attempts"][0]["status"], 401, "{view}");
    } else {
        let view = server.until_state("bytes", "delivered").await;
        assert_eq!(store.body(webhook_id(&view)), [0xff, 0xfe, 0xc0, 0]);
    }
    receiver.kill().await;
}

async fn keeps_a_repetition_once(program: &Program, server: &Server) {
    let name = program.language.name();
    let store = Store::new();
    let mut receiver = Receiver::start(program, secret().expose(), &store).await;
    let mut asked = registration("twice", &receiver);
    asked["body"] = json!("once");
    asked["ladder"] = json!({ "intervals": ["1ms"] });
    // As if the answer `success` had been lost each time.
    asked["ack"] = json!({ "text": "an answer that never comes" });
    server.register(asked).await;
    let view = server.until_state("twice", "dead").await;
    let answers = [0, 1].map(|attempt| &view["attempts"][attempt]["answer"]);
    assert_eq!(answers, ["success", "success"], "{view}");
    let webhook_id = webhook_id(&view);
    receiver.says("repeated", webhook_id).await;
    assert_eq!(receiver.times_stored(webhook_id), 1, "{name}");
    receiver.kill().await;

    // It still knows after a crash.
    let mut receiver = Receiver::start(program, secret().expose(), &store).await;
    let again = Forgery::signed(webhook_id, now_s(), b"once");
    assert_eq!(again.send(&receiver).await, Some((200, "success".into())));
    receiver.says("repeated", webhook_id).await;
    assert_eq!(receiver.times_stored(webhook_id), 0, "{name}");
    assert_eq!(store.names(), BTreeSet::from([webhook_id.to_string()]));
    receiver.kill().await;
}

async fn refuses_what_another_secret_signed(program: &Program, server: &Server) {
    let name = program.language.name();
    let store = Store::new();
    let receiver = Receiver::start(program, other_secret().expose(), &store).await;
    let mut asked = registration("refused", &receiver);
    asked["body"] = json!("x");
    server.register(asked).await;
    let view = server.until_state("refused", "dead").await;
    assert_eq!(view["attempts"][0]["status"], 401, "{name}: {view}");
    assert_eq!(store.names(), BTreeSet::new());
    receiver.kill().await;
}

async fn refuses_forgeries(program: &Program) {
    let name = program.language.name();
    let store = Store::new();
    let receiver = Receiver::start(program, secret().expose(), &store).await;
    let body = b"amount=1".as_slice();
    let mut kept = BTreeSet::new();
    for (id, forgery) in accepted() {
        let answer = forgery.send(&receiver).await;
        assert_eq!(answer, Some((200, "success".into())), "{name}: {id}");
        kept.insert(id.to_string());
    }
    for (what, forgery) in forgeries(body) {
        let status = forgery.send(&receiver).await.map(|(status, _)| status);
        assert_eq!(status, Some(401), "{name}: {what}");
    }
    let large = vec![b'x'; LARGEST_BODY + 1];
    let large = Forgery::signed("too-large", now_s(), &large);
    // A receiver may close before it has read everything; then no answer may come through.
    if let Some((status, _)) = large.send(&receiver).await {
        assert_eq!(status, 413, "{name}");
    }
    assert_eq!(store.names(), kept, "{name}");
    receiver.kill().await;
}

async fn answers_500_when_it_cannot_store(program: &Program) {
    let store = Store::new();
    let receiver = Receiver::start(program, secret().expose(), &store).await;
    store.make_unusable();
    let call = Forgery::signed("not-stored", now_s(), b"x");
    let status = call.send(&receiver).await.map(|(status, _)| status);
    assert_eq!(status, Some(500), "{}", program.language.name());
    receiver.kill().await;
}

/// A receiver that takes any text for a secret would accept what anybody signs who knows the text.
async fn does_not_work_without_a_secret(program: &Program) {
    let name = program.language.name();
    let good = secret().expose().to_string();
    let without_prefix = good.replace("whsec_", "");
    let public_key = good.replace("whsec_", "whpk_");
    let masked = format!("whsec_****{}", "A".repeat(36));
    let with_another = format!("{good} {public_key}");
    for secrets in [
        "",
        " \n",
        "whsec_",
        "whsec_c2hvcnQ=",
        &without_prefix,
        &public_key,
        &masked,
        &with_another,
    ] {
        let store = Store::new();
        if program.language == Language::Php {
            // Its script begins anew with each request.
            let receiver = Receiver::start(program, secrets, &store).await;
            let forgery = Forgery::signed("forged", now_s(), b"x");
            let status = forgery.send(&receiver).await.map(|(status, _)| status);
            assert_eq!(status, Some(500), "`{secrets}`");
            assert_eq!(store.names(), BTreeSet::new());
        } else {
            let receiver = Receiver::spawn(program, secrets, &store);
            let has_refused = receiver.refuses_to_start().await;
            assert!(has_refused, "{name} with `{secrets}`");
        }
    }
}
