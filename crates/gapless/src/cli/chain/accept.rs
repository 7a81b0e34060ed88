//! `gapless chain accept`: accepts a chain after a finality violation.

use clap::Args;

use crate::cli::server::ServerArgs;
use crate::cli::{CliError, Exit, block_on};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    /// CAIP-2 id of the chain, as in eip155:1
    #[arg(value_name = "CHAIN")]
    chain: String,
    /// Reason, for the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    server: ServerArgs,
}

impl AcceptArgs {
    pub(super) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let accepted = block_on(async { Ok(self.server.client()?.accept_chain(&self.chain, &self.reason).await?) })?;
        let text = format!(
            "{} accepted: its stored blocks are deleted. Its submitters stay in PROTECT; run \
             `gapless submitter resync` for each of them",
            accepted.chain
        );
        output.result(&accepted, text)?;
        Ok(Exit::Success)
    }
}
