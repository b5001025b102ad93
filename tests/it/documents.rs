//! What the documents show is what there is.

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
fn links_between_the_documents_lead_somewhere() {
    for document in [
        "README.md",
        "docs/operations.md",
        "docs/performance.md",
        "docs/reliability.md",
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
