//! The commands that the documents name.

use super::{quoted, read, rows};
use crate::cli::program::run;
use std::collections::BTreeMap;
use std::path::Path;

/// The help of every command that does something, by its words, such as `endpoint key add`.
fn commands() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(words) = open.pop() {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = run(Path::new("."), &arguments, &[]).stdout;
        let Some((_, list)) = help.split_once("\nCommands:\n") else {
            found.insert(words.join(" "), help);
            continue;
        };
        let list = list.split("\n\n").next().unwrap_or_default();
        let names = list.lines().filter_map(|line| line.strip_prefix("  "));
        // A line that goes on with the text of the one before is indented further.
        let names = names.filter(|line| !line.starts_with(' '));
        for name in names.filter_map(|line| line.split_whitespace().next()) {
            open.push([&words[..], &[name.to_string()]].concat());
        }
    }
    found
}

/// The words of a command line before its first argument.
fn words(line: &str) -> Vec<&str> {
    let is_word = |word: &&str| {
        !word.starts_with('-')
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    line.split_whitespace().take_while(is_word).collect()
}

/// The name of a flag, without its value.
fn flag(word: &str) -> Option<&str> {
    let name = word.split(['=', ' ']).next()?;
    let letters = name.strip_prefix("--")?;
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    (!letters.is_empty() && letters.bytes().all(is_letter)).then_some(name)
}

/// Whether the help of a command explains a flag.
fn has(help: &str, flag: &str) -> bool {
    let mut words = help.split([' ', '[', ',', '\n']);
    words.any(|word| word == flag)
}

#[test]
fn the_documented_commands_are_those_of_the_program() {
    let commands = commands();
    let document = read("docs/command-line.md");
    let mut documented = Vec::new();
    for row in rows(&document).filter(|row| row.len() == 2 && row[0].starts_with('`')) {
        let name = words(row[0].trim_matches('`')).join(" ");
        let help = commands.get(&name);
        let help = help.unwrap_or_else(|| panic!("there is no command {name}"));
        for flag in quoted(row[1]).into_iter().filter_map(flag) {
            assert!(has(help, flag), "{name} has no {flag}");
        }
        documented.push(name);
    }
    documented.sort();
    let names: Vec<&String> = commands.keys().collect();
    assert_eq!(documented.iter().collect::<Vec<_>>(), names);
}

#[test]
fn the_documented_columns_of_an_export_are_those_of_the_program() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = run(dir.path(), &["migrate", "--data-dir", "."], &[]);
    assert_eq!(made.status, 0, "{}", made.stderr);
    let export = ["export", "--data-dir", ".", "--day", "2025-06-10"];
    let exported = run(dir.path(), &export, &[]);
    assert_eq!(exported.status, 0, "{}", exported.stderr);
    let columns: Vec<&str> = exported.stdout.trim_end().split(',').collect();
    let document = read("docs/export.md");
    let documented = super::section(&document, "The columns");
    let documented: Vec<&str> = rows(documented)
        .filter(|row| row[0].starts_with('`'))
        .map(|row| row[0].trim_matches('`'))
        .collect();
    assert_eq!(documented, columns);
    let arguments = [&export[..], &["--format", "json-lines"]].concat();
    let totals = run(dir.path(), &arguments, &[]).stdout;
    let totals: serde_json::Value = serde_json::from_str(&totals).expect("JSON");
    let documented = super::section(&document, "The totals");
    for name in totals.as_object().expect("an object").keys() {
        assert!(documented.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_commands_in_examples_are_there_with_their_flags() {
    let commands = commands();
    let mut found = 0;
    for document in [
        "docs/access.md",
        "docs/configuration.md",
        "docs/endpoints.md",
        "docs/export.md",
        "docs/getting-started.md",
        "docs/http-api.md",
        "docs/merchants.md",
        "docs/operations.md",
        "docs/order.md",
        "docs/runbooks.md",
        "docs/support.md",
    ] {
        let text = read(document);
        for line in text.lines() {
            let line = line.trim_start_matches("$ ");
            let Some(line) = line.strip_prefix("ringback ") else {
                continue;
            };
            let (line, _) = line.split_once(" #").unwrap_or((line, ""));
            let words = words(line);
            let mut names = (1..=words.len()).map(|many| words[..many].join(" "));
            let Some(name) = names.find(|name| commands.contains_key(name)) else {
                panic!("{document}: there is no command `{line}`");
            };
            for flag in line.split_whitespace().filter_map(flag) {
                assert!(
                    has(&commands[&name], flag),
                    "{document}: {name} has no {flag}"
                );
            }
            found += 1;
        }
    }
    assert!(found > 40, "{found} examples");
}
