//! The certificates with which connections are opened. Their files are read again before each.
//!
//! If the files cannot be used then, those that were read last go on being used, and the log says so: one of two files
//! may have been renewed a moment before the other. The files are read on a thread of their own and for a limited time, since a
//! file system may hang.
//!
//! The library keeps copies of the private key in each prepared connection, which it does not overwrite when they are dropped.

use crate::redis_tls::{BadTlsFile, RedisTls, RedisTlsTexts};
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo as _,
    RedisError, TlsCertificates,
};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// How long a connection waits for the files to be read.
const LONGEST_READING: Duration = Duration::from_millis(500);
/// Connections that are opened within this time share what was read.
const SHARED_FOR: Duration = Duration::from_millis(100);
/// After this time the log says again that the files cannot be used.
const TOLD_AGAIN: Duration = Duration::from_secs(3_600);

type Read = Result<RedisTlsTexts, BadTlsFile>;

/// The files, and what was in them.
pub struct CertificateFiles {
    files: RedisTls,
    used: Mutex<Used>,
    reading: tokio::sync::Mutex<Reading>,
}

/// What is used for connections.
struct Used {
    texts: RedisTlsTexts,
    /// An address with these certificates. Its host and port mean nothing.
    address: ConnectionAddr,
}

#[derive(Default)]
struct Reading {
    /// When the files were read last.
    done: Option<Instant>,
    /// A reading that has not ended.
    going_on: Option<JoinHandle<Read>>,
    /// Why the files cannot be used, and when the log last said so.
    told: Option<(String, Instant)>,
}

impl CertificateFiles {
    /// Reads the files, on this thread.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn open(files: RedisTls) -> Result<Self, RedisError> {
        let texts = files.read().map_err(unusable)?;
        let address = with_certificates(&files, &texts)?;
        Ok(Self {
            files,
            used: Mutex::new(Used { texts, address }),
            reading: tokio::sync::Mutex::default(),
        })
    }

    /// An address with the certificates that were read last. Its host and port mean nothing.
    pub fn address(&self) -> ConnectionAddr {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.address.clone()
    }

    /// Reads the files again. If they cannot be used, nothing changes, and the log says why.
    pub async fn read_again(&self) {
        let mut reading = self.reading.lock().await;
        if reading.done.is_some_and(|at| at.elapsed() < SHARED_FOR) {
            return;
        }
        // At most one thread waits for a file system that hangs, also if callers give up.
        let going_on = reading.going_on.get_or_insert_with(|| {
            let files = self.files.clone();
            tokio::task::spawn_blocking(move || files.read())
        });
        let read = tokio::time::timeout(LONGEST_READING, going_on).await;
        if read.is_ok() {
            reading.going_on = None;
        }
        let taken = match read {
            Ok(Ok(read)) => read.map_err(unusable).and_then(|texts| self.take(texts)),
            Ok(Err(stopped)) => Err((ErrorKind::Io, "reading stopped", stopped.to_string()).into()),
            Err(_) => Err((ErrorKind::Io, "the files could not be read in time").into()),
        };
        reading.done = Some(Instant::now());
        match taken {
            Ok(()) => {
                if reading.told.take().is_some() {
                    tracing::info!("the certificates for Redis can be read again");
                }
            }
            Err(error) => reading.tell(&error),
        }
    }

    /// Uses what was read, if it has changed.
    fn take(&self, texts: RedisTlsTexts) -> Result<(), RedisError> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.texts != texts {
            let address = with_certificates(&self.files, &texts)?;
            *used = Used { texts, address };
            tracing::info!("the certificates for Redis have changed and are used from now on");
        }
        Ok(())
    }
}

impl Reading {
    fn tell(&mut self, error: &RedisError) {
        let why = error.to_string();
        let is_told = self
            .told
            .as_ref()
            .is_some_and(|(told, at)| *told == why && at.elapsed() < TOLD_AGAIN);
        if !is_told {
            tracing::warn!(
                %error,
                "the certificates for Redis cannot be read again, so those of before are used; a restart would fail"
            );
            self.told = Some((why, Instant::now()));
        }
    }
}

fn with_certificates(
    files: &RedisTls,
    texts: &RedisTlsTexts,
) -> Result<ConnectionAddr, RedisError> {
    let found = files.parse(texts).map_err(unusable)?;
    let client = found.client.map(|(certificate, key)| ClientTlsConfig {
        client_cert: certificate.as_str().as_bytes().to_vec(),
        client_key: key.expose().as_bytes().to_vec(),
    });
    let certificates = TlsCertificates {
        client_tls: client,
        root_cert: found.ca.map(|ca| ca.as_str().as_bytes().to_vec()),
    };
    let anywhere: ConnectionInfo = "rediss://127.0.0.1".into_connection_info()?;
    let client = Client::build_with_tls(anywhere, certificates)?;
    Ok(client.get_connection_info().addr().clone())
}

fn unusable(error: BadTlsFile) -> RedisError {
    let why = "the certificates for Redis cannot be used";
    (ErrorKind::InvalidClientConfig, why, error.to_string()).into()
}
