//! The master key of the signing keys: given in a file, or made in the data directory.
//!
//! It is made as late as a key is sealed, because a server that keeps no signing keys needs no master key, and may run
//! where nothing can be written.

use super::error::ConfigError;
use super::secret::{self, KeptSecret};
use crate::domain::master_key::MasterKey;
use std::path::Path;
use zeroize::Zeroizing;

/// The name of the master key's file in the data directory.
pub const MASTER_KEY_FILE: &str = "master-key";

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

/// Reads the file that a setting names.
pub(super) fn read_named(path: &Path) -> Result<MasterKey, ConfigError> {
    secret::read(path)?
        .ok_or_else(|| secret::unusable(path, "the file of the master key does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
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
