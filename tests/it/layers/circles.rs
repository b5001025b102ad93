//! Finds the circles of files that name each other, directly or through others.
//!
//! A module and what lies inside it belong together: that they name each other is no circle. What a
//! module only hands on (`pub use`) is taken for its source.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A file of `src/`: its path there, the module that it is, and the paths that its code names.
pub struct Source {
    pub path: String,
    pub module: String,
    pub named: Vec<Vec<String>>,
}

/// Which modules each module names, but for those inside it and around it.
pub struct Graph<'a> {
    edges: BTreeMap<&'a str, BTreeSet<&'a str>>,
    files: BTreeMap<&'a str, &'a str>,
}

impl<'a> Graph<'a> {
    pub fn of(sources: &'a [Source]) -> Self {
        let file = |source: &'a Source| (source.module.as_str(), source.path.as_str());
        let files = BTreeMap::from_iter(sources.iter().map(file));
        let mut named = Vec::new();
        let mut handed_on = BTreeMap::new();
        for Source {
            module,
            named: paths,
            ..
        } in sources
        {
            for path in paths {
                let Some((target, rest)) = resolve(&files, module, path) else {
                    continue;
                };
                if let [name] = rest
                    && target != module
                {
                    handed_on.insert((module.as_str(), name.as_str()), target);
                }
                named.push((module.as_str(), target, rest.first()));
            }
        }
        let mut edges: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (module, target, name) in named {
            let source = name.and_then(|name| handed_on.get(&(target, name.as_str())));
            let target = *source.filter(|_| target != module).unwrap_or(&target);
            if !is_nested(module, target) {
                edges.entry(module).or_default().insert(target);
            }
        }
        Self { edges, files }
    }

    /// Whether a module names another one.
    pub fn has(&self, from: &str, to: &str) -> bool {
        self.edges.get(from).is_some_and(|named| named.contains(to))
    }

    /// The shortest circle of every file that is in one, each once, as `a.rs -> b.rs -> a.rs`.
    pub fn circles(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for module in self.edges.keys() {
            let Some(mut circle) = self.shortest_circle(module) else {
                continue;
            };
            let first = (0..circle.len()).min_by_key(|at| circle[*at]);
            circle.rotate_left(first.unwrap_or(0));
            circle.push(circle[0]);
            let circle: Vec<&str> = circle.iter().map(|module| self.files[module]).collect();
            found.insert(circle.join(" -> "));
        }
        found
    }

    /// The shortest way from a module back to itself, without its end.
    fn shortest_circle(&self, start: &'a str) -> Option<Vec<&'a str>> {
        let mut reached_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(module) = queue.pop_front() {
            for next in self.edges.get(module).into_iter().flatten() {
                if *next == start {
                    let back = |module: &&'a str| reached_from.get(module).copied();
                    let mut circle = Vec::from_iter(std::iter::successors(Some(module), back));
                    circle.reverse();
                    return Some(circle);
                }
                if !reached_from.contains_key(next) {
                    reached_from.insert(next, module);
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

/// Whether one of two modules lies inside the other, or they are the same.
fn is_nested(one: &str, other: &str) -> bool {
    let inside = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    inside(one, other) || inside(other, one)
}

/// The innermost module that a path leads to, and what the path names in it.
fn resolve<'a, 'p>(
    files: &BTreeMap<&'a str, &'a str>,
    module: &'a str,
    path: &'p [String],
) -> Option<(&'a str, &'p [String])> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    let (mut found, mut rest) = match path.first()?.as_str() {
        "crate" | "ringback" => ("", &path[1..]),
        "self" => (module, &path[1..]),
        "super" => {
            let parent =
                |module: &&'a str| Some(module.rsplit_once('/').map_or("", |(parent, _)| parent));
            let around = std::iter::successors(Some(module), parent).nth(supers)?;
            (around, &path[supers..])
        }
        _ => (module, path),
    };
    while let Some((first, after)) = rest.split_first() {
        let inner = match found {
            "" => first.clone(),
            found => format!("{found}/{first}"),
        };
        let Some((inner, _)) = files.get_key_value(inner.as_str()) else {
            break;
        };
        (found, rest) = (inner, after);
    }
    files.contains_key(found).then_some((found, rest))
}

#[test]
fn circles_are_found_and_nothing_else() {
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let is_given = files.iter().any(|(path, _)| *path == "r/mod.rs");
        let parent = (!is_given).then_some(("r/mod.rs", ""));
        let sources: Vec<Source> = (files.iter().chain(&parent))
            .map(|(path, code)| Source {
                path: (*path).to_string(),
                module: super::module_of(path),
                named: super::paths(code),
            })
            .collect();
        let found = Graph::of(&sources).circles();
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(found, expected, "{files:?}");
    }
    let (a, b, c) = ("r/a.rs", "r/b.rs", "r/c.rs");
    check(&[(a, "use super::b::B;"), (b, "use std::fmt;")], &[]);
    check(
        &[(a, "use super::b::B;"), (b, "fn f(a: crate::r::a::A) {}")],
        &["r/a.rs -> r/b.rs -> r/a.rs"],
    );
    check(
        &[
            (a, "use crate::r::{c::C};"),
            (b, "use super::a;"),
            (c, "use crate::r::b::{B, self};"),
        ],
        &["r/a.rs -> r/c.rs -> r/b.rs -> r/a.rs"],
    );
    check(
        &[
            (a, "use super::{b, c};"),
            (b, "use super::a;"),
            (c, "use super::a;"),
        ],
        &["r/a.rs -> r/b.rs -> r/a.rs", "r/a.rs -> r/c.rs -> r/a.rs"],
    );
    // A module names what lies inside it, and that names the module.
    let inside = "use super::A; use crate::r::R;";
    check(&[(a, "use b::B;"), ("r/a/b.rs", inside)], &[]);
    check(&[("r/mod.rs", "use a::A;"), (a, "use super::R;")], &[]);
    // What lies inside one of two neighbours counts as itself.
    check(
        &[
            ("r/a/mod.rs", "use d::D;"),
            ("r/a/d.rs", "use crate::r::b::B;"),
            (b, "use super::a::d::D;"),
        ],
        &["r/a/d.rs -> r/b.rs -> r/a/d.rs"],
    );
    check(
        &[
            ("r/a/mod.rs", "use super::b::B;"),
            ("r/a/d.rs", ""),
            (b, "use super::a::d::D;"),
        ],
        &[],
    );
    // What a module hands on counts as its source.
    check(
        &[
            ("r/mod.rs", "pub use b::B;"),
            (a, "use super::B;"),
            (b, "use super::a::A;"),
        ],
        &["r/a.rs -> r/b.rs -> r/a.rs"],
    );
    check(
        &[("q.rs", "use crate::r::a::A;"), (a, "use crate::q::Q;")],
        &["q.rs -> r/a.rs -> q.rs"],
    );
    check(
        &[(a, "let b = b::c(); // super::b"), (b, "use super::a;")],
        &[],
    );
}
