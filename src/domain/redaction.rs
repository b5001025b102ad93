//! Takes secrets out of texts that are shown, such as an error that quotes a wrong value.
//!
//! A secret in the wrong field of a request or setting is a common mistake, and errors end up in logs. What looks like
//! a signing key, a master key, a private key in PEM, or the name and password in a URL, is not repeated.

use std::borrow::Cow;

/// What secrets begin with.
const PREFIXES: [&str; 4] = ["whsec_", "whsk_", "rbmk_", "rbk_"];
const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_END: &str = "-----END ";
const DASHES: &str = "-----";
/// What is written in the place of a secret.
const HIDDEN: &str = "(not shown)";

/// The text without secrets.
#[must_use]
pub fn redacted(text: &str) -> Cow<'_, str> {
    let may_have = |part: &str| text.contains(part);
    if !PREFIXES.into_iter().any(may_have) && !may_have(PEM_BEGIN) && !may_have("@") {
        return Cow::Borrowed(text);
    }
    let mut left = without_pem(text);
    for prefix in PREFIXES {
        left = without_secrets(&left, prefix);
    }
    Cow::Owned(without_user(&left))
}

/// Hides what follows each prefix, as far as it may be base64 or its escapes.
fn without_secrets(text: &str, prefix: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(prefix) {
        let (before, secret) = rest.split_at(at + prefix.len());
        shown.push_str(before);
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-%~".contains(&byte);
        let length = secret.bytes().take_while(|byte| is_part(*byte)).count();
        if length > 0 {
            shown.push_str(HIDDEN);
        }
        rest = &secret[length..];
    }
    shown.push_str(rest);
    shown
}

/// Hides everything from the head of a PEM text to its end, if it is a private key.
fn without_pem(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(PEM_BEGIN) {
        let (before, pem) = rest.split_at(at);
        shown.push_str(before);
        let label = &pem[PEM_BEGIN.len()..];
        let label = label.split(DASHES).next().unwrap_or(label);
        let end = pem.find(PEM_END).map_or(pem.len(), |end| {
            let after = end + PEM_END.len();
            (pem[after..].find(DASHES)).map_or(pem.len(), |dashes| after + dashes + DASHES.len())
        });
        match label.contains("CERTIFICATE") || label.contains("PUBLIC") {
            true => shown.push_str(&pem[..end]),
            false => shown.push_str(HIDDEN),
        }
        rest = &pem[end..];
    }
    shown.push_str(rest);
    shown
}

/// Hides the name and password of each URL.
fn without_user(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, authority) = rest.split_at(at + 3);
        shown.push_str(before);
        let ends = |sign: char| "/?#`\"'\\".contains(sign) || sign.is_whitespace();
        let end = authority.find(ends).unwrap_or(authority.len());
        let host = authority[..end].rfind('@').unwrap_or(0);
        if host > 0 {
            shown.push_str(HIDDEN);
        }
        rest = &authority[host..];
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_all_else_is_shown() {
        fn check(text: &str, expected: &str) {
            assert_eq!(redacted(text), expected);
        }
        let plain = "a signing key starts with `whsec_` (symmetric) or `whsk_`; mail to a@b";
        check(plain, plain);
        check(
            "unknown ladder `whsec_C2FVsBQIhrs/hlQIM+b5==`; known are alipay",
            "unknown ladder `whsec_(not shown)`; known are alipay",
        );
        check(
            "/whsk_AAAA~1x: unknown, and rbmk_AAAA.",
            "/whsk_(not shown): unknown, and rbmk_(not shown).",
        );
        check(
            "`-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----`; x",
            "`(not shown)`; x",
        );
        check("`-----BEGIN EC PRIVATE KEY-----\\nMII...", "`(not shown)");
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----";
        check(certificate, certificate);
        check(
            "`https://me:hunter2@shop.example/a@b` and redis://:pw@r:1",
            "`https://(not shown)@shop.example/a@b` and redis://(not shown)@r:1",
        );
        check("https://shop.example/a@b", "https://shop.example/a@b");
    }
}
