//! Choosing a language by a link.

use super::cookies;
use super::html::is_own;
use super::language::Language;
use super::visit::Visit;
use axum::response::{IntoResponse, Redirect, Response};
use http::header;

/// `GET /ui/language?to=zh&back=/ui/...`: chooses a language and goes back.
pub async fn choose(visit: Visit) -> Response {
    let language = visit
        .parameter("to")
        .and_then(|tag| Language::from_tag(&tag));
    let back = visit.parameter("back").filter(|path| is_own(path));
    let redirect = Redirect::to(back.as_deref().unwrap_or("/ui/"));
    match language {
        Some(language) => {
            let cookie = cookies::set_language(language.tag(), visit.by_tls);
            ([(header::SET_COOKIE, cookie)], redirect).into_response()
        }
        None => redirect.into_response(),
    }
}
