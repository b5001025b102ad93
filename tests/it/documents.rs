//! What the documents show is what there is.

use ringback::config::settings::ALL;
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Without indentation, since a method in a file is a function in the README.
fn flat(code: &str) -> String {
    code.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_verifiers_in_the_readme_are_those_that_were_tested() {
    let readme = read("README.md");
    for (language, file) in [
        ("python", "verify.py"),
        ("php", "verify.php"),
        ("js", "verify.mjs"),
        ("java", "Verify.java"),
        ("go", "verify.go"),
    ] {
        let opening = format!("\n```{language}\n");
        let (_, rest) = readme.split_once(&opening).expect(language);
        let (code, _) = rest.split_once("\n```").expect("it ends");
        let tested = flat(&read(&format!("fixtures/verify/{file}")));
        assert!(
            tested.contains(&flat(code)),
            "{language} differs from {file}"
        );
    }
}

#[test]
fn the_settings_in_the_readme_are_those_in_the_code() {
    let readme = read("README.md");
    for setting in ALL {
        let variable = setting.name.to_uppercase().replace('-', "_");
        // What is no single value is said in words.
        let default = match setting.default {
            "" => String::new(),
            words if words.contains(' ') => words.to_string(),
            value => format!("`{value}`"),
        };
        let (name, help) = (setting.name, setting.help);
        let row = format!("| `--{name}` | `RINGBACK_{variable}` | {default} | {help} |\n");
        assert!(readme.contains(&row), "README.md lacks: {row}");
    }
}

#[test]
fn links_between_the_documents_lead_somewhere() {
    for document in [
        "README.md",
        "docs/operations.md",
        "docs/performance.md",
        "docs/reliability.md",
        "docs/CONTRIBUTING.md",
        "docs/ARCHITECTURE.md",
        "docs/configuration.md",
        "docs/verifying.md",
    ] {
        let text = read(document);
        let base = Path::new(document).parent().expect("a folder");
        let mut links = 0;
        for (_, link) in text
            .match_indices("](")
            .map(|(at, _)| (at, &text[at + 2..]))
        {
            let target = link.split([')', '#']).next().expect("a part");
            if target.is_empty() || target.starts_with("http") {
                continue;
            }
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(base)
                .join(target);
            assert!(path.exists(), "{document} links to {target}");
            links += 1;
        }
        assert!(links > 0 || document != "README.md");
    }
}
