//! What is found in the database of a journal that is not opened: nothing is created, migrated or changed.

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalSurvey {
    /// The database and its version, such as `PostgreSQL 16.4`.
    pub database: String,
    /// The schema, compared with that of this version.
    pub schema: SurveyedSchema,
    /// Whether the journal has its id, which the first server that opens it makes.
    pub has_id: bool,
    /// The servers that use the journal now.
    pub users: JournalUsers,
    /// How far the clock of the database is ahead of the clock of this machine, in milliseconds. `None` if the database has no
    /// clock of its own.
    pub clock_ahead_ms: Option<i64>,
    /// What in the database prevents or endangers work: what is wrong, and what to do.
    pub hazards: Vec<SurveyedHazard>,
}

/// The schema of a database, compared with that of this version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SurveyedSchema {
    /// There is none yet.
    Missing,
    /// Both are the same.
    Same,
    /// It lacks these migrations.
    Older(Vec<String>),
    /// It has a migration that this version does not know. Contains its number.
    Newer(i64),
}

/// The servers that use a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalUsers {
    /// None.
    Nobody,
    /// One, beside which no other may be started.
    OneAlone,
    /// This many, which share it.
    Sharing(u64),
}

/// Something in the database that prevents or endangers work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyedHazard {
    /// Whether a server cannot work with it.
    pub is_fatal: bool,
    /// What is wrong, as a sentence.
    pub text: String,
    /// What to do.
    pub mend: String,
}

impl SurveyedSchema {
    /// Compares the numbers of the applied migrations with those that are known.
    pub(super) fn compare(applied: &[i64], known: &[(i64, &str)]) -> Self {
        let unknown = |version: &&i64| known.iter().all(|(known, _)| known != *version);
        if let Some(newer) = applied.iter().find(unknown) {
            return Self::Newer(*newer);
        }
        let missing = known
            .iter()
            .filter(|(version, _)| !applied.contains(version));
        let missing = missing.map(|(version, name)| format!("{version:04} {name}"));
        let missing: Vec<String> = missing.collect();
        match (applied.is_empty(), missing.is_empty()) {
            (true, _) => Self::Missing,
            (false, true) => Self::Same,
            (false, false) => Self::Older(missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_compared() {
        let known = [(1, "journal"), (2, "lanes")];
        let check = |applied: &[i64], expected: SurveyedSchema| {
            assert_eq!(SurveyedSchema::compare(applied, &known), expected);
        };
        check(&[], SurveyedSchema::Missing);
        check(&[1, 2], SurveyedSchema::Same);
        check(&[1], SurveyedSchema::Older(vec!["0002 lanes".to_string()]));
        check(&[1, 2, 3], SurveyedSchema::Newer(3));
    }
}
