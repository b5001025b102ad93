//! A type name means one thing in the whole crate.
//!
//! Types are structs, enums, traits and type aliases, of any visibility. Associated types belong to
//! their trait, and unit tests may name theirs as they like.

use super::{product_code, root, rust_files};
use std::collections::BTreeMap;
use std::fs;

#[test]
fn a_type_name_means_one_thing() {
    let src = root().join("src");
    let mut files_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in rust_files(&src) {
        let file = path.strip_prefix(&src).expect("found there");
        if file.ends_with("tests.rs") {
            continue;
        }
        let file = file.to_str().expect("ASCII names");
        let text = fs::read_to_string(&path).expect("readable");
        for name in declared(product_code(&text, file)) {
            let files = files_of.entry(name.to_string()).or_default();
            files.push(file.to_string());
        }
    }
    assert!(files_of.contains_key("Notification"), "the types are found");
    let several = files_of.iter().filter(|(_, files)| files.len() > 1);
    let wrong = several.map(|(name, files)| format!("{name} is declared in {}", files.join(", ")));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The types that a file declares. Goes by the lines that `rustfmt` writes: an alias of a module is
/// not indented, and an associated type is.
fn declared(code: &str) -> Vec<&str> {
    code.lines().filter_map(declared_type).collect()
}

fn declared_type(line: &str) -> Option<&str> {
    let item = line.trim_start();
    let indented = item.len() < line.len();
    let item = match item.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => item.strip_prefix("pub ").unwrap_or(item),
    };
    let (keyword, rest) = item.split_once(' ')?;
    match keyword {
        "struct" | "enum" | "trait" => {}
        "type" if !indented => {}
        _ => return None,
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let name = &rest[..end.unwrap_or(rest.len())];
    // Macros declare `struct $name`.
    (!name.is_empty()).then_some(name)
}

#[test]
fn declarations_are_found() {
    fn check(code: &str, expected: &[&str]) {
        assert_eq!(declared(code), expected, "{code}");
    }
    check("struct A;\npub enum B {", &["A", "B"]);
    check("pub(super) struct A<'a> {", &["A"]);
    check("pub(in crate::a) trait A: B {", &["A"]);
    check("type A<T> = B;\npub type C = D;", &["A", "C"]);
    check("impl A for B {\n    type Item = C;\n}", &[]);
    check("fn f() {\n    struct A;\n}", &["A"]);
    check("pub struct $name {", &[]);
    check("// struct A;\n/// enum B\nlet struct_a = 1;", &[]);
}
