//! What each route of the page needs: one table, from which the requests are judged.
//!
//! A route that is not in the table is the operator's alone, so a forgotten line opens nothing.

use crate::domain::role::Permission;
use http::Method;

use Access::{Needs, Open};
use Permission::{Inspect, Jobs, Operate, Read, Resend, Withdraw};

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, signed in or not.
    Open,
    /// Who is signed in with an API key that permits this.
    Needs(Permission),
}

/// A row: the method, the path of the route, and who may use it. `HEAD` needs what `GET` needs.
pub type PageRight = (&'static str, &'static str, Access);

/// Who may use each route under `/ui`.
#[rustfmt::skip]
pub const PAGE_RIGHTS: &[PageRight] = &[
    ("GET",  "/ui",                                         Open),
    ("GET",  "/ui/assets/{name}",                           Open),
    ("GET",  "/ui/language",                                Open),
    ("GET",  "/ui/sign-in",                                 Open),
    ("POST", "/ui/sign-in",                                 Open),
    ("GET",  "/ui/{*rest}",                                 Needs(Read)),
    ("GET",  "/ui/",                                        Needs(Read)),
    ("GET",  "/ui/events",                                  Needs(Read)),
    ("POST", "/ui/sign-out",                                Needs(Read)),
    ("GET",  "/ui/search",                                  Needs(Read)),
    ("GET",  "/ui/notifications/{topic}/{id}",              Needs(Read)),
    ("POST", "/ui/notifications/{topic}/{id}/payload",      Needs(Read)),
    ("POST", "/ui/notifications/{topic}/{id}/retry",        Needs(Resend)),
    ("POST", "/ui/notifications/{topic}/{id}/cancel",       Needs(Withdraw)),
    ("POST", "/ui/notifications/{topic}/{id}/reschedule",   Needs(Withdraw)),
    ("POST", "/ui/notifications/{topic}/{id}/resend",       Needs(Resend)),
    ("POST", "/ui/notifications/{topic}/{id}/replay",       Needs(Resend)),
    ("POST", "/ui/notifications/{topic}/{id}/discard",      Needs(Operate)),
    ("GET",  "/ui/destinations",                            Needs(Inspect)),
    ("GET",  "/ui/destinations/{lane}",                     Needs(Inspect)),
    ("POST", "/ui/destinations/{lane}/hold",                Needs(Jobs)),
    ("POST", "/ui/destinations/{lane}/release",             Needs(Jobs)),
    ("POST", "/ui/destinations/{lane}/retry",               Needs(Jobs)),
    ("GET",  "/ui/endpoints",                               Needs(Inspect)),
    ("GET",  "/ui/new-endpoint",                            Needs(Operate)),
    ("POST", "/ui/new-endpoint",                            Needs(Operate)),
    ("GET",  "/ui/endpoints/{name}",                        Needs(Inspect)),
    ("GET",  "/ui/endpoints/{name}/edit",                   Needs(Operate)),
    ("POST", "/ui/endpoints/{name}/edit",                   Needs(Operate)),
    ("POST", "/ui/endpoints/{name}/remove",                 Needs(Operate)),
    ("POST", "/ui/endpoints/{name}/test",                   Needs(Operate)),
    ("POST", "/ui/endpoints/{name}/keys",                   Needs(Operate)),
    ("POST", "/ui/endpoints/{name}/keys/{id}/remove",       Needs(Operate)),
    ("GET",  "/ui/default-keys",                            Needs(Inspect)),
    ("POST", "/ui/default-keys",                            Needs(Operate)),
    ("POST", "/ui/default-keys/{id}/remove",                Needs(Operate)),
    ("GET",  "/ui/keys",                                    Needs(Operate)),
    ("POST", "/ui/keys",                                    Needs(Operate)),
    ("POST", "/ui/keys/{name}/revoke",                      Needs(Operate)),
    ("GET",  "/ui/audit-log",                               Needs(Operate)),
    ("GET",  "/ui/dead-letters",                            Needs(Read)),
    ("GET",  "/ui/dead-letters/plan",                       Needs(Jobs)),
    ("POST", "/ui/dead-letters/replay",                     Needs(Jobs)),
    ("POST", "/ui/dead-letters/selected",                   Needs(Resend)),
    ("POST", "/ui/dead-letters/selected/replay",            Needs(Resend)),
    ("POST", "/ui/dead-letters/selected/discard",           Needs(Operate)),
    ("GET",  "/ui/cancel",                                  Needs(Jobs)),
    ("POST", "/ui/cancel",                                  Needs(Jobs)),
    ("GET",  "/ui/jobs",                                    Needs(Inspect)),
    ("GET",  "/ui/jobs/{id}",                               Needs(Inspect)),
    ("POST", "/ui/jobs/{id}/pause",                         Needs(Jobs)),
    ("POST", "/ui/jobs/{id}/resume",                        Needs(Jobs)),
    ("POST", "/ui/jobs/{id}/stop",                          Needs(Jobs)),
];

/// Who may send a request whose path has matched this route.
#[must_use]
pub fn access_to(method: &Method, route: &str) -> Access {
    let method = match method.as_str() {
        "HEAD" => "GET",
        method => method,
    };
    let mut rows = PAGE_RIGHTS.iter();
    rows.find(|right| right.0 == method && right.1 == route)
        .map_or(Needs(Operate), |right| right.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_is_not_in_the_table_is_the_operators() {
        assert_eq!(access_to(&Method::GET, "/ui/search"), Needs(Read));
        assert_eq!(access_to(&Method::HEAD, "/ui/search"), Needs(Read));
        assert_eq!(access_to(&Method::POST, "/ui/search"), Needs(Operate));
        assert_eq!(access_to(&Method::GET, "/ui/something"), Needs(Operate));
    }

    #[test]
    fn each_route_is_there_once() {
        let mut routes: Vec<_> = PAGE_RIGHTS.iter().map(|right| (right.0, right.1)).collect();
        routes.sort_unstable();
        routes.dedup();
        assert_eq!(routes.len(), PAGE_RIGHTS.len());
    }
}
