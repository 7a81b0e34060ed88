//! `gapless chain accept`: a chain is another one than before, and that is right.

use clap::Args;

use crate::cli::server::ServerArgs;
use crate::cli::{CliError, Exit, block_on};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    /// A CAIP-2 id, as in eip155:1
    #[arg(value_name = "CHAIN")]
    chain: String,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    server: ServerArgs,
}

impl AcceptArgs {
    pub(super) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let accepted = block_on(async { Ok(self.server.client()?.accept_chain(&self.chain, &self.reason).await?) })?;
        let text = format!(
            "what was known of {} is forgotten; its submitters stay in PROTECT until they are resynced",
            accepted.chain
        );
        output.result(&accepted, text)?;
        Ok(Exit::Success)
    }
}
