//! The unit of fairness: everything that goes to one place waits in one lane.

use std::fmt;
use url::Url;

/// A lane's name: the origin of the URL, such as `https://shop.example` (a default port is left
/// out, any other is kept).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(Box<str>);

impl Lane {
    /// The lane of a destination.
    #[must_use]
    pub fn of(url: &Url) -> Self {
        Self(url.origin().ascii_serialization().into_boxed_str())
    }

    /// A lane read back from a store.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        Self(name.into())
    }

    /// The lane's name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_the_origin() {
        fn check(url: &str, lane: &str) {
            assert_eq!(Lane::of(&Url::parse(url).expect("a url")).as_str(), lane);
        }
        check("https://Shop.Example/notify?a=1", "https://shop.example");
        check("https://shop.example:443/", "https://shop.example");
        check("http://shop.example:8080/x", "http://shop.example:8080");
        check("https://[2001:db8::1]:9443/", "https://[2001:db8::1]:9443");
        check("http://0x7f.1/", "http://127.0.0.1");
    }
}
