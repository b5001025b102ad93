//! The data directory and the files of secrets.

use super::finding::Finding;
use crate::config::{JournalConfig, ServeConfig, is_exposed};
use crate::domain::signature::SecretOrigin;
use rustix::fs::{Access, access, statvfs};
use std::path::{Path, PathBuf};

/// With less free space than this, the journal is full soon.
const LEAST_FREE: u64 = 64 * 1024 * 1024;
/// With less free space than this, somebody should know.
const LITTLE_FREE: u64 = 1024 * 1024 * 1024;

/// Looks at the directories that a server writes to, and at the files of secrets.
pub fn examine(config: &ServeConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    for directory in directories(config) {
        findings.extend(examine_directory(&directory));
    }
    let exposed: Vec<&PathBuf> = config
        .secret_files
        .iter()
        .filter(|path| is_exposed(path))
        .collect();
    for path in &exposed {
        let path = path.display();
        findings.push(Finding::warning(
            "key files",
            format!("other users of this machine can read or write {path}, which has a secret"),
            &format!("chmod 600 {path}; and change the secret if others may have read it"),
        ));
    }
    let there = config.secret_files.iter().filter(|path| path.exists());
    let there = there.count();
    if exposed.is_empty() && there > 0 {
        let text = format!("files with secrets: {there}; none can be read by other users");
        findings.push(Finding::ok("key files", text));
    }
    findings
}

/// The directories that a server with these settings writes to.
fn directories(config: &ServeConfig) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    let needs_data_dir = config.delivery.secret_origin == SecretOrigin::Kept;
    if let JournalConfig::Sqlite(path) = &config.journal {
        let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        directories.push(parent.unwrap_or(Path::new(".")).to_path_buf());
    }
    if needs_data_dir && !directories.contains(&config.data_dir) {
        directories.push(config.data_dir.clone());
    }
    directories
}

fn examine_directory(directory: &Path) -> Vec<Finding> {
    const SUBJECT: &str = "data directory";
    let shown = directory.display();
    if directory.exists() && !directory.is_dir() {
        let text = format!("{shown} is no directory");
        let mend = "give another one with --data-dir";
        return vec![Finding::problem(SUBJECT, text, mend)];
    }
    let Some(existing) = nearest(directory) else {
        let text = format!("no directory above {shown} exists");
        return vec![Finding::problem(
            SUBJECT,
            text,
            "give another one with --data-dir",
        )];
    };
    let rights = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    let mut findings = Vec::new();
    match access(&existing, rights) {
        Err(error) => {
            let text = format!("{} cannot be written to: {error}", existing.display());
            let mend =
                "give it to the user of the server (chown), or name another one with --data-dir";
            findings.push(Finding::problem(SUBJECT, text, mend));
        }
        Ok(()) if existing == directory => {
            findings.push(Finding::ok(SUBJECT, format!("{shown} can be written to")));
        }
        Ok(()) => {
            let text = format!("{shown} does not exist yet; the first start makes it");
            findings.push(Finding::ok(SUBJECT, text));
        }
    }
    findings.extend(free_space(&existing));
    findings
}

/// The directory itself, or the nearest one above it that exists.
fn nearest(directory: &Path) -> Option<PathBuf> {
    let above = directory
        .ancestors()
        .map(|path| match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        });
    above.map(Path::to_path_buf).find(|path| path.is_dir())
}

fn free_space(directory: &Path) -> Option<Finding> {
    const SUBJECT: &str = "free space";
    let shown = directory.display();
    let system = match statvfs(directory) {
        Ok(system) => system,
        Err(error) => {
            let text = format!("the free space of {shown} cannot be read: {error}");
            return Some(Finding::unknown(SUBJECT, text, "`df` may tell"));
        }
    };
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let text = format!("{} free for {shown}", bytes(free));
    let mend = "make room, or keep less: --keep-payloads, --keep-records";
    Some(match free {
        ..LEAST_FREE => Finding::problem(SUBJECT, text, mend),
        LEAST_FREE..LITTLE_FREE => Finding::warning(SUBJECT, text, mend),
        _ => Finding::ok(SUBJECT, text),
    })
}

/// A number of bytes as a person reads it.
fn bytes(number: u64) -> String {
    let (unit, name) = match number {
        ..0x4000_0000 => (1024 * 1024, "MiB"),
        _ => (1024 * 1024 * 1024, "GiB"),
    };
    format!("{} {name}", number / unit)
}
