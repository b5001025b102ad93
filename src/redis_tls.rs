//! The certificates for TLS connections to Redis, which are in files.
//!
//! The files are read when the settings are checked, and again before each connection. So a certificate that is renewed in
//! its file is used by the next connection, without a restart.

use crate::domain::certificates::{BadCertificates, Certificates};
use crate::domain::client_key::ClientKey;
use crate::tls_profile::{self, BadProfile};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::Zeroizing;

/// Maximum bytes of a file. The authorities of a whole distribution are about 220 KiB.
const LARGEST_FILE: usize = 512 * 1024;
/// Maximum number of authorities.
const MOST_AUTHORITIES: usize = 512;

/// Which files. Without any, the authorities that are compiled in are trusted, and no certificate is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// The authorities to trust, and no others.
    pub ca: Option<PathBuf>,
    /// What is shown to a server that asks for a certificate.
    pub client: Option<RedisClientFiles>,
}

/// A client certificate and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisClientFiles {
    /// The certificate, and those of intermediate authorities behind it.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// What the files contained when they were read.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisTlsTexts {
    ca: Option<Zeroizing<String>>,
    client: Option<[Zeroizing<String>; 2]>,
}

/// What the files contained, which can be used.
#[derive(Debug, Clone)]
pub struct RedisCertificates {
    /// The authorities to trust.
    pub ca: Option<Certificates>,
    /// What is shown.
    pub client: Option<(Certificates, ClientKey)>,
}

/// A file that cannot be used. Contains nothing of the file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: {problem}", .path.display())]
pub struct BadTlsFile {
    /// The path of the file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

impl RedisTls {
    /// Whether there is any file.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.ca.is_some() || self.client.is_some()
    }

    /// Reads the files.
    ///
    /// # Errors
    /// If a file cannot be read, is not text, or is longer than 512 KiB.
    pub fn read(&self) -> Result<RedisTlsTexts, BadTlsFile> {
        let ca = self.ca.as_deref().map(text_of).transpose()?;
        let client = match &self.client {
            Some(files) => Some([text_of(&files.certificate)?, text_of(&files.key)?]),
            None => None,
        };
        Ok(RedisTlsTexts { ca, client })
    }

    /// Reads the files, and what they contain. Twice if need be: all of them may be replaced between two readings.
    ///
    /// # Errors
    /// As [`RedisTls::read`] and [`RedisTls::parse`].
    pub fn load(&self) -> Result<(RedisTlsTexts, RedisCertificates), BadTlsFile> {
        let load = || {
            let texts = self.read()?;
            let found = self.parse(&texts)?;
            Ok((texts, found))
        };
        load().or_else(|_: BadTlsFile| load())
    }

    /// What these texts, which were in the files, contain.
    ///
    /// # Errors
    /// If a text has no certificates or no key that can be used, or the key belongs to another certificate.
    pub fn parse(&self, texts: &RedisTlsTexts) -> Result<RedisCertificates, BadTlsFile> {
        let ca = match (&self.ca, &texts.ca) {
            (Some(path), Some(text)) => Some(authorities(path, text)?),
            (_, _) => None,
        };
        let client = match (&self.client, &texts.client) {
            (Some(files), Some([certificate, key])) => Some(identity(files, certificate, key)?),
            (_, _) => None,
        };
        Ok(RedisCertificates { ca, client })
    }
}

fn authorities(path: &Path, text: &str) -> Result<Certificates, BadTlsFile> {
    let ca = Certificates::parse_up_to(text, LARGEST_FILE, MOST_AUTHORITIES);
    let ca = ca.map_err(|error| bad_certificates(path, &error))?;
    tls_profile::authorities(&ca).map_err(|error| bad(path, &error))?;
    Ok(ca)
}

fn identity(
    files: &RedisClientFiles,
    certificate: &str,
    key: &str,
) -> Result<(Certificates, ClientKey), BadTlsFile> {
    let certificate = Certificates::parse(certificate)
        .map_err(|error| bad_certificates(&files.certificate, &error))?;
    let key = ClientKey::parse(key).map_err(|error| bad(&files.key, &error))?;
    let fitting = tls_profile::identity(&certificate, &key).map_err(|error| {
        let path = match error {
            BadProfile::Certificate(_) | BadProfile::Authority(..) => &files.certificate,
            BadProfile::Key | BadProfile::OtherKey => &files.key,
        };
        bad(path, &error)
    });
    fitting.map(|_| (certificate, key))
}

fn text_of(path: &Path) -> Result<Zeroizing<String>, BadTlsFile> {
    let mut bytes = Zeroizing::new(Vec::new());
    let most = LARGEST_FILE as u64 + 1;
    // A pipe, for example, might never come to an end.
    let is_file = fs::metadata(path).map(|found| found.is_file());
    if !is_file.map_err(|error| bad(path, &error))? {
        return Err(bad(path, &"this is not a regular file"));
    }
    let read = File::open(path).and_then(|file| {
        // Room for everything, so that the buffer does not move and leave a copy of a key behind.
        let length = file.metadata()?.len().min(most);
        bytes.reserve_exact(usize::try_from(length).unwrap_or(0) + 1);
        file.take(most).read_to_end(&mut bytes)
    });
    read.map_err(|error| bad(path, &error))?;
    if bytes.len() > LARGEST_FILE {
        return Err(bad(path, &"the file is longer than 512 KiB"));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| bad(path, &"the file is not PEM"))?;
    Ok(Zeroizing::new(text.to_string()))
}

fn bad_certificates(path: &Path, error: &BadCertificates) -> BadTlsFile {
    match error {
        BadCertificates::PrivateKey => bad(
            path,
            &"the file contains a private key, which belongs into the file of redis-client-key alone",
        ),
        _ => bad(path, error),
    }
}

fn bad(path: &Path, problem: &dyn std::fmt::Display) -> BadTlsFile {
    BadTlsFile {
        path: path.to_path_buf(),
        problem: problem.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    /// A certificate that is signed by itself, and its key.
    fn made() -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["redis.example".to_string()]).expect("a name");
        let certificate = params.self_signed(&key).expect("made").pem();
        (certificate, key.serialize_pem())
    }

    fn read(files: &RedisTls) -> Result<RedisCertificates, BadTlsFile> {
        files.parse(&files.read()?)
    }

    #[test]
    fn files_are_read_and_what_is_wrong_with_one_is_said_with_its_path() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let files = RedisTls {
            ca: Some(path("ca")),
            client: Some(RedisClientFiles {
                certificate: path("certificate"),
                key: path("key"),
            }),
        };
        assert!(!RedisTls::default().is_given() && files.is_given());
        let ((ca, _), (certificate, key), (_, other)) = (made(), made(), made());
        let ca = ca.repeat(17);
        let right = [("ca", &*ca), ("certificate", &certificate), ("key", &key)];
        let write = || {
            for (name, text) in right {
                fs::write(path(name), text).expect("written");
            }
        };
        write();
        let found = read(&files).expect("right");
        assert_eq!(found.ca.map(|ca| ca.to_der().len()), Some(17));
        let (shown, own) = found.client.expect("given");
        assert_eq!(shown.to_der().len(), 1);
        assert!(own.is_same(&ClientKey::parse(&key).expect("a key")));

        let long = "x".repeat(LARGEST_FILE + 1);
        let many = made().0.repeat(MOST_AUTHORITIES + 1);
        for (name, text, said) in [
            ("ca", "", "BEGIN CERTIFICATE"),
            ("ca", &*long, "512 KiB"),
            ("ca", &*many, "at most 512 certificates"),
            ("ca", &*key, "redis-client-key alone"),
            ("certificate", &*certificate.repeat(17), "at most 16"),
            ("certificate", "hunter2", "BEGIN CERTIFICATE"),
            ("key", "hunter2", "one private key"),
            ("key", &*other, "does not belong"),
        ] {
            write();
            fs::write(path(name), text).expect("written");
            let error = read(&files).expect_err(said).to_string();
            let place = path(name).display().to_string();
            assert!(
                error.starts_with(&place) && error.contains(said) && !error.contains("hunter2"),
                "{error}"
            );
        }
        write();
        fs::write(path("ca"), [0xff]).expect("written");
        assert!(read(&files).is_err_and(|error| error.problem.contains("not PEM")));
        fs::remove_file(path("ca")).expect("removed");
        fs::create_dir(path("ca")).expect("made");
        assert!(read(&files).is_err_and(|error| error.problem.contains("not a regular file")));
        fs::remove_dir(path("ca")).expect("removed");
        assert!(read(&files).is_err_and(|error| error.problem.contains("No such file")));
    }
}
