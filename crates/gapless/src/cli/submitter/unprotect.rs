//! `gapless submitter unprotect`: leads a lane out of PROTECT.

use clap::Args;

use super::command::{LaneCommandArgs, print_command};
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct UnprotectArgs {
    #[command(flatten)]
    command: LaneCommandArgs,
}

impl UnprotectArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let LaneCommandArgs { to, wait } = self.command;
        let view = to.server.client()?.unprotect(&to.name, Some(wait)).await?;
        print_command(&view, Exit::Failure, output)
    }
}
