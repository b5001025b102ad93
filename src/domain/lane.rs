//! The lane: the queue of all notifications that go to the same endpoint, or else to the same origin.
//!
//! Lanes are served in turn, and each lane has a limit of calls in flight. So one slow receiver alone cannot
//! block the others.

use crate::domain::destination::{BadDestination, Destination};
use crate::domain::endpoint_name::{BadEndpointName, EndpointName};
use crate::domain::key::Key;
use std::fmt;
use thiserror::Error;

/// What the name of an endpoint's lane begins with. No origin begins with it, since it is not a scheme of HTTP.
const OF_ENDPOINT: &str = "endpoint:";

/// A lane's name: `endpoint:` and the endpoint's name, or the origin of the destination URL, such as
/// `https://shop.example`. An origin contains the port, unless that is the default port of the scheme.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(Box<str>);

/// The error for a text that is not the name of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadLane {
    /// The text does not name an origin.
    #[error(
        "a lane is `endpoint:` and the name of an endpoint, or the origin of a URL, like https://shop.example, or \
         any URL with that origin: {0}"
    )]
    Origin(BadDestination),
    /// The text does not name an origin, and it could be the name of an endpoint.
    #[error(
        "a lane is `endpoint:` and the name of an endpoint, or the origin of a URL, like https://shop.example, or \
         any URL with that origin; if this is the name of an endpoint, write `endpoint:` before it"
    )]
    MaybeEndpoint,
    /// The text does not name an endpoint.
    #[error(transparent)]
    Endpoint(#[from] BadEndpointName),
}

impl Lane {
    /// Reads the lane of an endpoint, or a lane from any URL with its origin. The lane's name is such a URL too.
    ///
    /// # Errors
    /// [`BadLane`] says what is wrong, without repeating the text.
    pub fn parse(text: &str) -> Result<Self, BadLane> {
        if let Some(name) = text.strip_prefix(OF_ENDPOINT) {
            return Ok(Self::of_endpoint(&EndpointName::parse(name)?));
        }
        let destination =
            Destination::parse(text).map_err(|bad| match EndpointName::parse(text) {
                Ok(_) => BadLane::MaybeEndpoint,
                Err(_) => BadLane::Origin(bad),
            })?;
        Self::of(&destination).map_err(BadLane::Origin)
    }

    /// The lane of an endpoint.
    #[must_use]
    pub fn of_endpoint(name: &EndpointName) -> Self {
        Self(format!("{OF_ENDPOINT}{name}").into_boxed_str())
    }

    /// Whether the lane belongs to an endpoint.
    #[must_use]
    pub fn is_of_endpoint(&self) -> bool {
        self.0.starts_with(OF_ENDPOINT)
    }

    /// The name of the endpoint that the lane belongs to, if it belongs to one.
    #[must_use]
    pub fn endpoint(&self) -> Option<EndpointName> {
        let name = self.0.strip_prefix(OF_ENDPOINT)?;
        EndpointName::parse(name).ok()
    }

    /// The lane that a destination belongs to.
    ///
    /// # Errors
    /// [`BadDestination::Form`] if the destination's text is not a URL.
    pub fn of(destination: &Destination) -> Result<Self, BadDestination> {
        if let Some(parts) = destination.plain_parts() {
            return Ok(Self(parts.origin.into()));
        }
        let url = destination.url().ok_or(BadDestination::Form)?;
        Ok(Self(url.origin().ascii_serialization().into_boxed_str()))
    }

    /// Wraps the name of a lane that was read from a store.
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

/// A notification's key and its lane. A schedule finds an entry by both: the lane says in which partition of
/// Redis the entry is, because all entries of a lane are in one partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyInLane {
    /// The notification's key.
    pub key: Key,
    /// The lane that it belongs to.
    pub lane: Lane,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_the_origin() {
        fn check(url: &str, lane: &str) {
            let destination = Destination::parse(url).expect(url);
            assert_eq!(Lane::of(&destination).expect(url).as_str(), lane);
        }
        check("https://Shop.Example/notify?a=1", "https://shop.example");
        check("https://shop.example:443/", "https://shop.example");
        check("http://shop.example:8080/x", "http://shop.example:8080");
        check("https://[2001:db8::1]:9443/", "https://[2001:db8::1]:9443");
        check("http://0x7f.1/", "http://127.0.0.1");
    }

    #[test]
    fn any_url_names_the_lane_that_it_belongs_to() {
        fn check(text: &str, expected: Result<&str, BadDestination>) {
            let lane = Lane::parse(text);
            let lane = lane.as_ref().map(Lane::as_str).map_err(|bad| match bad {
                BadLane::Origin(bad) => *bad,
                BadLane::MaybeEndpoint | BadLane::Endpoint(_) => panic!("{text}: {bad}"),
            });
            assert_eq!(lane, expected, "{text}");
        }
        use BadDestination::{Credentials, Form, Length, Scheme};
        let shop = Ok("https://shop.example");
        check("https://shop.example", shop);
        check("https://shop.example/", shop);
        check("https://shop.example/notify?a=1#x", shop);
        check("HTTPS://Shop.Example:443/", shop);
        check("http://shop.example:443", Ok("http://shop.example:443"));
        check("http://shop.example:80", Ok("http://shop.example"));
        check(
            "https://bücher.example/x",
            Ok("https://xn--bcher-kva.example"),
        );
        check("http://[0:0::1]:8080/", Ok("http://[::1]:8080"));
        // No notification can have these destinations, so a list filtered by them would always be empty.
        check("https://me:secret@shop.example", Err(Credentials));
        check("shop.example/notify", Err(Form));
        check("shop.example:8080", Err(Scheme));
        check("https://", Err(Form));
        check("ftp://shop.example", Err(Scheme));
        check("endpoint:shop-1", Ok("endpoint:shop-1"));
        check("https://shop.example\0", Err(Form));
        check(
            &format!("https://shop.example/{}", "x".repeat(2_048)),
            Err(Length),
        );
    }

    #[test]
    fn what_may_be_the_name_of_an_endpoint_is_told_apart_from_a_wrong_url() {
        for text in ["shop-1", "shop.example", "localhost"] {
            assert_eq!(Lane::parse(text), Err(BadLane::MaybeEndpoint), "{text}");
        }
        let said = BadLane::MaybeEndpoint.to_string();
        assert!(said.ends_with("write `endpoint:` before it"), "{said}");
    }

    #[test]
    fn the_lane_of_an_endpoint_names_it() {
        let name = EndpointName::parse("shop-1").expect("a name");
        let lane = Lane::of_endpoint(&name);
        assert_eq!(lane.as_str(), "endpoint:shop-1");
        assert_eq!(lane.endpoint(), Some(name));
        assert_eq!(Lane::from_name("https://shop.example").endpoint(), None);
        assert_eq!(
            Lane::parse("endpoint:"),
            Err(BadLane::Endpoint(BadEndpointName::Form))
        );
        assert_eq!(
            Lane::parse("endpoint:a/b"),
            Err(BadLane::Endpoint(BadEndpointName::Form))
        );
    }
}
