//! Changes the master key of a journal: encrypts everything in it again.
//!
//! All of it is one transaction, so whenever this process dies, the journal is as before or wholly changed. The new master
//! key is on disk before. If it is that of the data directory, it takes the place of the old one after the transaction; if
//! we die between the two, the next server, or the same command again, completes it.

use super::default_keys::WrongSetting;
use super::instance_name;
use crate::clock::{Clock as _, SystemClock};
use crate::config::{
    JournalConfig, MASTER_KEY_FILE, MasterKeyConfig, NEW_MASTER_KEY_FILE, adopt_new_master_key,
    read_master_key, read_or_make_master_key_at,
};
use crate::domain::default_keys::DefaultKeys;
use crate::domain::endpoint::Endpoint;
use crate::domain::master_key::MasterKey;
use crate::journal::postgres::PostgresJournal;
use crate::journal::resealing::{ResealResult, Resealing};
use crate::journal::sqlite::SqliteJournal;
use crate::journal::{Actor, JournalMaintenance as _};
use crate::keyring::reseal::{ResealCounts, Resealer};
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};

/// Who changes the rows.
const ACTOR: &str = "master-key change";

/// The error without a journal.
const NO_JOURNAL: &str = "--journal none: there is no journal whose keys could be encrypted again; a server that is started with \
    the new --master-key-file and the old one as --other-master-key-file encrypts the default keys again, and the keys of \
    endpoints have to be set again";

/// A master key that was changed.
#[derive(Debug, Clone)]
pub struct MasterKeyChanged {
    /// What was encrypted again.
    pub counts: ResealCounts,
    /// The fingerprint of the new master key.
    pub fingerprint: String,
    /// The file of the new master key.
    pub file: PathBuf,
    /// Where the old one is kept that the data directory had.
    pub old_file: Option<PathBuf>,
}

impl Resealing for Resealer {
    fn fingerprints(&self) -> [String; 2] {
        self.fingerprints()
    }

    fn endpoint(&mut self, endpoint: &Endpoint) -> Option<Endpoint> {
        self.endpoint(endpoint)
    }

    fn default_keys(&mut self, keys: &DefaultKeys) -> Option<DefaultKeys> {
        self.default_keys(keys)
    }

    fn unreadable(&mut self, name: &str) {
        self.unreadable(name);
    }

    fn succeeded(&self) -> bool {
        self.counts().is_ok()
    }
}

/// Encrypts everything in the journal of these settings under the master key in `new_file`, which is made if it is missing.
/// Without `new_file`, that of the data directory is replaced.
///
/// # Errors
/// [`WrongSetting`]; if a server has an SQLite journal open; if a file or the journal cannot be read or written.
pub async fn change(
    config: &MasterKeyConfig,
    new_file: Option<PathBuf>,
) -> anyhow::Result<MasterKeyChanged> {
    let (old, replaces) = old_master_key(config)?;
    let replaces = replaces && new_file.is_none();
    let new_file = match new_file {
        Some(given) => given,
        None if replaces => config.data_dir.join(NEW_MASTER_KEY_FILE),
        None => {
            let text = "--new-master-key-file: name the file of the new master key; it is made if it is missing";
            return Err(WrongSetting::new(text).into());
        }
    };
    let changed = reseal(config, old, &new_file).await?;
    let (file, old_file) = match replaces {
        true => {
            let kept = adopt_new_master_key(&config.data_dir)?;
            (config.data_dir.join(MASTER_KEY_FILE), kept)
        }
        false => (new_file, None),
    };
    let (counts, fingerprint) = changed;
    Ok(MasterKeyChanged {
        counts,
        fingerprint,
        file,
        old_file,
    })
}

/// The present master key, and whether it is that of the data directory.
fn old_master_key(config: &MasterKeyConfig) -> anyhow::Result<(MasterKey, bool)> {
    let text = match (&config.journal, &config.master_key) {
        (JournalConfig::None, _) => NO_JOURNAL.to_string(),
        (JournalConfig::Sqlite(_) | JournalConfig::Postgres(_), Some(given)) => {
            return Ok((given.clone(), false));
        }
        (JournalConfig::Sqlite(path), None) if !path.exists() => {
            format!("--journal: there is no file {}", path.display())
        }
        (JournalConfig::Sqlite(_), None) => match read_master_key(&config.data_dir)? {
            Some(kept) => return Ok((kept, true)),
            None => {
                let path = config.data_dir.join(MASTER_KEY_FILE);
                format!("--data-dir: there is no file {}", path.display())
            }
        },
        (JournalConfig::Postgres(_), None) => {
            "--master-key-file: give the present master key of the servers".to_string()
        }
    };
    Err(WrongSetting::new(&text).into())
}

async fn reseal(
    config: &MasterKeyConfig,
    old: MasterKey,
    new_file: &Path,
) -> anyhow::Result<(ResealCounts, String)> {
    let (actor, at_ms) = (Actor::named(ACTOR), SystemClock.now_ms());
    let instance = instance_name();
    let with_new = |old: MasterKey| -> anyhow::Result<Resealer> {
        let new = read_or_make_master_key_at(new_file)?;
        if new.fingerprint() == old.fingerprint() {
            let text = "--new-master-key-file: this is the present master key; give another one";
            return Err(WrongSetting::new(text).into());
        }
        Ok(Resealer::new(old, new))
    };
    let (result, resealer) = match &config.journal {
        JournalConfig::Sqlite(path) => {
            let journal = SqliteJournal::open(path, &instance).await?;
            let mut resealer = with_new(old)?;
            let result = journal.reseal(&mut resealer, &actor, at_ms).await;
            journal.close().await;
            (result, resealer)
        }
        JournalConfig::Postgres(url) => {
            let journal = PostgresJournal::open(url.expose(), &instance, false).await?;
            let mut resealer = with_new(old)?;
            let result = journal.reseal(&mut resealer, &actor, at_ms).await;
            journal.close().await;
            (result, resealer)
        }
        JournalConfig::None => return Err(WrongSetting::new(NO_JOURNAL).into()),
    };
    let [old, new] = resealer.fingerprints();
    match result.context("nothing was changed; run the command again")? {
        ResealResult::Done | ResealResult::Failed => {
            let counts = resealer.counts();
            Ok((counts.context("nothing was changed")?, new))
        }
        ResealResult::NothingSealed => bail!(
            "nothing in this journal is encrypted, so nothing was changed; start the servers with the new master key"
        ),
        ResealResult::OtherMasterKey(remembered) => bail!(
            "the journal has keys that were encrypted with the master key of fingerprint {remembered}, which is neither the \
             present one that was given ({old}) nor the new one ({new}); nothing was changed"
        ),
    }
}
