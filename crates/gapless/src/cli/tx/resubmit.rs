//! `gapless tx resubmit`: sends a transaction again now.

use clap::Args;
use gapless_wire::ResubmitRequest;

use super::command::{TxCommandArgs, print_command};
use super::payload::FeeArgs;
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ResubmitArgs {
    #[command(flatten)]
    command: TxCommandArgs,
    #[command(flatten)]
    fees: FeeArgs,
}

impl ResubmitArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let TxCommandArgs { tx_id, wait, server } = self.command;
        let request = ResubmitRequest { fees: self.fees.fees() };
        print_command(&server.client()?.resubmit_tx(&tx_id, &request, Some(wait)).await?, output)
    }
}
