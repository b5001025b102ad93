//! The URL of the Redis or Valkey servers that have the schedule.
//!
//! ```text
//!   redis://[USER:PASSWORD@]HOST:PORT[/DATABASE]                             one server
//!   redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/NAME[/DATABASE]     the primary that Sentinel calls NAME
//!   redis+cluster://[USER:PASSWORD@]HOST:PORT,HOST:PORT                      a cluster, of which these are some nodes
//! ```
//! With `rediss` instead of `redis`, all connections use TLS.

use std::fmt;
use url::Url;

/// Maximum number of addresses in a URL: each sentinel has a connection of its own.
const MOST_ADDRESSES: usize = 32;
/// The ports of servers and of sentinels if the URL has none.
const SERVER_PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;
const RIGHT: &str = "not a URL like redis://127.0.0.1:6379, rediss://redis.example:6380/0, \
    redis+sentinel://HOST:PORT,HOST:PORT/NAME or redis+cluster://HOST:PORT,HOST:PORT";

/// What the addresses of a URL lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisKind {
    /// One server.
    Server,
    /// Sentinels that watch the primary with this name.
    Sentinel(String),
    /// Nodes of a cluster.
    Cluster,
}

/// The address of a server. An IPv6 address has no brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RedisHost {
    /// The name or the IP address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The URL of a Redis server, of sentinels or of a cluster, with its password if it has one.
#[derive(Clone)]
pub struct RedisUrl {
    text: Box<str>,
    place: Box<str>,
    server: Box<str>,
    kind: RedisKind,
    hosts: Vec<RedisHost>,
}

impl fmt::Display for RedisHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "[{}]:{}", self.host, self.port),
            false => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

impl RedisUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// Says what is wrong, without repeating the URL, because the URL may contain a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or(RIGHT)?;
        let (security, is_sentinel) = match scheme {
            "redis" | "rediss" => return Self::parse_server(text, scheme),
            "redis+sentinel" => ("redis", true),
            "rediss+sentinel" => ("rediss", true),
            "redis+cluster" => ("redis", false),
            "rediss+cluster" => ("rediss", false),
            _ => return Err(RIGHT.into()),
        };
        if rest.contains(['?', '#']) {
            return Err(
                "nothing may follow the path in the URL of Sentinel or of a cluster".into(),
            );
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, addresses) = match authority.rsplit_once('@') {
            Some((user, addresses)) => (format!("{user}@"), addresses),
            None => (String::new(), authority),
        };
        let port = if is_sentinel {
            SENTINEL_PORT
        } else {
            SERVER_PORT
        };
        let hosts = addresses
            .split(',')
            .map(|address| parse_host(security, address, port))
            .collect::<Result<Vec<_>, _>>()?;
        if hosts.len() > MOST_ADDRESSES {
            return Err(format!(
                "the URL may have {MOST_ADDRESSES} addresses at most"
            ));
        }
        let (kind, database) = match is_sentinel {
            true => sentinel_path(path)?,
            false => (RedisKind::Cluster, cluster_path(path)?),
        };
        let server = format!("{security}://{user}{}/{database}", hosts[0]);
        Url::parse(&server).map_err(|_| RIGHT)?;
        let shown: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let name = match &kind {
            RedisKind::Sentinel(name) => format!("/{name}"),
            RedisKind::Server | RedisKind::Cluster => String::new(),
        };
        Ok(Self {
            text: text.into(),
            place: format!("{scheme}://{}{name}", shown.join(",")).into(),
            server: server.into(),
            kind,
            hosts,
        })
    }

    fn parse_server(text: &str, scheme: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|_| RIGHT)?;
        let host = url
            .host_str()
            .filter(|host| !host.is_empty())
            .ok_or(RIGHT)?;
        if host.contains(',') {
            return Err(
                "several addresses need redis+sentinel:// or redis+cluster://; redis:// has one"
                    .into(),
            );
        }
        check_database(url.path().trim_start_matches('/'))?;
        if url.fragment().is_some() {
            return Err(
                "nothing may follow # in the URL; the certificate authorities to trust are named by redis-ca"
                    .into(),
            );
        }
        let host = RedisHost {
            host: host.trim_matches(['[', ']']).to_string(),
            port: url.port().unwrap_or(SERVER_PORT),
        };
        Ok(Self {
            text: text.into(),
            place: format!("{scheme}://{host}").into(),
            server: text.into(),
            kind: RedisKind::Server,
            hosts: vec![host],
        })
    }

    /// The whole URL with its password, only for opening the connection.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// The URL of one server at the first address, with user, password and database, only for opening connections.
    #[must_use]
    pub fn expose_server(&self) -> &str {
        &self.server
    }

    /// Whether all connections use TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.text.starts_with("rediss")
    }

    /// What the addresses lead to.
    #[must_use]
    pub fn kind(&self) -> &RedisKind {
        &self.kind
    }

    /// The addresses, at least one.
    #[must_use]
    pub fn hosts(&self) -> &[RedisHost] {
        &self.hosts
    }
}

/// Shows only the addresses, and the name of the primary.
impl fmt::Display for RedisUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.place)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RedisUrl({self})")
    }
}

fn parse_host(security: &str, address: &str, port: u16) -> Result<RedisHost, String> {
    let wrong = "each address in the URL must be HOST:PORT, with commas between the addresses";
    let url = Url::parse(&format!("{security}://{address}/")).map_err(|_| wrong)?;
    let host = url
        .host_str()
        .filter(|host| !host.is_empty())
        .ok_or(wrong)?;
    if address.contains('@') || url.port() == Some(0) {
        return Err(wrong.into());
    }
    Ok(RedisHost {
        host: host.trim_matches(['[', ']']).to_string(),
        port: url.port().unwrap_or(port),
    })
}

/// The name of the primary, and the number of the database as text.
fn sentinel_path(path: &str) -> Result<(RedisKind, &str), String> {
    let (name, database) = path.split_once('/').unwrap_or((path, ""));
    // Sentinel allows these characters in the name of a primary.
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if name.is_empty() || !name.bytes().all(allowed) {
        return Err(
            "the name of the primary must follow the addresses of the sentinels in the URL, as in \
             redis+sentinel://127.0.0.1:26379/mymaster"
                .into(),
        );
    }
    check_database(database)?;
    Ok((RedisKind::Sentinel(name.to_string()), database))
}

/// The number of the database as text.
fn cluster_path(path: &str) -> Result<&str, String> {
    match path {
        "" | "0" => Ok(path),
        _ => Err(
            "a cluster has database 0 alone, so nothing else may follow the addresses in the URL"
                .into(),
        ),
    }
}

fn check_database(database: &str) -> Result<(), String> {
    if !database.is_empty() && database.parse::<u16>().is_err() {
        return Err("only the number of a database may follow the address in the URL".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_servers_sentinels_or_nodes_and_never_shows_its_password() {
        fn check(text: &str, place: &str, kind: &RedisKind, server: &str) {
            let url = RedisUrl::parse(text).expect(text);
            assert_eq!((url.to_string(), url.kind()), (place.to_string(), kind));
            assert_eq!((url.expose(), url.expose_server()), (text, server));
            assert!(!format!("{url:?}").contains("hunter2"), "{url:?}");
        }
        let (server, cluster) = (RedisKind::Server, RedisKind::Cluster);
        let sentinel = RedisKind::Sentinel("main".to_string());
        check("redis://a", "redis://a:6379", &server, "redis://a");
        check(
            "rediss://u:hunter2@a:7/3",
            "rediss://a:7",
            &server,
            "rediss://u:hunter2@a:7/3",
        );
        check(
            "redis://[::1]:7",
            "redis://[::1]:7",
            &server,
            "redis://[::1]:7",
        );
        check(
            "redis+sentinel://u:hunter2@a,b:2/main/3",
            "redis+sentinel://a:26379,b:2/main",
            &sentinel,
            "redis://u:hunter2@a:26379/3",
        );
        check(
            "rediss+sentinel://:hunter2@[::1]:1/main",
            "rediss+sentinel://[::1]:1/main",
            &sentinel,
            "rediss://:hunter2@[::1]:1/",
        );
        check(
            "redis+cluster://a:1,b/",
            "redis+cluster://a:1,b:6379",
            &cluster,
            "redis://a:1/",
        );
        check(
            "rediss+cluster://a:1/0",
            "rediss+cluster://a:1",
            &cluster,
            "rediss://a:1/0",
        );
    }

    #[test]
    fn a_wrong_part_of_a_url_is_named_and_the_password_is_not_shown() {
        fn check(text: &str, said: &str) {
            let problem = RedisUrl::parse(text).expect_err(text);
            assert!(problem.contains(said), "{text}: {problem}");
            assert!(!problem.contains("hunter2"), "{problem}");
        }
        for text in [
            "",
            "hunter2",
            "http://hunter2@a",
            "redis:///hunter2",
            "redis+x://hunter2",
        ] {
            check(text, "not a URL like");
        }
        check("redis://hunter2@a/x", "the number of a database");
        check("rediss://hunter2@a/1#insecure", "redis-ca");
        check("redis://hunter2@a:1,b:2", "");
        check("redis+sentinel://hunter2@a:1", "the name of the primary");
        check("redis+sentinel://hunter2@a:1/", "the name of the primary");
        check(
            "redis+sentinel://hunter2@a:1/a%20b",
            "the name of the primary",
        );
        check(
            "redis+sentinel://hunter2@a:1/main/x",
            "the number of a database",
        );
        check("redis+sentinel://hunter2@a:1,,b/main", "each address");
        check("redis+sentinel://hunter2@a:x/main", "each address");
        check("redis+cluster://", "each address");
        check("redis+cluster://hunter2@a:0", "each address");
        check("redis+cluster://hunter2@a:1/1", "database 0");
        check(
            "redis+cluster://a:1/?password=hunter2",
            "nothing may follow",
        );
        let many = vec!["a"; MOST_ADDRESSES + 1].join(",");
        check(&format!("redis+cluster://{many}"), "32 addresses");
    }
}
