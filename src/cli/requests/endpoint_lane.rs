//! What a command about an endpoint says of its lane, and a command about a lane of its endpoint.
//!
//! For the API they are two things: a hold stays when its endpoint is removed, and a lane can be named whose endpoint does not
//! exist. So the commands ask for the other one too. If it cannot be read, nothing is said of it, since what the command was
//! asked for is done.

use crate::api::problem::ProblemKind;
use crate::cli::client::Client;
use crate::cli::lanes::LaneDetails;
use crate::cli::{CommandFailure, block_on};
use crate::domain::endpoint::EndpointName;
use crate::domain::lane::Lane;
use reqwest::Method;

/// By whom the lane of an endpoint is held, since when and why, and the command that releases it; `None` if nobody holds it.
pub fn hold_of(client: &Client, name: &EndpointName, now_ms: i64) -> Option<String> {
    let lane = Lane::of_endpoint(name);
    let url = client.url(&["lanes", lane.as_str()]);
    let answer = block_on(client.call(Method::GET, url, None)).ok()?;
    let found: LaneDetails = serde_json::from_slice(&answer).ok()?;
    let hold = found.hold(now_ms)?;
    Some(format!(
        "{hold}; `ringback lane release {lane}` releases it"
    ))
}

/// Says that a lane is that of an endpoint which does not exist; `None` if that is not so.
pub fn lacks_endpoint(client: &Client, lane: &Lane) -> Option<String> {
    let name = lane.endpoint()?;
    let url = client.url(&["endpoints", name.as_str()]);
    match block_on(client.call(Method::GET, url, None)) {
        Err(CommandFailure::Refused(refusal)) if refusal.is(ProblemKind::MissingEndpoint) => {
            Some(format!(
                "there is no endpoint {name}: it was removed, or the name is misspelt; `ringback endpoint list` shows all \
                 that there are"
            ))
        }
        Ok(_) | Err(_) => None,
    }
}
