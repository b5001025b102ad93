//! Where the servers are: one server, the primary that Sentinel names, or the nodes of a cluster.
//!
//! A [`super::connection::Connection`] asks here for the address of its slot whenever it opens, and compares the address again
//! when [`Servers::version`] has changed. It reports here when calls fail and when a server redirects a call. Nothing here
//! sends calls of the schedule.

mod certificate_files;
mod cluster;
mod sentinel;
mod slots;

use crate::domain::redis_url::{RedisHost, RedisKind, RedisUrl};
use crate::redis_tls::RedisTls;
use certificate_files::CertificateFiles;
use cluster::Cluster;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisError};
use sentinel::Sentinels;
pub use slots::slot_of_tag;
use std::sync::Arc;
use std::time::Duration;

/// The socket fails if sent data is not acknowledged for this time. Otherwise it would not be noticed that
/// the peer is unreachable.
const USER_TIMEOUT: Duration = Duration::from_secs(5);

/// The servers of one schedule.
pub enum Servers {
    /// One server.
    One {
        settings: NodeSettings,
        host: RedisHost,
    },
    /// The primary that Sentinel names.
    Sentinel(Sentinels),
    /// The nodes of a cluster.
    Cluster(Cluster),
}

/// Where a connection is opened.
pub struct LocatedServer {
    /// Opens connections to it.
    pub client: Client,
    /// Its address.
    pub host: RedisHost,
    /// The [`Servers::version`] before the address was read.
    pub version: usize,
}

impl Servers {
    /// Prepares the servers of a URL, and reads the certificates in the files of `tls`. With Sentinel, tasks begin to ask the
    /// sentinels.
    ///
    /// # Errors
    /// Says what is wrong with the URL or with the certificates.
    pub fn open(url: &RedisUrl, tls: &RedisTls) -> Result<Self, RedisError> {
        let settings = NodeSettings::of(url, tls)?;
        let hosts = url.hosts().to_vec();
        Ok(match url.kind() {
            RedisKind::Server => Self::One {
                settings,
                host: hosts.into_iter().next().expect("invariant: at least one"),
            },
            RedisKind::Sentinel(name) => {
                Self::Sentinel(Sentinels::start(settings, hosts, name.clone()))
            }
            RedisKind::Cluster => Self::Cluster(Cluster::new(settings, hosts)),
        })
    }

    /// Changes whenever the address of a slot may have changed.
    pub fn version(&self) -> usize {
        match self {
            Self::One { .. } => 0,
            Self::Sentinel(sentinels) => sentinels.version(),
            Self::Cluster(cluster) => cluster.version(),
        }
    }

    /// Whether the slot is still at this address, as far as is known.
    pub fn is_at(&self, slot: u16, host: &RedisHost) -> bool {
        match self {
            Self::One { .. } => true,
            Self::Sentinel(sentinels) => sentinels.is_at(host),
            Self::Cluster(cluster) => cluster.is_at(slot, host),
        }
    }

    /// The server that has the slot. The caller limits the time.
    ///
    /// # Errors
    /// Says why it is not known.
    pub async fn locate(&self, slot: u16) -> Result<LocatedServer, RedisError> {
        match self {
            Self::One { settings, host } => {
                settings.read_certificates().await;
                Ok(LocatedServer {
                    client: settings.client(host)?,
                    host: host.clone(),
                    version: 0,
                })
            }
            Self::Sentinel(sentinels) => sentinels.locate().await,
            Self::Cluster(cluster) => cluster.locate(slot).await,
        }
    }

    /// A server to which channels can be subscribed: in a cluster any node, another one for each number.
    ///
    /// # Errors
    /// As [`Servers::locate`].
    pub async fn locate_any(&self, number: usize) -> Result<LocatedServer, RedisError> {
        match self {
            Self::One { .. } | Self::Sentinel(_) => self.locate(0).await,
            Self::Cluster(cluster) => cluster.locate_any(number).await,
        }
    }

    /// Notes that calls fail, so the addresses must be asked for again.
    pub fn suspect(&self) {
        match self {
            Self::One { .. } => {}
            Self::Sentinel(sentinels) => sentinels.suspect(),
            Self::Cluster(cluster) => cluster.suspect(),
        }
    }

    /// Whether the server that is used is known to be the one that other processes use. `false` if it may have been replaced
    /// without a notice: a server that was cut off together with this process accepts changes for some time, or for ever. The
    /// nodes of a cluster stop by themselves then.
    pub fn is_confirmed(&self) -> bool {
        match self {
            Self::One { .. } | Self::Cluster(_) => true,
            Self::Sentinel(sentinels) => sentinels.is_confirmed(),
        }
    }

    /// Whether a server that is opened must say that it is a primary. A node of a cluster that is a replica redirects
    /// every call.
    pub fn needs_role(&self) -> bool {
        match self {
            Self::Sentinel(_) => true,
            Self::One { .. } | Self::Cluster(_) => false,
        }
    }

    /// Whether a call may find its server elsewhere when it is sent again after a wait.
    pub fn may_move(&self) -> bool {
        match self {
            Self::One { .. } => false,
            Self::Sentinel(_) | Self::Cluster(_) => true,
        }
    }

    /// The cluster, if it is one.
    pub fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Cluster(cluster) => Some(cluster),
            Self::One { .. } | Self::Sentinel(_) => None,
        }
    }
}

/// How connections to a server are opened, apart from its address.
#[derive(Clone)]
pub struct NodeSettings {
    info: ConnectionInfo,
    certificates: Option<Arc<CertificateFiles>>,
}

impl NodeSettings {
    fn of(url: &RedisUrl, tls: &RedisTls) -> Result<Self, RedisError> {
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(10))
            .with_interval(USER_TIMEOUT);
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(keepalive);
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(USER_TIMEOUT);
        let info = url.expose_server().into_connection_info()?;
        let certificates = match tls.is_given() {
            true => Some(Arc::new(CertificateFiles::open(tls.clone())?)),
            false => None,
        };
        Ok(Self {
            info: info.set_tcp_settings(tcp),
            certificates,
        })
    }

    /// The number of the database.
    fn database(&self) -> i64 {
        self.info.redis_settings().db()
    }

    /// Reads the files with certificates again, if there are any: before a connection is opened.
    async fn read_certificates(&self) {
        if let Some(certificates) = &self.certificates {
            certificates.read_again().await;
        }
    }

    /// A client of the server at this address, with the certificates that were read last.
    fn client(&self, host: &RedisHost) -> Result<Client, RedisError> {
        let (name, port) = (host.host.clone(), host.port);
        let given = match &self.certificates {
            Some(certificates) => certificates.address(),
            None => self.info.addr().clone(),
        };
        let address = match given {
            ConnectionAddr::TcpTls {
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host: name,
                port,
                insecure,
                tls_params,
            },
            _ => ConnectionAddr::Tcp(name, port),
        };
        Client::open(self.info.clone().set_addr(address))
    }

    /// The same for a sentinel, which has no databases.
    fn of_sentinel(&self) -> Self {
        let settings = self.info.redis_settings().clone().set_db(0);
        Self {
            info: self.info.clone().set_redis_settings(settings),
            certificates: self.certificates.clone(),
        }
    }

    /// The same without user and password; `None` if there are none.
    fn without_password(&self) -> Option<Self> {
        let settings = self.info.redis_settings();
        settings.password()?;
        let none = redis::RedisConnectionInfo::default().set_protocol(settings.protocol());
        Some(Self {
            info: self.info.clone().set_redis_settings(none),
            certificates: self.certificates.clone(),
        })
    }
}

/// The number of the database that the URL names.
///
/// # Errors
/// Says what is wrong with the URL.
pub fn database_of(url: &RedisUrl) -> Result<i64, RedisError> {
    Ok(NodeSettings::of(url, &RedisTls::default())?.database())
}
