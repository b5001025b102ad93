//! The program: the TLS provider, then the command line.

use std::process::ExitCode;

/// A sixth of the dispatcher's time went into the system's allocator; see `docs/performance.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything can open a connection: the HTTP client and the Redis client look for it. It
    // fails only when one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    ringback::cli::run()
}
