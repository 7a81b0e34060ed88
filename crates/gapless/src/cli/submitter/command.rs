//! Arguments and results that the commands to a lane share.
//!
//! A command is durable once the server has stored it. If the lane refuses it, the server answers 409, and the exit
//! code is 3. Some commands also fail (exit code 1) if the lane has not executed them within `--wait`.

use std::time::Duration;

use clap::Args;
use gapless_wire::{CommandState, CommandView};

use super::NameArgs;
use crate::cli::server::duration;
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(super) struct LaneCommandArgs {
    #[command(flatten)]
    pub(super) to: NameArgs,
    /// How long to wait until the lane has executed the command
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(super) wait: Duration,
}

/// Prints the state of a command. `exit_if_open` is the exit code if the lane has not executed it yet.
pub(super) fn print_command(view: &CommandView, exit_if_open: Exit, output: &Output) -> Result<Exit, CliError> {
    output.result(view, command_text(view.state, view.result.as_deref(), &view.command_id))?;
    Ok(command_exit(view.state, exit_if_open))
}

pub(super) fn command_exit(state: CommandState, exit_if_open: Exit) -> Exit {
    match state {
        CommandState::Done => Exit::Success,
        CommandState::Open => exit_if_open,
        CommandState::Refused => Exit::Refused,
    }
}

pub(super) fn command_text(state: CommandState, result: Option<&str>, id: &str) -> String {
    match state {
        CommandState::Done => result.unwrap_or("done").to_owned(),
        CommandState::Refused => format!("refused: {}", result.unwrap_or("the lane gave no reason")),
        CommandState::Open => {
            format!("stored as command {id}; the lane has not executed it yet (see GET /api/v1/commands/{id})")
        }
    }
}
