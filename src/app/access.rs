//! The API keys of a server when it starts.

use super::default_keys::WrongSetting;
use crate::access::{AccessControl, RequestRate};
use crate::config::{ApiKey, ServeConfig};
use crate::journal::Journal;
use anyhow::Context as _;
use std::net::SocketAddr;
use std::sync::Arc;

/// Warns of a key in the settings that may be guessed.
pub(super) fn warn_of_weak_key(config: &ServeConfig) {
    if let Some(weakness) = config.api.key.as_ref().and_then(ApiKey::weakness) {
        tracing::warn!("{weakness}; {}", ApiKey::ADVICE);
    }
}

/// Checks that a server that others than this machine can reach has a key. It is checked as soon as the journal is open,
/// before the pending notifications are loaded.
///
/// # Errors
/// [`WrongSetting`]; if the journal fails. The journal is closed then.
pub(super) async fn check_exposure(
    config: &ServeConfig,
    journal: Option<&dyn Journal>,
    address: SocketAddr,
) -> anyhow::Result<()> {
    if address.ip().is_loopback() || config.api.key.is_some() {
        return Ok(());
    }
    let keys = match journal {
        Some(journal) => journal.api_keys().await,
        None => Ok(Vec::new()),
    };
    let refused = match keys {
        Ok(keys) if !keys.is_empty() => return Ok(()),
        Ok(_) => WrongSetting::new(&format!(
            "listen: others than this machine can reach {address}, and the server has no API key; set api-key, or listen \
             on 127.0.0.1"
        ))
        .into(),
        Err(error) => anyhow::Error::from(error).context("the API keys cannot be read"),
    };
    if let Some(journal) = journal {
        journal.close().await;
    }
    Err(refused)
}

/// Reads the API keys.
///
/// # Errors
/// If the journal fails.
pub(super) async fn open(
    config: &ServeConfig,
    journal: Option<Arc<dyn Journal>>,
    address: SocketAddr,
) -> anyhow::Result<Arc<AccessControl>> {
    let configured = config.api.key.as_ref().map(ApiKey::expose);
    let is_exposed = !address.ip().is_loopback();
    let rate = RequestRate::per_second(config.api.requests_per_key);
    let access = AccessControl::open(journal, configured, is_exposed, rate).await;
    let access = access.context("the API keys cannot be read")?;
    if !access.needs_key() {
        tracing::info!(
            "the API needs no key, so every program on this machine may use it; make one with `ringback key add`"
        );
    }
    Ok(Arc::new(access))
}
