//! `gapless tx replace`: replaces the payload of a transaction.

use clap::Args;
use gapless_wire::ReplaceRequest;

use super::command::{TxCommandArgs, print_command};
use super::payload::PayloadArgs;
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    #[command(flatten)]
    command: TxCommandArgs,
    #[command(flatten)]
    payload: PayloadArgs,
}

impl ReplaceArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let TxCommandArgs { tx_id, wait, server } = self.command;
        let request = ReplaceRequest { payload: self.payload.payload() };
        print_command(&server.client()?.replace_tx(&tx_id, &request, Some(wait)).await?, output)
    }
}
