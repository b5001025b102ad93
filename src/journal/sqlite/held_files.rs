//! The files of a journal that is open for writing: the journal itself, and the lock file beside it.
//!
//! Both are found by their names and held open. If the journal is moved, removed or replaced meanwhile, what is written
//! goes into a file that the next start does not find, and connections that are opened later read another one. If the lock file is
//! replaced, another server may lock the new one. So a server that notices one of these ends
//! ([`crate::journal::JournalMaintenance::keep_holding`]).

use crate::journal::JournalError;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The files, as this process opened them.
pub(super) struct HeldFiles {
    journal: PathBuf,
    journal_id: FileId,
    /// Locked while the journal is open.
    lock: Mutex<File>,
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl From<Metadata> for FileId {
    fn from(metadata: Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

impl HeldFiles {
    /// The files of a journal that was opened, with its lock.
    pub(super) fn of(journal: &Path, lock: File) -> io::Result<Self> {
        Ok(Self {
            journal_id: fs::metadata(journal)?.into(),
            journal: journal.to_path_buf(),
            lock: Mutex::new(lock),
        })
    }

    /// Makes sure that the files are still those. A lock file that was removed is made again.
    ///
    /// # Errors
    /// [`JournalError::Refused`] if they are not; [`JournalError::Unavailable`] if that cannot be seen.
    pub(super) fn check(&self) -> Result<(), JournalError> {
        match id_at(&self.journal)? {
            Some(id) if id == self.journal_id => {}
            Some(_) => return Err(self.refused("another file has taken its place")),
            None => return Err(self.refused("it was moved or removed")),
        }
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held
            .metadata()
            .map_err(|error| unseen(&self.journal, &error))?;
        match id_at(&lock_name(&self.journal))? {
            Some(id) if id == own.into() => Ok(()),
            Some(_) => Err(self.refused(
                "another file has taken the place of its lock file, so another server may use it too",
            )),
            None => {
                *held = lock(&self.journal)?;
                Ok(())
            }
        }
    }

    /// Lets other servers open the journal.
    pub(super) fn unlock(&self) {
        let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // This fails only if the operating system has released the lock already.
        let _ = held.unlock();
    }

    fn refused(&self, reason: &str) -> JournalError {
        let journal = self.journal.display();
        JournalError::Refused(format!("the journal {journal} was open, and {reason}"))
    }
}

/// Which file has this name; `None` if there is none.
fn id_at(path: &Path) -> Result<Option<FileId>, JournalError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unseen(path, &error)),
    }
}

fn unseen(path: &Path, error: &io::Error) -> JournalError {
    JournalError::Unavailable(format!("cannot look at {}: {error}", path.display()))
}

/// Creates the file and its directory if they are missing. Only this user can read them, because the journal
/// contains bodies. SQLite gives the same rights to the files that it creates beside the journal.
pub(super) fn create(path: &Path) -> io::Result<()> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    private_directory().create(directory)?;
    match private_file().create_new(true).open(path) {
        // The directory is flushed too, so that the name of the file survives a power cut.
        Ok(_) => File::open(directory)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Locks a file beside the journal, so that no other server opens the journal while this file is open. The
/// operating system releases the lock when this process ends, even if it is killed.
pub(super) fn lock(file: &Path) -> Result<File, JournalError> {
    let lock = private_file()
        .create(true)
        .truncate(false)
        .open(lock_name(file))
        .map_err(|error| refused(file, &error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(refused(file, &"it is in use by another server")),
        Err(TryLockError::Error(error)) => Err(refused(file, &error)),
    }
}

/// The name of the file that a server locks.
pub(super) fn lock_name(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".lock");
    PathBuf::from(name)
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn private_directory() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

pub(super) fn refused(path: &Path, reason: &dyn std::fmt::Display) -> JournalError {
    JournalError::Refused(format!(
        "cannot open the journal {}: {reason}",
        path.display()
    ))
}
