//! What is found in a database that is not opened as a journal.

use super::PostgresJournal;
use super::error::PostgresFailure;
use super::in_use::{EXCLUSIVE, lock_name, sessions_with};
use super::open::{parse, with_location};
use super::schema;
use super::session::connect;
use crate::clock::{Clock as _, SystemClock};
use crate::journal::{JournalError, JournalSurvey, JournalUsers, SurveyedHazard, SurveyedSchema};
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

/// The oldest version that is tested, as PostgreSQL counts it.
const OLDEST_VERSION: i32 = 140_000;

impl PostgresJournal {
    /// Looks at the database of a journal. Changes nothing.
    ///
    /// # Errors
    /// [`JournalError::Unavailable`] if the database cannot be reached; [`JournalError::Refused`] if it belongs to another
    /// program. The errors do not contain the password.
    pub async fn survey(url: &str) -> Result<JournalSurvey, JournalError> {
        let options = parse(url)?;
        let at = |error| with_location(&options, error);
        let mut connection = connect(&options).await.map_err(at)?;
        let surveyed = survey(&mut connection).await;
        // Nothing was written, so an error at closing does not matter.
        let _ = connection.close().await;
        surveyed.map_err(|failure| at(failure.into()))
    }
}

async fn survey(db: &mut PgConnection) -> Result<JournalSurvey, PostgresFailure> {
    let (version, number, is_standby, fsync): (String, i32, bool, String) = sqlx::query_as(
        "SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('server_version_num')::int,
                pg_is_in_recovery(), current_setting('fsync')",
    )
    .fetch_one(&mut *db)
    .await?;
    let clock_ahead_ms = clock_ahead(db).await?;
    let applied = schema::applied(db).await?;
    let schema = SurveyedSchema::compare(&applied, &schema::known());
    let id: Option<String> = match &schema {
        SurveyedSchema::Missing => None,
        SurveyedSchema::Same | SurveyedSchema::Older(_) | SurveyedSchema::Newer(_) => {
            sqlx::query_scalar("SELECT value FROM meta WHERE name = 'id'")
                .fetch_optional(&mut *db)
                .await?
        }
    };
    let mut hazards = hazards(number, is_standby, fsync == "on");
    if schema != SurveyedSchema::Same {
        hazards.extend(without_rights(db).await?);
    }
    let users = match &id {
        Some(id) => users(db, id).await?,
        None => JournalUsers::Nobody,
    };
    Ok(JournalSurvey {
        database: format!("PostgreSQL {version}"),
        schema,
        has_id: id.is_some(),
        users,
        clock_ahead_ms: Some(clock_ahead_ms),
        hazards,
    })
}

fn hazards(number: i32, is_standby: bool, flushes: bool) -> Vec<SurveyedHazard> {
    let hazard = |is_fatal: bool, text: &str, mend: &str| SurveyedHazard {
        is_fatal,
        text: text.to_string(),
        mend: mend.to_string(),
    };
    let mut found = Vec::new();
    if number < OLDEST_VERSION {
        let text = "this version of PostgreSQL is older than 14, with which nothing is tested";
        found.push(hazard(true, text, "use PostgreSQL 14 or newer"));
    }
    if is_standby {
        let text = "the database is a standby, which refuses all writes";
        found.push(hazard(
            true,
            text,
            "give --journal the address of the primary",
        ));
    }
    if !flushes {
        let text = "PostgreSQL runs with `fsync = off`: a power cut may cost everything";
        found.push(hazard(false, text, "set `fsync = on` in postgresql.conf"));
    }
    found
}

/// Says if this user cannot make the tables. Since PostgreSQL 15 not everybody may, even in the schema `public`.
async fn without_rights(db: &mut PgConnection) -> Result<Option<SurveyedHazard>, PostgresFailure> {
    let (schema, user, may_create): (Option<String>, String, Option<bool>) = sqlx::query_as(
        "SELECT current_schema()::text, current_user::text, has_schema_privilege(current_schema(), 'CREATE')",
    )
    .fetch_one(db)
    .await?;
    let (text, mend) = match schema {
        Some(_) if may_create == Some(true) => return Ok(None),
        Some(schema) => (
            format!("the user {user} may not make tables in the schema {schema}"),
            format!("GRANT CREATE ON SCHEMA {schema} TO {user}, or let {user} own the database"),
        ),
        None => (
            "there is no schema for the tables (search_path)".to_string(),
            "create the schema that the URL names in `options`, or correct it there".to_string(),
        ),
    };
    Ok(Some(SurveyedHazard {
        is_fatal: true,
        text,
        mend,
    }))
}

/// How far the server's clock is ahead, by the middle of one call.
async fn clock_ahead(db: &mut PgConnection) -> Result<i64, PostgresFailure> {
    let sent_ms = SystemClock.now_ms();
    let there_ms: i64 =
        sqlx::query_scalar("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
            .fetch_one(db)
            .await?;
    let received_ms = SystemClock.now_ms();
    Ok(there_ms - (sent_ms + received_ms) / 2)
}

/// The servers that hold the lock of the journal.
async fn users(db: &mut PgConnection, id: &str) -> Result<JournalUsers, PostgresFailure> {
    let holders = sessions_with(db, lock_name(id)).await?;
    Ok(match holders.len() {
        0 => JournalUsers::Nobody,
        _ if holders.iter().any(|(_, mode)| mode == EXCLUSIVE) => JournalUsers::OneAlone,
        many => JournalUsers::Sharing(many as u64),
    })
}
