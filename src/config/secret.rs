//! Creates the data directory and the secrets in it, each once.
//!
//! It guarantees that a secret is on disk before it is used, that only the owner of the file can read it,
//! and that two servers that start at the same moment use the same secret.

use super::error::ConfigError;
use crate::domain::signature::SigningSecret;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt as _, OpenOptionsExt, PermissionsExt as _};
use std::path::Path;
use zeroize::Zeroizing;

/// The name of the secret's file in the data directory.
pub const SECRET_FILE: &str = "signing-secret";
/// Maximum bytes read from the file. A secret is shorter than this.
const LONGEST_FILE: u64 = 1_024;

/// A secret that is kept in a file of the data directory.
pub(super) trait KeptSecret: Sized {
    /// The name of the file.
    const FILE: &'static str;

    fn from_random(bytes: &[u8; 32]) -> Self;
    fn parse(text: &str) -> Result<Self, String>;
    fn text(&self) -> Zeroizing<String>;
}

impl KeptSecret for SigningSecret {
    const FILE: &'static str = SECRET_FILE;

    fn from_random(bytes: &[u8; 32]) -> Self {
        Self::from_random(bytes)
    }

    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|bad| bad.to_string())
    }

    fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(self.expose().to_string())
    }
}

pub(super) fn make_dir(dir: &Path) -> Result<(), ConfigError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| unusable(dir, &format!("the directory cannot be created: {error}")))
}

/// Whether a file can be read or written by others than its owner. `false` if there is none. What root owns may be read by its
/// group: that is how a server with a user of its own can read a file that somebody else renews.
#[must_use]
pub fn is_exposed(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| {
        let forbidden = match file.uid() {
            0 => 0o037,
            _ => 0o077,
        };
        file.permissions().mode() & forbidden != 0
    })
}

/// Reads the secret in this directory. `None` if there is no secret.
///
/// # Errors
/// If the file cannot be read or contains no valid secret.
pub fn read_secret(dir: &Path) -> Result<Option<SigningSecret>, ConfigError> {
    read(&dir.join(SECRET_FILE))
}

/// Reads a secret from a file. `None` if there is no file.
pub(super) fn read<Secret: KeptSecret>(path: &Path) -> Result<Option<Secret>, ConfigError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(path, &error.to_string())),
    };
    let mut text = Zeroizing::new(String::with_capacity(LONGEST_FILE as usize));
    file.take(LONGEST_FILE)
        .read_to_string(&mut text)
        .map_err(|error| unusable(path, &error.to_string()))?;
    Secret::parse(text.trim())
        .map(Some)
        .map_err(|problem| unusable(path, &problem))
}

pub(super) fn read_or_make<Secret: KeptSecret>(dir: &Path) -> Result<Secret, ConfigError> {
    make_dir(dir)?;
    read_or_make_at(dir, &dir.join(Secret::FILE))
}

/// Reads the secret in this file of a directory, or makes it.
pub(super) fn read_or_make_at<Secret: KeptSecret>(
    dir: &Path,
    path: &Path,
) -> Result<Secret, ConfigError> {
    if let Some(secret) = read(path)? {
        return Ok(secret);
    }
    make::<Secret>(dir, path).map_err(|error| unusable(path, &error.to_string()))?;
    // If another server created the file first, the secret in the file is not ours. So the file is read.
    read(path)?.ok_or_else(|| unusable(path, "the file was deleted while it was being created"))
}

/// Writes a new secret into a temporary file and links it to its name. So the file is complete as soon as it
/// exists, and an existing one is never overwritten. A crash in between leaves the temporary file behind,
/// and perhaps no secret.
fn make<Secret: KeptSecret>(dir: &Path, path: &Path) -> io::Result<()> {
    let mut random = Zeroizing::new([0; 32]);
    getrandom::fill(&mut random[..]).map_err(|error| io::Error::other(error.to_string()))?;
    let secret = Secret::from_random(&random);
    let aside = dir.join(format!("{}.{}", Secret::FILE, std::process::id()));
    let _ = fs::remove_file(&aside);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&aside)?;
    writeln!(file, "{}", *secret.text())?;
    file.sync_all()?;
    let linked = fs::hard_link(&aside, path);
    fs::remove_file(&aside)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => File::open(dir)?.sync_all(),
    }
}

pub(super) fn unusable(path: &Path, problem: &str) -> ConfigError {
    ConfigError::File {
        path: path.to_path_buf(),
        problem: problem.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_made_once_and_for_its_owner_alone() {
        let root = tempfile::tempdir().expect("a directory");
        let dir = root.path().join("data");
        assert!(read_secret(&dir).expect("readable").is_none());
        let first: SigningSecret = read_or_make(&dir).expect("made");
        let second: SigningSecret = read_or_make(&dir).expect("read");
        assert_eq!(first.expose(), second.expose());
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        let file = dir.join(SECRET_FILE);
        assert_eq!(mode(&file), 0o600);
        assert!(!is_exposed(&file) && !is_exposed(&dir.join("missing")));
        let is_of_root = fs::metadata(&file).expect("there").uid() == 0;
        for (mode, expected) in [(0o604, true), (0o620, true), (0o640, !is_of_root)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("changed");
            assert_eq!(is_exposed(&file), expected, "{mode:o}");
        }
        assert_eq!(fs::read_dir(&dir).expect("a directory").count(), 1);
    }

    #[test]
    fn a_damaged_secret_is_an_error_and_not_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(SECRET_FILE);
        for content in ["", "whsec_broken%", &"x".repeat(5_000)] {
            fs::write(&path, content).expect("written");
            let error = read_or_make::<SigningSecret>(dir.path());
            let error = error.expect_err(content).to_string();
            assert!(error.contains("signing-secret: "), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("there"), content);
        }
    }
}
