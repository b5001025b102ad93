//! The completions and the manual pages.

use super::program::run;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What a shell completes, which has read the completions.
fn completed_by_bash(words: &[&str]) -> Vec<String> {
    let script = run(Path::new("."), &["completions", "bash"], &[]);
    assert_eq!((script.status, script.stderr.as_str()), (0, ""));
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("ringback.bash");
    fs::write(&file, script.stdout).expect("written");
    // As bash does it when TAB is pressed behind the last word.
    let asking = r#"
        source "$0"
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _ringback ringback "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = Command::new("bash")
        .args(["--noprofile", "--norc", "-c", asking])
        .arg(&file)
        .args(words)
        .output()
        .expect("bash runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(str::to_string).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let check = |words: &[&str], expected: &[&str]| {
        let completed = completed_by_bash(words);
        for expected in expected {
            assert!(
                completed.iter().any(|word| word == expected),
                "{words:?}: {completed:?}"
            );
        }
    };
    check(&["ringback", "do"], &["doctor"]);
    check(
        &["ringback", "serve", "--metrics"],
        &["--metrics-listen", "--metrics-key"],
    );
    check(
        &["ringback", "endpoint", "key", ""],
        &["add", "list", "remove"],
    );
    check(
        &["ringback", "completions", ""],
        &["bash", "zsh", "fish", "powershell", "elvish"],
    );
    assert!(!completed_by_bash(&["ringback", "l"]).contains(&"serve".to_string()));
}

#[test]
fn every_shell_has_completions() {
    for (shell, beginning) in [
        ("zsh", "#compdef ringback\n"),
        ("fish", "# Print an optspec"),
        ("powershell", "\nusing namespace"),
        ("elvish", "\nuse builtin;"),
    ] {
        let script = run(Path::new("."), &["completions", shell], &[]);
        assert_eq!((script.status, script.stderr.as_str()), (0, ""), "{shell}");
        assert!(
            script.stdout.starts_with(beginning),
            "{shell}: {}",
            &script.stdout[..80]
        );
        assert!(script.stdout.contains("allow-destination"), "{shell}");
    }
    assert_eq!(run(Path::new("."), &["completions", "tcsh"], &[]).status, 2);
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let finished = run(dir.path(), &["man", "--dir", "pages"], &[]);
    assert_eq!((finished.status, finished.stderr.as_str()), (0, ""));
    let pages = dir.path().join("pages");
    let read = |name: &str| fs::read_to_string(pages.join(name)).expect(name);
    let page = read("ringback.1");
    assert!(page.contains(".TH RINGBACK 1"), "{page}");
    assert!(page.contains("Exit statuses"), "{page}");
    assert_eq!(run(dir.path(), &["man"], &[]).stdout, page);
    let serve = read("ringback-serve.1");
    assert!(serve.contains(r"\-\-allow\-destination"), "{serve}");
    let nested = read("ringback-endpoint-key-add.1");
    assert!(nested.contains(r"ringback\-endpoint\-key\-add"), "{nested}");
    assert!(nested.contains(r"\-\-overlap"), "{nested}");
    // Where `man` is there, it reads them without a complaint.
    if Command::new("man")
        .arg("--version")
        .output()
        .is_ok_and(|man| man.status.success())
    {
        for entry in fs::read_dir(&pages).expect("the pages") {
            let page = entry.expect("an entry").path();
            let shown = Command::new("man")
                .args(["--warnings=w", "-E", "UTF-8", "-l"])
                .arg(&page)
                .env("MANPAGER", "cat")
                .output()
                .expect("man runs");
            let complaint = String::from_utf8_lossy(&shown.stderr);
            assert!(
                shown.status.success() && complaint.is_empty(),
                "{}: {complaint}",
                page.display()
            );
        }
    }
}
