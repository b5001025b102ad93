//! Finds the master key of a server, and compares it with that of the journal.
//!
//! Servers that share a journal in PostgreSQL need the same master key, so none of them makes one of its own: it is
//! given to all of them, or there are no signing keys. A journal in SQLite has one server, whose data directory may
//! keep the key.

use crate::config::{
    JournalConfig, MASTER_KEY_FILE, ServeConfig, adopt_new_master_key, read_master_key,
    read_new_master_key, read_or_make_master_key,
};
use crate::domain::master_key::MasterKey;
use crate::journal::{Journal, MASTER_KEY};
use crate::keyring::Keyring;
use anyhow::{Context, bail};
use std::path::Path;

/// The keyring of a server with these settings.
///
/// # Errors
/// If the journal has keys that another master key encrypted; if the journal or a file cannot be read.
pub(super) async fn keyring(
    config: &ServeConfig,
    journal: Option<&dyn Journal>,
) -> anyhow::Result<Keyring> {
    let remembered = match journal {
        Some(journal) => journal.recall(MASTER_KEY).await,
        None => Ok(None),
    };
    let remembered = remembered.context("the fingerprint of the master key cannot be read")?;
    let own = match (&config.master_key, &config.journal) {
        (Some(given), _) => Some(given.clone()),
        (None, JournalConfig::Sqlite(_)) => kept(&config.data_dir, remembered.as_deref())?,
        (None, JournalConfig::Postgres(_) | JournalConfig::None) => None,
    };
    let keyring = match (own, config.other_master_key.clone()) {
        // What the journal has is encrypted with the other one already, so new keys are too.
        (own, Some(other)) if remembered == Some(other.fingerprint()) => {
            Keyring::with(other).with_other(own)
        }
        (Some(own), other) => Keyring::with(own).with_other(other),
        (None, other) => match &config.journal {
            JournalConfig::Sqlite(_) => {
                let dir = config.data_dir.clone();
                let making = Keyring::making(Box::new(move || {
                    read_or_make_master_key(&dir).map_err(|error| error.to_string())
                }));
                making.with_other(other)
            }
            JournalConfig::Postgres(_) | JournalConfig::None => match other {
                Some(other) => Keyring::with(other),
                None => Keyring::default(),
            },
        },
    };
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

/// The master key in the data directory. If a change of it was interrupted after the journal was written, completes it.
fn kept(dir: &Path, remembered: Option<&str>) -> anyhow::Result<Option<MasterKey>> {
    let kept = read_master_key(dir)?;
    let fingerprint = kept.as_ref().map(MasterKey::fingerprint);
    if remembered.is_none() || fingerprint.as_deref() == remembered {
        return Ok(kept);
    }
    let new = read_new_master_key(dir)?;
    let new = new.filter(|new| Some(new.fingerprint().as_str()) == remembered);
    if new.is_none() {
        return Ok(kept);
    }
    adopt_new_master_key(dir)?;
    tracing::info!(
        fingerprint = remembered,
        "a change of the master key was interrupted at its end and is complete now: the new one is in the data directory"
    );
    Ok(new)
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
