//! What each route needs: one table, from which the requests are judged.
//!
//! A route that is not in the table is the operator's alone, so a forgotten line opens nothing.

use crate::domain::role::Permission;
use http::Method;

use Permission::{Inspect, Jobs, Operate, Read, Register, Resend, Withdraw};

/// A row: the method, the path of the route, and what it needs. `HEAD` needs what `GET` needs.
pub type Right = (&'static str, &'static str, Permission);

/// What each route under `/v1` needs.
#[rustfmt::skip]
pub const RIGHTS: &[Right] = &[
    ("POST",   "/v1/notifications",                     Register),
    ("GET",    "/v1/notifications",                     Read),
    ("POST",   "/v1/notifications/batch",               Register),
    ("GET",    "/v1/notifications/{topic}/{id}",        Read),
    ("DELETE", "/v1/notifications/{topic}/{id}",        Withdraw),
    ("PATCH",  "/v1/notifications/{topic}/{id}",        Withdraw),
    ("POST",   "/v1/notifications/{topic}/{id}/retry",  Resend),
    ("POST",   "/v1/notifications/{topic}/{id}/resend", Resend),
    ("GET",    "/v1/notifications/{topic}/{id}/payload", Read),
    ("POST",   "/v1/notifications/cancel",              Jobs),
    ("GET",    "/v1/dead-letters",                      Read),
    ("POST",   "/v1/dead-letters/replay",               Jobs),
    ("DELETE", "/v1/dead-letters/{topic}/{id}",         Operate),
    ("POST",   "/v1/dead-letters/{topic}/{id}/replay",  Resend),
    ("GET",    "/v1/endpoints",                         Inspect),
    ("GET",    "/v1/endpoints/{name}",                  Inspect),
    ("PUT",    "/v1/endpoints/{name}",                  Operate),
    ("PATCH",  "/v1/endpoints/{name}",                  Operate),
    ("DELETE", "/v1/endpoints/{name}",                  Operate),
    ("POST",   "/v1/endpoints/{name}/test",             Operate),
    ("POST",   "/v1/endpoints/{name}/keys",             Operate),
    ("GET",    "/v1/endpoints/{name}/keys/{id}",        Inspect),
    ("DELETE", "/v1/endpoints/{name}/keys/{id}",        Operate),
    ("GET",    "/v1/lanes",                             Inspect),
    ("GET",    "/v1/lanes/{lane}",                      Inspect),
    ("POST",   "/v1/lanes/{lane}/hold",                 Jobs),
    ("POST",   "/v1/lanes/{lane}/release",              Jobs),
    ("POST",   "/v1/lanes/{lane}/retry",                Jobs),
    ("GET",    "/v1/jobs",                              Inspect),
    ("GET",    "/v1/jobs/{id}",                         Inspect),
    ("GET",    "/v1/jobs/{id}/notifications",           Inspect),
    ("POST",   "/v1/jobs/{id}/pause",                   Jobs),
    ("POST",   "/v1/jobs/{id}/resume",                  Jobs),
    ("POST",   "/v1/jobs/{id}/stop",                    Jobs),
    ("GET",    "/v1/default-keys",                      Inspect),
    ("POST",   "/v1/default-keys",                      Operate),
    ("GET",    "/v1/default-keys/{id}",                 Inspect),
    ("DELETE", "/v1/default-keys/{id}",                 Operate),
    ("GET",    "/v1/audit-log",                         Operate),
    ("GET",    "/v1/keys",                              Operate),
    ("POST",   "/v1/keys",                              Operate),
    ("GET",    "/v1/keys/{name}",                       Operate),
    ("DELETE", "/v1/keys/{name}",                       Operate),
];

/// What a request needs whose path has matched this route.
#[must_use]
pub fn needed(method: &Method, route: &str) -> Permission {
    right_of(method, route).map_or(Operate, |right| right.2)
}

/// The method and the path of the route of a request whose path has matched this route; `None` if there is no such row.
#[must_use]
pub fn route_of(method: &Method, route: &str) -> Option<(&'static str, &'static str)> {
    right_of(method, route).map(|right| (right.0, right.1))
}

fn right_of(method: &Method, route: &str) -> Option<&'static Right> {
    let method = match method.as_str() {
        "HEAD" => "GET",
        method => method,
    };
    RIGHTS
        .iter()
        .find(|right| right.0 == method && right.1 == route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_is_not_in_the_table_is_the_operators() {
        assert_eq!(needed(&Method::GET, "/v1/notifications"), Read);
        assert_eq!(needed(&Method::HEAD, "/v1/notifications"), Read);
        assert_eq!(needed(&Method::PUT, "/v1/notifications"), Operate);
        assert_eq!(needed(&Method::GET, "/v1/something"), Operate);
    }

    #[test]
    fn each_route_is_there_once() {
        let mut routes: Vec<_> = RIGHTS.iter().map(|right| (right.0, right.1)).collect();
        routes.sort_unstable();
        routes.dedup();
        assert_eq!(routes.len(), RIGHTS.len());
    }
}
