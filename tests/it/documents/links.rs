//! Links of the documents: to files, and to headings.

use super::read;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Every document of the repository, by its path.
fn documents() -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    for folder in ["", "docs", "fixtures"] {
        for entry in fs::read_dir(root.join(folder)).expect("a folder") {
            let path = Path::new(folder).join(entry.expect("an entry").file_name());
            if path.extension().is_some_and(|ending| ending == "md") {
                let text = read(path.to_str().expect("a path"));
                found.insert(path, text);
            }
        }
    }
    found
}

/// The lines that are not in a block of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The names under which GitHub links the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in prose(text).lines() {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let title = title.trim().to_lowercase();
        let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        let anchor = title.chars().filter(kept).collect::<String>();
        let anchor = anchor.replace(' ', "-");
        assert!(anchors.insert(anchor.clone()), "two headings are #{anchor}");
    }
    anchors
}

/// What the links of a document lead to.
fn targets(text: &str) -> Vec<String> {
    let text = prose(text);
    let mut links = text.split("](");
    links.next();
    let ends = |link: &str| link.split(')').next().unwrap_or_default().to_string();
    links.map(ends).collect()
}

/// A path without `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    parts
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
    let documents = documents();
    let mut followed = 0;
    for (document, text) in &documents {
        let base = document.parent().expect("a folder");
        for link in targets(text) {
            if link.starts_with("http") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => document.clone(),
                file => resolved(&base.join(file)),
            };
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&target);
            assert!(path.exists(), "{} links to {link}", document.display());
            if !anchor.is_empty() {
                let text = documents.get(&target).expect("a document");
                let is_there = anchors(text).contains(anchor);
                assert!(is_there, "{} links to {link}", document.display());
            }
            followed += 1;
        }
    }
    assert!(followed > 200, "{followed} links");
}

#[test]
fn the_index_names_every_document() {
    let index = read("docs/README.md");
    let named: BTreeSet<String> = targets(&index).into_iter().collect();
    for document in documents().keys() {
        let Ok(below) = document.strip_prefix("docs") else {
            continue;
        };
        let name = below.to_str().expect("a path");
        assert!(
            name == "README.md" || named.contains(name),
            "docs/README.md lacks {name}"
        );
    }
}
