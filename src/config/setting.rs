//! One setting: its names, its help text, and how its value is checked.

use super::draft::Draft;

/// How many values a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// One value.
    One,
    /// Any number of values. In one text, commas separate them.
    Many,
    /// On or off. The flag may be given without a value.
    Switch,
}

/// One setting.
pub struct Setting {
    /// The name of the flag, without the dashes. The names of the variable and the key are made from it.
    pub name: &'static str,
    /// The name of the value in the help text.
    pub value: &'static str,
    /// The default, as a user would write it; empty if there is none.
    pub default: &'static str,
    /// The help text: what the setting does.
    pub help: &'static str,
    /// How many values the setting takes.
    pub arity: Arity,
    /// Checks one value and stores it in the draft. The error says what is wrong with the value.
    pub(super) set: fn(&mut Draft, &str) -> Result<(), String>,
}

/// A setting that names a file: it contains the value of another setting, or certificates or a key.
pub(super) const fn in_file(
    name: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &str) -> Result<(), String>,
) -> Setting {
    Setting {
        name,
        value: "FILE",
        default: "",
        help,
        arity: Arity::One,
        set,
    }
}

impl Setting {
    /// The name of the environment variable, such as `RINGBACK_DATA_DIR`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!(
            "RINGBACK_{}",
            self.name.replace('-', "_").to_ascii_uppercase()
        )
    }
}

/// Stores a checked value, or returns its error.
pub(super) fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}
