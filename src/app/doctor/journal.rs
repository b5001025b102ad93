//! The journal: whether it can be reached, its schema, who uses it, and its clock.

use super::clocks;
use super::finding::Finding;
use crate::config::{JournalConfig, ServeConfig};
use crate::journal::postgres::PostgresJournal;
use crate::journal::sqlite::SqliteJournal;
use crate::journal::{JournalSurvey, JournalUsers, SurveyedSchema};

const SUBJECT: &str = "journal";

/// Looks at the database of the journal. Also returns what was found there, if it could be reached.
pub async fn examine(config: &ServeConfig) -> (Vec<Finding>, Option<JournalSurvey>) {
    let surveyed = match &config.journal {
        JournalConfig::None => {
            let text = "there is no journal: Redis alone keeps the notifications, and attempts are not kept";
            return (vec![Finding::ok(SUBJECT, text)], None);
        }
        JournalConfig::Sqlite(path) => SqliteJournal::survey(path).await,
        JournalConfig::Postgres(url) => PostgresJournal::survey(url.expose()).await,
    };
    match surveyed {
        Ok(survey) => (findings_of(config, &survey), Some(survey)),
        Err(error) => {
            let mend = match &config.journal {
                JournalConfig::Postgres(_) => {
                    "check host, port, user and password in --journal, and that the database runs: `psql` with the same URL"
                }
                JournalConfig::Sqlite(_) | JournalConfig::None => {
                    "name another file with --journal, or restore this one from a backup"
                }
            };
            let finding = Finding::problem(SUBJECT, error.to_string(), mend);
            (vec![finding], None)
        }
    }
}

/// Whether a journal can be opened for reading.
pub fn can_be_read(survey: &JournalSurvey) -> bool {
    survey.schema == SurveyedSchema::Same && survey.has_id
}

fn findings_of(config: &ServeConfig, survey: &JournalSurvey) -> Vec<Finding> {
    let mut findings = Vec::new();
    let place = format!("{} ({})", config.journal, survey.database);
    if survey.schema == SurveyedSchema::Missing {
        let text = format!("{place} has no journal yet; the first start makes it");
        findings.push(Finding::ok(SUBJECT, text));
    } else {
        findings.push(Finding::ok(SUBJECT, format!("{place} can be reached")));
    }
    findings.push(schema(config, &survey.schema));
    findings.push(users(config, survey.users));
    findings.extend(survey.hazards.iter().map(|hazard| match hazard.is_fatal {
        true => Finding::problem(SUBJECT, hazard.text.clone(), &hazard.mend),
        false => Finding::warning(SUBJECT, hazard.text.clone(), &hazard.mend),
    }));
    let clock = survey.clock_ahead_ms;
    findings.extend(clock.map(|ahead_ms| clocks::compare("clock", "PostgreSQL", ahead_ms)));
    findings
}

fn schema(config: &ServeConfig, schema: &SurveyedSchema) -> Finding {
    const SUBJECT: &str = "migrations";
    let applies_them = match config.journal {
        JournalConfig::Postgres(_) => config.migrate,
        JournalConfig::Sqlite(_) | JournalConfig::None => true,
    };
    let refused =
        "the server does not start: it was told not to apply migrations (--migrate=false)";
    let mend = "run `ringback migrate` with the same --journal, or start the server with --migrate";
    match (schema, applies_them) {
        (SurveyedSchema::Same, _) => Finding::ok(SUBJECT, "the schema is that of this version"),
        (SurveyedSchema::Missing, true) => Finding::ok(SUBJECT, "the first start makes the schema"),
        (SurveyedSchema::Older(missing), true) => {
            let text = format!("the next start applies: {}", missing.join(", "));
            Finding::ok(SUBJECT, text)
        }
        (SurveyedSchema::Missing, false) => {
            Finding::problem(SUBJECT, format!("there is no schema, and {refused}"), mend)
        }
        (SurveyedSchema::Older(missing), false) => {
            let text = format!("the schema lacks {}, and {refused}", missing.join(", "));
            Finding::problem(SUBJECT, text, mend)
        }
        (SurveyedSchema::Newer(version), _) => {
            let text = format!(
                "a newer version of Ringback wrote this journal (schema {version}), so this one does not open it"
            );
            Finding::problem(SUBJECT, text, "use that version, or restore a backup")
        }
    }
}

fn users(config: &ServeConfig, users: JournalUsers) -> Finding {
    const SUBJECT: &str = "servers";
    let is_sqlite = matches!(config.journal, JournalConfig::Sqlite(_));
    let in_memory = config.schedule.redis.is_none();
    match users {
        JournalUsers::Nobody => Finding::ok(SUBJECT, "no server uses the journal now"),
        JournalUsers::OneAlone if is_sqlite => Finding::ok(
            SUBJECT,
            "a server has the journal open; no second one can be started on a journal in SQLite",
        ),
        JournalUsers::OneAlone if in_memory => Finding::ok(
            SUBJECT,
            "a server with a schedule in memory uses the journal; no second one can be started beside it",
        ),
        JournalUsers::OneAlone => Finding::problem(
            SUBJECT,
            "a server with a schedule in memory uses the journal, so this one is refused",
            "stop that server, or give it the same --redis",
        ),
        JournalUsers::Sharing(many) if in_memory => Finding::problem(
            SUBJECT,
            format!(
                "{many} servers with a schedule in Redis use the journal, so one without --redis is refused"
            ),
            "give this server the same --redis",
        ),
        JournalUsers::Sharing(many) => {
            Finding::ok(SUBJECT, format!("servers that use the journal now: {many}"))
        }
    }
}
