//! `ringback doctor`: examines what a server with these settings would find, and says what to mend.
//!
//! It takes the settings of `serve` and changes nothing. It ends with status 0 if a server can work, with 1 if there is a
//! problem, and with 2 if a setting is wrong, as `serve` would. Warnings, and what cannot be seen, do not change the status.

use super::serve::ServeArguments;
use super::terminal::{Colours, clean};
use super::{CommandFailure, block_on};
use crate::app::doctor::finding::{Finding, FindingLevel};
use crate::app::doctor::{self, ReachTarget};
use crate::config::{ConfigError, ServeConfig, SettingsReview, unknown_variables};
use crate::domain::destination::Destination;
use crate::domain::endpoint::EndpointName;
use clap::Args;
use owo_colors::Style;
use serde_json::{Value, json};
use std::io::{self, Write as _};

/// What the findings about settings are about.
const SETTINGS: &str = "settings";

#[derive(Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    settings: ServeArguments,
    /// Only say whether this URL can be reached, and if not why; sends no request
    #[arg(long, value_name = "URL", conflicts_with = "endpoint")]
    destination: Option<String>,
    /// Likewise for the URL of an endpoint, with its TLS settings
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// Print the findings as one JSON object
    #[arg(long)]
    json: bool,
}

/// What was found, and whether it is about settings that are wrong.
struct Examination {
    findings: Vec<Finding>,
    settings_are_wrong: bool,
}

/// Examines everything, or one destination, and prints the findings.
pub fn run(arguments: &DoctorArguments) -> Result<(), CommandFailure> {
    let target = arguments.target()?;
    let flags = &arguments.settings.flags;
    let reviewed = ServeConfig::review(flags, |name| std::env::var_os(name));
    let examination = match reviewed {
        Ok(review) => block_on(examine(&review, target.as_ref()))?,
        Err(errors) => Examination {
            findings: errors.iter().map(wrong_setting).collect(),
            settings_are_wrong: true,
        },
    };
    let text = match arguments.json {
        true => examination.as_json(),
        false => examination.as_text(Colours::of_stdout()),
    };
    io::stdout().write_all(text.as_bytes())?;
    match (examination.settings_are_wrong, examination.worst()) {
        (true, _) => Err(CommandFailure::PrintedUsage("a setting is wrong")),
        (false, FindingLevel::Problem) => Err(CommandFailure::Printed("there is a problem")),
        (false, FindingLevel::Ok | FindingLevel::Unknown | FindingLevel::Warning) => Ok(()),
    }
}

async fn examine(
    review: &SettingsReview,
    target: Option<&ReachTarget>,
) -> Result<Examination, CommandFailure> {
    let mut findings = Vec::new();
    match target {
        Some(target) => findings.extend(doctor::reach(review, target).await),
        None => {
            findings.extend(variables());
            findings.extend(doctor::examine(review).await);
        }
    }
    Ok(Examination {
        findings,
        settings_are_wrong: false,
    })
}

impl DoctorArguments {
    /// The destination that is to be reached, if one is named.
    fn target(&self) -> Result<Option<ReachTarget>, CommandFailure> {
        let wrong = |flag: &str, error: String| CommandFailure::Usage(format!("{flag}: {error}"));
        if let Some(url) = &self.destination {
            let parsed = Destination::parse(url);
            let parsed = parsed.map_err(|error| wrong("--destination", error.to_string()))?;
            return Ok(Some(ReachTarget::Url(parsed)));
        }
        let Some(name) = &self.endpoint else {
            return Ok(None);
        };
        let parsed = EndpointName::parse(name);
        let parsed = parsed.map_err(|error| wrong("--endpoint", error.to_string()))?;
        Ok(Some(ReachTarget::Endpoint(parsed)))
    }
}

fn wrong_setting(error: &ConfigError) -> Finding {
    let mend = "correct it; `ringback serve --help` lists the settings and docs/configuration.md their bounds";
    Finding::problem(SETTINGS, error.to_string(), mend)
}

/// What the names of the environment variables say.
fn variables() -> Vec<Finding> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let names: Vec<String> = names.collect();
    let unknown = unknown_variables(&names);
    let mut findings = vec![Finding::ok(
        SETTINGS,
        "every setting that is given has a right value",
    )];
    findings.extend(unknown.into_iter().map(|(name, meant)| {
        let mend = match meant {
            Some(meant) => format!("perhaps {meant} is meant; else unset it"),
            None => "unset it; docs/configuration.md lists the variables".to_string(),
        };
        let text = format!("no setting has the environment variable {name}, so it has no effect");
        Finding::warning(SETTINGS, text, &mend)
    }));
    findings
}

impl Examination {
    fn worst(&self) -> FindingLevel {
        let levels = self.findings.iter().map(|finding| finding.level);
        levels.max().unwrap_or(FindingLevel::Ok)
    }

    fn count(&self, level: FindingLevel) -> usize {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.level == level).count()
    }

    fn as_text(&self, colours: Colours) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let style = match finding.level {
                FindingLevel::Ok => Style::new().green(),
                FindingLevel::Unknown => Style::new().dimmed(),
                FindingLevel::Warning => Style::new().yellow(),
                FindingLevel::Problem => Style::new().red(),
            };
            let level = format!("{:<7}", finding.level.as_str());
            text.push_str(&format!(
                "{}  {}: {}\n",
                colours.paint(&level, style),
                finding.subject,
                clean(&finding.text)
            ));
            if let Some(mend) = &finding.mend {
                text.push_str(&format!("         -> {}\n", clean(mend)));
            }
        }
        let counted = |level: FindingLevel| match self.count(level) {
            1 => format!("1 {}", level.as_str()),
            many => format!("{many} {}s", level.as_str()),
        };
        text.push_str(&format!(
            "{}, {}\n",
            counted(FindingLevel::Problem),
            counted(FindingLevel::Warning)
        ));
        text
    }

    fn as_json(&self) -> String {
        let findings = self.findings.iter().map(|finding| {
            json!({
                "subject": finding.subject,
                "level": finding.level.as_str(),
                "text": finding.text,
                "mend": finding.mend,
            })
        });
        let document = json!({
            "problems": self.count(FindingLevel::Problem),
            "warnings": self.count(FindingLevel::Warning),
            "findings": findings.collect::<Vec<Value>>(),
        });
        format!("{document:#}\n")
    }
}
