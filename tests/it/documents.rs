//! What the documents show is what there is.

mod commands;
mod http_api;
mod links;

use ringback::config::settings::ALL;
use ringback::config::{Flags, ServeConfig};
use ringback::domain::ack;
use ringback::domain::act::Act;
use ringback::domain::attempt::Outcome;
use ringback::domain::call_durations::CallDurations;
use ringback::domain::duration;
use ringback::domain::ladder;
use ringback::domain::state::Cause;
use ringback::telemetry::metrics::Metrics;
use ringback::telemetry::process::ProcessReading;
use ringback::telemetry::store_readings::{
    HealthReading, JobsReading, JournalReading, LanesReading, MemoryReading, ScheduleReading,
    StoreReadings, WindowReading,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Without indentation, since a method in a file is a function in the document.
fn flat(code: &str) -> String {
    code.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_verifiers_for_merchants_are_those_that_are_tested() {
    let document = read("docs/merchants.md");
    for (language, [verifier, receiver]) in [
        ("python", ["verify.py", "receiver.py"]),
        ("php", ["verify.php", "receiver.php"]),
        ("js", ["verify.mjs", "receiver.mjs"]),
        ("java", ["Verify.java", "Receiver.java"]),
        ("go", ["verify.go", "receiver.go"]),
    ] {
        let opening = format!("\n```{language}\n");
        assert_eq!(document.matches(&opening).count(), 1, "{language}");
        let (_, rest) = document.split_once(&opening).expect(language);
        let (code, _) = rest.split_once("\n```").expect("it ends");
        for file in [
            format!("fixtures/verify/{verifier}"),
            format!("docs/receivers/{receiver}"),
        ] {
            let tested = flat(&read(&file));
            assert!(
                tested.contains(&flat(code)),
                "{language} differs from {file}"
            );
        }
    }
}

/// The heading of the table of all settings.
const ALL_SETTINGS: &str = "All settings";

#[test]
fn the_table_of_settings_is_that_of_the_code() {
    let document = read("docs/configuration.md");
    let table = section(&document, ALL_SETTINGS);
    for setting in ALL {
        let variable = setting.name.to_uppercase().replace('-', "_");
        // What is not a single value is described in words.
        let default = match setting.default {
            "" => String::new(),
            words if words.contains(' ') => words.to_string(),
            value => format!("`{value}`"),
        };
        let (name, help) = (setting.name, setting.help);
        let row = format!("| `--{name}` | `RINGBACK_{variable}` | {default} | {help} |\n");
        assert!(table.contains(&row), "docs/configuration.md lacks: {row}");
    }
    let is_setting = |row: &Vec<&str>| row.len() == 4 && row[1].starts_with("`RINGBACK_");
    assert_eq!(rows(table).filter(is_setting).count(), ALL.len());
}

#[test]
fn the_documented_ack_rules_are_those_in_the_code() {
    let document = read("docs/ladders.md");
    for rule in ack::named::all() {
        let name = rule.rule.name().expect("a named rule");
        let row = format!("| `{name}` | {} | {} |\n", rule.accepts, rule.source);
        assert!(document.contains(&row), "docs/ladders.md lacks: {row}");
    }
}

#[test]
fn the_documented_ladders_are_those_in_the_code() {
    let document = read("docs/ladders.md");
    let ladders = section(&document, "Ladders");
    let documented: Vec<Vec<&str>> = rows(ladders).filter(|row| row.len() == 5).skip(1).collect();
    assert_eq!(documented.len(), ladder::named::all().len());
    for (row, (ladder, source)) in documented.iter().zip(ladder::named::all()) {
        let name = ladder.name().expect("a named ladder");
        assert_eq!(row[0], format!("`{name}`"));
        let intervals = ladder.intervals_ms().iter();
        let intervals: Vec<String> = intervals.map(|ms| duration::display_ms(*ms)).collect();
        let (last, others) = intervals.split_last().expect("an interval");
        let expected = match ladder.repeats_last() {
            true => format!("{}, then every {last}", others.join(" ")),
            false => intervals.join(" "),
        };
        assert_eq!(row[2], expected, "{name}");
        assert_eq!(row[3], duration::display_ms(ladder.window_ms()), "{name}");
        assert!(source.starts_with(row[4]), "{name}: {source}");
    }
}

/// The cells of the tables of a document, row by row, without headings and rulers.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter_map(|line| {
        let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(row.split(" | ").map(str::trim).collect())
    })
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Loads settings as `serve` does, without making files.
fn load(name: &'static str, value: &str) -> Result<ServeConfig, String> {
    let defaults = [
        ("signing-secret", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"),
        ("journal", "sqlite://never-opened.db"),
    ];
    let given = defaults.into_iter().chain([(name, value)]);
    let given = given.map(|(name, value)| (name, vec![value.to_string()]));
    let flags = Flags(BTreeMap::from_iter(given));
    ServeConfig::load(&flags, |_| None).map_err(|error| error.to_string())
}

#[test]
fn every_setting_is_explained_and_takes_the_bounds_that_are_documented() {
    let whole = read("docs/configuration.md");
    // A row of the table of all settings is no explanation.
    let document = whole.replace(section(&whole, ALL_SETTINGS), "");
    let explained: BTreeSet<&str> = rows(&document).flat_map(|row| quoted(row[0])).collect();
    for setting in ALL {
        let name = setting.name;
        let as_flag = format!("`--{name}");
        assert!(
            explained.contains(name) || document.contains(&as_flag),
            "docs/configuration.md does not explain {name}"
        );
    }
    let mut bounded = 0;
    for row in rows(&document) {
        let Some((lowest, highest)) = row.get(1).and_then(|takes| bounds(takes)) else {
            continue;
        };
        for name in quoted(row[0]) {
            let setting = ALL.iter().find(|setting| setting.name == name);
            let name = setting.expect("a setting").name;
            for value in [lowest, highest] {
                assert_eq!(load(name, value).map(drop), Ok(()), "{name} {value}");
            }
            let below = beyond(lowest, |number| number.checked_sub(1));
            let above = beyond(highest, |number| number.checked_add(1));
            for value in below.into_iter().chain(above) {
                assert!(load(name, &value).is_err(), "{name} {value}");
            }
            bounded += 1;
        }
    }
    assert_eq!(bounded, 19, "the settings with bounds are found");
}

/// The lowest and the highest value, as in "`100ms` to `5m`". Not the bounds of a length, as in "1 to
/// 256 printable ASCII characters".
fn bounds(text: &str) -> Option<(&str, &str)> {
    let (lowest, rest) = text.split_once(" to ")?;
    let end = rest.find([' ', ',', ';', '.']).unwrap_or(rest.len());
    let (highest, rest) = rest.split_at(end);
    let lowest = lowest.strip_suffix(" byte").unwrap_or(lowest);
    let (lowest, highest) = (lowest.trim_matches('`'), highest.trim_matches('`'));
    let is_value = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let is_length = rest.starts_with(" printable");
    (is_value(lowest) && is_value(highest) && !is_length).then_some((lowest, highest))
}

/// The next value beyond a bound, in the same unit.
fn beyond(bound: &str, next: impl Fn(u64) -> Option<u64>) -> Option<String> {
    let end = bound.find(|letter: char| !letter.is_ascii_digit());
    let (number, unit) = bound.split_at(end.unwrap_or(bound.len()));
    Some(format!("{}{unit}", next(number.parse().ok()?)?))
}

#[test]
fn the_documented_refusals_are_those_of_the_program() {
    let document = read("docs/configuration.md");
    for (value, origin) in [("4", "--timeout"), ("1h", "RINGBACK_TIMEOUT")] {
        let error = load("timeout", value).expect_err(value);
        let error = error.replacen("--timeout", origin, 1);
        let line = format!("\nringback: {error}\n");
        assert!(document.contains(&line), "the document lacks: {line}");
    }
}

/// A name with its labels, and the type, of every metric in an exported text.
fn exported(text: &str) -> BTreeSet<(String, String)> {
    let mut metrics = BTreeSet::new();
    let declared = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for (name, kind) in declared.filter_map(|line| line.split_once(' ')) {
        let name = match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_string(),
        };
        let with_label = format!("{name}{{");
        let sample = text.lines().find_map(|line| line.strip_prefix(&with_label));
        let labels = sample.and_then(|labels| labels.split_once("} "));
        let names = labels.map(|(labels, _)| {
            let parts = labels.split("\",");
            let names = parts
                .filter_map(|part| part.split_once('='))
                .map(|part| part.0);
            names.collect::<Vec<_>>().join(", ")
        });
        let shown = names.map_or(name.clone(), |names| format!("{name}{{{names}}}"));
        metrics.insert((shown, kind.to_string()));
    }
    metrics
}

#[test]
fn the_documented_metrics_are_those_that_are_exported() {
    let readings = StoreReadings {
        journal: Some(JournalReading {
            registered: 0,
            pending: 0,
            delivered: 0,
            dead: 0,
            cancelled: 0,
            set_aside: 0,
            oldest_due_ms: Some(0),
        }),
        jobs: Some(JobsReading {
            running: 0,
            paused: 0,
        }),
        schedule: Some(ScheduleReading {
            pending: 0,
            in_flight: 0,
            lanes: Some(LanesReading::default()),
            window: Some(WindowReading {
                horizon_ms: 0,
                loaded_ahead_ms: 0,
                expected: Some(0),
            }),
        }),
        memory: Some(MemoryReading {
            taken: 0,
            bodies: 0,
            limit: 0,
        }),
        health: vec![HealthReading {
            store: "journal",
            up: true,
            failed_calls: 0,
            durations: vec![("reading", CallDurations::default())],
        }],
        unusable_endpoints: 0,
        partitions_away: 0,
    };
    let metrics = Metrics::new();
    let took = std::time::Duration::ZERO;
    metrics.request("GET", "/v1/lanes", 200, took);
    let document = read("docs/operations.md");
    let is_metric = |name: &str| name.starts_with("`ringback_") || name.starts_with("`process_");
    let documented: BTreeSet<(String, String)> = rows(&document)
        .filter(|row| row.len() == 3 && is_metric(row[0]))
        .map(|row| (row[0].trim_matches('`').to_string(), row[1].to_string()))
        .collect();
    assert_eq!(
        documented,
        exported(&metrics.text(readings, ProcessReading::read()))
    );
}

/// The names of metrics in a text: words that begin like ours, without what a histogram adds to its name.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words
        .filter(|word| word.starts_with("ringback_") || word.starts_with("process_"))
        .map(|word| word.strip_suffix("_bucket").unwrap_or(word))
        .collect()
}

#[test]
fn the_alerts_and_the_dashboard_use_documented_metrics() {
    let document = read("docs/operations.md");
    let documented = metric_names(&document);
    for file in [
        "deploy/prometheus/alerts.yml",
        "deploy/grafana/ringback.json",
    ] {
        let text = read(file);
        let used = metric_names(&text);
        assert!(used.len() > 10, "{file}: {used:?}");
        let unknown: Vec<_> = used.difference(&documented).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

/// `promtool` is part of Prometheus. Where it is missing, the output says that it was not tried.
#[test]
fn promtool_accepts_the_alerts() {
    let program = std::env::var_os("RINGBACK_TEST_PROMTOOL").unwrap_or("promtool".into());
    let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/prometheus/alerts.yml");
    let checked = Command::new(&program)
        .args(["check", "rules"])
        .arg(alerts)
        .output();
    match checked {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // Written so that it is seen also without `--nocapture`.
            let said = writeln!(
                std::io::stderr(),
                "promtool: NOT tried, since it is not installed; the alerts were not checked with it"
            );
            said.expect("standard error");
        }
        Err(error) => panic!("{}: {error}", program.display()),
        Ok(checked) => {
            let said = String::from_utf8_lossy(&checked.stdout);
            let complaint = String::from_utf8_lossy(&checked.stderr);
            assert!(checked.status.success(), "{said}{complaint}");
        }
    }
}

#[test]
fn the_files_and_functions_that_the_architecture_names_exist() {
    let text = read("docs/ARCHITECTURE.md");
    let (_, section) = text
        .split_once("## Where each question")
        .expect("the section");
    let (section, _) = section.split_once("\n## ").expect("its end");
    let mut named = 0;
    for row in rows(section) {
        let [_, file, function] = row[..] else {
            panic!("three columns: {row:?}");
        };
        let ([file], [function]) = (&quoted(file)[..], &quoted(function)[..]) else {
            continue;
        };
        let code = read(&format!("src/{file}"));
        let is_there = ["fn ", "function "].iter().any(|word| {
            let head = format!("{word}{function}");
            let mut after = code.split(&head).skip(1);
            after.any(|rest| rest.starts_with(['(', '<']))
        });
        assert!(is_there, "{file} has no function {function}");
        named += 1;
    }
    assert!(named > 10, "{named} rows");
}

/// The part of a document below a heading, up to the next heading of the same level.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let (_, rest) = text
        .split_once(&format!("\n## {heading}\n"))
        .expect(heading);
    rest.split("\n## ").next().expect("a part")
}

/// The names in the first cells of the rows with three columns.
fn first_cells(section: &str) -> Vec<String> {
    rows(section)
        .filter(|row| row.len() == 3 && row[0].starts_with('`'))
        .map(|row| row[0].trim_matches('`').to_string())
        .collect()
}

#[test]
fn support_staff_find_every_outcome_and_every_cause() {
    let document = read("docs/support.md");
    let outcomes = section(&document, "Outcomes, and what to do");
    let names: Vec<&str> = Outcome::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(first_cells(outcomes), names);
    for name in names {
        assert!(outcomes.contains(&format!("\n### `{name}`\n")), "{name}");
    }
    let causes: Vec<&str> = Cause::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(
        first_cells(section(&document, "Why a notification is dead")),
        causes
    );
}

/// The code of delivery and domain, with the strings that are continued on the next line joined.
fn code_of_reasons() -> String {
    let mut code = String::new();
    let mut folders = ["src/delivery", "src/domain"]
        .map(std::path::PathBuf::from)
        .to_vec();
    while let Some(folder) = folders.pop() {
        let entries = Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder);
        for entry in std::fs::read_dir(entries).expect("a folder") {
            let path = folder.join(entry.expect("an entry").file_name());
            if path.extension().is_some_and(|ending| ending == "rs") {
                code.push_str(&read(path.to_str().expect("a path")));
            } else {
                folders.push(path);
            }
        }
    }
    let mut lines = code.split("\\\n");
    let first = lines.next().unwrap_or_default().to_string();
    lines.fold(first, |joined, line| joined + line.trim_start())
}

#[test]
fn the_reasons_that_support_staff_read_about_are_those_of_the_program() {
    let document = read("docs/support.md");
    let outcomes = section(&document, "Outcomes, and what to do");
    let code = code_of_reasons();
    let mut found = 0;
    for row in rows(outcomes).filter(|row| row.len() == 2) {
        for reason in quoted(row[0]) {
            for part in reason.split("...").filter(|part| !part.is_empty()) {
                assert!(code.contains(part), "no code says `{part}` of `{reason}`");
                found += 1;
            }
        }
    }
    assert!(found > 50, "{found} parts");
}

#[test]
fn every_act_of_the_audit_log_is_explained() {
    let document = read("docs/access.md");
    for act in Act::ALL {
        let (subject, verb) = act.as_str().split_once('.').expect("two parts");
        let is_explained = document.lines().any(|line| {
            let is_row = line.starts_with(&format!("| `{subject}."));
            is_row && (line.contains(&format!(".{verb}`")) || line.contains(&format!("`{verb}`")))
        });
        assert!(is_explained, "docs/access.md does not explain {act}");
    }
}

#[test]
fn the_readme_is_short_and_its_commands_are_there() {
    let readme = read("README.md");
    assert!(readme.lines().count() <= 150, "the README is longer");
    let makefile = read("Makefile");
    for target in ["demo", "test"] {
        assert!(readme.contains(&format!("\nmake {target} ")), "{target}");
        assert!(makefile.contains(&format!("\n{target}: ")), "{target}");
    }
}

#[test]
fn the_unit_of_systemd_gives_a_stop_enough_time() {
    let unit = read("deploy/ringback.service");
    let value = |name: &str| {
        let lines = unit.lines().filter_map(|line| line.split_once('='));
        let values: Vec<&str> = lines
            .filter(|line| line.0 == name)
            .map(|line| line.1)
            .collect();
        assert_eq!(values.len(), 1, "{name}");
        values[0]
    };
    let config = load("timeout", "10s").expect("the default");
    let longest = config.delivery.drain_timeout + Duration::from_secs(5);
    let given = ringback::config::parse_duration(value("TimeoutStopSec")).expect("a duration");
    assert!(given > longest, "{given:?}, {longest:?}");
    assert_eq!(value("LimitCORE"), "0");
    let descriptors: u64 = value("LimitNOFILE").parse().expect("a number");
    // Callers, kept connections, and the highest `concurrency`.
    assert!(descriptors > 4_096 + 4_096 + 10_000);
}
