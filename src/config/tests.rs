use super::*;
use std::collections::BTreeMap;

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn load(flags: &[(&'static str, &str)]) -> Result<ServeConfig, ConfigError> {
    let mut given: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    given.insert("signing-secret", vec![SECRET.to_string()]);
    // With a given secret and journal, no file is created in the data directory.
    given.insert("journal", vec!["sqlite://never-opened.db".to_string()]);
    for (name, value) in flags {
        given.insert(name, vec![(*value).to_string()]);
    }
    ServeConfig::load(&Flags(given), |_| None)
}

#[test]
fn the_defaults_in_the_table_are_those_in_the_code() {
    let coded = format!("{:?}", load(&[]).expect("the defaults are right"));
    for setting in settings::ALL {
        if setting.default.is_empty() || matches!(setting.name, "journal" | "drain-timeout") {
            continue;
        }
        let text = load(&[(setting.name, setting.default)]).expect(setting.name);
        assert_eq!(format!("{text:?}"), coded, "{}", setting.name);
    }
}

#[test]
fn a_flag_goes_over_a_variable_over_the_file_over_the_default() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("settings.toml");
    let settings = "allow_destination = [\"10.0.0.0/8\", \"fd00::/8\"]\npartitions = 2\n";
    std::fs::write(&file, settings).expect("written");
    let check = |flag: &[&str], variable: &str, file: Option<&Path>, expected: &[&str]| {
        let mut flags: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        flags.insert("signing-secret", vec![SECRET.to_string()]);
        flags.insert("journal", vec!["sqlite://never-opened.db".to_string()]);
        if !flag.is_empty() {
            let values = flag.iter().map(ToString::to_string).collect();
            flags.insert("allow-destination", values);
        }
        let config = ServeConfig::load(&Flags(flags), |name| match name {
            "RINGBACK_ALLOW_DESTINATION" => Some(variable.into()),
            "RINGBACK_CONFIG" => file.map(|file| file.as_os_str().to_os_string()),
            _ => None,
        })
        .expect("valid");
        let networks = config.delivery.allow_destinations.iter();
        let networks: Vec<String> = networks.map(ToString::to_string).collect();
        assert_eq!(networks, expected);
        let partitions = if file.is_some() { 2 } else { 1 };
        assert_eq!(config.schedule.partitions, partitions);
    };
    let file = Some(file.as_path());
    let (one, two) = (["127.0.0.0/8"], ["172.16.0.0/12", "192.168.0.0/16"]);
    check(&one, "172.16.0.0/12, 192.168.0.0/16", file, &one);
    check(
        &["127.0.0.0/8", "::1/128,::2/128"],
        "",
        None,
        &["127.0.0.0/8", "::1/128", "::2/128"],
    );
    check(&[], "172.16.0.0/12, 192.168.0.0/16", file, &two);
    check(&[], "", file, &["10.0.0.0/8", "fd00::/8"]);
    check(&[], "", None, &[]);
}

#[test]
fn stopping_waits_for_the_longest_attempt() {
    let drains = |flags: &[_]| load(flags).expect("valid").delivery.drain_timeout;
    assert_eq!(drains(&[]), Duration::from_secs(15));
    assert_eq!(drains(&[("timeout", "30s")]), Duration::from_secs(35));
    assert_eq!(
        drains(&[("timeout", "30s"), ("drain-timeout", "1s")]),
        Duration::from_secs(1)
    );
}

#[test]
fn both_sides_of_every_bound() {
    let check = |name: &'static str, right: [&str; 2], wrong: [&str; 2]| {
        for value in right {
            assert!(load(&[(name, value)]).is_ok(), "{name} {value}");
        }
        for value in wrong {
            let error = load(&[(name, value)]).expect_err(value).to_string();
            assert!(error.starts_with(&format!("--{name}: ")), "{error}");
        }
    };
    check("concurrency", ["1", "10000"], ["0", "10001"]);
    check("lane-concurrency", ["1", "10000"], ["0", "10001"]);
    check("trace-sample-ratio", ["0", "1"], ["-0.001", "1.001"]);
    check("partitions", ["1", "256"], ["0", "257"]);
    check("timeout", ["100ms", "5m"], ["99ms", "5m1ms"]);
    check("drain-timeout", ["0s", "10m"], ["-1s", "10m1ms"]);
    check("keep-ended", ["1s", "30d"], ["999ms", "30d1ms"]);
    check("keep-payloads", ["1m", "36500d"], ["59s", "36500d1ms"]);
    check("keep-records", ["1d", "36500d"], ["23h59m59s", "36500d1ms"]);
    check("keep-dead", ["1d", "forever"], ["23h59m59s", "for ever"]);
    check("largest-body", ["1", "8MiB"], ["0", "8388609"]);
    check(
        "schedule-memory",
        ["1MiB", "1024GiB"],
        ["1048575", "1025GiB"],
    );
    check("largest-body", ["8388608", "1KiB"], ["1KB", "9MiB"]);
}

#[test]
fn no_secret_is_shown() {
    let config = load(&[
        ("redis", "redis://user:hunter2@127.0.0.1:6379/0"),
        ("journal", "postgres://user:hunter2@127.0.0.1/ringback"),
        ("api-key", "hunter2-hunter2"),
        ("proxy", "http://ann:hunter2@127.0.0.1:3128"),
        ("otlp-headers", "authorization=Bearer%20hunter2"),
    ])
    .expect("valid");
    let shown = format!("{config:?}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("C2FV"),
        "{shown}"
    );
    let redis = config.schedule.redis.expect("given");
    assert_eq!(redis.expose(), "redis://user:hunter2@127.0.0.1:6379/0");
    assert_eq!(redis.to_string(), "redis://127.0.0.1:6379");
    let proxy = config.delivery.proxy.expect("given");
    assert_eq!(proxy.to_string(), "http://127.0.0.1:3128");
}
