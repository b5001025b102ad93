//! Finds words in English on a page in Chinese.
//!
//! What is marked as English (`lang="en"`), code, what a receiver has answered and what is between backquotes does not count.
//! Nor do tokens with a digit, a slash, a colon or an at sign: numbers, ids, durations, addresses. All other words in ASCII
//! must be words that the Chinese texts themselves use, such as HTTP.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Elements whose text is no sentence of ours.
const NO_SENTENCES: [&str; 5] = ["script", "style", "code", "pre", "datalist"];
/// Elements without an end.
const VOID: [&str; 5] = ["meta", "link", "input", "br", "!doctype"];
/// Attributes that people read or hear.
const READ: [&str; 3] = ["aria-label=\"", "placeholder=\"", "data-label=\""];

/// The words of a page that are in English and should not be.
pub fn english_words(page: &str, known: &[&str]) -> Vec<String> {
    let allowed = chinese_vocabulary();
    let mut found = Vec::new();
    for text in texts_of(page) {
        let mut text = text;
        for name in known {
            text = text.replace(name, " ");
        }
        let words = ascii_words(&text).into_iter();
        let words: Vec<String> = words.filter(|word| !allowed.contains(word)).collect();
        if !words.is_empty() {
            found.push(format!("{}: {}", words.join(" "), text.trim()));
        }
    }
    found
}

/// The texts of a page: those of elements, and of attributes that are read.
fn texts_of(page: &str) -> Vec<String> {
    let mut texts = Vec::new();
    // The open elements, and whether their texts count.
    let mut open: Vec<(String, bool)> = Vec::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once('<') {
        let counts = open.last().is_none_or(|(_, counts)| *counts);
        if counts && !before.trim().is_empty() {
            texts.push(decoded(before));
        }
        let (tag, next) = after.split_once('>').expect("a tag has an end");
        rest = next;
        let name = tag
            .split([' ', '\n', '/'])
            .next()
            .unwrap_or("")
            .to_lowercase();
        if let Some(ended) = tag.strip_prefix('/') {
            let (last, _) = open.pop().expect("an element that ends has begun");
            assert_eq!(last, ended.trim(), "elements are nested: {page}");
            continue;
        }
        let counts = counts && !tag.contains(" lang=\"en\"") && !NO_SENTENCES.contains(&&*name);
        if counts {
            for attribute in READ {
                let value = tag.split_once(attribute).map(|(_, value)| value);
                texts.extend(value.and_then(|value| value.split('"').next()).map(decoded));
            }
        }
        if !tag.ends_with('/') && !VOID.contains(&&*name) {
            open.push((name, counts));
        }
    }
    texts
}

/// A text without what stands between backquotes, and with a space for each character that is escaped.
fn decoded(text: &str) -> String {
    let mut plain = String::new();
    for (at, part) in text.split("&#").enumerate() {
        match (at, part.split_once(';')) {
            (1.., Some((_, after))) => {
                plain.push(' ');
                plain.push_str(after);
            }
            (_, _) => plain.push_str(part),
        }
    }
    let outside = plain.split('`').step_by(2);
    outside.collect::<Vec<_>>().join(" ")
}

/// The words of two letters and more in ASCII.
fn ascii_words(text: &str) -> Vec<String> {
    let is_part =
        |letter: char| letter.is_ascii_graphic() && !"()[]{}<>,;!?=\"'“”|".contains(letter);
    let tokens = text.split(|letter: char| !is_part(letter));
    let tokens = tokens.map(|token| token.trim_matches(['.', ':', '-', '*', '+', '&', '·', '%']));
    let words = tokens.filter(|token| {
        let letters = token.chars().filter(char::is_ascii_alphabetic).count();
        let is_other = |letter: char| letter.is_ascii_digit() || "/:@".contains(letter);
        letters >= 2 && !token.contains(is_other)
    });
    words.map(ToString::to_string).collect()
}

/// The words in ASCII that the Chinese texts use.
fn chinese_vocabulary() -> BTreeSet<String> {
    let names = ["Ringback", "User-Agent", "Webhook-Id", "UTC", "ms"];
    let mut words = BTreeSet::from(names.map(ToString::to_string));
    for text in literals_of_texts() {
        if is_chinese(&text) {
            words.extend(ascii_words(&without_parameters(&text)));
        }
    }
    words
}

fn is_chinese(text: &str) -> bool {
    text.contains(|letter: char| ('\u{4e00}'..='\u{9fff}').contains(&letter))
}

fn without_parameters(text: &str) -> String {
    let mut texts = text.split('{');
    let mut plain = texts.next().unwrap_or("").to_string();
    for text in texts {
        plain.push(' ');
        plain.push_str(text.split_once('}').map_or(text, |(_, after)| after));
    }
    plain
}

fn literals_of_texts() -> Vec<String> {
    let mut literals = Vec::new();
    for path in text_files() {
        let source = fs::read_to_string(&path).expect("readable");
        let code = source.split("#[cfg(test)]").next().unwrap_or("");
        let mut inside = false;
        let mut literal = String::new();
        let mut letters = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let code: String = letters.by_ref().collect::<Vec<_>>().join("\n");
        let mut letters = code.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '"' if inside => {
                    literals.push(std::mem::take(&mut literal));
                    inside = false;
                }
                '"' => inside = true,
                '\\' if inside => literal.extend(letters.next()),
                letter if inside => literal.push(letter),
                _ => {}
            }
        }
    }
    literals
}

fn text_files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page/texts");
    let mut files = Vec::new();
    for dir in [dir.clone(), dir.join("reasons")] {
        for entry in fs::read_dir(dir).expect("the texts") {
            let path = entry.expect("an entry").path();
            files.extend(Some(path).filter(|path| path.extension().is_some_and(|end| end == "rs")));
        }
    }
    assert!(files.len() > 25, "the texts are found");
    files
}

/// Texts that are the same in both languages.
const SAME: [&str; 9] = [
    "Ringback",
    "API Key",
    "Webhook ID",
    "Trace ID",
    "Retry-After",
    "User-Agent",
    "HTTP/1.1",
    "HTTP/2",
    "ID",
];

#[test]
fn every_text_has_a_chinese_one() {
    let mut seen = 0;
    for path in text_files() {
        let source = fs::read_to_string(&path).expect("readable");
        for line in source.lines() {
            let Some((english, chinese)) = line.rsplit_once("\", \"") else {
                continue;
            };
            let Some(chinese) = chinese.strip_suffix("\";") else {
                continue;
            };
            seen += 1;
            let is_sign = !chinese.contains(char::is_alphanumeric);
            let is_translated = is_chinese(chinese) || SAME.contains(&chinese);
            assert!(is_translated || is_sign, "{path:?}: {english} {chinese}");
        }
    }
    assert!(seen > 500, "the texts are found: {seen}");
}

#[test]
fn english_words_are_found_on_a_page() {
    fn check(page: &str, expected: &[&str]) {
        let found = english_words(page, &["desk"]);
        let words: Vec<&str> = (found.iter())
            .map(|line| line.split_once(": ").expect("words").0)
            .collect();
        assert_eq!(words, expected, "{page}");
    }
    check("<p>普通 HTTP <code>low</code></p>", &[]);
    check("<p>优先级 low</p>", &["low"]);
    check("<p><b>ladder_exhausted</b></p>", &["ladder_exhausted"]);
    check("<p lang=\"en\">its lane <b>is held</b></p><p>目标</p>", &[]);
    check("<p>its lane is held by desk</p>", &["its is held by"]);
    check("<p>{&#34;topic&#34;:&#34;paid&#34;}</p>", &["paid"]);
    check(
        "<p>order-1 http://shop.example:80/x 10s 应为 `success`</p>",
        &[],
    );
    check("<input placeholder=\"Search\"><p></p>", &["Search"]);
    check("<svg><title>Sum: 3</title><rect/></svg>", &["Sum"]);
}
