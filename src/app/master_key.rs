//! Finds the master key of a server, and compares it with that of the journal.
//!
//! Servers that share a journal in PostgreSQL need the same master key, so none of them makes one of its own: it is
//! given to all of them, or there are no signing keys. A journal in SQLite has one server, whose data directory may
//! keep the key.

use crate::config::{
    JournalConfig, MASTER_KEY_FILE, ServeConfig, read_master_key, read_or_make_master_key,
};
use crate::journal::{Journal, MASTER_KEY};
use crate::keyring::Keyring;
use anyhow::{Context, bail};

/// The keyring of a server with these settings.
///
/// # Errors
/// If the journal has keys that another master key encrypted; if the journal or a file cannot be read.
pub(super) async fn keyring(
    config: &ServeConfig,
    journal: Option<&dyn Journal>,
) -> anyhow::Result<Keyring> {
    let keyring = match (&config.master_key, &config.journal) {
        (Some(given), _) => Keyring::with(given.clone()),
        (None, JournalConfig::Sqlite(_)) => match read_master_key(&config.data_dir)? {
            Some(kept) => Keyring::with(kept),
            None => {
                let dir = config.data_dir.clone();
                Keyring::making(Box::new(move || {
                    read_or_make_master_key(&dir).map_err(|error| error.to_string())
                }))
            }
        },
        (None, JournalConfig::Postgres(_) | JournalConfig::None) => Keyring::default(),
    };
    let Some(journal) = journal else {
        return Ok(keyring);
    };
    let remembered = journal.recall(MASTER_KEY).await;
    let remembered = remembered.context("the fingerprint of the master key cannot be read")?;
    let own = keyring.fingerprint();
    match (remembered, own) {
        (Some(remembered), Some(own)) if remembered != own => bail!(
            "the journal has signing keys that were encrypted with the master key of fingerprint {remembered}, but \
             the master key of this server has the fingerprint {own}; give this server the other one with \
             --master-key or --master-key-file"
        ),
        (Some(remembered), None) => bail!(
            "the journal has signing keys that were encrypted with the master key of fingerprint {remembered}, but \
             this server has no master key ({}); give it that one with --master-key or --master-key-file",
            missing(config)
        ),
        (Some(_) | None, _) => Ok(keyring),
    }
}

/// Where a server with these settings would have found a master key.
fn missing(config: &ServeConfig) -> String {
    match config.journal {
        JournalConfig::Sqlite(_) => {
            let path = config.data_dir.join(MASTER_KEY_FILE);
            format!("there is no file {}", path.display())
        }
        JournalConfig::Postgres(_) | JournalConfig::None => "none was given".to_string(),
    }
}
