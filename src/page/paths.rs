//! The addresses of the pages to which several other pages link. That of a notification is beside its page.

use super::html::encoded;
use crate::domain::endpoint::EndpointName;
use crate::domain::lane::Lane;

/// The address of a destination's page.
#[must_use]
pub fn destination_path(lane: &Lane) -> String {
    format!("/ui/destinations/{}", encoded(lane.as_str()))
}

/// The address of an endpoint's page.
#[must_use]
pub fn endpoint_path(name: &EndpointName) -> String {
    format!("/ui/endpoints/{}", encoded(name.as_str()))
}
