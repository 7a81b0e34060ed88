//! `gapless submitter resume`: ends the pause of a submitter.

use clap::Args;

use super::command::{LaneCommandArgs, print_command};
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    command: LaneCommandArgs,
}

impl ResumeArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let LaneCommandArgs { to, wait } = self.command;
        let view = to.server.client()?.resume(&to.name, Some(wait)).await?;
        print_command(&view, Exit::Success, output)
    }
}
