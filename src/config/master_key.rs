//! The master key of the signing keys: given in a file, or made in the data directory.
//!
//! It is made as late as a key is sealed, because a server that keeps no signing keys needs no master key, and may run
//! where nothing can be written.

use super::error::ConfigError;
use super::secret::{self, KeptSecret};
use crate::domain::master_key::MasterKey;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The name of the master key's file in the data directory.
pub const MASTER_KEY_FILE: &str = "master-key";
/// The name of the file with the new one, while the master key is being changed.
pub const NEW_MASTER_KEY_FILE: &str = "master-key.new";

impl KeptSecret for MasterKey {
    const FILE: &'static str = MASTER_KEY_FILE;

    fn from_random(bytes: &[u8; 32]) -> Self {
        Self::from_random(Zeroizing::new(*bytes))
    }

    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|bad| bad.to_string())
    }

    fn text(&self) -> Zeroizing<String> {
        self.expose()
    }
}

/// Reads the master key in this directory. `None` if there is none.
///
/// # Errors
/// If the file cannot be read or contains no valid key.
pub fn read_master_key(dir: &Path) -> Result<Option<MasterKey>, ConfigError> {
    secret::read(&dir.join(MASTER_KEY_FILE))
}

/// Reads the master key in this directory, or makes it with mode 0600.
///
/// # Errors
/// If the file cannot be made or read, or contains no valid key.
pub fn read_or_make_master_key(dir: &Path) -> Result<MasterKey, ConfigError> {
    secret::read_or_make(dir)
}

/// Reads the new master key in this directory, to which it is being changed. `None` if there is none.
///
/// # Errors
/// If the file cannot be read or contains no valid key.
pub fn read_new_master_key(dir: &Path) -> Result<Option<MasterKey>, ConfigError> {
    secret::read(&dir.join(NEW_MASTER_KEY_FILE))
}

/// Reads the new master key in a file, or makes it with mode 0600.
///
/// # Errors
/// If the file cannot be made or read, or contains no valid key.
pub fn read_or_make_master_key_at(path: &Path) -> Result<MasterKey, ConfigError> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    secret::read_or_make_at(dir, path)
}

/// Puts the new master key of a directory into the place of the old one, whose file stays under a name with its
/// fingerprint: backups of the journal still need it. Returns that name, if there was an old one.
///
/// # Errors
/// If the files cannot be renamed. It can be repeated.
pub fn adopt_new_master_key(dir: &Path) -> Result<Option<PathBuf>, ConfigError> {
    let (path, new) = (dir.join(MASTER_KEY_FILE), dir.join(NEW_MASTER_KEY_FILE));
    let failed = |error: io::Error| secret::unusable(&new, &error.to_string());
    let kept = match read_master_key(dir)? {
        Some(old) => {
            let named = old.fingerprint().replace(['/', '+', '='], "_");
            let kept = dir.join(format!("{MASTER_KEY_FILE}.{named}"));
            match fs::hard_link(&path, &kept) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed(error));
                }
                Ok(()) | Err(_) => Some(kept),
            }
        }
        None => None,
    };
    fs::rename(&new, &path).map_err(failed)?;
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(failed)?;
    Ok(kept)
}

/// Reads the file that a setting names.
pub(super) fn read_named(path: &Path) -> Result<MasterKey, ConfigError> {
    secret::read(path)?
        .ok_or_else(|| secret::unusable(path, "the file of the master key does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_master_key_is_made_once_and_for_its_owner_alone() {
        let root = tempfile::tempdir().expect("a directory");
        let dir = root.path().join("data");
        assert!(read_master_key(&dir).expect("readable").is_none());
        let made = read_or_make_master_key(&dir).expect("made");
        let again = read_or_make_master_key(&dir).expect("read");
        assert_eq!(made.fingerprint(), again.fingerprint());
        let path = dir.join(MASTER_KEY_FILE);
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let named = read_named(&path).expect("read");
        assert_eq!(made.fingerprint(), named.fingerprint());
    }

    #[test]
    fn a_new_master_key_takes_the_place_of_the_old_one_which_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let old = read_or_make_master_key(dir.path()).expect("made");
        let path = dir.path().join(NEW_MASTER_KEY_FILE);
        let new = read_or_make_master_key_at(&path).expect("made");
        let again = read_or_make_master_key_at(&path).expect("read");
        assert_eq!(again.fingerprint(), new.fingerprint());
        let found = read_new_master_key(dir.path()).expect("readable");
        assert_eq!(found.map(|key| key.fingerprint()), Some(new.fingerprint()));
        let kept = adopt_new_master_key(dir.path()).expect("renamed");
        let kept = read_named(&kept.expect("there was one")).expect("kept");
        assert_eq!(kept.fingerprint(), old.fingerprint());
        let now = read_master_key(dir.path())
            .expect("readable")
            .expect("there");
        assert_eq!(now.fingerprint(), new.fingerprint());
        assert!(!path.exists());
        assert!(
            adopt_new_master_key(dir.path()).is_err(),
            "there is no new one"
        );
    }

    #[test]
    fn a_damaged_or_missing_file_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(MASTER_KEY_FILE);
        let missing = read_named(&path).expect_err("missing").to_string();
        assert!(missing.contains("master-key: "), "{missing}");
        for content in ["", "hunter2", "rbmk_hunter2"] {
            fs::write(&path, content).expect("written");
            let error = read_or_make_master_key(dir.path()).expect_err(content);
            let error = error.to_string();
            assert!(
                error.contains("master-key: ") && !error.contains("hunter2"),
                "{error}"
            );
            assert_eq!(fs::read_to_string(&path).expect("there"), content);
        }
    }
}
