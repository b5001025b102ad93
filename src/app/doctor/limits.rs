//! What this machine gives a server: file descriptors and certificate authorities.

use super::finding::Finding;
use crate::app::process::MOST_DESCRIPTORS;
use crate::config::ServeConfig;
use crate::tls_roots::{self, RootsOrigin};
use rlimit::Resource;

/// File descriptors beside those of attempts: connections of callers, kept connections, files and stores.
const OTHER_DESCRIPTORS: u64 = 4_096 + 4_096 + 64;

/// Looks at the limits of this machine.
pub fn examine(config: &ServeConfig) -> Vec<Finding> {
    vec![descriptors(config), authorities()]
}

fn descriptors(config: &ServeConfig) -> Finding {
    const SUBJECT: &str = "open files";
    let attempts = config.delivery.concurrency as u64;
    let needed = attempts + OTHER_DESCRIPTORS;
    match Resource::NOFILE.get() {
        Err(error) => {
            let text = format!("the limit of open files cannot be read: {error}");
            Finding::unknown(SUBJECT, text, "`ulimit -Hn` may tell")
        }
        // A server raises its own limit as far as it may.
        Ok((_, hard)) if hard.min(MOST_DESCRIPTORS) < needed => {
            let text = format!(
                "at most {hard} files may be open, but {attempts} attempts (--concurrency), callers and kept connections may \
                 need {needed}"
            );
            let mend = "set LimitNOFILE=65536 in the unit file (`ulimit -Hn` in a shell), or a smaller --concurrency";
            Finding::warning(SUBJECT, text, mend)
        }
        Ok((_, hard)) => {
            let allowed = hard.min(MOST_DESCRIPTORS);
            let text = format!("{allowed} files may be open; {needed} may be needed");
            Finding::ok(SUBJECT, text)
        }
    }
}

fn authorities() -> Finding {
    const SUBJECT: &str = "tls roots";
    let named = std::env::var("SSL_CERT_FILE").ok();
    match (tls_roots::origin(), named) {
        (RootsOrigin::Machine, Some(file)) => Finding::ok(
            SUBJECT,
            format!("the authorities in {file} are trusted (SSL_CERT_FILE)"),
        ),
        (RootsOrigin::Machine, None) => Finding::ok(
            SUBJECT,
            "the certificate authorities of this machine are trusted",
        ),
        (RootsOrigin::Mozilla(why), Some(file)) => {
            let text = format!(
                "the authorities in {file} (SSL_CERT_FILE) cannot be used, so those of Mozilla are trusted instead: {why}"
            );
            let mend = "name a readable PEM file in SSL_CERT_FILE, or unset it";
            Finding::warning(SUBJECT, text, mend)
        }
        (RootsOrigin::Mozilla(_), None) => Finding::ok(
            SUBJECT,
            "this machine has no certificate authorities, so those of Mozilla are trusted, which are compiled in",
        ),
    }
}
