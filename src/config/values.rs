//! Parses and checks the text of single values.
//!
//! Every function returns the checked value, or a message for people that follows the name of the setting.
//! The message may repeat the text, unless the value can contain a secret.

use super::JournalConfig;
use crate::domain::duration;
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use url::Url;

/// Maximum length of an API key, in bytes.
const LONGEST_API_KEY: usize = 256;
/// A shorter API key may be guessed: a server answers thousands of guesses per second. Any text is accepted nevertheless,
/// because servers were started with such keys before.
const SHORTEST_SAFE_API_KEY: usize = 16;

/// The key that callers of the API must send.
#[derive(Clone)]
pub struct ApiKey(Box<str>);

/// The URL of a PostgreSQL database, with its password if it has one.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    text: Box<str>,
    place: Box<str>,
}

impl ApiKey {
    /// What to do about a [`ApiKey::weakness`].
    pub const ADVICE: &str = "give a long random one: `openssl rand -hex 32` makes one";

    /// Parses an API key, or a key of the metrics.
    ///
    /// # Errors
    /// Says what a key looks like, without repeating the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.is_empty() || text.len() > LONGEST_API_KEY || !printable {
            return Err(format!(
                "an API key must have 1 to {LONGEST_API_KEY} printable ASCII characters and no spaces"
            ));
        }
        Ok(Self(text.into()))
    }

    /// What should be said of the key, without repeating it: that it is short. `None` if it is long enough.
    #[must_use]
    pub fn weakness(&self) -> Option<String> {
        let is_short = self.0.len() < SHORTEST_SAFE_API_KEY;
        is_short.then(|| {
            format!(
                "the key of --api-key has fewer than {SHORTEST_SAFE_API_KEY} characters, so others may guess it"
            )
        })
    }

    /// The key, only for comparing it with the key of a request.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ApiKey(..)")
    }
}

/// The parameters that the URL of a PostgreSQL database may have after its `?`.
const POSTGRES_PARAMETERS: [&str; 14] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-mode",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

impl PostgresUrl {
    /// Parses a `postgres://` or `postgresql://` URL.
    ///
    /// # Errors
    /// Says what is wrong, without repeating the URL, because the URL may contain a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let right = "not a URL like postgres://ringback@127.0.0.1:5432/ringback";
        let url = Url::parse(text).map_err(|_| right)?;
        if !matches!(url.scheme(), "postgres" | "postgresql") || !text.contains("://") {
            return Err(right.into());
        }
        let parameter = |name: &str| {
            let found = url.query_pairs().find(|(known, _)| known == name);
            found.map(|(_, value)| value.into_owned())
        };
        for (name, _) in url.query_pairs() {
            let known = POSTGRES_PARAMETERS.contains(&&*name) || name.starts_with("options[");
            if !known {
                return Err(format!("{} is not a known parameter", quoted(&name)));
            }
        }
        let in_url = url.host_str().filter(|host| !host.is_empty());
        let host = parameter("host").or_else(|| in_url.map(str::to_string));
        let port = parameter("port").and_then(|port| port.parse().ok());
        let port = port.or(url.port()).unwrap_or(5432);
        let database = url.path().trim_start_matches('/').to_string();
        Ok(Self {
            text: text.into(),
            place: format!(
                "postgres://{}:{port}/{}",
                host.ok_or(right)?,
                parameter("dbname").unwrap_or(database)
            )
            .into(),
        })
    }

    /// The whole URL with its password, only for opening the connection.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }
}

/// Shows only the address of the server and the name of the database.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.place)
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PostgresUrl({self})")
    }
}

/// Parses a duration such as `200ms`, `4m` or `24h22m`.
///
/// # Errors
/// Says what a duration looks like.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration_ms = duration::parse_ms(text).map_err(|error| error.to_string())?;
    Ok(Duration::from_millis(duration_ms.unsigned_abs()))
}

/// The given text in quotation marks, escaped and shortened so that it fits in one line.
pub(super) fn quoted(text: &str) -> String {
    let start: String = text.chars().take(60).collect();
    let more = if start.len() < text.len() { "..." } else { "" };
    format!("`{}{more}`", start.escape_debug())
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("{} is not an address like 127.0.0.1:8400", quoted(text)))
}

pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("the path is empty".into());
    }
    Ok(PathBuf::from(text))
}

pub(super) fn journal(text: &str) -> Result<JournalConfig, String> {
    let right = "a journal must be sqlite://FILE, postgres://USER@HOST/DATABASE or none";
    if text == "none" {
        return Ok(JournalConfig::None);
    }
    match text.split_once("://") {
        Some(("sqlite", file)) if file.is_empty() || file.contains('?') => Err(format!(
            "{} does not name a file as in sqlite://ringback-data/journal.db",
            quoted(text)
        )),
        Some(("sqlite", ":memory:")) => {
            Err("a restart would lose a journal in memory; name a file".into())
        }
        Some(("sqlite", file)) => Ok(JournalConfig::Sqlite(PathBuf::from(file))),
        Some(("postgres" | "postgresql", _)) => {
            PostgresUrl::parse(text).map(JournalConfig::Postgres)
        }
        // The text is not repeated, because it may contain a password.
        Some(_) | None => Err(right.into()),
    }
}

/// Checks a `User-Agent`: printable ASCII, without a space at either end.
pub(super) fn user_agent(text: &str) -> Result<String, String> {
    let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if printable && !text.is_empty() && text.len() <= 256 && text.trim() == text {
        return Ok(text.to_string());
    }
    Err("must have 1 to 256 printable ASCII characters and no space at either end".to_string())
}

/// Parses a network, or a single address as a network of one address. Clears the host bits.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    text.parse::<IpNet>()
        .map(|network| network.trunc())
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| format!("{} is not a network like 10.0.0.0/8", quoted(text)))
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("{} is neither true nor false", quoted(text))),
    }
}

pub(super) fn number<N>(text: &str, range: RangeInclusive<N>) -> Result<N, String>
where
    N: FromStr + PartialOrd + fmt::Display,
{
    text.parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            format!(
                "{} is not a number from {} to {}",
                quoted(text),
                range.start(),
                range.end()
            )
        })
}

pub(super) fn bytes(text: &str, range: RangeInclusive<usize>) -> Result<usize, String> {
    let (digits, unit) = if let Some(digits) = text.strip_suffix("KiB") {
        (digits, 1024)
    } else if let Some(digits) = text.strip_suffix("MiB") {
        (digits, 1024 * 1024)
    } else if let Some(digits) = text.strip_suffix("GiB") {
        (digits, 1024 * 1024 * 1024)
    } else {
        (text, 1)
    };
    digits
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .filter(|bytes| range.contains(bytes))
        .ok_or_else(|| {
            format!(
                "{} is not a number of bytes from {} to {}, such as 262144 or 256KiB",
                quoted(text),
                range.start(),
                range.end()
            )
        })
}

/// Parses how long something is kept. `None` means for ever.
pub(super) fn keep(
    text: &str,
    bounds: RangeInclusive<Duration>,
) -> Result<Option<Duration>, String> {
    if text == "forever" {
        return Ok(None);
    }
    duration(text, bounds).map(Some)
}

pub(super) fn duration(text: &str, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    let parsed = parse_duration(text)?;
    if range.contains(&parsed) {
        return Ok(parsed);
    }
    let written = |bound: &Duration| {
        duration::display_ms(i64::try_from(bound.as_millis()).unwrap_or(duration::LONGEST_MS))
    };
    Err(format!(
        "{} is not between {} and {}",
        quoted(text),
        written(range.start()),
        written(range.end())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_and_networks_are_read_as_written() {
        fn check(text: &str, expected: &str) {
            assert_eq!(network(text).expect(text).to_string(), expected);
        }
        check("10.1.2.3/8", "10.0.0.0/8");
        check("192.168.1.1", "192.168.1.1/32");
        check("fd00::/8", "fd00::/8");
        let file = |name: &str| Ok(JournalConfig::Sqlite(PathBuf::from(name)));
        assert_eq!(journal("sqlite:///data/j.db"), file("/data/j.db"));
        assert_eq!(journal("sqlite://j.db"), file("j.db"));
        assert_eq!(journal("none"), Ok(JournalConfig::None));
    }

    #[test]
    fn a_key_of_fewer_than_sixteen_characters_is_weak() {
        let weakness = |text: &str| ApiKey::parse(text).expect("a key").weakness();
        let said = weakness("hunter2-hunter2").expect("weak");
        assert!(said.contains("fewer than 16 characters"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
        assert!(weakness("k").is_some());
        assert_eq!(weakness("hunter2-hunter2-"), None);
    }

    #[test]
    fn a_postgres_url_shows_its_address_and_not_its_password() {
        fn check(text: &str, expected: Result<&str, &str>) {
            let found = PostgresUrl::parse(text);
            if let Ok(url) = &found {
                assert_eq!(url.expose(), text);
                assert!(!format!("{url:?}").contains("hunter2"), "{url:?}");
            }
            let found = found.map(|url| url.to_string());
            match (found, expected) {
                (Ok(place), Ok(expected)) => assert_eq!(place, expected),
                (Err(problem), Err(expected)) => {
                    assert!(problem.contains(expected), "{problem}");
                    assert!(!problem.contains("hunter2"), "{problem}");
                }
                (found, expected) => panic!("{text}: {found:?}, not {expected:?}"),
            }
        }
        let place = Ok("postgres://db.example:5432/ringback");
        check("postgres://db.example/ringback", place);
        check("postgresql://me:hunter2@db.example/ringback", place);
        check("postgres://db.example/ringback?sslmode=verify-full", place);
        check("postgres://db.example/ringback?password=hunter2", place);
        check("postgres:///ringback?host=db.example", place);
        check(
            "postgres://[::1]:5433/x?options=-c%20search_path%3Da",
            Ok("postgres://[::1]:5433/x"),
        );
        check(
            "postgres:///x?host=/run/postgresql",
            Ok("postgres:///run/postgresql:5432/x"),
        );
        check(
            "postgres://db.example/x?passwort=hunter2",
            Err("`passwort` is not a known parameter"),
        );
        check("postgres:///ringback", Err("not a URL like"));
        check("postgres:hunter2", Err("not a URL like"));
        check("mysql://me:hunter2@db.example/", Err("not a URL like"));
    }
}
