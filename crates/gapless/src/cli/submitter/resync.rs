//! `gapless submitter resync`: reconciles the ledger of a submitter with the chain.

use std::time::Duration;

use clap::Args;
use gapless_wire::{LostRuleName, ResyncRequest};

use super::NameArgs;
use super::command::print_command;
use crate::cli::server::duration;
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ResyncArgs {
    #[command(flatten)]
    to: NameArgs,
    /// Only list the changes that a resync would make
    #[arg(long)]
    dry_run: bool,
    /// Rule for transactions whose nonce was finally used by another transaction: requeue or fail
    #[arg(long, value_name = "RULE", value_parser = lost, default_value = "requeue")]
    lost: LostRuleName,
    /// How long to wait until the lane has executed the command; the scan of blocks may take long
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    wait: Duration,
}

fn lost(text: &str) -> Result<LostRuleName, String> {
    LostRuleName::parse(text).ok_or_else(|| "the known rules are requeue and fail".to_owned())
}

impl ResyncArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let request = ResyncRequest { lost: Some(self.lost), dry_run: Some(self.dry_run) };
        let view = self.to.server.client()?.resync(&self.to.name, &request, Some(self.wait)).await?;
        print_command(&view, Exit::Failure, output)
    }
}
