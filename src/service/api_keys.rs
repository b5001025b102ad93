//! The API keys: making, revoking and listing them.
//!
//! A key is in the clear only while the request that makes it is handled, and its answer is the only one that shows it.

use super::timeouts::with_timeout;
use super::{BadApiKeyChange, Service, ServiceError};
use crate::access::random_key;
use crate::domain::api_key::{ApiKeyDigest, ApiKeyName, ApiKeyRecord, KeyTopics};
use crate::domain::role::Role;
use crate::journal::{Actor, ApiKeyAdded, ApiKeyRevoked, ApiKeyRow};
use zeroize::Zeroizing;

/// The error of a server without a journal.
const NO_API_KEYS: ServiceError =
    ServiceError::NoJournal("keep API keys; it has the key of --api-key alone");

/// A key that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRequest {
    /// Its name.
    pub name: ApiKeyName,
    /// Its role.
    pub role: Role,
    /// The topics to which it is bound. `None`: all.
    pub topics: Option<KeyTopics>,
    /// From when on it is refused, in milliseconds since 1970. `None`: it is valid until it is revoked.
    pub expires_ms: Option<i64>,
}

/// A key that was made.
#[derive(Debug)]
pub struct MadeApiKey {
    /// What is kept of it.
    pub record: ApiKeyRecord,
    /// The key. It is shown this once.
    pub key: Zeroizing<String>,
    /// Whether requests without a key were served until now. From now on they are refused.
    pub is_first: bool,
}

impl Service {
    /// Makes an API key. This server accepts it at once, others within a second.
    ///
    /// Each call makes another key. If the answer was lost, its name is taken: revoke it and make it again.
    ///
    /// # Errors
    /// [`ServiceError::ApiKeyChange`], [`ServiceError::NoJournal`]; if the journal fails.
    pub async fn make_api_key(
        &self,
        ApiKeyRequest {
            name,
            role,
            topics,
            expires_ms,
        }: ApiKeyRequest,
        actor: &Actor,
    ) -> Result<MadeApiKey, ServiceError> {
        let key = random_key().map_err(BadApiKeyChange::NoRandomness)?;
        let record = ApiKeyRecord {
            name,
            role,
            topics,
            digest: ApiKeyDigest::of(key.as_bytes()),
            created_by: actor.name().into(),
            created_ms: self.clock.now_ms(),
            expires_ms,
        };
        let is_first = !self.access.needs_key();
        let adding = self.access.add(record.clone(), actor.clone());
        let refused = match with_timeout(adding).await?.ok_or(NO_API_KEYS)? {
            ApiKeyAdded::Added => {
                tracing::info!(
                    name = %record.name, role = %record.role, actor = %actor.name(), "an API key was made"
                );
                return Ok(MadeApiKey {
                    record,
                    key,
                    is_first,
                });
            }
            ApiKeyAdded::NameTaken => BadApiKeyChange::NameTaken,
            ApiKeyAdded::Full => BadApiKeyChange::Full,
            ApiKeyAdded::NoOperator => BadApiKeyChange::NoOperator,
        };
        Err(refused.into())
    }

    /// Revokes an API key. This server refuses it at once, others within a second.
    ///
    /// # Errors
    /// [`ServiceError::ApiKeyChange`], [`ServiceError::NoJournal`]; if the journal fails.
    pub async fn revoke_api_key(&self, name: &str, actor: &Actor) -> Result<(), ServiceError> {
        let revoking = (self.access).revoke(name.to_string(), actor.clone(), self.clock.now_ms());
        let refused = match with_timeout(revoking).await?.ok_or(NO_API_KEYS)? {
            ApiKeyRevoked::Revoked => {
                tracing::info!(name, actor = %actor.name(), "an API key was revoked");
                return Ok(());
            }
            ApiKeyRevoked::Missing => BadApiKeyChange::Missing,
            ApiKeyRevoked::LastOperator => BadApiKeyChange::LastOperator,
        };
        Err(refused.into())
    }

    /// All API keys, by name, also those that have expired.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`]; if the journal fails.
    pub async fn api_keys(&self) -> Result<Vec<ApiKeyRow>, ServiceError> {
        with_timeout(self.access.list()).await?.ok_or(NO_API_KEYS)
    }
}
