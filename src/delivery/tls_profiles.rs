//! The TLS configurations of endpoints that have authorities of their own or a client certificate.
//!
//! To make one takes up to a millisecond, so they are kept: at most `MOST_PROFILES`, of which those that were used
//! last stay. A configuration belongs to the settings of one version of one endpoint, so a change of them leads to
//! another one, and the connections of the old one are not used any more (`delivery::pool`). It is made when the
//! first attempt needs it, off the threads that make calls.

use crate::domain::attempt_reason::UnsentReason;
use crate::domain::client_key::ClientKey;
use crate::domain::endpoint::Endpoint;
use crate::domain::endpoint_tls::{ClientIdentity, EndpointTls};
use crate::domain::http_version::HttpVersion;
use crate::endpoints::Endpoints;
use crate::keyring::UnusableClientKey;
use crate::tls_profile::{BadProfile, client_config};
use rustls::ClientConfig;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Maximum number of configurations that are kept. Each takes about 10 KB.
const MOST_PROFILES: usize = 4_096;
/// The name of HTTP/1.1 in a TLS handshake.
const HTTP1: &[u8] = b"http/1.1";
/// The name of HTTP/2 in a TLS handshake.
pub const HTTP2: &[u8] = b"h2";

/// The TLS configuration of one endpoint.
pub struct TlsProfile {
    id: Box<str>,
    configs: TlsConfigs,
    has_own_ca: bool,
}

/// A TLS configuration for each version of HTTP that may be asked for. They differ in what they offer to the receiver
/// (ALPN): who asks for HTTP/2 offers HTTP/1.1 too, and the receiver chooses.
#[derive(Clone)]
pub struct TlsConfigs {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

/// Why an endpoint has no usable TLS configuration. Then nothing is sent to it.
#[derive(Debug, Error)]
pub enum UnusableProfile {
    /// The key of the client certificate cannot be opened.
    #[error(transparent)]
    Key(#[from] UnusableClientKey),
    /// The certificates cannot be used. They were checked when they were set.
    #[error(transparent)]
    Bad(#[from] BadProfile),
    /// Making the configuration panicked, or the process ends.
    #[error("the TLS configuration was not made")]
    NotMade,
}

impl UnusableProfile {
    /// The reason of a call that is not made.
    #[must_use]
    pub fn reason(&self) -> UnsentReason {
        match self {
            Self::Key(unusable) => UnsentReason::UnusableClientKey {
                error: unusable.why().to_string(),
            },
            Self::Bad(BadProfile::Authority(number, error)) => UnsentReason::BadAuthority {
                number: *number,
                error: error.clone(),
            },
            Self::Bad(BadProfile::Certificate(error)) => UnsentReason::BadClientCertificate {
                error: error.clone(),
            },
            Self::Bad(BadProfile::Key) => UnsentReason::BadClientKey,
            Self::Bad(BadProfile::OtherKey) => UnsentReason::OtherClientKey,
            Self::NotMade => UnsentReason::NoTlsConfiguration,
        }
    }
}

/// See the documentation of the module.
pub struct TlsProfiles {
    /// What endpoints have that say nothing.
    server: ClientConfig,
    kept: Mutex<KeptProfiles>,
}

#[derive(Default)]
struct KeptProfiles {
    by_id: HashMap<Box<str>, KeptProfile>,
    /// Counts the uses, to order them.
    uses: u64,
}

struct KeptProfile {
    profile: Arc<TlsProfile>,
    last_use: u64,
}

impl TlsProfile {
    /// Different for different settings, and for each endpoint with a client certificate.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The configurations.
    #[must_use]
    pub fn configs(&self) -> &TlsConfigs {
        &self.configs
    }

    /// Whether the endpoint has authorities of its own.
    #[must_use]
    pub fn has_own_ca(&self) -> bool {
        self.has_own_ca
    }
}

impl TlsConfigs {
    /// The configurations that are otherwise like this one.
    #[must_use]
    pub fn of(mut config: ClientConfig) -> Self {
        config.alpn_protocols = vec![HTTP1.to_vec()];
        let http1 = Arc::new(config.clone());
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Self {
            http1,
            http2: Arc::new(config),
        }
    }

    /// The configuration of a call that asks for this version.
    #[must_use]
    pub fn asking_for(&self, version: HttpVersion) -> &Arc<ClientConfig> {
        match version {
            HttpVersion::Http1 => &self.http1,
            HttpVersion::Http2 => &self.http2,
        }
    }
}

impl TlsProfiles {
    /// None yet. This is the configuration of the server.
    #[must_use]
    pub fn new(server: ClientConfig) -> Self {
        Self {
            server,
            kept: Mutex::default(),
        }
    }

    /// The configuration of an endpoint; `None` if it is that of the server.
    ///
    /// # Errors
    /// [`UnusableProfile`]: then the call must not be made.
    pub async fn of(
        &self,
        endpoint: &Endpoint,
        endpoints: &Endpoints,
    ) -> Result<Option<Arc<TlsProfile>>, UnusableProfile> {
        let Some(tls) = &endpoint.settings.tls else {
            return Ok(None);
        };
        let id = id_of(endpoint, tls);
        if let Some(kept) = self.lock().take(&id) {
            return Ok(Some(kept));
        }
        let open = |identity: &ClientIdentity| {
            let keyring = endpoints.keyring();
            keyring.open_client_key(endpoint.name.as_str(), &identity.sealed_key)
        };
        let key = tls.identity().map(open).transpose()?;
        let (server, own) = (self.server.clone(), tls.clone());
        let making = tokio::task::spawn_blocking(move || make(&server, &own, key));
        let config = making.await.map_err(|_| UnusableProfile::NotMade)??;
        let profile = TlsProfile {
            id,
            configs: TlsConfigs::of(config),
            has_own_ca: tls.ca().is_some(),
        };
        Ok(Some(self.lock().put(profile)))
    }

    fn lock(&self) -> MutexGuard<'_, KeptProfiles> {
        // No step in here can panic half-way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The settings alone do not identify what has a client certificate: somebody who writes to the database could copy
/// them to another endpoint, whose name does not open the key.
fn id_of(endpoint: &Endpoint, tls: &EndpointTls) -> Box<str> {
    match tls.identity() {
        Some(_) => format!("{} {}", tls.digest(), endpoint.name).into(),
        None => tls.digest().into(),
    }
}

fn make(
    server: &ClientConfig,
    tls: &EndpointTls,
    key: Option<ClientKey>,
) -> Result<ClientConfig, BadProfile> {
    let certificate = tls.identity().map(|identity| &identity.certificate);
    client_config(server, tls.ca(), certificate.zip(key.as_ref()))
}

impl KeptProfiles {
    fn take(&mut self, id: &str) -> Option<Arc<TlsProfile>> {
        let kept = self.by_id.get_mut(id)?;
        self.uses += 1;
        kept.last_use = self.uses;
        Some(kept.profile.clone())
    }

    /// Keeps a configuration, unless another call was faster: then that one is used.
    fn put(&mut self, profile: TlsProfile) -> Arc<TlsProfile> {
        if let Some(known) = self.take(&profile.id) {
            return known;
        }
        if self.by_id.len() >= MOST_PROFILES {
            // The half that was not used for longest, so that this is rare.
            let mut uses: Vec<u64> = self.by_id.values().map(|kept| kept.last_use).collect();
            let middle = uses.len() / 2;
            let (_, oldest_kept, _) = uses.select_nth_unstable(middle);
            let oldest_kept = *oldest_kept;
            self.by_id.retain(|_, kept| kept.last_use >= oldest_kept);
        }
        self.uses += 1;
        let profile = Arc::new(profile);
        let kept = KeptProfile {
            profile: profile.clone(),
            last_use: self.uses,
        };
        self.by_id.insert(profile.id.clone(), kept);
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profiles_that_were_used_last_are_kept() {
        let mut kept = KeptProfiles::default();
        let config = crate::tls_roots::client_config;
        let configs = TlsConfigs::of(config());
        let put = |kept: &mut KeptProfiles, number: usize| {
            kept.put(TlsProfile {
                id: number.to_string().into(),
                configs: configs.clone(),
                has_own_ca: false,
            })
        };
        let first = put(&mut kept, 0);
        for number in 1..MOST_PROFILES {
            put(&mut kept, number);
        }
        assert!(Arc::ptr_eq(&put(&mut kept, 0), &first));
        assert!(kept.take("1").is_some());
        put(&mut kept, MOST_PROFILES);
        assert_eq!(kept.by_id.len(), MOST_PROFILES / 2 + 1);
        for (id, is_kept) in [("0", true), ("1", true), ("2", false), ("4096", true)] {
            assert_eq!(kept.take(id).is_some(), is_kept, "{id}");
        }
    }
}
