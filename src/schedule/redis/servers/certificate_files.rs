//! The certificates with which connections are opened. Their files are read again before each.
//!
//! If the files cannot be used then, those that were read last go on being used, and the log says so: one of two files
//! may have been renewed a moment before the other. The files are read on a thread of their own and for a limited time, since a
//! file system may hang.
//!
//! The library keeps copies of the private key in each prepared connection, which it does not overwrite when they are dropped.

use crate::redis_tls::{BadTlsFile, RedisCertificates, RedisTls, RedisTlsTexts};
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
        let (texts, found) = files.load().map_err(unusable)?;
        let address = with_certificates(found)?;
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
        // What was read for a connection of before, and came too late for it, may be old by now.
        if (reading.going_on.as_ref()).is_some_and(JoinHandle::is_finished) {
            reading.going_on = None;
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
            Err(error) => reading.tell(&error, Instant::now()),
        }
    }

    /// Uses what was read, if it has changed.
    fn take(&self, texts: RedisTlsTexts) -> Result<(), RedisError> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.texts != texts {
            let address = with_certificates(self.files.parse(&texts).map_err(unusable)?)?;
            *used = Used { texts, address };
            tracing::info!("the certificates for Redis have changed and are used from now on");
        }
        Ok(())
    }
}

impl Reading {
    /// Logs the error, unless the log has said the same within an hour.
    fn tell(&mut self, error: &RedisError, now: Instant) {
        let why = error.to_string();
        let is_told = self
            .told
            .as_ref()
            .is_some_and(|(told, at)| *told == why && now.duration_since(*at) < TOLD_AGAIN);
        if !is_told {
            tracing::warn!(
                %error,
                "the certificates for Redis cannot be read again, so those of before are used; a restart would fail"
            );
            self.told = Some((why, now));
        }
    }
}

fn with_certificates(found: RedisCertificates) -> Result<ConnectionAddr, RedisError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis_tls::RedisClientFiles;
    use rcgen::{CertificateParams, KeyPair};
    use std::fs;
    use std::path::Path;

    /// Writes a certificate that is signed by itself, and its key.
    fn write(dir: &Path) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["redis.example".to_string()]).expect("a name");
        let certificate = params.self_signed(&key).expect("made").pem();
        fs::write(dir.join("client.pem"), certificate).expect("written");
        fs::write(dir.join("client.key"), key.serialize_pem()).expect("written");
    }

    /// Reads again although it was done a moment ago. Says whether the files cannot be used now, and whether others are used.
    async fn read_again(certificates: &CertificateFiles) -> (bool, bool) {
        let texts = || {
            certificates
                .used
                .lock()
                .expect("not poisoned")
                .texts
                .clone()
        };
        let before = texts();
        certificates.reading.lock().await.done = None;
        certificates.read_again().await;
        let is_told = certificates.reading.lock().await.told.is_some();
        (is_told, texts() != before)
    }

    #[tokio::test]
    async fn what_can_be_used_is_used_and_what_was_used_before_otherwise() {
        let dir = tempfile::tempdir().expect("a directory");
        write(dir.path());
        let key = dir.path().join("client.key");
        let certificates = CertificateFiles::open(RedisTls {
            ca: None,
            client: Some(RedisClientFiles {
                certificate: dir.path().join("client.pem"),
                key: key.clone(),
            }),
        });
        let certificates = certificates.expect("right");
        assert_eq!(read_again(&certificates).await, (false, false));
        let first = fs::read_to_string(&key).expect("readable");
        // A key of another certificate, half of one, none, and the right one again.
        let other = KeyPair::generate().expect("a key").serialize_pem();
        for wrong in [other.as_str(), &first[..40], ""] {
            fs::write(&key, wrong).expect("written");
            assert_eq!(read_again(&certificates).await, (true, false));
        }
        fs::remove_file(&key).expect("removed");
        assert_eq!(read_again(&certificates).await, (true, false));
        fs::write(&key, first).expect("written");
        assert_eq!(read_again(&certificates).await, (false, false));
        write(dir.path());
        assert_eq!(read_again(&certificates).await, (false, true));
        // Within a moment, connections share what was read.
        write(dir.path());
        certificates.read_again().await;
        assert_eq!(read_again(&certificates).await, (false, true));
    }

    #[tokio::test]
    async fn what_was_read_too_late_for_one_connection_is_not_taken_for_a_later_one() {
        let dir = tempfile::tempdir().expect("a directory");
        write(dir.path());
        let files = RedisTls {
            ca: Some(dir.path().join("client.pem")),
            client: None,
        };
        let certificates = CertificateFiles::open(files.clone()).expect("right");
        let late = tokio::task::spawn_blocking(move || files.read());
        while !late.is_finished() {
            tokio::task::yield_now().await;
        }
        certificates.reading.lock().await.going_on = Some(late);
        write(dir.path());
        assert_eq!(read_again(&certificates).await, (false, true));
    }

    #[test]
    fn the_log_says_the_same_once_an_hour() {
        let begun = Instant::now();
        let at = |after: Duration| begun + after;
        let almost = TOLD_AGAIN - Duration::from_millis(1);
        let mut reading = Reading::default();
        for (why, now, told) in [
            ("one", begun, begun),
            ("one", at(almost), begun),
            ("one", at(TOLD_AGAIN), at(TOLD_AGAIN)),
            ("two", at(TOLD_AGAIN + almost), at(TOLD_AGAIN + almost)),
        ] {
            reading.tell(&RedisError::from((ErrorKind::Io, why)), now);
            let (said, last) = reading.told.clone().expect("told");
            assert!(said.contains(why), "{said}");
            assert_eq!(last, told, "{why}");
        }
    }
}
