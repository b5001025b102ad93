//! The API keys: adding, revoking and reading them.

use super::rows::{Fields, StoredRow, corrupt};
use super::{Actor, JournalError};
use crate::domain::api_key::{ApiKeyDigest, ApiKeyName, ApiKeyRecord, KeyTopics, MOST_API_KEYS};
use crate::domain::role::Role;
use async_trait::async_trait;
use sqlx::{ColumnIndex, Decode, Type};

/// The part of a [`super::Journal`] that keeps API keys.
#[async_trait]
pub trait JournalApiKeys: Send + Sync + 'static {
    /// All of them, also those that have expired, by name. One that cannot be read permits nothing and hides no other.
    async fn api_keys(&self) -> Result<Vec<ApiKeyRow>, JournalError>;

    /// Adds a key. Changes wait for each other. It can be repeated.
    async fn add_api_key(&self, adding: &AddingApiKey) -> Result<ApiKeyAdded, JournalError>;

    /// Removes a key.
    async fn revoke_api_key(
        &self,
        revoking: &RevokingApiKey,
    ) -> Result<ApiKeyRevoked, JournalError>;
}

/// A row of the API keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRow {
    /// The name, as the row has it.
    pub name: String,
    /// The key, or why it cannot be read.
    pub read: Result<ApiKeyRecord, String>,
}

impl ApiKeyRow {
    /// Whether it is a key that will always permit everything until it is revoked.
    fn is_lasting_operator(&self) -> bool {
        let lasting =
            |record: &ApiKeyRecord| record.role == Role::Operator && record.expires_ms.is_none();
        self.read.as_ref().is_ok_and(lasting)
    }
}

/// Whether the journal must keep a key with which other keys can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorKey {
    /// As soon as there is any key, one of them is an operator's that does not expire. Otherwise nobody could make or
    /// revoke keys any more.
    Needed,
    /// The server has `--api-key`, which is an operator's.
    Configured,
}

/// A request to add an API key.
#[derive(Debug, Clone)]
pub struct AddingApiKey {
    /// The key.
    pub record: ApiKeyRecord,
    /// Whether one of the keys must be an operator's.
    pub operator: OperatorKey,
    /// Who asks for it.
    pub actor: Actor,
}

/// The result of adding an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKeyAdded {
    /// It is there now, or was before this call.
    Added,
    /// Another key has its name. Nothing was changed.
    NameTaken,
    /// There are [`MOST_API_KEYS`]. Nothing was changed.
    Full,
    /// The first key must be an operator's that does not expire. Nothing was changed.
    NoOperator,
}

/// A request to revoke an API key.
#[derive(Debug, Clone)]
pub struct RevokingApiKey {
    /// Its name, as its row has it.
    pub name: String,
    /// Whether one of the other keys must be an operator's.
    pub operator: OperatorKey,
    /// Who asks for it.
    pub actor: Actor,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The result of revoking an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKeyRevoked {
    /// It is gone.
    Revoked,
    /// There is none of this name.
    Missing,
    /// Without it, no key that is left could make or revoke others. Nothing was changed.
    LastOperator,
}

/// What adding a key does where these rows are.
pub(super) fn effect_of_adding(rows: &[ApiKeyRow], adding: &AddingApiKey) -> ApiKeyAdded {
    let AddingApiKey {
        record, operator, ..
    } = adding;
    if let Some(row) = rows.iter().find(|row| row.name == record.name.as_str()) {
        // The call was repeated because its first answer was lost.
        let is_own = (row.read.as_ref()).is_ok_and(|found| found.digest == record.digest);
        return if is_own {
            ApiKeyAdded::Added
        } else {
            ApiKeyAdded::NameTaken
        };
    }
    if rows.len() >= MOST_API_KEYS {
        return ApiKeyAdded::Full;
    }
    let is_operator = record.role == Role::Operator && record.expires_ms.is_none();
    let has_operator = is_operator || rows.iter().any(ApiKeyRow::is_lasting_operator);
    if *operator == OperatorKey::Needed && !has_operator {
        return ApiKeyAdded::NoOperator;
    }
    ApiKeyAdded::Added
}

/// What revoking a key does where these rows are.
pub(super) fn effect_of_revoking(rows: &[ApiKeyRow], revoking: &RevokingApiKey) -> ApiKeyRevoked {
    let Some(row) = rows.iter().find(|row| row.name == revoking.name) else {
        return ApiKeyRevoked::Missing;
    };
    let mut others = rows.iter().filter(|other| other.name != row.name);
    let leaves_some = rows.len() > 1;
    if revoking.operator == OperatorKey::Needed
        && row.is_lasting_operator()
        && leaves_some
        && !others.any(ApiKeyRow::is_lasting_operator)
    {
        return ApiKeyRevoked::LastOperator;
    }
    ApiKeyRevoked::Revoked
}

impl<'row, R> Fields<'row, R>
where
    R: StoredRow,
    usize: ColumnIndex<R>,
    bool: Decode<'row, R::Database> + Type<R::Database>,
    i64: Decode<'row, R::Database> + Type<R::Database>,
    &'row str: Decode<'row, R::Database> + Type<R::Database>,
    &'row [u8]: Decode<'row, R::Database> + Type<R::Database>,
    R::Count: Decode<'row, R::Database> + Type<R::Database>,
{
    /// Reads each row of `name, role, topics, digest, created_by, created_ms, expires_ms`.
    pub(super) fn api_keys(rows: &'row [R]) -> Result<Vec<ApiKeyRow>, JournalError> {
        let read = |row| {
            let name = Self::of(row).take::<&str>()?.to_string();
            let read = Self::of(row).api_key().map_err(|error| error.to_string());
            Ok(ApiKeyRow { name, read })
        };
        rows.iter().map(read).collect()
    }

    fn api_key(&mut self) -> Result<ApiKeyRecord, JournalError> {
        let name: &str = self.take()?;
        let name = ApiKeyName::parse(name).map_err(|_| corrupt("name of an API key", &name))?;
        let role: &str = self.take()?;
        let role = Role::from_name(role).ok_or_else(|| corrupt("role", &role))?;
        let topics: Option<&str> = self.take()?;
        let read =
            |topics| KeyTopics::from_text(topics).ok_or_else(|| corrupt("list of topics", &topics));
        let topics = topics.map(read).transpose()?;
        let digest: &[u8] = self.take()?;
        let digest = ApiKeyDigest::from_bytes(digest)
            .ok_or_else(|| corrupt("length of a digest", &digest.len()))?;
        Ok(ApiKeyRecord {
            name,
            role,
            topics,
            digest,
            created_by: self.take::<&str>()?.into(),
            created_ms: self.take()?,
            expires_ms: self.take()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, role: Role, expires_ms: Option<i64>) -> ApiKeyRecord {
        ApiKeyRecord {
            name: ApiKeyName::parse(name).expect("a name"),
            role,
            topics: None,
            digest: ApiKeyDigest::of(name.as_bytes()),
            created_by: "api".into(),
            created_ms: 0,
            expires_ms,
        }
    }

    fn row(name: &str, role: Role, expires_ms: Option<i64>) -> ApiKeyRow {
        ApiKeyRow {
            name: name.to_string(),
            read: Ok(record(name, role, expires_ms)),
        }
    }

    fn unreadable(name: &str) -> ApiKeyRow {
        ApiKeyRow {
            name: name.to_string(),
            read: Err("damaged".to_string()),
        }
    }

    #[test]
    fn the_first_key_can_make_others() {
        use Role::{Operator, Producer, Support};
        let check = |rows: &[ApiKeyRow], record: ApiKeyRecord, operator, expected| {
            let adding = AddingApiKey {
                record,
                operator,
                actor: Actor::named("api"),
            };
            assert_eq!(effect_of_adding(rows, &adding), expected, "{adding:?}");
        };
        let needed = OperatorKey::Needed;
        let configured = OperatorKey::Configured;
        check(&[], record("a", Operator, None), needed, ApiKeyAdded::Added);
        check(
            &[],
            record("a", Operator, Some(1)),
            needed,
            ApiKeyAdded::NoOperator,
        );
        check(
            &[],
            record("a", Support, None),
            needed,
            ApiKeyAdded::NoOperator,
        );
        check(
            &[],
            record("a", Support, None),
            configured,
            ApiKeyAdded::Added,
        );
        let one = [row("o", Operator, None)];
        check(
            &one,
            record("a", Producer, Some(1)),
            needed,
            ApiKeyAdded::Added,
        );
        check(
            &one,
            record("o", Operator, None),
            needed,
            ApiKeyAdded::Added,
        );
        let other = ApiKeyRecord {
            digest: ApiKeyDigest::of(b"another"),
            ..record("o", Operator, None)
        };
        check(&one, other, needed, ApiKeyAdded::NameTaken);
        check(
            &[unreadable("a")],
            record("a", Operator, None),
            needed,
            ApiKeyAdded::NameTaken,
        );
        let expiring = [row("s", Support, None), row("o", Operator, Some(5))];
        check(
            &expiring,
            record("p", Producer, None),
            needed,
            ApiKeyAdded::NoOperator,
        );
        let many: Vec<_> = (0..MOST_API_KEYS)
            .map(|n| row(&format!("k{n}"), Operator, None))
            .collect();
        check(
            &many,
            record("a", Operator, None),
            needed,
            ApiKeyAdded::Full,
        );
        check(
            &many,
            record("k0", Operator, None),
            needed,
            ApiKeyAdded::Added,
        );
        check(
            &many[1..],
            record("a", Operator, None),
            needed,
            ApiKeyAdded::Added,
        );
    }

    #[test]
    fn the_last_operator_stays_while_there_are_other_keys() {
        use Role::{Operator, Support};
        let check = |rows: &[ApiKeyRow], name: &str, operator, expected| {
            let revoking = RevokingApiKey {
                name: name.to_string(),
                operator,
                actor: Actor::named("api"),
                at_ms: 0,
            };
            assert_eq!(
                effect_of_revoking(rows, &revoking),
                expected,
                "{rows:?} {name}"
            );
        };
        let needed = OperatorKey::Needed;
        let two = [row("o", Operator, None), row("s", Support, None)];
        check(&two, "x", needed, ApiKeyRevoked::Missing);
        check(&two, "s", needed, ApiKeyRevoked::Revoked);
        check(&two, "o", needed, ApiKeyRevoked::LastOperator);
        check(&two, "o", OperatorKey::Configured, ApiKeyRevoked::Revoked);
        check(&two[..1], "o", needed, ApiKeyRevoked::Revoked);
        let expiring = [row("o", Operator, None), row("p", Operator, Some(9))];
        check(&expiring, "o", needed, ApiKeyRevoked::LastOperator);
        check(&expiring, "p", needed, ApiKeyRevoked::Revoked);
        let damaged = [row("o", Operator, None), unreadable("p")];
        check(&damaged, "o", needed, ApiKeyRevoked::LastOperator);
        check(&damaged, "p", needed, ApiKeyRevoked::Revoked);
    }
}
