//! Who may know whom. The rooms of `src/` and what each may name; the rest is forbidden. No files name
//! each other in a circle, and no two types have the same name.
//!
//! Reads the sources themselves: comments, strings and unit tests do not count, grouped imports do.
//! A new room is a line in [`ROOMS`], and the test fails until it is there.

mod circles;
mod names;
mod paths;
mod reasons;

use circles::{Graph, Source};
use paths::paths;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A room: its path under `src/` without `.rs`, the rooms it may name beside itself, and what of
/// [`RESTRICTED`] it may name. A room inside another has a line of its own; the longest path counts.
struct Room(&'static str, &'static str, &'static str);

/// What not everybody may name: crates, and the time, chance and surroundings of the process.
const RESTRICTED: &str = "axum clap getrandom hyper opentelemetry_proto prometheus_client prost redis reqwest sqlx tokio tokio_util \
    tracing std::env std::fs std::net std::process std::thread std::time Uuid::new_v7 Uuid::now_v7";

/// What makes a lease, and what proves one to the journal. Schedules alone name it, when they give one:
/// whoever else did could change a notification that it has not leased.
const GRANTED: &str = "granted";

#[rustfmt::skip]
const ROOMS: &[Room] = &[
    Room("domain", "", ""),
    Room("clock", "", "tokio std::time"),
    Room("batch", "", "tokio std::time"),
    Room("health", "domain", "tokio tracing std::time"),
    Room("tls_roots", "", "reqwest"),
    Room("tls_profile", "domain", ""),
    Room("redis_tls", "domain tls_profile", "std::fs"),
    Room("config", "domain redis_tls", "clap getrandom std::env std::fs std::net std::process std::time"),
    Room("telemetry", "config domain", "prometheus_client tracing std::env std::fs std::time"),
    Room("telemetry/traces", "config domain telemetry tls_roots",
        "getrandom opentelemetry_proto prost reqwest tokio tokio_util tracing std::time"),

    Room("schedule", "domain clock batch health", "tokio tracing std::time"),
    Room("schedule/redis", "domain clock batch redis_tls schedule", "redis tokio tracing std::time Uuid::now_v7"),
    Room("journal", "domain clock batch health", "sqlx tokio tracing std::fs std::time Uuid::now_v7"),

    Room("keyring", "domain", "getrandom"),
    Room("endpoints", "domain clock schedule journal keyring", "tokio tokio_util tracing std::time"),
    Room("settings_sync", "domain schedule journal", ""),
    Room("access", "domain journal", "getrandom tokio tokio_util tracing std::time"),

    Room("service", "domain clock batch health schedule journal keyring tls_profile endpoints settings_sync access telemetry",
        "tokio tokio_util std::time tracing Uuid::new_v7 Uuid::now_v7"),
    Room("delivery", "domain clock batch health schedule journal keyring endpoints settings_sync telemetry tls_profile \
        tls_roots",
        "getrandom hyper reqwest tokio tokio_util tracing std::net std::time"),
    Room("maintenance", "domain clock batch health schedule journal settings_sync telemetry",
        "tokio tokio_util tracing std::time"),

    Room("alerts", "domain clock health schedule journal endpoints service telemetry", "tokio tokio_util tracing std::time \
        Uuid::now_v7"),
    Room("api", "domain clock batch health schedule journal access service config telemetry",
        "axum hyper tokio tokio_util tracing std::net std::time Uuid::now_v7"),

    Room("page", "domain clock health schedule journal access service api", "axum getrandom tokio tokio_util tracing std::time"),

    Room("app", "domain clock batch health schedule journal keyring endpoints access service delivery maintenance alerts api page \
        config telemetry tls_roots",
        "getrandom tokio tokio_util tracing std::env std::fs std::net std::process std::time \
        Uuid::now_v7"),
    Room("cli", "domain clock batch schedule journal service delivery maintenance api config \
        telemetry tls_roots app",
        "axum clap getrandom hyper reqwest tokio tokio_util tracing std::env std::fs std::net \
        std::process std::time Uuid::now_v7"),
    Room("main", "cli telemetry", "tokio std::process"),
    // Declares the rooms and knows none.
    Room("lib", "", ""),
];

#[test]
fn no_room_names_what_is_above_it() {
    let src = root().join("src");
    let mut broken = Vec::new();
    let mut seen = BTreeSet::new();
    for Source { module, named, .. } in sources(&src) {
        let Some(room) = room_of(&module) else {
            broken.push(format!("{module} lies in no room"));
            continue;
        };
        seen.insert(room.0);
        for path in named {
            if let Some(what) = forbidden(room, &module, &path) {
                let path = path.join("::");
                broken.push(format!("{module} may not name {what}: {path}"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let entries = fs::read_dir(&src).expect("the sources").count();
    let tops = seen.iter().filter(|room| !room.contains('/')).count();
    assert_eq!(tops, entries, "a file was seen in every room of src/");
    let least = [
        "domain",
        "schedule",
        "schedule/redis",
        "journal",
        "service",
        "delivery",
    ];
    assert!(seen.is_superset(&BTreeSet::from(least)), "{seen:?}");
}

#[test]
fn no_files_name_each_other_in_a_circle() {
    let sources = sources(&root().join("src"));
    let graph = Graph::of(&sources);
    let circles = Vec::from_iter(graph.circles());
    assert!(circles.is_empty(), "{}", circles.join("\n"));
    for (from, to) in [
        ("config/sources", "config/settings"),
        ("delivery/worker", "delivery/bodies"),
        ("domain/notification", "domain/ladder"),
        ("schedule/redis/writes", "schedule/redis/script"),
    ] {
        assert!(graph.has(from, to), "{from} names {to}");
    }
}

#[test]
fn the_table_names_what_there_is() {
    let src = root().join("src");
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let dependencies = manifest["dependencies"].as_table().expect("a table");
    let dependencies: Vec<String> = dependencies
        .keys()
        .map(|name| name.replace('-', "_"))
        .collect();
    let restricted: Vec<&str> = RESTRICTED.split_whitespace().collect();
    for name in &restricted {
        // `Uuid` is a type of the crate `uuid`.
        let first = name.split("::").next().unwrap_or_default().to_lowercase();
        assert!(
            first == "std" || dependencies.contains(&first),
            "{name} is no dependency"
        );
    }
    for Room(own, rooms, foreign) in ROOMS {
        let exists = src.join(own).is_dir() || src.join(format!("{own}.rs")).is_file();
        assert!(exists, "there is no room {own}");
        for other in rooms.split_whitespace() {
            assert!(ROOMS.iter().any(|room| room.0 == other), "{own}: {other}");
        }
        for name in foreign.split_whitespace() {
            assert!(restricted.contains(&name), "{own}: {name}");
        }
    }
}

#[test]
fn what_is_forbidden_is_found() {
    fn check(module: &str, code: &str, expected: Option<&str>) {
        let room = room_of(module).expect("a room");
        let found = paths(code)
            .into_iter()
            .find_map(|path| forbidden(room, module, &path));
        assert_eq!(found.as_deref(), expected, "{module}: {code}");
    }
    check("domain/ack", "use crate::domain::state::State;", None);
    check("domain/ack", "use crate::clock::Clock;", Some("clock"));
    check(
        "domain/ack",
        "use crate::{domain::a, clock};",
        Some("clock"),
    );
    check(
        "domain/ack",
        "use super::super::clock;",
        Some("the crate by `super`"),
    );
    check(
        "domain",
        "super::clock::now()",
        Some("the crate by `super`"),
    );
    check("domain/ack", "super::state::named!()", None);
    check("domain/ack", "use std::time::Instant;", Some("std::time"));
    check("domain/ack", "std::{time, fmt}", Some("std::time"));
    check("domain/ack", "Uuid::now_v7()", Some("Uuid::now_v7"));
    check("schedule/redis/lua", "use redis::Client;", None);
    check("schedule/memory/book", "use redis::Client;", Some("redis"));
    check(
        "schedule/memory/book",
        "use crate::schedule::redis::X;",
        None,
    );
    check("schedule", "pub mod redis;", None);
    check("service", "use redis;", Some("redis"));
    check("service", "crate::delivery::x()", Some("delivery"));
    check("api/server", "sqlx::query()", Some("sqlx"));
    check("journal/sqlite", "sqlx::query()", None);
    let lease = Some("what makes a lease");
    check(
        "schedule/memory/book",
        "Lease::granted(entry, expiry)",
        None,
    );
    check("schedule/redis/partition", "LeaseToken::granted(key)", None);
    check("service/held", "LeaseToken::granted(key, expiry)", lease);
    check("service", "schedule::Lease::granted(entry, expiry)", lease);
    check(
        "delivery",
        "crate::domain::lease::LeaseToken::granted",
        lease,
    );
    check("domain/lease", "fn granted() {}", None);
    check("main", "ringback::api::x()", Some("api"));
    check("main", "ringback::cli::run()", None);
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `src`, and what its product code names.
fn sources(src: &Path) -> Vec<Source> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("readable");
        let path = path.strip_prefix(src).expect("found there");
        let path = path.to_str().expect("ASCII names").to_string();
        let module = module_of(&path);
        let named = paths(product_code(&text, &module));
        Source {
            path,
            module,
            named,
        }
    };
    rust_files(src).into_iter().map(read).collect()
}

/// The module that a file is: `a/b` for `a/b.rs` and for `a/b/mod.rs`.
fn module_of(path: &str) -> String {
    let module = path.strip_suffix(".rs").expect("a Rust file");
    module.strip_suffix("/mod").unwrap_or(module).to_string()
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The innermost room that a module lies in.
fn room_of(module: &str) -> Option<&'static Room> {
    let inside = |room: &&Room| {
        module
            .strip_prefix(room.0)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    ROOMS.iter().filter(inside).max_by_key(|room| room.0.len())
}

/// What a path names that the room may not name.
fn forbidden(room: &Room, module: &str, path: &[String]) -> Option<String> {
    let Room(own, rooms, foreign) = room;
    let makes_a_lease = path.len() > 1 && path.last().is_some_and(|name| name == GRANTED);
    if makes_a_lease && own.split('/').next() != Some("schedule") {
        return Some("what makes a lease".to_string());
    }
    let first = path.first()?.as_str();
    if path.len() > 1 && (first == "crate" || first == "ringback") {
        let other = path[1].as_str();
        let known = own
            .split('/')
            .take(1)
            .chain(rooms.split_whitespace())
            .any(|room| room == other);
        return (!known).then(|| other.to_string());
    }
    let supers = path.iter().take_while(|part| *part == "super").count();
    if supers >= module.split('/').count() {
        return Some("the crate by `super`".to_string());
    }
    let full = path.join("::");
    let full = full.strip_prefix("uuid::").unwrap_or(&full);
    let found = RESTRICTED.split_whitespace().find(|name| {
        full.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with("::") || (rest.is_empty() && path.len() > 1))
    })?;
    let allowed = foreign.split_whitespace().any(|name| name == found);
    (!allowed).then(|| found.to_string())
}

/// Everything before the unit tests, which stand last in their file.
fn product_code<'a>(text: &'a str, module: &str) -> &'a str {
    let Some((code, tests)) = text.split_once("\n#[cfg(test)]\nmod tests {") else {
        return text;
    };
    let after = tests.split_once("\n}\n").map(|(_, after)| after);
    assert_eq!(after, Some(""), "{module}: the unit tests stand last");
    code
}
