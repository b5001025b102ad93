//! The reference of the HTTP API: its routes, the fields of answers, and the types of problems.

use super::{quoted, read, rows};
use ringback::api::rights::RIGHTS;
use ringback::domain::attempt::Outcome;
use ringback::domain::deferral::DeferralReason;
use ringback::domain::role::Role;
use ringback::domain::state::{Cause, State};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const DOCUMENT: &str = "docs/http-api.md";

#[test]
fn every_route_is_documented_with_the_roles_that_may_use_it() {
    let document = read(DOCUMENT);
    let mut documented = BTreeMap::new();
    for row in rows(&document).filter(|row| row.len() == 3) {
        let [request] = quoted(row[0])[..] else {
            continue;
        };
        if let Some((method, path)) = request.split_once(' ') {
            let roles: Vec<String> = quoted(row[2]).into_iter().map(String::from).collect();
            let before = documented.insert((method.to_string(), path.to_string()), roles);
            assert_eq!(before, None, "{request} is there twice");
        }
    }
    let routes = RIGHTS.iter().map(|(method, path, permission)| {
        let roles = Role::ALL.into_iter();
        let roles = roles.filter(|role| role.permits(*permission));
        let roles: Vec<String> = roles.map(|role| role.as_str().to_string()).collect();
        ((method.to_string(), path.to_string()), roles)
    });
    assert_eq!(documented, routes.collect());
}

/// The type, the status and the title of each kind of problem, from its source.
fn problems() -> BTreeSet<[String; 3]> {
    let source = read("src/api/problem/kind.rs");
    let statuses = (400..600).filter_map(|code| http::StatusCode::from_u16(code).ok());
    let statuses: BTreeMap<String, String> = statuses
        .filter_map(|status| {
            let name = status
                .canonical_reason()?
                .to_uppercase()
                .replace([' ', '-'], "_");
            Some((name, status.as_u16().to_string()))
        })
        .collect();
    let kinds = source.split("(Status::").skip(1);
    let kinds = kinds.map(|kind| {
        let (status, rest) = kind.split_once(", ").expect("a status");
        let [urn, title] = [1, 3].map(|place| rest.split('"').nth(place).expect("a text"));
        let name = urn.strip_prefix("urn:ringback:problem:").expect("a type");
        [name, &statuses[status], title].map(String::from)
    });
    kinds.collect()
}

#[test]
fn every_type_of_problem_is_documented() {
    let document = read(DOCUMENT);
    let table = rows(&document).filter(|row| row.len() == 4);
    let documented: BTreeSet<[String; 3]> = table
        .filter(|row| row[0].starts_with('`') && row[0] != "`type`")
        .map(|row| [row[0].trim_matches('`'), row[1], row[2]].map(String::from))
        .collect();
    let problems = problems();
    assert!(problems.len() > 30, "{} kinds", problems.len());
    assert_eq!(documented, problems);
}

/// The members of the answers, from the types that are written as JSON.
fn members(source: &str) -> BTreeSet<String> {
    let mut members = BTreeSet::new();
    let (mut is_written, mut is_inside) = (false, false);
    let mut attribute = "";
    for line in source.lines() {
        let text = line.trim();
        if line.starts_with("#[derive(") {
            is_written = text.contains("Serialize");
        } else if is_written && line.ends_with('{') && !line.starts_with(' ') {
            (is_written, is_inside) = (false, true);
        } else if line == "}" {
            is_inside = false;
        } else if is_inside && text.starts_with("#[serde(") {
            attribute = text;
        } else if is_inside && !text.starts_with("//") {
            let name = text.trim_start_matches("pub ").split(": ").next();
            let name = name.filter(|name| name.len() < text.len() && !text.ends_with('{'));
            match (name, attribute) {
                (Some(_), "#[serde(flatten)]") | (None, _) => {}
                (Some(_), "#[serde(rename = \"type\")]") => drop(members.insert("type".into())),
                (Some(name), _) => drop(members.insert(name.to_string())),
            }
            attribute = "";
        }
    }
    members
}

#[test]
fn every_member_of_an_answer_is_documented() {
    let document = read(DOCUMENT);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api");
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("a name");
        if name.ends_with(".rs") {
            let source = read(&format!("src/api/{name}"));
            // Tests have types of their own.
            let source = source.split("#[cfg(test)]").next().unwrap_or_default();
            found.extend(members(source));
        }
    }
    assert!(found.len() > 80, "{} members", found.len());
    let lacking: Vec<&String> = found
        .iter()
        .filter(|name| !document.contains(&format!("`{name}`")))
        .collect();
    assert!(lacking.is_empty(), "{DOCUMENT} lacks {lacking:?}");
}

/// The names in the first cells of the table with this first row.
fn table<'a>(document: &'a str, first_row: &str) -> Vec<&'a str> {
    let head = format!("\n{first_row}\n|---|---|\n");
    assert_eq!(document.matches(&head).count(), 1, "{first_row}");
    let (_, rest) = document.split_once(&head).expect("the table");
    let lines = rest.lines().take_while(|line| line.starts_with('|'));
    lines.filter_map(|line| line.split('`').nth(1)).collect()
}

#[test]
fn every_state_cause_outcome_and_reason_to_wait_is_documented() {
    let document = read(DOCUMENT);
    let mut states: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
    states.insert(1, "in_flight");
    assert_eq!(table(&document, "| state | |"), states);
    let causes: Vec<&str> = Cause::ALL.iter().map(|cause| cause.as_str()).collect();
    assert_eq!(table(&document, "| cause | |"), causes);
    let outcomes: Vec<&str> = Outcome::ALL
        .iter()
        .map(|outcome| outcome.as_str())
        .collect();
    assert_eq!(table(&document, "| outcome | |"), outcomes);
    let reasons = rows(&document).find(|row| row[0] == "`deferred_by`");
    let reasons = quoted(reasons.expect("a row")[1]);
    let known: Vec<&str> = DeferralReason::ALL
        .iter()
        .map(|reason| reason.as_str())
        .collect();
    assert_eq!(reasons, known);
}
