//! Certificates for Redis servers with TLS, and for their clients.

use super::tls::Authority;
use ringback::redis_tls::{RedisClientFiles, RedisTls};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// An authority whose certificates Redis servers show, and demand of their clients.
pub struct RedisAuthority {
    authority: Authority,
    dir: TempDir,
}

impl RedisAuthority {
    /// A new one, with a certificate for servers at 127.0.0.1, and one for clients.
    pub fn new(name: &str) -> Self {
        let mut made = Self {
            authority: Authority::new(name),
            dir: tempfile::tempdir().expect("a temporary directory"),
        };
        made.renew(name);
        made
    }

    /// Makes another one of it, and new certificates, in the same files.
    pub fn renew(&mut self, name: &str) {
        self.authority = Authority::new(name);
        self.authority.write(self.dir.path());
        self.issue("server", "127.0.0.1");
        self.issue("client", "ringback");
    }

    /// A file with the certificate of another authority.
    pub fn other_ca(&self, name: &str) -> PathBuf {
        let path = self.path(name, "pem");
        let other = Authority::new(name);
        fs::write(&path, other.pem()).expect("written");
        path
    }

    /// Writes a certificate and its key into files.
    fn issue(&self, file: &str, name: &str) {
        let identity = self.authority.issue(&[name]);
        fs::write(self.path(file, "pem"), identity.certificate_pem()).expect("written");
        fs::write(self.path(file, "key"), identity.key_pem()).expect("written");
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.{ending}"))
    }

    /// What a client needs.
    pub fn client(&self) -> RedisTls {
        RedisTls {
            ca: Some(self.path("authority", "pem")),
            client: Some(RedisClientFiles {
                certificate: self.path("client", "pem"),
                key: self.path("client", "key"),
            }),
        }
    }

    /// The settings of a server or sentinel that uses TLS at this port, and to others of its kind.
    pub fn settings(&self, port: u16) -> Vec<(&'static str, String)> {
        let path = |name, ending| self.path(name, ending).display().to_string();
        vec![
            ("tls-port", port.to_string()),
            ("tls-cert-file", path("server", "pem")),
            ("tls-key-file", path("server", "key")),
            ("tls-ca-cert-file", path("authority", "pem")),
            ("tls-auth-clients", "yes".to_string()),
            ("tls-replication", "yes".to_string()),
        ]
    }

    /// The arguments of such a server.
    pub fn server_arguments(&self, port: u16) -> Vec<String> {
        let settings = self.settings(port).into_iter();
        settings
            .flat_map(|(name, value)| [format!("--{name}"), value])
            .collect()
    }
}
