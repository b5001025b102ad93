//! Opening the journal: reaching the server, and making sure that the schema is this version's.

use super::PostgresJournal;
use super::connections::Connections;
use super::error::{LOCK_NOT_AVAILABLE, PostgresFailure, code};
use super::schema::{self, Schema};
use super::session::connect;
use crate::journal::JournalError;
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use tokio::sync::Mutex;
use url::Host;
use uuid::Uuid;

/// What this program calls itself to the server, unless the URL says otherwise.
const APPLICATION: &str = "ringback";

/// With whom a server shares a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// With other servers on the same schedule.
    WithOthers,
    /// With nobody: its schedule is its own.
    WithNobody,
}

impl PostgresJournal {
    /// Opens the journal in a database. `instance` is the name under which this process signs what
    /// it writes; with `migrate`, a database that is empty or of an older version is brought up to
    /// date first.
    ///
    /// # Errors
    /// [`JournalError::Refused`] if the database holds something else, was written by a newer
    /// version, or by an older one and `migrate` forbids to change that;
    /// [`JournalError::Unavailable`] if it cannot be reached. Neither repeats the password.
    pub async fn open(url: &str, instance: &str, migrate: bool) -> Result<Self, JournalError> {
        let options = parse(url)?;
        let at = |error| with_location(&options, error);
        let mut connection = connect(&options).await.map_err(at)?;
        match schema::look(&mut connection).await.map_err(at)? {
            Schema::UpToDate => {}
            Schema::Older(_) if !migrate => {
                return Err(at(JournalError::Refused(
                    "its schema is not up to date: run `ringback migrate`, or serve with --migrate"
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
            held: Mutex::new(None),
        })
    }

    /// Says that this server is at work on the journal, for as long as this value lives and the
    /// database server runs on.
    ///
    /// # Errors
    /// [`JournalError::Refused`] if another server is at work on it, and either of the two cannot
    /// share it.
    pub async fn hold(&self, sharing: Sharing) -> Result<(), JournalError> {
        let options = self.connections.options();
        let at = |error| with_location(options, error);
        let mut connection = connect(options).await.map_err(at)?;
        // Waits a moment: the session of a server that was killed has to end first.
        let lock = match sharing {
            Sharing::WithOthers => "SELECT pg_advisory_lock_shared(hashtextextended($1, 0))",
            Sharing::WithNobody => "SELECT pg_advisory_lock(hashtextextended($1, 0))",
        };
        let held = sqlx::query(lock)
            .bind(format!("ringback journal {}", self.id))
            .execute(&mut connection)
            .await;
        held.map_err(|error| match code(&error).as_deref() {
            Some(LOCK_NOT_AVAILABLE) => at(JournalError::Refused(
                "it is in use by another server, and one of the two has its schedule in memory; \
                 servers that share a journal share a Redis too"
                    .into(),
            )),
            _ => at(PostgresFailure::from(error).into()),
        })?;
        *self.held.lock().await = Some(connection);
        Ok(())
    }

    /// Brings the schema of a database up to date and says which migrations that took.
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

fn parse(url: &str) -> Result<PgConnectOptions, JournalError> {
    let options: PgConnectOptions = url
        .parse()
        .map_err(|_| JournalError::Refused("the journal's URL is not a PostgreSQL URL".into()))?;
    let options = match options.get_application_name() {
        Some(_) => options,
        None => options.application_name(APPLICATION),
    };
    // On the same machine TLS protects nothing and is slow: the records of one call are sent one by one,
    // and each waits until the one before is acknowledged.
    let options = if is_local(options.get_host()) && !has_sslmode(url) {
        options.ssl_mode(PgSslMode::Disable)
    } else {
        options
    };
    // There are no such numbers here, and connection poolers refuse what they do not know.
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

/// Says which database it is about.
fn with_location(options: &PgConnectOptions, error: JournalError) -> JournalError {
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

/// The journal's name, given to it once.
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
