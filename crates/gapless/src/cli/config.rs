//! `gapless config`: checks the config, and prints the default config.

use clap::Subcommand;
use serde_json::{Value, json};

use super::table::columns;
use super::{CliError, ConfigArgs, Exit};
use crate::config::{Config, ConfigProblem, DEFAULT_FILE, EffectiveSetting};
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every effective value, where it was set, and all problems of the config
    Check(ConfigArgs),
    /// Print the default config file, which documents every key
    Default,
}

impl ConfigCommand {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        match self {
            ConfigCommand::Check(args) => check(&args, output),
            ConfigCommand::Default => {
                output.result(&json!({ "toml": DEFAULT_FILE }), DEFAULT_FILE)?;
                Ok(Exit::Success)
            }
        }
    }
}

fn check(args: &ConfigArgs, output: &Output) -> Result<Exit, CliError> {
    let checked = Config::check(args.config.as_deref())?;
    let ok = checked.problems.is_empty();
    let value = json!({
        "ok": ok,
        "file": checked.file,
        "settings": checked.settings.iter().map(setting_json).collect::<Vec<_>>(),
        "problems": checked.problems.iter().map(problem_json).collect::<Vec<_>>(),
    });
    let rows: Vec<[String; 2]> = checked
        .settings
        .iter()
        .map(|EffectiveSetting { key, value, origin }| [format!("{key} = {value}"), format!("# {origin}")])
        .collect();
    output.result(&value, columns(&rows))?;
    for problem in &checked.problems {
        output.note(format_args!("error: {problem}"));
    }
    match checked.problems.len() {
        0 => output.note("the config is valid"),
        1 => output.note("the config has 1 problem"),
        count => output.note(format_args!("the config has {count} problems")),
    }
    Ok(if ok { Exit::Success } else { Exit::Refused })
}

/// The JSON value has the type that it has in the file: a number stays a number.
fn setting_json(shown: &EffectiveSetting) -> Value {
    let value = serde_json::from_str(&shown.value).unwrap_or_else(|_| Value::String(shown.value.clone()));
    json!({ "key": shown.key, "value": value, "origin": shown.origin.to_string() })
}

pub(crate) fn problem_json(problem: &ConfigProblem) -> Value {
    json!({
        "key": problem.key,
        "origin": problem.origin.as_ref().map(ToString::to_string),
        "message": problem.kind.to_string(),
    })
}
