//! What the tests share: private servers, the scripted merchant, putting a server together.

pub mod chance;
pub mod chromium;
pub mod collector;
pub mod forward_proxy;
pub mod held;
pub mod http2;
pub mod http2_frames;
pub mod merchant;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod redis;
pub mod redis_cluster;
pub mod redis_node;
pub mod redis_shared;
pub mod redis_tls;
pub mod refusing_port;
pub mod ringback;
pub mod sentinels;
pub mod signing;
pub mod tls;

use std::future::Future;
use std::time::Duration;

/// The longest that any single thing may take before the test counts as failed. Far beyond what is
/// needed: machines are shared and slow at times, and no test measures time by this.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Waits for a signal, but not for ever.
pub async fn within<T>(what: &str, signal: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LONGEST_WAIT, signal).await {
        Ok(value) => value,
        Err(_) => panic!("nothing came within {LONGEST_WAIT:?}: {what}"),
    }
}

/// The pause before what is awaited is asked for again. Without one, a test takes a processor from
/// the servers that it waits for.
pub async fn short_pause() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

/// Sets up TLS for this process, as `main` does.
pub fn install_tls() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // Somebody else may have been first, which is just as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
