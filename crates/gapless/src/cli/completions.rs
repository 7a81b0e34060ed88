//! `gapless completions`: prints a completion script for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use super::{Cli, CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell that the script is for
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "gapless", &mut script);
        let script = String::from_utf8_lossy(&script);
        output.result(&json!({ "shell": self.shell.to_string(), "script": script }), &script)?;
        Ok(Exit::Success)
    }
}
