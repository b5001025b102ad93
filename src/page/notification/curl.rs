//! A call as a command for a shell, so that it can be repeated by hand.
//!
//! `--globoff`: curl would take brackets and braces in the URL for lists of URLs, and call each.
//!
//! The command is pasted into a terminal, and the body comes from outside. A control character in it could act there before the
//! shell sees a quote, and a bidirectional control would show another command than the one that runs. So neither is in the
//! command as it is: such a body is encoded, and such a header is escaped.
//!
//! The signature is left out: it is that of the moment of each attempt, and whoever repeats the call does not have the key.

use crate::domain::destination::Destination;
use crate::domain::snapshot::Snapshot;
use crate::service::SentPayload;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The command. `None` if the URL is not known.
pub fn command(snapshot: &Snapshot, payload: &SentPayload) -> Option<String> {
    let url = snapshot.destination.as_ref().map(Destination::as_str)?;
    let mut words = vec![format!("curl --globoff --request POST {}", quoted(url))];
    let own = [
        ("content-type".to_string(), payload.content_type.clone()),
        ("webhook-id".to_string(), snapshot.webhook_id.to_string()),
        (
            "ringback-topic".to_string(),
            snapshot.key.topic().to_string(),
        ),
    ];
    for (name, value) in own.iter().chain(payload.headers.pairs()) {
        words.push(format!("--header {}", quoted(&header(name, value))));
    }
    let text = std::str::from_utf8(&payload.body).ok();
    let text = text.filter(|text| is_shown_as_it_is(text));
    Some(match text {
        Some(text) => {
            // `--data-raw` takes a text that begins with `@` as it is.
            words.push(format!("--data-raw {}", quoted(text)));
            words.join(" \\\n  ")
        }
        None => {
            words.push("--data-binary @-".to_string());
            let body = STANDARD.encode(&payload.body);
            format!("printf %s {body} | base64 -d | {}", words.join(" \\\n  "))
        }
    })
}

/// A header as curl takes it: with a colon and nothing behind it, it would leave the header out.
fn header(name: &str, value: &str) -> String {
    match value {
        "" => format!("{name};"),
        value => format!("{name}: {value}"),
    }
}

/// Whether a text can stand in a command as it is: it has no control character but line feeds, and no bidirectional control.
fn is_shown_as_it_is(text: &str) -> bool {
    let is_plain = |character: char| {
        character == '\n' || !(character.is_control() || is_bidirectional_control(character))
    };
    text.chars().all(is_plain)
}

/// The characters with the property `Bidi_Control` (Unicode, `PropList.txt`): they change the order in which others are shown.
fn is_bidirectional_control(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// A text in quotes, as a shell reads it. Only a text with controls is `escaped`, in quotes that an old `sh` does not know.
fn quoted(text: &str) -> String {
    match is_shown_as_it_is(text) {
        true => format!("'{}'", text.replace('\'', "'\\''")),
        false => escaped(text),
    }
}

/// A text in dollar quotes (POSIX.1-2024, section 2.2.4). What is not printable ASCII is an octal escape of three digits,
/// whatever follows it.
fn escaped(text: &str) -> String {
    let mut word = "$'".to_string();
    for byte in text.bytes() {
        match byte {
            b'\'' | b'\\' => word.extend(['\\', char::from(byte)]),
            b' '..=b'~' => word.push(char::from(byte)),
            b'\t' => word.push_str("\\t"),
            _ => word.push_str(&format!("\\{byte:03o}")),
        }
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_quotes() {
        assert_eq!(quoted("a'b$(c)"), "'a'\\''b$(c)'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn controls_are_not_in_the_command() {
        fn check(text: &str, expected: &str) {
            assert_eq!(quoted(text), expected);
        }
        check("a\nb", "'a\nb'");
        check("a\tb'c\\", "$'a\\tb\\'c\\\\'");
        check("\u{1b}[201~1", "$'\\033[201~1'");
        check("\u{202e}a", "$'\\342\\200\\256a'");
        check("\u{9b}1", "$'\\302\\2331'");
        check("失败", "'失败'");
    }

    #[test]
    fn a_body_with_controls_is_encoded() {
        fn check(text: &str, expected: bool) {
            assert_eq!(is_shown_as_it_is(text), expected, "{text:?}");
        }
        check("a=1&b=2\n{\"c\": \"失败\"}", true);
        check("family: \u{1f468}\u{200d}\u{1f469}", true);
        for character in [
            '\0', '\t', '\r', '\u{3}', '\u{8}', '\u{1b}', '\u{7f}', '\u{85}', '\u{9b}', '\u{61c}',
            '\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}',
        ] {
            check(&format!("a{character}b"), false);
        }
    }

    #[test]
    fn an_empty_header_is_sent() {
        assert_eq!(header("x-a", ""), "x-a;");
        assert_eq!(header("x-a", "b"), "x-a: b");
    }
}
