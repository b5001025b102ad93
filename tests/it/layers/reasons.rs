//! The reason of an attempt is a sentence of `domain::attempt_reason`, so that it can be read back and said in other languages.

use super::{product_code, root, rust_files};
use std::fs;

/// What reads recorded answers, and not answers of receivers; and an answer for the check of a database.
const OTHERS: [&str; 2] = ["journal/rows/history.rs", "journal/check_sample.rs"];
/// Where a recorded reason is continued: with what the receiver asked for, and with the mark of a recovery attempt.
const CONTINUED: [&str; 2] = [
    "answer.reason.push_str(&request.in_words())",
    "answer.reason = marked_as_recovery(&answer.reason)",
];

#[test]
fn every_reason_of_an_attempt_is_one_of_the_domain() {
    let src = root().join("src");
    let mut seen = 0;
    for path in rust_files(&src) {
        let file = path.strip_prefix(&src).expect("found there");
        let file = file.to_str().expect("ASCII names");
        if OTHERS.contains(&file) || file.ends_with("tests.rs") || !makes_answers(file) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("readable");
        let code = product_code(&text, file);
        for made in answers(code) {
            seen += 1;
            let is_written_here = made.contains('"') || made.contains("format!");
            assert!(!is_written_here, "{file} writes a reason itself: {made}");
        }
        for line in code.lines().filter(|line| line.contains("answer.reason")) {
            let changes = line.contains("push_str") || line.contains("answer.reason = ");
            let is_known = CONTINUED.iter().any(|known| line.contains(known));
            assert!(!changes || is_known, "{file}: {line}");
        }
    }
    assert!(seen >= 4, "the answers are found: {seen}");
}

fn makes_answers(file: &str) -> bool {
    [
        "delivery/",
        "domain/",
        "app/",
        "maintenance/",
        "alerts/",
        "journal/",
    ]
    .iter()
    .any(|room| file.starts_with(room))
}

/// The literals of the type `Answer`.
fn answers(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("Answer {") {
        let before = code[..at].trim_end();
        let is_name = code[..at].ends_with(|letter: char| letter.is_alphanumeric());
        let is_other = ["->", "struct", "impl", "for", "enum"]
            .iter()
            .any(|word| before.ends_with(word));
        if is_name || is_other {
            continue;
        }
        let mut depth = 0;
        let end = code[at..].find(|letter| {
            depth += match letter {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            letter == '}' && depth == 0
        });
        found.push(&code[at..at + end.expect("a literal ends")]);
    }
    found
}

#[test]
fn answers_are_found() {
    fn check(code: &str, expected: &[&str]) {
        assert_eq!(answers(code), expected, "{code}");
    }
    check("pub struct Answer {\n}", &[]);
    check("fn f() -> Answer {\n}", &[]);
    check("BegunAnswer { a }", &[]);
    check("= Answer { a: B { c }, d }", &["Answer { a: B { c }, d "]);
}
