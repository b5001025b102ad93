//! The cookies of the page: that of the session and that of the language.

use http::{HeaderMap, HeaderValue, header};

/// The cookie of a session.
pub const SESSION: &str = "ringback_session";
/// The cookie of the language.
pub const LANGUAGE: &str = "ringback_language";
/// For how long a browser keeps the cookie of the language, in seconds: a year.
const LANGUAGE_S: i64 = 365 * 86_400;

/// The value of a cookie of a request.
pub fn value_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).into_iter();
    let cookies = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    cookies
        .filter_map(|cookie| cookie.trim().split_once('='))
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

/// Whether the browser has sent the request by TLS, to a proxy that says so. If it has, cookies are sent by TLS alone.
pub fn is_by_tls(headers: &HeaderMap) -> bool {
    let scheme = headers.get("x-forwarded-proto");
    scheme.is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"))
}

/// Sets the cookie of a session, for so many seconds.
pub fn set_session(text: &str, seconds: i64, by_tls: bool) -> HeaderValue {
    set(SESSION, text, seconds, by_tls)
}

/// Deletes the cookie of a session.
pub fn delete_session(by_tls: bool) -> HeaderValue {
    set(SESSION, "", 0, by_tls)
}

/// Sets the cookie of the language.
pub fn set_language(tag: &str, by_tls: bool) -> HeaderValue {
    set(LANGUAGE, tag, LANGUAGE_S, by_tls)
}

fn set(name: &str, value: &str, seconds: i64, by_tls: bool) -> HeaderValue {
    let mut text =
        format!("{name}={value}; Path=/ui; Max-Age={seconds}; SameSite=Strict; HttpOnly");
    if by_tls {
        text.push_str("; Secure");
    }
    HeaderValue::from_str(&text).expect("invariant: the values of cookies are printable ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_by_its_name() {
        let mut headers = HeaderMap::new();
        headers.append(
            header::COOKIE,
            HeaderValue::from_static("a=1; ringback_session=x=y;b="),
        );
        headers.append(header::COOKIE, HeaderValue::from_static("c=3"));
        assert_eq!(value_of(&headers, SESSION), Some("x=y"));
        assert_eq!(value_of(&headers, "b"), Some(""));
        assert_eq!(value_of(&headers, "c"), Some("3"));
        assert_eq!(value_of(&headers, "session"), None);
    }

    #[test]
    fn a_cookie_is_out_of_reach_of_scripts_and_of_other_sites() {
        let plain = "ringback_session=x; Path=/ui; Max-Age=60; SameSite=Strict; HttpOnly";
        assert_eq!(set_session("x", 60, false), plain);
        assert_eq!(set_session("x", 60, true), format!("{plain}; Secure"));
        assert!(
            delete_session(false)
                .to_str()
                .expect("text")
                .contains("Max-Age=0")
        );
    }
}
