//! Where the file goes: standard output, or a file that appears only when it is whole.
//!
//! A thread of its own writes, so that the journal is read meanwhile. What waits to be written is bounded. If nothing of it is
//! taken for [`LONGEST_STALL`], the export ends, because the journal is held in one transaction as long as it is read.

use crate::cli::CommandFailure;
use anyhow::anyhow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use uuid::Uuid;

/// How long the reader of the output may take nothing.
const LONGEST_STALL: Duration = Duration::from_secs(60);
/// Parts that may wait to be written.
const MOST_WAITING: usize = 2;

/// Writes parts in their order.
pub struct OutputWriter {
    parts: mpsc::Sender<Vec<u8>>,
    written: JoinHandle<io::Result<()>>,
    /// The file, unless it goes to standard output.
    file: Option<PartFile>,
}

impl OutputWriter {
    /// Begins to write: into a file that is to have this path, or to standard output.
    pub fn open(path: Option<&Path>) -> Result<Self, CommandFailure> {
        let (file, target): (Option<PartFile>, Box<dyn Write + Send>) = match path {
            Some(path) => {
                let (part, file) = PartFile::create(path)?;
                (Some(part), Box::new(file))
            }
            None => (None, Box::new(io::stdout())),
        };
        let (parts, waiting) = mpsc::channel(MOST_WAITING);
        let written = spawn_blocking(move || write_all(target, waiting));
        Ok(Self {
            parts,
            written,
            file,
        })
    }

    /// Has a part written.
    pub async fn write(&mut self, part: Vec<u8>) -> Result<(), CommandFailure> {
        match timeout(LONGEST_STALL, self.parts.send(part)).await {
            Ok(Ok(())) => Ok(()),
            // The thread has ended, so it has failed.
            Ok(Err(_)) => Err(self.failure().await),
            Err(_) => Err(anyhow!(
                "nothing of the output was taken for {} s; write into a file (--output), which does not wait for a reader",
                LONGEST_STALL.as_secs()
            )
            .into()),
        }
    }

    /// Waits until everything is written. A file gets its name then. The journal is not read any more, so a reader of
    /// standard output may take as long as it likes.
    pub async fn finish(self) -> Result<(), CommandFailure> {
        let Self {
            parts,
            written,
            file,
        } = self;
        drop(parts);
        let path = file.as_ref().map(|file| file.path.clone());
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(failed(path.as_deref(), error)),
            Err(_) => return Err(ended()),
        }
        match file {
            Some(file) => file.keep(),
            None => Ok(()),
        }
    }

    async fn failure(&mut self) -> CommandFailure {
        let path = self.file.as_ref().map(|file| file.path.as_path());
        match (&mut self.written).await {
            Ok(Err(error)) => failed(path, error),
            Ok(Ok(())) | Err(_) => ended(),
        }
    }
}

fn write_all(mut target: impl Write, mut waiting: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(part) = waiting.blocking_recv() {
        target.write_all(&part)?;
    }
    target.flush()
}

fn ended() -> CommandFailure {
    anyhow!("the thread that writes the output has ended").into()
}

fn failed(path: Option<&Path>, error: io::Error) -> CommandFailure {
    match path {
        Some(path) => CommandFailure::Failed(anyhow!(error).context(path.display().to_string())),
        None if error.kind() == ErrorKind::BrokenPipe => {
            anyhow!("standard output was closed before everything was written").into()
        }
        None => CommandFailure::Output(error),
    }
}

/// A file that is being written, under another name in the same directory. It gets its own name by [`PartFile::keep`], and is
/// removed otherwise. Only this user may read it.
pub struct PartFile {
    path: PathBuf,
    part: PathBuf,
    is_kept: bool,
}

impl PartFile {
    /// Creates it.
    pub fn create(path: &Path) -> Result<(Self, File), CommandFailure> {
        let name = path.file_name().ok_or_else(|| not_a_file(path))?;
        match fs::symlink_metadata(path) {
            // A device or a pipe would be replaced by the file.
            Ok(found) if !found.is_file() => return Err(not_a_file(path)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(Some(path), error)),
        }
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", Uuid::now_v7().simple()));
        let part = path.with_file_name(hidden);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options
            .open(&part)
            .map_err(|error| failed(Some(path), error))?;
        let created = Self {
            path: path.to_path_buf(),
            part,
            is_kept: false,
        };
        Ok((created, file))
    }

    /// Gives it its name. It is on disk then, also after a power cut.
    pub fn keep(mut self) -> Result<(), CommandFailure> {
        let keeping = || {
            File::open(&self.part)?.sync_all()?;
            fs::rename(&self.part, &self.path)?;
            let directory = self
                .path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
        };
        keeping().map_err(|error| failed(Some(&self.path), error))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // It may have been renamed already.
            let _ = fs::remove_file(&self.part);
        }
    }
}

fn not_a_file(path: &Path) -> CommandFailure {
    CommandFailure::Usage(format!(
        "{}: this is no regular file; leave the flag out to write to standard output",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("readable");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        entries
            .map(|entry| name(entry).into_string().expect("UTF-8"))
            .collect()
    }

    #[tokio::test]
    async fn a_file_has_its_name_only_when_it_is_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("day.csv");
        fs::write(&path, "of before").expect("written");
        let mut output = OutputWriter::open(Some(&path)).expect("opened");
        output.write(b"a\r\n".to_vec()).await.expect("taken");
        assert_eq!(fs::read(&path).expect("read"), b"of before");
        drop(output);
        assert_eq!(names(directory.path()), ["day.csv"]);
        let mut output = OutputWriter::open(Some(&path)).expect("opened");
        for part in [&b"a\r\n"[..], b"b\r\n", b"c\r\n", b"d\r\n"] {
            output.write(part.to_vec()).await.expect("taken");
        }
        output.finish().await.expect("finished");
        assert_eq!(fs::read(&path).expect("read"), b"a\r\nb\r\nc\r\nd\r\n");
        assert_eq!(names(directory.path()), ["day.csv"]);
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn what_is_no_file_is_not_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).expect("made");
        for path in [
            directory.path(),
            &link,
            Path::new("/dev/null"),
            Path::new(".."),
        ] {
            let refused = OutputWriter::open(Some(path)).err().expect("refused");
            assert!(
                refused.to_string().contains("this is no regular file"),
                "{refused}"
            );
        }
        let missing = directory.path().join("missing/day.csv");
        let failed = OutputWriter::open(Some(&missing)).err().expect("failed");
        assert!(failed.to_string().contains("missing/day.csv: "), "{failed}");
    }
}
