//! Opening the journal: connects to the server, and makes sure that the database has this version's schema.

use super::PostgresJournal;
use super::connections::Connections;
use super::error::PostgresFailure;
use super::schema::{self, Schema};
use super::session::connect;
use crate::journal::JournalError;
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use tokio::sync::Mutex;
use url::Host;
use uuid::Uuid;

/// The application name that the server sees, unless the URL gives another.
const APPLICATION: &str = "ringback";

impl PostgresJournal {
    /// Opens the journal in a database. `instance` is the name of this process in the rows that it writes.
    /// With `migrate`, the schema of a database that is empty or of an older version is first brought up to
    /// date.
    ///
    /// # Errors
    /// [`JournalError::Refused`] if the database belongs to another program, was written by a newer
    /// version, or by an older version while `migrate` is false; [`JournalError::Unavailable`] if the
    /// database cannot be reached. The errors do not contain the password.
    pub async fn open(url: &str, instance: &str, migrate: bool) -> Result<Self, JournalError> {
        let options = parse(url)?;
        let at = |error| with_location(&options, error);
        let mut connection = connect(&options).await.map_err(at)?;
        match schema::look(&mut connection).await.map_err(at)? {
            Schema::UpToDate => {}
            Schema::Older(_) if !migrate => {
                return Err(at(JournalError::Refused(
                    "its schema is not up to date: run `ringback migrate`, or start the server with \
                     --migrate"
                        .into(),
                )));
            }
            Schema::Older(_) => {
                let applied = schema::migrate(connection).await.map_err(at)?;
                if !applied.is_empty() {
                    tracing::info!(
                        applied = applied.join(", "),
                        "migrations were applied to the journal"
                    );
                }
                connection = connect(&options).await.map_err(at)?;
            }
        }
        let id = identify(&mut connection).await.map_err(at)?;
        Ok(Self {
            id,
            instance: instance.into(),
            holder: format!("{instance}/{}", Uuid::now_v7().simple()),
            connections: Connections::new(options),
            in_use: Mutex::new(None),
        })
    }

    /// Brings the schema of a database up to date. Returns the names of the migrations that were applied.
    ///
    /// # Errors
    /// As [`PostgresJournal::open`].
    pub async fn migrate(url: &str) -> Result<Vec<String>, JournalError> {
        let options = parse(url)?;
        let at = |error| with_location(&options, error);
        let connection = connect(&options).await.map_err(at)?;
        schema::migrate(connection).await.map_err(at)
    }
}

pub(super) fn parse(url: &str) -> Result<PgConnectOptions, JournalError> {
    let options: PgConnectOptions = url
        .parse()
        .map_err(|_| JournalError::Refused("the journal's URL is not a PostgreSQL URL".into()))?;
    let options = match options.get_application_name() {
        Some(_) => options,
        None => options.application_name(APPLICATION),
    };
    // On the same machine, TLS gives no protection and is slow: a call is sent as several TLS records, and
    // each waits until the record before is acknowledged.
    let options = if is_local(options.get_host()) && !has_sslmode(url) {
        options.ssl_mode(PgSslMode::Disable)
    } else {
        options
    };
    // `extra_float_digits` is not sent: the journal has no floating-point numbers, and connection poolers
    // refuse parameters that they do not know.
    Ok(options.extra_float_digits(None).disable_statement_logging())
}

fn has_sslmode(url: &str) -> bool {
    let (_, parameters) = url.split_once('?').unwrap_or_default();
    let mut names = parameters
        .split('&')
        .filter_map(|one| one.split('=').next());
    names.any(|name| matches!(name, "sslmode" | "ssl-mode"))
}

fn is_local(host: &str) -> bool {
    let bracketed = format!("[{}]", host.trim_matches(['[', ']']));
    match Host::parse(host).or_else(|_| Host::parse(&bracketed)) {
        Ok(Host::Domain(name)) => name == "localhost",
        Ok(Host::Ipv4(address)) => address.is_loopback(),
        Ok(Host::Ipv6(address)) => address.is_loopback(),
        Err(_) => false,
    }
}

/// Adds the address and the name of the database to an error.
pub(super) fn with_location(options: &PgConnectOptions, error: JournalError) -> JournalError {
    let place = format!(
        "postgres://{}:{}/{}",
        options.get_host(),
        options.get_port(),
        options.get_database().unwrap_or(options.get_username())
    );
    match error {
        JournalError::Unavailable(cause) => JournalError::Unavailable(format!("{place}: {cause}")),
        JournalError::Corrupt(cause) => JournalError::Corrupt(format!("{place}: {cause}")),
        JournalError::Refused(cause) => {
            JournalError::Refused(format!("cannot open the journal {place}: {cause}"))
        }
    }
}

/// Reads the journal's id. A new journal gets one first.
async fn identify(connection: &mut PgConnection) -> Result<String, JournalError> {
    let read = "SELECT value FROM meta WHERE name = 'id'";
    let known = sqlx::query_scalar(read)
        .fetch_optional(&mut *connection)
        .await
        .map_err(PostgresFailure::from)?;
    if let Some(id) = known {
        return Ok(id);
    }
    sqlx::query("INSERT INTO meta (name, value) VALUES ('id', $1) ON CONFLICT DO NOTHING")
        .bind(Uuid::now_v7().to_string())
        .execute(&mut *connection)
        .await
        .map_err(PostgresFailure::from)?;
    let id = sqlx::query_scalar(read).fetch_one(connection).await;
    Ok(id.map_err(PostgresFailure::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stays_on_this_machine_goes_unencrypted_unasked() {
        fn check(url: &str, expected: PgSslMode) {
            let mode = parse(url).expect("a URL").get_ssl_mode();
            assert_eq!(format!("{mode:?}"), format!("{expected:?}"), "{url}");
        }
        check("postgres://me@localhost/x", PgSslMode::Disable);
        check("postgres://me@127.0.0.1:5433/x", PgSslMode::Disable);
        check("postgres://me@[::1]/x", PgSslMode::Disable);
        check(
            "postgres://me@localhost/x?sslmode=require",
            PgSslMode::Require,
        );
        check("postgres://me@db.example/x", PgSslMode::Prefer);
        check(
            "postgres://me@10.0.0.1/x?ssl-mode=verify-full",
            PgSslMode::VerifyFull,
        );
        check(
            "postgres://me@127.0.0.1/x?ssl-mode=prefer",
            PgSslMode::Prefer,
        );
    }
}
