//! A PostgreSQL server that takes TLS alone, with certificates of an authority of one's own on both sides.

use super::INSTANCE;
use crate::support::postgres::{PostgresServer, connect};
use crate::support::tls::Authority;
use ringback::journal::JournalError;
use ringback::journal::postgres::PostgresJournal;
use std::fs;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_are_verified_by_the_parameters_of_the_url() {
    crate::support::install_tls();
    let server = PostgresServer::start(&[]);
    let database = server.fresh_database();
    let (authority, other) = (Authority::new("Database CA"), Authority::new("Another CA"));
    let shown = authority.issue(&["127.0.0.1"]);
    let (certificate, key) = (shown.certificate_pem(), shown.key_pem());
    (server.require_tls(&certificate, &key, &authority.pem())).await;

    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let (ca, other_ca) = (
        file("ca.pem", &authority.pem()),
        file("other.pem", &other.pem()),
    );
    let own = authority.issue(&["ringback"]);
    let certificate = file("own.pem", &own.certificate_pem());
    let key = file("own.key", &own.key_pem());
    let verified = format!("{database}?sslmode=verify-full&sslrootcert={ca}");
    let right = format!("{verified}&sslcert={certificate}&sslkey={key}");

    let journal = PostgresJournal::open(&right, INSTANCE, true).await;
    journal.expect("opened");
    let mut beside = connect(&right).await;
    let sessions: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_stat_ssl WHERE ssl AND client_dn IS NOT NULL")
            .fetch_one(&mut beside)
            .await
            .expect("counted");
    assert!(sessions > 0);

    let plain = format!("{database}?sslmode=disable");
    for (url, said) in [
        (right.replace(&ca, &other_ca), "UnknownIssuer"),
        (
            right.replace("127.0.0.1", "localhost"),
            "not valid for name",
        ),
        (verified, "client certificate"),
        (plain, "no encryption"),
    ] {
        let error = PostgresJournal::open(&url, INSTANCE, true).await.err();
        let Some(JournalError::Unavailable(text) | JournalError::Refused(text)) = error else {
            panic!("{said}: {error:?}");
        };
        assert!(text.contains(said), "{said}: {text}");
    }
}
