//! The program `ringback`: installs the TLS provider and runs the command line.

use std::process::ExitCode;

/// The system's allocator took a sixth of the dispatcher's time; see `docs/performance.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The HTTP client and the Redis client need a TLS provider before they open a connection. Installing it
    // fails only if one is installed already, and then that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    ringback::cli::run()
}
