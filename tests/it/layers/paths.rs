//! Reads the paths out of Rust source, as far as this project writes it: `a::b::{c, d as e}`.
//! Comments, strings and characters do not count.

/// Every path in the code, grouped imports taken apart. A name alone is a path of one part; after
/// `use` it gets a second one, `self`: `use redis;` names the crate as `use redis::Client;` does.
pub fn paths(code: &str) -> Vec<Vec<String>> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let before = tokens[..at].strip_suffix(&["::".to_string()]);
        let rooted = before.is_some();
        let before = before.unwrap_or(&tokens[..at]).last().map(String::as_str);
        let continues = rooted && before.is_some_and(|before| is_name(before) || before == ">");
        if !is_name(&tokens[at]) || continues {
            at += 1;
            continue;
        }
        let first = found.len();
        at = read_path(&tokens, at, &[], &mut found);
        for path in &mut found[first..] {
            if before == Some("use") && path.len() == 1 {
                path.push("self".to_string());
            }
        }
    }
    found
}

/// Reads one path from `at` on, or a group of them; gives where it ends.
fn read_path(
    tokens: &[String],
    mut at: usize,
    before: &[String],
    found: &mut Vec<Vec<String>>,
) -> usize {
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut path = before.to_vec();
    while is_name(token(at)) {
        path.push(tokens[at].clone());
        at += 1;
        if token(at) == "::" && is_name(token(at + 1)) {
            at += 1;
        } else {
            break;
        }
    }
    if token(at) == "::" && token(at + 1) == "{" {
        at += 2;
        while at < tokens.len() && token(at) != "}" {
            at = match is_name(token(at)) {
                true => read_path(tokens, at, &path, found),
                false => at + 1,
            };
            if token(at) == "as" {
                at += 2;
            }
        }
        return at + 1;
    }
    found.push(path);
    at
}

fn is_name(token: &str) -> bool {
    const KEYWORDS: [&str; 9] = [
        "as", "fn", "in", "let", "mod", "mut", "pub", "return", "use",
    ];
    let first = token.chars().next();
    first.is_some_and(|first| first.is_alphabetic() || first == '_') && !KEYWORDS.contains(&token)
}

/// Names, `::` and single characters; comments, strings and characters left out.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            comment_length(rest)
        } else if let Some(length) = literal_length(rest) {
            length
        } else if rest.starts_with("::") {
            tokens.push("::".to_string());
            2
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let length = end.unwrap_or(rest.len());
            tokens.push(rest[..length].to_string());
            length
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

fn comment_length(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a string, byte string, raw string or character at the beginning of the text.
fn literal_length(text: &str) -> Option<usize> {
    let prefix = ["br", "r", "b", ""]
        .into_iter()
        .find(|prefix| {
            let rest = text.strip_prefix(prefix);
            rest.is_some_and(|rest| {
                let hashes = rest.trim_start_matches('#');
                rest.starts_with(['"', '\'']) || (prefix.contains('r') && hashes.starts_with('"'))
            })
        })?
        .len();
    let rest = &text[prefix..];
    if text[..prefix].contains('r') {
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        let length = rest[hashes + 1..].find(&end)?;
        return Some(prefix + hashes + 1 + length + end.len());
    }
    let quote = rest.chars().next()?;
    let mut escaped = false;
    for (count, (at, letter)) in rest.char_indices().skip(1).enumerate() {
        // Not closed after one character that is no escape: a lifetime.
        if quote == '\'' && count == 1 && letter != quote && !rest.starts_with("'\\") {
            return None;
        }
        if !escaped && letter == quote {
            return Some(prefix + at + 1);
        }
        escaped = !escaped && letter == '\\';
    }
    None
}

#[test]
fn the_reader_of_paths_misses_nothing() {
    fn check(code: &str, expected: &[&str]) {
        let found: Vec<String> = paths(code).iter().map(|path| path.join("::")).collect();
        assert_eq!(found, expected, "{code}");
    }
    check(
        "use crate::a::{b, c::{d, e as f}, self};",
        &[
            "crate::a::b",
            "crate::a::c::d",
            "crate::a::c::e",
            "crate::a::self",
        ],
    );
    check("pub(in crate::a) use ::sqlx;", &["crate::a", "sqlx::self"]);
    check("use redis as r; mod redis;", &["redis::self", "r", "redis"]);
    check("a::<B>::c(); <d::E>::f", &["a", "B", "d::E"]);
    check("let x = \"sqlx::a\"; // redis::b", &["x"]);
    check(
        "r#\"sqlx::a \" b\"# 'x' '\\'' '\"' b\"c\" f::<'a>()",
        &["f", "a"],
    );
    check("#[tokio::main] /* axum::b /* c */ */ fn", &["tokio::main"]);
}
