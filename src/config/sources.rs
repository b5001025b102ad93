//! Reads the value of each setting from its flag, else its variable, else the settings file, else its
//! default.

use super::draft::Draft;
use super::error::{ConfigError, SettingOrigin};
use super::settings::{ALL, Arity, CONFIG, Setting};
use super::values::quoted;
use crate::domain::redaction::redacted;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum length of a settings file, in bytes.
const LONGEST_FILE: u64 = 1024 * 1024;

/// The given flags with their values. The names are without the dashes.
#[derive(Clone, Default)]
pub struct Flags(pub BTreeMap<&'static str, Vec<String>>);

/// Shows which flags were given, but not their values, because some are secret.
impl fmt::Debug for Flags {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.0.keys()).finish()
    }
}

/// The environment variables that only commands read which ask a server.
const OF_OTHER_COMMANDS: [&str; 1] = ["RINGBACK_SERVER"];

type FileValues = BTreeMap<&'static str, (SettingOrigin, Vec<String>)>;

/// Reads every setting from the first source that has a value for it.
pub(super) fn gather(
    flags: &Flags,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Draft, ConfigError> {
    let (draft, errors) = gather_all(flags, variable);
    errors.into_iter().next().map_or(Ok(draft), Err)
}

/// As [`gather`], with everything that is wrong.
pub(super) fn gather_all(
    flags: &Flags,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> (Draft, Vec<ConfigError>) {
    let (mut keys, mut errors) = match given(config_setting(), flags, variable) {
        Ok(Some((origin, paths))) => read_file(&origin, paths.last().map_or("", String::as_str)),
        Ok(None) => (FileValues::new(), Vec::new()),
        Err(error) => (FileValues::new(), vec![error]),
    };
    let mut draft = Draft::new();
    for setting in ALL {
        let from_file = keys.remove(setting.name);
        let (origin, values) = match given(setting, flags, variable) {
            Ok(given) => match given.or(from_file) {
                Some(found) => found,
                None => continue,
            },
            // That of the file was reported already.
            Err(_) if setting.name == CONFIG => continue,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        for value in values {
            if let Err(problem) = (setting.set)(&mut draft, &value) {
                errors.push(ConfigError::Value {
                    origin: origin.clone(),
                    problem: redacted(&problem).into_owned(),
                });
            }
        }
    }
    (draft, errors)
}

/// Of these names of environment variables, those that begin like the variables of settings and belong to none, each with
/// the name of the variable that is probably meant.
#[must_use]
pub fn unknown_variables(names: &[String]) -> Vec<(String, Option<String>)> {
    let known: Vec<String> = ALL.iter().map(Setting::variable).collect();
    let is_foreign = |name: &&String| {
        name.starts_with("RINGBACK_")
            && !known.contains(*name)
            && !OF_OTHER_COMMANDS.contains(&name.as_str())
            && !name.starts_with("RINGBACK_TEST_")
    };
    let names = names.iter().filter(is_foreign);
    let probably = |name: &String| {
        // The comparison is bounded, because a name may have any length.
        let start: String = name.chars().take(80).collect();
        let nearest = known
            .iter()
            .map(|known| (strsim::levenshtein(&start, known), known))
            .min()?;
        (nearest.0 <= 4).then(|| nearest.1.clone())
    };
    names.map(|name| (name.clone(), probably(name))).collect()
}

fn config_setting() -> &'static Setting {
    ALL.iter()
        .find(|setting| setting.name == CONFIG)
        .expect("invariant: the table has an entry for the file")
}

/// The values of a setting from its flag, else from its variable. An empty variable counts as unset.
fn given(
    setting: &Setting,
    flags: &Flags,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Option<(SettingOrigin, Vec<String>)>, ConfigError> {
    if let Some(values) = flags.0.get(setting.name) {
        let values = values.iter().flat_map(|value| split(setting, value));
        return Ok(Some((SettingOrigin::Flag(setting.name), values.collect())));
    }
    let name = setting.variable();
    match variable(&name) {
        Some(value) if !value.is_empty() => match value.into_string() {
            Ok(value) => Ok(Some((
                SettingOrigin::Variable(name),
                split(setting, &value),
            ))),
            Err(_) => Err(ConfigError::Value {
                origin: SettingOrigin::Variable(name),
                problem: "the value is not UTF-8".to_string(),
            }),
        },
        Some(_) | None => Ok(None),
    }
}

fn split(setting: &Setting, text: &str) -> Vec<String> {
    match setting.arity {
        Arity::One | Arity::Switch => vec![text.to_string()],
        Arity::Many => text
            .split(',')
            .map(|part| part.trim().to_string())
            .filter(|part| !part.is_empty())
            .collect(),
    }
}

/// The values in the file, and what is wrong with it.
fn read_file(named_by: &SettingOrigin, path: &str) -> (FileValues, Vec<ConfigError>) {
    let mut keys = FileValues::new();
    let table = match read_table(named_by, path) {
        Ok(table) => table,
        Err(error) => return (keys, vec![error]),
    };
    let mut errors = Vec::new();
    for (key, value) in table {
        let origin = SettingOrigin::Key(path.into(), key.clone());
        let name = key.replace('_', "-");
        let setting = ALL
            .iter()
            .find(|setting| setting.name == name && setting.name != CONFIG)
            .ok_or_else(|| unknown_key(&name));
        let read = setting.and_then(|setting| Ok((setting.name, file_values(setting, value)?)));
        let read =
            read.and_then(
                |(name, values)| match keys.insert(name, (origin.clone(), values)) {
                    None => Ok(()),
                    Some(_) => Err("given twice, once with - and once with _".to_string()),
                },
            );
        if let Err(problem) = read {
            errors.push(ConfigError::Value { origin, problem });
        }
    }
    (keys, errors)
}

fn read_table(named_by: &SettingOrigin, path: &str) -> Result<toml::Table, ConfigError> {
    let text = read_text(Path::new(path)).map_err(|problem| ConfigError::Value {
        origin: named_by.clone(),
        problem: format!("{} cannot be read: {problem}", quoted(path)),
    })?;
    toml::from_str(&text).map_err(|error| {
        // Only the short message of the parser: the long one repeats the line, which may contain a secret.
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(1, |before| before.matches('\n').count() + 1);
        ConfigError::File {
            path: path.into(),
            problem: format!("line {line} is not TOML: {}", syntax(error.message())),
        }
    })
}

fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST_FILE + 1).read_to_string(&mut text))
        .map_err(|error| error.to_string())?;
    if text.len() as u64 > LONGEST_FILE {
        return Err("the file is longer than 1 MiB".to_string());
    }
    Ok(text)
}

/// The part of the parser's message before any quotation, because a quotation may contain a secret.
fn syntax(message: &str) -> &str {
    let end = message.find(['`', '\'', '"', '\n', ',']);
    &message[..end.unwrap_or(message.len())]
}

/// Converts the value of a key into the texts that a flag would have.
fn file_values(setting: &Setting, value: toml::Value) -> Result<Vec<String>, String> {
    let single = |value| match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(on) => Some(on.to_string()),
        toml::Value::Float(_)
        | toml::Value::Datetime(_)
        | toml::Value::Array(_)
        | toml::Value::Table(_) => None,
    };
    let values = match (setting.arity, value) {
        (Arity::Many, toml::Value::Array(items)) => {
            items.into_iter().map(single).collect::<Option<Vec<_>>>()
        }
        (Arity::One | Arity::Switch | Arity::Many, value) => {
            single(value).map(|text| split(setting, &text))
        }
    };
    values.ok_or_else(|| match setting.arity {
        Arity::Many => format!("takes a list like [\"{}\"]", setting.value),
        Arity::One | Arity::Switch => format!("takes a text like \"{}\"", setting.value),
    })
}

fn unknown_key(name: &str) -> String {
    // The comparison is bounded, because a key in the file may have any length.
    let name: String = name.chars().take(64).collect();
    let nearest = ALL
        .iter()
        .filter(|setting| setting.name != CONFIG)
        .map(|setting| (strsim::levenshtein(&name, setting.name), setting.name))
        .min();
    match nearest {
        Some((distance, nearest)) if distance <= nearest.len() / 2 => {
            format!("unknown; did you mean {nearest}?")
        }
        Some(_) | None => "unknown; `ringback serve --help` lists the settings".to_string(),
    }
}
