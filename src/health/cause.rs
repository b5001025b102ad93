//! Shortens the cause of an outage to the words that callers without an API key may read.
//!
//! The log has the full cause. `/readyz` shows only plain words, short numbers and durations. It leaves out
//! addresses, and the names of hosts, users and files.

/// Maximum number of characters of a shown cause.
const LONGEST: usize = 160;
/// The punctuation marks that may follow a word.
const MARKS: [char; 5] = [')', ',', ':', ';', '.'];
/// Maximum number of characters of a shown number or duration.
const LONGEST_NUMBER: usize = 10;

/// The plain words of a cause, with `...` where something was left out.
#[must_use]
pub fn words_of(cause: &str) -> String {
    let mut shown = String::new();
    for token in cause.split_whitespace() {
        if shown.chars().count() + token.chars().count() >= LONGEST {
            push(&mut shown, "...");
            break;
        }
        push(&mut shown, if is_plain(token) { token } else { "..." });
    }
    shown
}

fn push(shown: &mut String, word: &str) {
    if word == "..." && shown.ends_with("...") {
        return;
    }
    if !shown.is_empty() {
        shown.push(' ');
    }
    shown.push_str(word);
}

/// Whether a token is a word, a number or a duration. It may have brackets around it and marks after it.
fn is_plain(token: &str) -> bool {
    let token = token.trim_end_matches(MARKS);
    // Error codes are written in capitals and often in quotation marks, such as "OOM". Names are not.
    let code = token.trim_matches('"');
    if !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return true;
    }
    let bare = token.trim_start_matches('(').trim_end_matches(MARKS);
    let word = bare
        .chars()
        .all(|one| one.is_ascii_alphabetic() || matches!(one, '\'' | '-'));
    let number = bare.len() <= LONGEST_NUMBER
        && bare.starts_with(|one: char| one.is_ascii_digit())
        && bare.bytes().all(|byte| byte.is_ascii_alphanumeric());
    !bare.is_empty() && (word || number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shown_and_names_are_not() {
        fn check(cause: &str, shown: &str) {
            assert_eq!(words_of(cause), shown);
        }
        check("10.0.0.7 is down", "... is down");
        check(
            "Redis: READONLY: You can't write against a read only replica.",
            "Redis: READONLY: You can't write against a read only replica.",
        );
        check(
            "Redis: Connection refused (os error 111)",
            "Redis: Connection refused (os error 111)",
        );
        check(
            "Redis: \"OOM\": no more \"x\"",
            "Redis: \"OOM\": no more ...",
        );
        check(
            "password authentication failed for user \"bob\" at db.internal:5432/x",
            "password authentication failed for user ... at ...",
        );
        check(
            "cannot open /var/lib/ringback/journal.db",
            "cannot open ...",
        );
        check("redis://u:p@h/0 a_b ::1 é", "...");
        check(
            "(code: 13) database or disk is full",
            "(code: 13) database or disk is full",
        );
        check("no answer within 1s500ms", "no answer within 1s500ms");
        check("", "");
        let long = words_of(&"word ".repeat(1_000));
        assert!(
            long.len() <= LONGEST + 4 && long.ends_with("word ..."),
            "{long}"
        );
    }
}
